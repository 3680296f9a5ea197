//! The web configuration on a real server: TLS, client certificates, users, tokens and their
//! rights; changed files; and the commands and a real Prometheus as clients.

mod client;
mod commands;
mod open;
mod pki;
mod prometheus;
mod renewed;
mod rights;
mod toolkit;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::SanType;
use rustls::HandshakeKind;
use rustls::version::{TLS12, TLS13};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use client::{Answer, Client, shake_hands};
use pki::Authority;

use crate::api::float_body;
use crate::support::eventually;
use crate::support::promkairos::{Backend, Promkairos};

/// The hash of "pass-47", and the headers with this password for two users.
const HASH: &str = "$2y$04$abcdefghijklmnopqrstuu30CKawx28a0DJZrl9dsPo2vDkFCbnNa";
const ALICE: &str = "Basic YWxpY2U6cGFzcy00Nw==";
const BOB: &str = "Basic Ym9iOnBhc3MtNDc=";

const TLS: &str = "tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n";

/// A complete file: alice has all rights, bob may read, and there is a token for writes.
fn everything() -> String {
    format!(
        "{TLS}basic_auth_users:\n  alice: {HASH}\n  bob: {HASH}\nbasic_auth_rights:\n  \
         bob: [read]\nbearer_tokens:\n- name: agents\n  token_file: agents.token\n  \
         rights: [write]\n"
    )
}

/// A server with TLS, and the authority that signed its certificate.
struct Secured {
    folder: TempDir,
    authority: Authority,
    server: Promkairos,
}

impl Secured {
    /// Starts a server with this web configuration, and writes its certificate before.
    fn start(yaml: &str, flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let authority = Authority::new("authority");
        authority.write(&folder.path().join("ca.crt"));
        authority.server().write(folder.path(), "server");
        std::fs::write(folder.path().join("agents.token"), "t0k3n-of-agents\n").expect("written");
        let server = start(folder.path(), yaml, flags);
        Self { folder, authority, server }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn address(&self) -> SocketAddr {
        self.server.address
    }

    /// A client that trusts the server and has no certificate.
    fn client(&self) -> Client {
        Client::new(self.address(), &self.authority, None)
    }

    /// Waits until the store of the server is open.
    async fn ready(&self) {
        eventually("it is ready", async || is(self.client().get("/-/ready", None), 200)).await;
    }
}

/// The page of metrics of a server with TLS and users.
pub(crate) async fn page_of_metrics() -> String {
    let secured = Secured::start(&everything(), &[]);
    secured.ready().await;
    let (status, page) = secured.client().get("/metrics", Some(ALICE)).expect("an answer");
    assert_eq!(status, 200, "{page}");
    page
}

/// Starts a server whose web configuration is in this folder.
fn start(folder: &Path, yaml: &str, flags: &[&str]) -> Promkairos {
    let file = folder.join("web.yml");
    std::fs::write(&file, yaml).expect("written");
    let file = format!("--web-config-file={}", file.display());
    let flags = [&[file.as_str()][..], flags].concat();
    Promkairos::start(&folder.join("data"), &Backend::Embedded, &flags)
}

/// Whether an answer has this status.
fn is(answer: Answer, status: u16) -> Result<(), String> {
    match answer {
        Ok((got, _)) if got == status => Ok(()),
        other => Err(format!("{other:?}")),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn users_and_tokens_do_what_they_may() {
    let secured = Secured::start(&everything(), &["--log-level=debug"]);
    secured.ready().await;
    let client = secured.client();
    let agents = "Bearer t0k3n-of-agents";
    for path in ["/", "/metrics", "/api/v1/query?query=1", "/nowhere", "/-/reload"] {
        let wrong = ["Basic YWxpY2U6d3Jvbmc=", "Basic bm9ib2R5OnBhc3MtNDc=", "Bearer t0k3n", "x"];
        for said in [None].into_iter().chain(wrong.map(Some)) {
            let (status, body) = client.get(path, said).expect("an answer");
            assert_eq!((status, body.as_str()), (401, "Unauthorized\n"), "{path} {said:?}");
        }
    }
    for said in [ALICE, BOB] {
        assert_eq!(is(client.get("/metrics", Some(said)), 200), Ok(()));
    }
    let refused = client.get("/metrics", Some(agents)).expect("an answer");
    assert_eq!(refused, (403, "Forbidden: this needs the right \"read\"\n".into()));

    let block = float_body("a", 1000, 7.0);
    let refused = client.write(&block, BOB).expect("an answer");
    assert_eq!(refused, (403, "Forbidden: this needs the right \"write\"\n".into()));
    for said in [agents, ALICE] {
        assert_eq!(is(client.write(&block, said), 204), Ok(()));
    }
    let (status, body) = client.get("/api/v1/query?query=up&time=1", Some(BOB)).expect("an answer");
    assert!(status == 200 && body.contains("\"7\""), "{body}");

    for (said, want) in [(BOB, "this needs the right \"admin\""), (ALICE, "POST or PUT")] {
        let (_, body) = client.get("/-/reload", Some(said)).expect("an answer");
        assert!(body.contains(want), "{body}");
    }
    let log = secured.server.process.log();
    for secret in ["t0k3n", "pass-47", "YWxpY2U6", HASH, "PRIVATE KEY"] {
        assert!(!log.contains(secret), "{secret} is in the log:\n{log}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn passwords_and_tokens_protect_plain_text_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let yaml = format!("basic_auth_users: {{alice: {HASH}}}\n");
    let server = start(folder.path(), &yaml, &[]);
    let get = async |path: &str| server.get(path).await.expect("an answer").0;
    assert_eq!((get("/metrics").await, get("/-/healthy").await), (401, 200));
    let request = reqwest::Client::new().get(server.url("/metrics"));
    let response = request.header("Authorization", ALICE).send().await.expect("an answer");
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["x-content-type-options"], "nosniff");
}

/// A metric of logins; 0 if there is no such series.
async fn logins(server: &Promkairos, outcome: &str) -> u64 {
    let (_, page) = asked(server, "127.0.0.2", ALICE).await;
    let name = format!("promkairos_web_logins_total{{outcome=\"{outcome}\"}} ");
    let count = page.lines().find_map(|line| line.strip_prefix(&name));
    count.map_or(0, |count| count.parse().expect("a number"))
}

/// The page of metrics, or another answer, for a client with this address.
async fn asked(server: &Promkairos, from: &str, said: &str) -> (u16, String) {
    let from: std::net::IpAddr = from.parse().expect("an address");
    let client = reqwest::Client::builder().local_address(from).build().expect("a client");
    let request = client.get(server.url("/metrics")).header("Authorization", said);
    let answer = request.send().await.expect("an answer");
    let status = answer.status().as_u16();
    if status == 503 {
        assert!(answer.headers().contains_key("retry-after"), "{answer:?}");
    }
    (status, answer.text().await.expect("a text"))
}

#[tokio::test(flavor = "multi_thread")]
async fn guesses_from_one_address_keep_nobody_else_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let yaml = format!("basic_auth_users: {{alice: {HASH}}}\n");
    let server = start(folder.path(), &yaml, &[]);
    let server = &server;
    let guess = |number: usize| async move {
        let said = STANDARD.encode(format!("alice:guess-{number}"));
        let (status, text) = asked(server, "127.0.0.1", &format!("Basic {said}")).await;
        let is_refused = match status {
            401 => text == "Unauthorized\n",
            503 => text.contains("too many passwords are being checked"),
            _ => false,
        };
        assert!(is_refused, "{status} {text}");
    };
    let guesses = futures::future::join_all((0..150).map(guess));
    let (_, (status, text)) = tokio::join!(guesses, asked(server, "127.0.0.2", ALICE));
    assert_eq!(status, 200, "{text}");
    assert_eq!(logins(server, "wrong").await + logins(server, "busy").await, 150);
    assert_eq!(asked(server, "127.0.0.1", ALICE).await.0, 200, "it is remembered");
    eventually("the log tells of it", async || {
        let log = server.process.log();
        let is_said = log.contains("a login was refused")
            && log.contains("alice")
            && log.contains("127.0.0.1")
            && !log.contains("guess-");
        if is_said { Ok(()) } else { Err(log) }
    })
    .await;
}

/// A shared cache must not give an answer that needed a login to anybody else.
#[tokio::test(flavor = "multi_thread")]
async fn what_needs_a_login_is_kept_by_no_cache() {
    let folder = tempfile::tempdir().expect("a folder");
    let secured = start(folder.path(), &format!("basic_auth_users: {{alice: {HASH}}}\n"), &[]);
    let data = tempfile::tempdir().expect("a folder");
    let open = Promkairos::start(data.path(), &Backend::Embedded, &[]);
    let client = reqwest::Client::new();
    let kept = async |server: &Promkairos, path: &str, said: &str| {
        let request = client.get(server.url(path)).header("Authorization", said);
        let answer = request.send().await.expect("an answer");
        let cache = answer.headers().get("Cache-Control").cloned();
        let cache = cache.map(|value| value.to_str().expect("ASCII").to_owned());
        (answer.status().as_u16(), cache.unwrap_or_default())
    };
    for path in [
        "/",
        "/metrics",
        "/version",
        "/federate?match[]=a",
        "/api/v1/query?query=1",
        "/api/v1/query?query=(",
        "/api/v1/label/a/values",
        "/api/v1/status/config",
        "/api/v1/openapi.yaml",
        "/api/v1/read",
        "//metrics",
        "/nowhere",
        "/-/reload",
    ] {
        let (_, cache) = kept(&secured, path, ALICE).await;
        assert!(cache.contains("no-store"), "{path}: {cache:?}");
        let (status, cache) = kept(&secured, path, "Basic none").await;
        assert_eq!((status, cache.as_str()), (401, "no-store"), "{path}");
        let (status, cache) = kept(&open, path, "").await;
        let says_so_itself = path == "/api/v1/openapi.yaml";
        assert!(status != 401 && cache.contains("no-store") == says_so_itself, "{path}: {cache:?}");
    }
    for server in [&secured, &open] {
        assert_eq!(kept(server, "/-/healthy", "").await, (200, String::new()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_without_tls_gets_only_an_error_that_says_so() {
    let secured = Secured::start(&everything(), &[]);
    secured.ready().await;
    let plain = reqwest::get(format!("http://{}/-/healthy", secured.address())).await;
    let plain = plain.expect("an answer, as Prometheus gives it");
    assert_eq!(plain.status(), 400);
    let text = plain.text().await.expect("a text");
    assert_eq!(text, "Client sent an HTTP request to an HTTPS server.\n");
    let stranger = Client::new(secured.address(), &Authority::new("stranger"), None);
    stranger.get("/-/healthy", None).expect_err("its authority is another");
    eventually("both are counted", async || {
        let (_, page) = secured.client().get("/metrics", Some(ALICE)).expect("an answer");
        let count = |line: &str| -> Option<u32> {
            line.strip_prefix("promkairos_web_tls_handshake_failures_total ")?.parse().ok()
        };
        match page.lines().find_map(count) {
            Some(2) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_and_protocols_are_those_that_are_set() {
    let both = Secured::start(TLS, &[]);
    let (h2, h1) = ("h2", "http/1.1");
    for (offered, versions, want) in [
        (&[h2, h1][..], &[&TLS13, &TLS12][..], Some(h2)),
        (&[h2, h1][..], &[&TLS12][..], Some(h2)),
        (&[h1][..], &[&TLS13][..], Some(h1)),
        (&[][..], &[&TLS13][..], None),
    ] {
        let stream = shake_hands(both.address(), &both.authority, offered, versions).await;
        let stream = stream.expect("shaken");
        assert_eq!(stream.get_ref().1.alpn_protocol(), want.map(str::as_bytes), "{offered:?}");
    }
    // HTTP/2 works: the preface and empty settings are answered with settings.
    let stream = shake_hands(both.address(), &both.authority, &[h2], &[&TLS13]).await;
    let mut stream = stream.expect("shaken");
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.expect("sent");
    let mut frame = [0; 9];
    stream.read_exact(&mut frame).await.expect("a frame");
    assert_eq!(frame[3], 4, "settings: {frame:?}");

    let yaml = format!("{TLS}  min_version: TLS13\nhttp_server_config: {{http2: false}}\n");
    let strict = Secured::start(&yaml, &[]);
    let shake = async |versions: &[&'static rustls::SupportedProtocolVersion]| {
        shake_hands(strict.address(), &strict.authority, &[h2, h1], versions).await
    };
    let stream = shake(&[&TLS13]).await.expect("shaken");
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(h1.as_bytes()));
    shake(&[&TLS12]).await.expect_err("it is too old");
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_of_clients_are_asked_for_as_set() {
    let clients = Authority::new("clients");
    let uri = |name: &str| SanType::URI(name.try_into().expect("ASCII"));
    let known = clients.sign("known", vec![uri("spiffe://a/known")]);
    let other = clients.sign("other", vec![uri("spiffe://a/other")]);
    let stranger = Authority::new("strangers").sign("known", vec![uri("spiffe://a/known")]);
    let ca = "client_ca_file: clients.crt";
    let names = format!("{ca}\n  client_allowed_sans: [\"spiffe://a/known\"]");
    // Which clients get in: without a certificate, known, of the same authority, of another one.
    for (kind, more, want) in [
        ("NoClientCert", "", [true, true, true, true]),
        ("RequestClientCert", "", [true, true, true, true]),
        ("RequireAnyClientCert", "", [false, true, true, true]),
        ("VerifyClientCertIfGiven", ca, [true, true, true, false]),
        ("RequireAndVerifyClientCert", ca, [false, true, true, false]),
        ("RequireAndVerifyClientCert", names.as_str(), [false, true, false, false]),
        ("VerifyClientCertIfGiven", names.as_str(), [true, true, false, false]),
        (
            "RequireAnyClientCert",
            "client_allowed_sans: [\"spiffe://a/known\"]",
            [false, true, false, true],
        ),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let authority = Authority::new("authority");
        authority.server().write(folder.path(), "server");
        clients.write(&folder.path().join("clients.crt"));
        let yaml = format!("{TLS}  client_auth_type: {kind}\n  {more}\n");
        let server = start(folder.path(), &yaml, &[]);
        for (identity, want) in
            [None, Some(&known), Some(&other), Some(&stranger)].into_iter().zip(want)
        {
            let client = Client::new(server.address, &authority, identity);
            let answer = client.get("/-/healthy", None);
            let gets_in = answer.as_ref().is_ok_and(|(status, _)| *status == 200);
            assert_eq!(gets_in, want, "{kind} {more}: {answer:?}");
        }
    }
}

/// Each handshake checks the certificate. A resumed session would accept one that has expired since.
#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_resumed_only_where_no_certificate_is_asked_for() {
    let clients = Authority::new("clients");
    let known = clients.sign("known", vec![]);
    for (more, identity, kind) in [
        ("", None, HandshakeKind::Resumed),
        (
            "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: clients.crt\n",
            Some(&known),
            HandshakeKind::Full,
        ),
        ("  client_auth_type: RequestClientCert\n", Some(&known), HandshakeKind::Full),
    ] {
        for version in [&TLS12, &TLS13] {
            let folder = tempfile::tempdir().expect("a folder");
            let authority = Authority::new("authority");
            authority.server().write(folder.path(), "server");
            clients.write(&folder.path().join("clients.crt"));
            let server = start(folder.path(), &format!("{TLS}{more}"), &[]);
            let config = Arc::new(client::tls(&authority, &["http/1.1"], &[version], identity));
            let mut kinds = Vec::new();
            for _ in 0..2 {
                let mut stream = client::connect(server.address, &config).await.expect("let in");
                let ask = b"GET /-/healthy HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
                stream.write_all(ask).await.expect("taken");
                let mut answer = String::new();
                // The session ticket comes with the answer, or before it.
                stream.read_to_string(&mut answer).await.expect("an answer");
                assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
                kinds.push(stream.get_ref().1.handshake_kind());
            }
            assert_eq!(kinds[1], Some(kind), "{more:?} {version:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rate_is_held_and_changes_with_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = start(folder.path(), "rate_limit: {interval: 1h, burst: 3}\n", &[]);
    let get = async |path: &str| server.get(path).await.expect("an answer").0;
    let mut codes = Vec::new();
    for _ in 0..5 {
        codes.push(get("/version").await);
    }
    assert_eq!(codes, [200, 200, 200, 429, 429]);
    assert_eq!(get("/-/healthy").await, 200);
    assert_eq!(get("/metrics").await, 429);
    std::fs::write(folder.path().join("web.yml"), "# no limit any more\n").expect("written");
    eventually("the limit is gone", async || match server.get("/metrics").await {
        Ok((200, page)) => {
            let counted = page.lines().find(|line| line.contains("limit=\"rate_limit\""));
            let count = counted.and_then(|line| line.rsplit_once(' '));
            assert!(count.is_some_and(|(_, count)| count.parse::<u64>().is_ok_and(|n| n >= 3)));
            Ok(())
        }
        other => Err(format!("{other:?}")),
    })
    .await;
}

#[test]
fn what_is_left_out_is_reported_by_the_log_and_by_the_check() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new("authority");
    authority.server().write(folder.path(), "server");
    let yaml = format!("{TLS}  min_version: TLS10\n");
    let server = start(folder.path(), &yaml, &[]);
    let path = folder.path().join("web.yml");
    let want = format!(
        "{}:4: tls_server_config.min_version: TLS before 1.2 is not offered: taken as TLS12",
        path.display()
    );
    let log = server.process.log();
    assert!(log.lines().any(|line| line.contains("WARN") && line.contains(&want)), "{log}");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_promkairos"))
        .arg("check-config")
        .arg(format!("--web-config-file={}", path.display()))
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let said = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(said.contains(&format!("\nWarning: {want}\n")), "{said}");
}

#[test]
fn a_web_configuration_that_cannot_be_followed_is_one_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("web.yml");
    std::fs::write(&path, "basic_auth_users:\n  alice: s3cr3t\n").expect("written");
    let file = format!("--web-config-file={}", path.display());
    let started = Promkairos::try_start(&folder.path().join("data"), &Backend::Embedded, &[&file]);
    let log = started.map(drop).expect_err("it does not start");
    let want = format!("{}:2: basic_auth_users.alice: is not a bcrypt hash", path.display());
    assert!(log.contains(&want) && !log.contains("s3cr3t"), "{log}");
}
