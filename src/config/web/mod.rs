//! The web configuration: TLS of the listener, headers, users and rights, in the file format of
//! Prometheus' exporter toolkit with additional keys.
//!
//! All files that it names are read with it: a [`WebConfig`] is complete or there is none. What is
//! not supported is refused, never ignored. Nothing is watched here: the server calls
//! [`WebConfig::read_again`].

mod access;
mod files;
mod rate_limit;
mod tls;
mod tls_clients;
mod yaml;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

pub use tls_clients::certificate_names;

use super::error::ConfigError;
use super::exposed::exposed;
use super::keys::{Key, KeyTable};
use crate::api::WebSettings;
use files::Files;
use yaml::{Entry, Table};

/// The content of the web configuration. The default is plain text, without access control.
#[derive(Clone, Default)]
pub struct WebConfig {
    /// TLS of the listener; `None` = plain text.
    pub tls: Option<Arc<rustls::ServerConfig>>,
    /// When the first certificate of the chain expires, in seconds since 1970; `None` = plain text.
    pub certificate_not_after: Option<i64>,
    /// When all certificates of the chain have become valid, likewise.
    pub certificate_not_before: Option<i64>,
    /// Whether TLS accepts only clients with a certificate of a configured authority.
    pub keeps_strangers_out: bool,
    /// Who may send requests, and the headers of answers.
    pub settings: WebSettings,
    /// What is applied differently than written, each with file, line and key.
    pub warnings: Vec<String>,
    /// Users that no line of rights names.
    without_line: Vec<String>,
    files: Files,
}

/// The keys of the file. The keys of its tables are defined beside their parsers.
static KEYS: [Key; 6] = [
    Key::new("tls_server_config", "TLS of the listener", "plain text"),
    Key::new("http_server_config", "HTTP/2, and headers of every answer", "see its keys"),
    Key::new(
        "basic_auth_users",
        "Names of users, and the bcrypt hash of the password of each",
        "nobody has to log in, where there are no bearer_tokens",
    ),
    Key::new("rate_limit", "How many requests are answered", "no limit"),
    Key::new(
        "basic_auth_rights",
        "Names of users, and a list of read, write and admin for each; not in Prometheus' format",
        "a user has all rights",
    ),
    Key::new("bearer_tokens", "A list of tokens; not in Prometheus' format", "there are none"),
];

static HTTP_KEYS: [Key; 2] = [
    Key::new("http2", "Whether HTTP/2 is offered to clients with TLS: true or false", "true"),
    Key::new("headers", "Headers of every answer, and their values", "see its keys"),
];

/// The headers that may be set, and the allowed values of each; empty = any.
const HEADERS: [(&str, &str, &[&str]); 5] = [
    ("Content-Security-Policy", "content-security-policy", &[]),
    ("Strict-Transport-Security", "strict-transport-security", &[]),
    ("X-Content-Type-Options", "x-content-type-options", &["nosniff"]),
    ("X-Frame-Options", "x-frame-options", &["deny", "sameorigin"]),
    ("X-XSS-Protection", "x-xss-protection", &[]),
];

impl WebConfig {
    /// Reads the file and the files that it names; relative paths are relative to its folder.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let mut files = Files::default();
        let text = files
            .read(path)
            .and_then(|bytes| String::from_utf8(bytes).map_err(std::io::Error::other))
            .map_err(|source| ConfigError::File { path: path.to_owned(), source })?;
        yaml::read(path, &text, |top| match top.filter(|top| !top.is_empty()) {
            None => Ok(Self::default()),
            Some(top) => Self::from_table(&top.table(&KEYS)?, &mut files),
        })
        .map(|config| Self { files, ..config })
    }

    fn from_table(table: &Table<'_>, files: &mut Files) -> Result<Self, ConfigError> {
        let mut warnings = Vec::new();
        let rate_limit = table.get("rate_limit");
        let rate_limit = rate_limit.map(|entry| rate_limit::rate_limit(entry, &mut warnings));
        let rate_limit = rate_limit.transpose()?.flatten();
        let http = table.get("http_server_config").map_or(Ok((true, Vec::new())), http);
        let (offers_http2, headers) = http?;
        let tls = match table.get("tls_server_config") {
            None => None,
            Some(entry) => tls::server_config(entry, offers_http2, files, &mut warnings)?,
        };
        let (hashes, rights) = (table.get("basic_auth_users"), table.get("basic_auth_rights"));
        let (users, without_line) = access::users(hashes, rights)?;
        let tokens = access::tokens(table.get("bearer_tokens"), files)?;
        if !users.is_empty() {
            // Whoever has the hashes can guess the passwords.
            files.first().map(Path::to_owned).into_iter().for_each(|file| files.holds_secret(file));
        }
        let validity = tls.as_ref().map(|tls| tls.validity);
        let (certificate_not_before, certificate_not_after) = validity.unzip();
        Ok(Self {
            keeps_strangers_out: tls.as_ref().is_some_and(|tls| tls.keeps_strangers_out),
            tls: tls.map(|tls| tls.config),
            certificate_not_after,
            certificate_not_before,
            settings: WebSettings { headers, rate_limit, users, tokens },
            warnings,
            without_line,
            files: Files::default(),
        })
    }

    /// Reads the configuration again if a file has changed or is gone; `None` = nothing has changed.
    pub fn read_again(&self) -> Option<Result<Self, ConfigError>> {
        let path = self.files.first()?;
        self.files.have_changed().then(|| Self::read(path))
    }

    /// Whether both were read from the same files with the same contents.
    pub fn was_read_from_the_same(&self, other: &Self) -> bool {
        self.files == other.files
    }

    /// The path of the file; `None` = there is none.
    pub fn path(&self) -> Option<&Path> {
        self.files.first()
    }

    /// The warning about the validity of the certificates at `now`, in seconds since 1970.
    pub fn certificate_warning(&self, now: i64) -> Option<String> {
        let message = |seconds: i64, what: &str| {
            let time = jiff::Timestamp::from_second(seconds).map(|time| time.to_string());
            let time = time.unwrap_or_else(|_| format!("{seconds} s since 1970"));
            format!("a certificate of tls_server_config {what} {time}: clients refuse it")
        };
        let ended = self.certificate_not_after.filter(|end| *end < now);
        let begins = self.certificate_not_before.filter(|begin| *begin > now);
        let ended = ended.map(|end| message(end, "has ended at"));
        ended.or_else(|| begins.map(|begin| message(begin, "is not valid before")))
    }

    /// A warning for each file with a secret that every user of the machine can read.
    pub fn exposed_files(&self) -> Vec<String> {
        self.files.secret().filter_map(exposed).collect()
    }

    /// The warning about users that have all rights because no line of rights names them; `None` = no such user.
    pub fn users_without_line(&self) -> Option<String> {
        (!self.without_line.is_empty()).then(|| {
            let names = self.without_line.join(", ");
            format!("users without a line in basic_auth_rights have all rights, as in Prometheus: {names}")
        })
    }

    /// Whether no authentication is required.
    pub fn is_open(&self) -> bool {
        self.settings.is_open()
    }
}

impl fmt::Debug for WebConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebConfig")
            .field("path", &self.path())
            .field("tls", &self.tls.is_some())
            .field("settings", &self.settings)
            .finish()
    }
}

/// All tables of the file, in the order of the reference page.
pub(super) fn tables() -> Vec<KeyTable> {
    let header = |&(name, _, values): &(&'static str, &str, &[&str])| {
        let help = match values {
            [] => "Its value; blank = no such header".to_owned(),
            _ => format!("{}; blank = no such header", values.join(" or ")),
        };
        Key { name, help: help.into(), unsaid: "as without a web configuration" }
    };
    let table = |place, help, keys| KeyTable { setting: "web-config-file", place, help, keys };
    vec![
        table("", "The file of --web-config-file", KEYS.to_vec()),
        table("tls_server_config", "Paths are relative to the file's folder", tls::KEYS.to_vec()),
        table("http_server_config", "Answers in general", HTTP_KEYS.to_vec()),
        table(
            "http_server_config.headers",
            "No other headers can be set",
            HEADERS.iter().map(header).collect(),
        ),
        table("rate_limit", "A bucket of tokens", rate_limit::KEYS.to_vec()),
        table("bearer_tokens", "Of each token", access::TOKEN_KEYS.to_vec()),
    ]
}

/// Names and values of headers.
type Headers = Vec<(&'static str, String)>;

/// Whether HTTP/2 is offered, and the headers of every answer.
fn http(entry: &Entry<'_>) -> Result<(bool, Headers), ConfigError> {
    let table = entry.table(&HTTP_KEYS)?;
    let offers_http2 = table.get("http2").map_or(Ok(true), Entry::switch)?;
    let mut headers = Vec::new();
    for (name, entry) in table.get("headers").map(Entry::entries).transpose()?.unwrap_or_default() {
        let Some((_, small, values)) = HEADERS.iter().find(|(known, ..)| *known == name) else {
            let known: Vec<&str> = HEADERS.iter().map(|(known, ..)| *known).collect();
            let known = known.join(", ");
            return Err(entry.refuse(format!("is none of the headers that can be set: {known}")));
        };
        let value = entry.text()?;
        if !value.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            return Err(entry.refuse("must be one line of ASCII"));
        }
        if !value.is_empty() && !values.is_empty() && !values.contains(&&*value) {
            return Err(entry.refuse(format!("must be one of {}", values.join(", "))));
        }
        headers.push((*small, value.into_owned()));
    }
    Ok((offers_http2, headers))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{RateLimit, Right, Rights, TokenDigest};

    /// A folder with a web configuration and the files that it names: a certificate, its key, the
    /// key of another certificate, and a token.
    struct Folder(tempfile::TempDir);

    const HASH: &str = "$2y$10$X0h1gDsPszWURQaxFh.zoubFi6DXncSjhoQNJgRrnGs7EsimhC7zG";

    impl Folder {
        fn new() -> Self {
            let folder = Self(tempfile::tempdir().expect("a folder"));
            let made = || rcgen::generate_simple_self_signed(["a.example".to_owned()]);
            let (one, other) = (made().expect("made"), made().expect("made"));
            folder.write("server.crt", &one.cert.pem());
            folder.write("server.key", &one.signing_key.serialize_pem());
            folder.write("other.key", &other.signing_key.serialize_pem());
            folder.write("token", "s3cr3t-t0k3n\n");
            folder
        }

        fn write(&self, name: &str, text: &str) {
            std::fs::write(self.0.path().join(name), text).expect("written");
        }

        fn read(&self, yaml: &str) -> Result<WebConfig, String> {
            self.write("web.yml", yaml);
            let read = WebConfig::read(&self.0.path().join("web.yml"));
            let folder = format!("{}/", self.0.path().display());
            read.map_err(|error| error.to_string().replace(&folder, ""))
        }
    }

    const TLS: &str = "tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n";

    #[test]
    fn all_that_prometheus_has_is_understood() {
        let folder = Folder::new();
        let yaml = format!(
            "{TLS}  client_ca_file: server.crt\n  client_auth_type: RequireAndVerifyClientCert\n  \
             client_allowed_sans: [a.example, 10.0.0.1]\n  min_version: TLS12\n  \
             max_version: TLS13\n  \
             cipher_suites: [TLS_AES_128_GCM_SHA256, TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]\n  \
             curve_preferences: [CurveP256, X25519]\n  prefer_server_cipher_suites: false\n\
             http_server_config:\n  http2: false\n  headers:\n    X-Frame-Options: deny\n    \
             Content-Security-Policy: ''\nbasic_auth_users:\n  alice: {HASH}\n\
             rate_limit: {{interval: 0s}}\n"
        );
        let config = folder.read(&yaml).expect("valid");
        let tls = config.tls.as_ref().expect("TLS");
        assert_eq!(tls.alpn_protocols, [b"http/1.1"]);
        assert!(!tls.ignore_client_order);
        let suites: Vec<_> = tls.crypto_provider().cipher_suites.iter().collect();
        assert_eq!(suites.iter().filter(|suite| suite.tls13().is_none()).count(), 1);
        assert_eq!(tls.crypto_provider().kx_groups.len(), 2);
        let headers = [("x-frame-options", "deny"), ("content-security-policy", "")];
        assert_eq!(config.settings.headers, headers.map(|(name, value)| (name, value.to_owned())));
        assert_eq!(
            (config.settings.users[0].name.as_str(), config.settings.users[0].cost),
            ("alice", 10)
        );
        assert_eq!(config.settings.users[0].rights, Rights::ALL);
        assert!(!config.is_open());
    }

    #[test]
    fn numbers_and_words_are_taken_as_prometheus_takes_them() {
        let folder = Folder::new();
        let yaml = format!(
            "# äöü\nbasic_auth_users:\n  1234: {HASH}\n  0x1F: {HASH}\n  1.50: {HASH}\n  \
             true: {HASH}\n  yes: {HASH}\nbasic_auth_rights: {{1234: [read], 0x1F : [write]}}\n"
        );
        let config = folder.read(&yaml).expect("valid");
        let names: Vec<&str> =
            config.settings.users.iter().map(|user| user.name.as_str()).collect();
        assert_eq!(names, ["1234", "0x1F", "1.50", "true", "yes"]);
        assert_eq!(config.settings.users[0].rights, Rights::NONE.with(Right::Read));
        assert_eq!(config.settings.users[1].rights, Rights::NONE.with(Right::Write));
        for (word, offers) in [("yes", 2), ("on", 2), ("TRUE", 2), ("off", 1), ("No", 1)] {
            let config = folder.read(&format!("{TLS}http_server_config: {{http2: {word}}}\n"));
            let tls = config.expect("valid").tls.expect("TLS");
            assert_eq!(tls.alpn_protocols.len(), offers, "{word}");
        }
    }

    /// A certificate as `openssl x509 -req` makes it without extensions, and its key.
    const VERSION_1: [&str; 2] = [
        "-----BEGIN CERTIFICATE-----\n\
         MIIBIzCBywIUHJ8zEoy/8VJzHY8ON+tBSym2u+kwCgYIKoZIzj0EAwIwFDESMBAG\n\
         A1UEAwwJYS5leGFtcGxlMCAXDTI2MTEyMzAyMjgxM1oYDzIxMjYxMDMwMDIyODEz\n\
         WjAUMRIwEAYDVQQDDAlhLmV4YW1wbGUwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNC\n\
         AAQblDsS5ORBEogaCOavymbcK/6okVLx05LTqdDNL8mwEX/FGKjwnfVQQVAteF4u\n\
         65SzmNCxxbI1XRxVcRMYj6TlMAoGCCqGSM49BAMCA0cAMEQCIC/AcsNWVwBeb3Jr\n\
         t7E9OF+N4BSt4NKdnn/EnvWo5vOMAiAHPULt3QytuRIusY/5+yPN3LwRGGLG1Yob\n\
         RRewi5bwSQ==\n-----END CERTIFICATE-----\n",
        "-----BEGIN PRIVATE KEY-----\n\
         MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgRGgIYOAzyg+RhdL2\n\
         vnAYqxrhzxu0/GIWa9g2VNIcIHehRANCAAQblDsS5ORBEogaCOavymbcK/6okVLx\n\
         05LTqdDNL8mwEX/FGKjwnfVQQVAteF4u65SzmNCxxbI1XRxVcRMYj6Tl\n\
         -----END PRIVATE KEY-----\n",
    ];

    #[test]
    fn a_certificate_of_an_old_version_is_named() {
        let folder = Folder::new();
        for (name, text) in ["server.crt", "server.key"].into_iter().zip(VERSION_1) {
            folder.write(name, text);
        }
        let want = "web.yml:2: tls_server_config.cert_file: is of X.509 version 1, which is not \
                    offered: make one of version 3, with its names as subject alternative names";
        assert_eq!(folder.read(TLS).err().as_deref(), Some(want));
    }

    #[test]
    fn the_first_end_of_the_chain_is_known() {
        let folder = Folder::new();
        let ends = |days: [i64; 2]| {
            let signed = days.map(|day| {
                let key = rcgen::KeyPair::generate().expect("a key");
                let mut params =
                    rcgen::CertificateParams::new(vec!["a.example".to_owned()]).expect("a name");
                params.not_after = rcgen::date_time_ymd(2100, 1, u8::try_from(day).expect("a day"));
                (params.self_signed(&key).expect("signed").pem(), key.serialize_pem())
            });
            folder.write("server.crt", &format!("{}{}", signed[0].0, signed[1].0));
            folder.write("server.key", &signed[0].1);
            folder.read(TLS).expect("valid").certificate_not_after
        };
        let of_2100 = 4_102_444_800;
        assert_eq!(ends([1, 2]), Some(of_2100));
        assert_eq!(ends([3, 2]), Some(of_2100 + 86_400));
        assert_eq!(folder.read("").expect("valid").certificate_not_after, None);
    }

    #[test]
    fn a_certificate_whose_time_is_not_now_is_warned_of() {
        let folder = Folder::new();
        let key = rcgen::KeyPair::generate().expect("a key");
        let mut params =
            rcgen::CertificateParams::new(vec!["a.example".to_owned()]).expect("a name");
        params.not_before = rcgen::date_time_ymd(2001, 1, 1);
        params.not_after = rcgen::date_time_ymd(2002, 1, 1);
        folder.write("server.crt", &params.self_signed(&key).expect("signed").pem());
        folder.write("server.key", &key.serialize_pem());
        let config = folder.read(TLS).expect("valid");
        let (begin, end) = (978_307_200, 1_009_843_200);
        assert_eq!(
            (begin..=end).step_by(86_400).find_map(|at| config.certificate_warning(at)),
            None
        );
        let ended = "a certificate of tls_server_config has ended at 2002-01-01T00:00:00Z: clients refuse it";
        assert_eq!(config.certificate_warning(end + 1).as_deref(), Some(ended));
        let early = "a certificate of tls_server_config is not valid before 2001-01-01T00:00:00Z: clients \
                     refuse it";
        assert_eq!(config.certificate_warning(begin - 1).as_deref(), Some(early));
        assert_eq!(folder.read("").expect("valid").certificate_warning(end + 1), None);
    }

    #[test]
    fn nothing_said_is_plain_text_for_everybody() {
        let folder = Folder::new();
        for yaml in ["", "# nothing\n", "{}\n", "tls_server_config:\nbasic_auth_users:\n"] {
            let config = folder.read(yaml).expect("valid");
            assert!(config.tls.is_none() && config.is_open(), "{yaml}");
        }
        // As in Prometheus: a version alone does not switch TLS on.
        assert!(
            folder.read("tls_server_config: {min_version: TLS13}").expect("valid").tls.is_none()
        );
        let config = folder.read(TLS).expect("valid");
        assert_eq!(config.tls.expect("TLS").alpn_protocols, [b"h2".to_vec(), b"http/1.1".to_vec()]);
    }

    #[test]
    fn certificate_and_key_may_stand_in_the_file_itself() {
        let folder = Folder::new();
        let indented = |name: &str| {
            let text = std::fs::read_to_string(folder.0.path().join(name)).expect("written");
            text.lines().map(|line| format!("    {line}\n")).collect::<String>()
        };
        let (cert, key) = (indented("server.crt"), indented("server.key"));
        let yaml = format!("tls_server_config:\n  cert: |\n{cert}  key: |\n{key}");
        assert!(folder.read(&yaml).expect("valid").tls.is_some());
    }

    #[test]
    fn rights_of_users_and_tokens() {
        let folder = Folder::new();
        let token = "{name: agents, token_file: token, rights: [write]}";
        let other =
            format!("{{name: b, token_sha256: {}, rights: [read, admin]}}", "0a".repeat(32));
        let yaml = format!(
            "basic_auth_users: {{a: {HASH}, b: {HASH}}}\nbasic_auth_rights: {{b: [read]}}\n\
             bearer_tokens: [{token}, {other}]\n"
        );
        let config = folder.read(&yaml).expect("valid");
        let read = Rights::NONE.with(Right::Read);
        assert_eq!(
            (config.settings.users[0].rights, config.settings.users[1].rights),
            (Rights::ALL, read)
        );
        assert_eq!(config.settings.tokens[0].rights, Rights::NONE.with(Right::Write));
        assert_eq!(config.settings.tokens[0].digest, TokenDigest::of(b"s3cr3t-t0k3n"));
        assert_eq!(config.settings.tokens[1].digest, TokenDigest::new([10; 32]));
        assert_eq!(config.settings.tokens[1].rights, read.with(Right::Admin));
        let shown = format!("{config:?}");
        assert!(shown.contains("agents") && !shown.contains("X0h1gDsPszW"), "{shown}");
        assert!(!shown.contains("10, 10") && !shown.contains("s3cr3t"), "{shown}");
    }

    #[test]
    fn what_is_refused_names_line_and_key() {
        let folder = Folder::new();
        let check = |yaml: &str, want: &str| {
            assert_eq!(folder.read(yaml).err().as_deref(), Some(want), "{yaml}");
        };
        check(
            "\ntls_server_config:\n  certfile: server.crt\n",
            "web.yml:3: unknown setting tls_server_config.certfile, did you mean cert_file?",
        );
        check(
            "basic_auth_user: {}",
            "web.yml:1: unknown setting basic_auth_user, did you mean basic_auth_users?",
        );
        let tls = |line: &str| format!("{TLS}  {line}\n");
        let at = |why: &str| format!("web.yml:4: tls_server_config.{why}");
        check(
            &tls("max_version: TLS11"),
            &at("max_version: TLS before 1.2 is not offered: TLS12 or TLS13"),
        );
        check(&tls("min_version: SSL"), &at("min_version: must be TLS12 or TLS13"));
        check(
            &tls("curve_preferences: [CurveP521]"),
            &at("curve_preferences[0]: \"CurveP521\" is not offered, nor is another of the list; \
                 there are X25519, CurveP256, CurveP384"),
        );
        for (suite, why) in [
            ("TLS_RSA_WITH_AES_128_CBC_SHA", "is not offered, nor is another of the list"),
            ("TLS_WITH_NOTHING", "is not known"),
        ] {
            let error = folder.read(&tls(&format!("cipher_suites: [{suite}]"))).expect_err("none");
            let want = at(&format!("cipher_suites[0]: {suite:?} {why}; there are TLS_"));
            let last = ", TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256";
            assert!(error.starts_with(&want) && error.contains(last), "{error}");
        }
        check(
            &tls("client_ca_file: server.crt"),
            &at("client_ca_file: means nothing without client_auth_type"),
        );
        check(
            &tls("client_auth_type: RequireAndVerifyClientCert"),
            &at("client_auth_type: needs client_ca_file (or client_ca) to verify against"),
        );
        let kinds = "NoClientCert, RequestClientCert, RequireAnyClientCert, RequireClientCert, \
                     VerifyClientCertIfGiven, RequireAndVerifyClientCert";
        check(
            &tls("client_auth_type: All"),
            &at(&format!("client_auth_type: must be one of {kinds}")),
        );
        check(
            "tls_server_config: {cert_file: server.crt}",
            "web.yml:1: tls_server_config: needs key_file (or key) for TLS",
        );
        check(
            "tls_server_config: {cert_file: gone.crt, key_file: server.key}",
            "web.yml:1: tls_server_config.cert_file: gone.crt: \
             No such file or directory (os error 2)",
        );
        let mixed = "tls_server_config:\n  cert_file: server.crt\n  key_file: other.key\n";
        let error = folder.read(mixed).expect_err("another key");
        let want = "web.yml:3: tls_server_config.key_file: does not fit the certificate: ";
        assert!(error.starts_with(want), "{error}");
        check(
            "tls_server_config: {cert_file: token, key_file: server.key}",
            "web.yml:1: tls_server_config.cert_file: holds no certificate in PEM",
        );
        check(
            "tls_server_config: {cert_file: server.crt, key_file: token}",
            "web.yml:1: tls_server_config.key_file: holds no private key in PEM",
        );
        let none = "must be at least 1: otherwise no request at all would be answered";
        check(
            "rate_limit: {interval: 1s}",
            &format!("web.yml:1: rate_limit.interval: needs burst, which {none}"),
        );
        check(
            "rate_limit:\n  interval: 1s\n  burst: 0\n",
            &format!("web.yml:3: rate_limit.burst: {none}"),
        );
        check(
            "rate_limit: {interval: 1d, burst: 1}",
            "web.yml:1: rate_limit.interval: must be a duration such as 100ms, 1s or 1m30s, or 0",
        );
        check(
            "rate_limit: {burst: many}",
            "web.yml:1: rate_limit.burst: must be a whole number of at least 0, below 2^32, without \
             zeros before it",
        );
        check(
            "rate_limit: {interval: 1s, burst: 010}",
            "web.yml:1: rate_limit.burst: must be a whole number of at least 0, below 2^32, without \
             zeros before it",
        );
        check(
            "http_server_config: {headers: {X-Frame-Options: allow}}",
            "web.yml:1: http_server_config.headers.X-Frame-Options: \
             must be one of deny, sameorigin",
        );
        check(
            "http_server_config: {http2: maybe}",
            "web.yml:1: http_server_config.http2: must be true or false",
        );
        check("a: 1\n---\nb: 2\n", "web.yml:3: a second document, where one is read");
    }

    #[test]
    fn a_key_that_is_there_twice_is_named() {
        let folder = Folder::new();
        let check = |yaml: &str, want: &str| {
            assert_eq!(folder.read(yaml).err().as_deref(), Some(want), "{yaml}");
        };
        check(&format!("{TLS}rate_limit:\n{TLS}"), "web.yml:5: duplicate key tls_server_config");
        check(&format!("{TLS}  cert_file: a\n"), "web.yml:4: duplicate key cert_file");
        check("# äöü\nbasic_auth_users: {a: b, a: c}", "web.yml:2: duplicate key a");
        check("basic_auth_users:\n  'a:b': x\n  'a:b': y\n", "web.yml:3: duplicate key 'a:b'");
        // For YAML they are two different keys.
        check(
            &format!("basic_auth_users:\n  12: {HASH}\n  \"12\": {HASH}\n"),
            "web.yml:3: basic_auth_users: duplicate key 12",
        );
        check("? [a]\n: 1\n? [a]\n: 2\n", "web.yml:3: duplicate key");
    }

    #[test]
    fn what_is_not_offered_is_left_out_with_a_warning() {
        let folder = Folder::new();
        let yaml = format!(
            "{TLS}  min_version: TLS10\n  cipher_suites:\n  - TLS_RSA_WITH_AES_128_CBC_SHA\n  \
             - TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256\n  curve_preferences: [CurveP521, CurveP384]\n"
        );
        let config = folder.read(&yaml).expect("valid");
        let folder_name = format!("{}/", folder.0.path().display());
        let said: Vec<String> =
            config.warnings.iter().map(|line| line.replace(&folder_name, "")).collect();
        let left_out = "is not offered, and left out";
        let section = "tls_server_config";
        assert_eq!(
            said,
            [
                format!(
                    "web.yml:4: {section}.min_version: TLS before 1.2 is not offered: taken as TLS12"
                ),
                format!(
                    "web.yml:6: {section}.cipher_suites[0]: \"TLS_RSA_WITH_AES_128_CBC_SHA\" {left_out}"
                ),
                format!("web.yml:8: {section}.curve_preferences[0]: \"CurveP521\" {left_out}"),
            ]
        );
        let provider = config.tls.expect("TLS").crypto_provider().clone();
        let of_12 = provider.cipher_suites.iter().filter(|one| one.tls13().is_none());
        let of_12: Vec<_> = of_12.map(|one| one.suite()).collect();
        assert_eq!(of_12, [rustls::CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256]);
        assert_eq!(provider.kx_groups.len(), 1);
        // One suite of TLS 1.3 is left of the list, and so none of 1.2: suites that were not named are off.
        let named = "cipher_suites: [TLS_AES_128_GCM_SHA256, TLS_RSA_WITH_AES_128_CBC_SHA]";
        let config = folder.read(&format!("{TLS}  {named}\n")).expect("valid");
        let provider = config.tls.expect("TLS").crypto_provider().clone();
        assert!(provider.cipher_suites.iter().all(|suite| suite.tls13().is_some()));
        // Without TLS there is no warning.
        let config = folder.read("tls_server_config: {min_version: TLS10}\n").expect("valid");
        assert!(config.tls.is_none() && config.warnings.is_empty());
    }

    #[test]
    fn a_rate_is_taken_as_prometheus_takes_it() {
        let folder = Folder::new();
        let limit = |yaml: &str| folder.read(yaml).expect("valid").settings.rate_limit;
        let of = |interval, burst| Some(RateLimit { interval, burst });
        let ms = std::time::Duration::from_millis;
        assert_eq!(limit("rate_limit: {interval: 1m30s, burst: 7}"), of(ms(90_000), 7));
        assert_eq!(limit("rate_limit: {interval: '100ms', burst: 1}"), of(ms(100), 1));
        for off in ["", "{}", "{interval: 0}", "{interval: 0s, burst: 0}", "{burst: 5}"] {
            assert_eq!(limit(&format!("rate_limit: {off}")), None, "{off}");
        }
        let config = folder.read("rate_limit: {interval: 5, burst: 1}").expect("valid");
        assert_eq!(config.settings.rate_limit, of(std::time::Duration::from_nanos(5), 1));
        let [warning] = &config.warnings[..] else { panic!("{:?}", config.warnings) };
        let want = "web.yml:1: rate_limit.interval: a number without a unit is nanoseconds";
        assert!(warning.contains(want), "{warning}");
    }

    #[test]
    fn what_is_refused_has_no_secret_in_it() {
        let folder = Folder::new();
        let check = |yaml: &str, want: &str| {
            assert_eq!(folder.read(yaml).err().as_deref(), Some(want), "{yaml}");
        };
        check(
            "basic_auth_users: {a: s3cr3t}",
            "web.yml:1: basic_auth_users.a: is not a bcrypt hash",
        );
        check(
            "basic_auth_users: {a: 12345}",
            "web.yml:1: basic_auth_users.a: is not a bcrypt hash",
        );
        check(
            "basic_auth_users: [s3cr3t]",
            "web.yml:1: basic_auth_users: must have keys and values",
        );
        check(
            "basic_auth_rights: {a: [read]}",
            "web.yml:1: basic_auth_rights.a: is not a user of basic_auth_users",
        );
        let tokens = |token: &str| format!("bearer_tokens:\n- {token}\n");
        check(
            &tokens("{name: a, rights: [read]}"),
            "web.yml:2: bearer_tokens[0]: needs one of token_file and token_sha256",
        );
        check(
            &tokens("{name: a, token: s3cr3t, rights: [read]}"),
            "web.yml:2: unknown setting bearer_tokens[0].token, did you mean token_file?",
        );
        check(
            &tokens("{name: a, token_sha256: s3cr3t, rights: [read]}"),
            "web.yml:2: bearer_tokens[0].token_sha256: \
             must be the SHA-256 of the token: 64 hexadecimal digits",
        );
        check(
            &tokens("{name: a, token_file: token}"),
            "web.yml:2: bearer_tokens[0]: rights is missing",
        );
        check(
            &tokens("{name: a, token_file: token, rights: [all]}"),
            "web.yml:2: bearer_tokens[0].rights[0]: must be read, write or admin",
        );
        check(
            &tokens("{name: a, token_file: token, rights: []}"),
            "web.yml:2: bearer_tokens[0].rights: must name at least one of read, write and admin",
        );
        let one = "{name: a, token_file: token, rights: [read]}";
        let same = one.replace("name: a", "name: b");
        check(
            &tokens(&format!("{one}\n- {same}")),
            "web.yml:3: bearer_tokens[1]: is the same token as a",
        );
        check(
            &tokens(&format!("{one}\n- {one}")),
            "web.yml:3: bearer_tokens[1]: has the name of another token",
        );
        folder.write("token", "two words");
        check(
            &tokens(one),
            "web.yml:2: bearer_tokens[0].token_file: \
             the file must hold the token, printable and without spaces",
        );
    }

    #[test]
    fn a_change_of_any_file_is_seen() {
        let folder = Folder::new();
        let token = "bearer_tokens: [{name: a, token_file: token, rights: [read]}]\n";
        let mut config = folder.read(&format!("{TLS}{token}")).expect("valid");
        assert!(config.read_again().is_none());
        for (name, text) in [("token", "other"), ("web.yml", TLS)] {
            folder.write(name, text);
            config = config.read_again().expect("it has changed").expect("valid");
            assert!(config.read_again().is_none());
        }
        assert!(config.is_open());
        let other = std::fs::read_to_string(folder.0.path().join("other.key")).expect("written");
        folder.write("server.key", &other);
        assert!(config.read_again().expect("it has changed").is_err());
        std::fs::remove_file(folder.0.path().join("server.key")).expect("removed");
        assert!(config.read_again().expect("it is gone").is_err());
    }
}
