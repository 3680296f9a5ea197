//! The header `Authorization`: only the user's password or the token is accepted.
use std::fs;
use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, Request, StatusCode, header};
use promkairos::api::{AppState, router};
use promkairos::config::WebConfig;
use promkairos::telemetry::Metrics;

use super::server;

/// The base64 form of a user's name and password, and the hash of that password.
const LOGIN: &str = "YWxpY2U6cGFzcy00Nw==";
const HASH: &str = "$2y$04$abcdefghijklmnopqrstuu30CKawx28a0DJZrl9dsPo2vDkFCbnNa";
const TOKEN: &str = "t0k3n";

static ROUTER: LazyLock<Router> = LazyLock::new(|| {
    let folder = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
    fs::write(folder.path().join("token"), TOKEN).expect("a file");
    let yaml = format!(
        "basic_auth_users: {{alice: {HASH}}}\n\
         bearer_tokens: [{{name: a, token_file: token, rights: [read]}}]\n"
    );
    let path = folder.path().join("web.yml");
    fs::write(&path, yaml).expect("a file");
    let state = AppState::new(Arc::new(Metrics::new()));
    state.set_web(WebConfig::read(&path).expect("valid").settings);
    router(Arc::new(state))
});

pub(crate) fn check(data: &[u8]) {
    // No client can send other values.
    let Ok(value) = HeaderValue::from_bytes(data) else { return };
    let request = Request::get("/version").header(header::AUTHORIZATION, value);
    let status = server::send(&ROUTER, request.body(Body::empty()).expect("a request"));
    let want = if is_right(data) { StatusCode::OK } else { StatusCode::UNAUTHORIZED };
    assert_eq!(status, want, "{}", data.escape_ascii());
}

fn is_right(value: &[u8]) -> bool {
    let Some((scheme, said)) = str::from_utf8(value).ok().and_then(|said| said.split_once(' '))
    else {
        return false;
    };
    let right = [("basic", LOGIN), ("bearer", TOKEN)];
    right.iter().any(|(name, secret)| scheme.eq_ignore_ascii_case(name) && said.trim() == *secret)
}
