//! The client of commands: sends requests to the running server, with JSON as answers, and logs in
//! at any server.
//!
//! An error names the server, or is the server's own message. Passwords and tokens come from files,
//! because every user of a machine can see command lines.

use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::{Arg, ArgMatches};
use serde_json::Value;
use ureq::http::{HeaderValue, Uri};
use ureq::tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, parse_pem};

use super::args::valued;
use super::error::{CliError, FAULT, WRONG};
use crate::config::{self, read_secret};
use crate::copy::{distrusted, is_distrust};

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(300);

/// A running server.
pub(super) struct Client {
    url: String,
    agent: ureq::Agent,
    authorization: Option<HeaderValue>,
}

/// How to log in at a server.
#[derive(Clone)]
pub(super) struct Access {
    /// The authorities that its certificate is checked against, and the client's certificate.
    pub(super) tls: TlsConfig,
    /// The value of the header `Authorization`; its `Debug` hides it.
    pub(super) authorization: Option<HeaderValue>,
}

/// `--server`, and the login there.
pub(super) fn arguments() -> impl Iterator<Item = Arg> {
    let help = "The running promkairos that is asked; by default http:// and where the same settings listen";
    std::iter::once(valued("server", "URL", help)).chain(access_arguments())
}

/// The login at the server that another argument names.
pub(super) fn access_arguments() -> [Arg; 6] {
    let file = |name, help: &'static str| valued(name, "FILE", help);
    let ca = "PEM file with the authorities that the server's certificate is checked against";
    [
        file("server-ca", ca),
        file("server-cert", "PEM file with the certificate to show to the server")
            .requires("server-key"),
        file("server-key", "PEM file with the key of that certificate").requires("server-cert"),
        valued("server-username", "NAME", "User to log in as").requires("server-password-file"),
        file("server-password-file", "File with the password, and nothing else")
            .requires("server-username"),
        file("server-token-file", "File with a bearer token, and nothing else")
            .conflicts_with("server-username"),
    ]
}

impl Client {
    /// The server that `--server` names.
    pub(super) fn of(matches: &ArgMatches) -> Result<Self, CliError> {
        let url = match matches.get_one::<String>("server") {
            Some(url) => url.clone(),
            None => format!("http://{}", reachable(&config::listen_address(matches)?)),
        };
        let url = url.as_str();
        if has_login(url) {
            return Err(CliError::usage(format!("--server: {NO_LOGIN}")));
        }
        if !is_url(url) {
            return Err(CliError::usage(format!("--server {url:?}: must be http://HOST:PORT")));
        }
        let Access { tls, authorization } = Access::of(matches)?;
        let agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(PATIENCE))
            .tls_config(tls)
            .build();
        let url = url.trim_end_matches('/').to_owned();
        Ok(Self { url, agent: agent.into(), authorization })
    }

    /// Status and text of a page; an error says why there was no answer within `patience`.
    pub(super) fn page(&self, path: &str, patience: Duration) -> Result<(u16, String), CliError> {
        let failed = |error: ureq::Error| CliError::Command(self.why(&error));
        let request = self.agent.get(format!("{}{path}", self.url)).config();
        let request = request.timeout_global(Some(patience)).build();
        let mut answer = request.call().map_err(failed)?;
        let text = answer.body_mut().read_to_string().map_err(failed)?;
        Ok((answer.status().as_u16(), text))
    }

    /// `data` of the answer to a GET.
    pub(super) fn get(&self, path: &str, query: &[(&str, &str)]) -> Result<Value, CliError> {
        let request = self.agent.get(format!("{}{path}", self.url));
        self.data(self.authorized(request).query_pairs(query.iter().copied()).call())
    }

    /// `data` of the answer to a POST; null if there is none.
    pub(super) fn post(&self, path: &str, query: &[(&str, &str)]) -> Result<Value, CliError> {
        let request = self.agent.post(format!("{}{path}", self.url));
        self.data(self.authorized(request).query_pairs(query.iter().copied()).send_empty())
    }

    /// Why there is no answer.
    fn why(&self, error: &ureq::Error) -> String {
        let hint = match error {
            ureq::Error::Io(error) if error.kind() == ErrorKind::ConnectionRefused => {
                return format!(
                    "nothing listens on {} (Connection refused); start the server, or name it with --server URL \
                     or --config FILE",
                    self.url
                );
            }
            ureq::Error::Protocol(_) if self.url.starts_with("http://") => {
                "; the port may speak TLS: try --server https://..., with --server-ca where needed"
            }
            error if is_distrust(error) => distrusted(error),
            _ => "",
        };
        format!("{}: {error}{hint}", self.url)
    }

    fn authorized<B>(&self, request: ureq::RequestBuilder<B>) -> ureq::RequestBuilder<B> {
        match &self.authorization {
            Some(value) => request.header("Authorization", value.clone()),
            None => request,
        }
    }

    fn data(
        &self,
        answer: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
    ) -> Result<Value, CliError> {
        let mut answer = answer.map_err(|error| CliError::Command(self.why(&error)))?;
        let text = answer.body_mut().read_to_string();
        let text = text.map_err(|error| CliError::Command(format!("{}: {error}", self.url)))?;
        let (json, status) = (serde_json::from_str::<Value>(&text).ok(), answer.status());
        let why = match json {
            Some(mut json) if status.is_success() => return Ok(json["data"].take()),
            None if status == 204 => return Ok(Value::Null),
            Some(json) => json["error"].as_str().unwrap_or(&text).to_owned(),
            None => format!("{status}: {}", text.trim()),
        };
        // A timeout or a too large answer may pass.
        let is_wrong = status.is_client_error() && ![408, 429].contains(&status.as_u16());
        let code = if is_wrong { WRONG } else { FAULT };
        Err(CliError::with_code(code, format!("{}: {why}", self.url)))
    }
}

/// The items of a list in an answer; none if it is no list.
pub(super) fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Rewrites a server's error about a parameter as one about the argument that it came from.
pub(super) fn of_argument(error: CliError, parameter: &str, argument: &str) -> CliError {
    match error {
        CliError::Refused(why) => {
            let why = why.replace(&format!("invalid parameter {parameter:?}"), argument);
            CliError::Refused(why.replace(parameter, argument))
        }
        other => other,
    }
}

/// An address at which this machine reaches a server that listens at `listen`, which may mean all addresses.
fn reachable(listen: &str) -> String {
    match listen.rsplit_once(':') {
        Some(("0.0.0.0", port)) => format!("127.0.0.1:{port}"),
        Some(("[::]", port)) => format!("[::1]:{port}"),
        _ => listen.to_owned(),
    }
}

/// The error about a URL with a login. The URL is not repeated.
pub(super) const NO_LOGIN: &str = "no user and no password may stand in a URL: --server-username \
                                   and --server-password-file log in";

/// Whether a text that should be a URL may contain a user or a password.
pub(super) fn has_login(text: &str) -> bool {
    text.contains('@')
}

/// Whether a text is the URL of a server or of a path on it.
pub(super) fn is_url(text: &str) -> bool {
    let parts = text.parse().map(Uri::into_parts).unwrap_or_default();
    let is_http = parts.scheme.is_some_and(|scheme| ["http", "https"].contains(&scheme.as_str()));
    is_http && parts.authority.is_some_and(|authority| !authority.host().is_empty())
}

impl Access {
    /// Reads the arguments and the files that they name.
    pub(super) fn of(matches: &ArgMatches) -> Result<Self, CliError> {
        Ok(Self { tls: tls(matches)?, authorization: authorization(matches)? })
    }
}

/// The value of the header `Authorization`.
fn authorization(matches: &ArgMatches) -> Result<Option<HeaderValue>, CliError> {
    let get = |name| matches.get_one::<String>(name);
    let secret =
        |path: &String| read_secret(Path::new(path)).map_err(|source| unread(path, source));
    let (path, text) =
        match (get("server-username"), get("server-password-file"), get("server-token-file")) {
            (Some(user), Some(path), _) => {
                let login = format!("{user}:{}", secret(path)?.reveal());
                (path, format!("Basic {}", STANDARD.encode(login)))
            }
            (_, _, Some(path)) => (path, format!("Bearer {}", secret(path)?.reveal().trim())),
            _ => return Ok(None),
        };
    let mut value = HeaderValue::from_str(&text)
        .map_err(|_| CliError::Refused(format!("{path}: holds what no header can have")))?;
    value.set_sensitive(true);
    Ok(Some(value))
}

fn unread(path: &str, source: std::io::Error) -> CliError {
    CliError::Refused(format!("{path}: {source}"))
}

fn tls(matches: &ArgMatches) -> Result<TlsConfig, CliError> {
    let read = |path: &String| match std::fs::read(path) {
        Ok(bytes) => Ok((path.clone(), bytes)),
        Err(source) => Err(unread(path, source)),
    };
    let pem = |name| matches.get_one(name).map(read).transpose();
    let mut builder = TlsConfig::builder();
    if let Some((path, bytes)) = pem("server-ca")? {
        builder = builder.root_certs(RootCerts::new_with_certs(&certificates(&path, &bytes)?));
    }
    if let (Some((path, chain)), Some((key_path, key))) = (pem("server-cert")?, pem("server-key")?)
    {
        let no_key = |_| CliError::Refused(format!("{key_path}: holds no private key in PEM"));
        let key = PrivateKey::from_pem(&key).map_err(no_key)?;
        let client = ClientCert::new_with_certs(&certificates(&path, &chain)?, key);
        builder = builder.client_cert(Some(client));
    }
    Ok(builder.build())
}

fn certificates(path: &str, pem: &[u8]) -> Result<Vec<Certificate<'static>>, CliError> {
    let certificate = |item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(certificate),
        _ => None,
    };
    let all: Vec<_> = parse_pem(pem).filter_map(certificate).collect();
    if all.is_empty() {
        return Err(CliError::Refused(format!("{path}: holds no certificate in PEM")));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_addresses_are_reached_by_one() {
        for (listen, want) in [
            ("0.0.0.0:9201", "127.0.0.1:9201"),
            ("[::]:80", "[::1]:80"),
            ("10.0.0.7:9201", "10.0.0.7:9201"),
            ("[::1]:80", "[::1]:80"),
            ("localhost:1", "localhost:1"),
        ] {
            assert_eq!(reachable(listen), want);
        }
    }

    #[test]
    fn a_login_is_seen_wherever_it_ends() {
        for url in ["http://u:p@a:1", "https://u@a", "u:p@a:9201", "http://u:p/q@a", "ftp://u:p@a"]
        {
            assert!(has_login(url), "{url}");
        }
        assert!(!has_login("https://a:1/base"));
    }

    #[test]
    fn what_names_a_server() {
        for good in ["http://a", "https://a:1/", "http://127.0.0.1:9201/base", "http://[::1]:1"] {
            assert!(is_url(good), "{good}");
        }
        for bad in ["", "a", "a:9201", "http:", "http://", "http:///a", "http://a b", "ftp://a"] {
            assert!(!is_url(bad), "{bad}");
        }
    }
}
