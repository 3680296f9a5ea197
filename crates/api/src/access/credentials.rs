//! The rights that the credentials of a request give.
//!
//! Timing reveals neither names nor tokens. The web configuration may change: each request is judged by the one that
//! is in force when it arrives.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use axum::http::{HeaderMap, header};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use parking_lot::{Mutex, RwLock};
use subtle::ConstantTimeEq;

use super::passwords::{Busy, Passwords};
use super::rate::Bucket;
use super::settings::{Rights, TokenDigest, WebSettings};
use promkairos_telemetry::Throttle;

/// Most characters of a user name in a log line: the name comes from the client.
const NAME_SHOWN: usize = 64;

/// The current web configuration, the token bucket of the rate limit, the cache of correct passwords,
/// and the throttled log of refused logins.
pub(crate) struct Access {
    web: RwLock<Arc<WebSettings>>,
    pub(super) bucket: Bucket,
    passwords: Passwords,
    refused: Mutex<Throttle>,
}

/// Why a request has no rights.
pub(super) enum Denied {
    /// It has no credentials.
    Silent,
    /// Its credentials are wrong; the user that it names, if it names one.
    Wrong(Option<String>),
    /// Too many passwords are being checked, and this one is not in the cache.
    Busy,
}

impl Access {
    /// Grants every right to every request.
    pub(crate) fn open() -> Self {
        let bucket = Bucket::new(Instant::now());
        let passwords = Passwords::new();
        Self { web: RwLock::default(), bucket, passwords, refused: Mutex::default() }
    }

    /// Judges requests by this web configuration from now on.
    pub(crate) fn set(&self, web: WebSettings) {
        *self.web.write() = Arc::new(web);
    }

    /// The web configuration for a request that arrives now.
    pub(super) fn web(&self) -> Arc<WebSettings> {
        Arc::clone(&self.web.read())
    }

    /// The rights of a request from this address.
    pub(super) async fn rights(
        &self,
        web: &WebSettings,
        headers: &HeaderMap,
        peer: Option<IpAddr>,
    ) -> Result<Rights, Denied> {
        let said = headers.get(header::AUTHORIZATION).ok_or(Denied::Silent)?;
        let said = said.to_str().ok().and_then(|said| said.split_once(' '));
        let (scheme, said) = said.ok_or(Denied::Wrong(None))?;
        match scheme.to_ascii_lowercase().as_str() {
            "basic" => self.rights_of_user(web, said.trim(), peer).await,
            "bearer" => rights_of_bearer(web, said.trim()).ok_or(Denied::Wrong(None)),
            _ => Err(Denied::Wrong(None)),
        }
    }

    async fn rights_of_user(
        &self,
        web: &WebSettings,
        said: &str,
        peer: Option<IpAddr>,
    ) -> Result<Rights, Denied> {
        let said = STANDARD.decode(said).ok().and_then(|said| String::from_utf8(said).ok());
        let said = said.as_deref().and_then(|said| said.split_once(':'));
        let (name, password) = said.ok_or(Denied::Wrong(None))?;
        let wrong = || Denied::Wrong(Some(name.to_owned()));
        // An unknown user costs as much time as a known one, so that timing does not reveal names.
        let costliest = web.users.iter().max_by_key(|user| user.cost).ok_or_else(wrong)?;
        let known = web.users.iter().find(|user| user.name == name);
        let user = known.unwrap_or(costliest);
        let is_right = self.passwords.is_right(&user.hash, password, peer).await;
        let is_right = is_right.map_err(|Busy| Denied::Busy)?;
        known.filter(|_| is_right).map(|user| user.rights).ok_or_else(wrong)
    }

    /// Throttled, so that guessing does not fill the log.
    pub(super) fn say_refused(&self, user: Option<&str>, peer: Option<IpAddr>) {
        let Some(times) = self.refused.lock().count(1, Instant::now()) else { return };
        let user: Option<String> = user.map(|user| user.chars().take(NAME_SHOWN).collect());
        let peer = peer.map(|peer| peer.to_string());
        tracing::warn!(times, user, peer, "a login was refused; of several, the last is logged");
    }
}

/// Compares with all tokens, so that timing does not reveal which one matches.
fn rights_of_bearer(web: &WebSettings, token: &str) -> Option<Rights> {
    let said = TokenDigest::of(token.as_bytes());
    let mut found = None;
    for token in &web.tokens {
        if bool::from(token.digest.bytes().as_slice().ct_eq(said.bytes())) {
            found = Some(token.rights);
        }
    }
    found
}
