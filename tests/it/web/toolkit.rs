//! The file format of Prometheus: files that `promtool` accepts are accepted and files that it
//! refuses are refused, except for a list of differences.

use std::path::Path;
use std::process::Command;

use promkairos::config::WebConfig;
use tempfile::TempDir;

use super::pki::Authority;
use super::{HASH, TLS};
use crate::support::promtool_binary;

/// A folder with the files that the configurations name.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new("authority");
    authority.write(&folder.path().join("ca.crt"));
    authority.server().write(folder.path(), "server");
    authority.server().write(folder.path(), "other");
    folder
}

/// The verdict of each on a file; an error in its own words.
fn verdicts(folder: &Path, yaml: &str) -> (Result<(), String>, Result<(), String>) {
    let path = folder.join("web.yml");
    std::fs::write(&path, yaml).expect("written");
    let ours = WebConfig::read(&path).map(drop).map_err(|error| error.to_string());
    let output = Command::new(promtool_binary()).args(["check", "web-config"]).arg(&path).output();
    let output = output.expect("it runs");
    let said = [output.stdout, output.stderr].concat();
    let theirs = match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&said).into_owned()),
    };
    (ours, theirs)
}

#[test]
fn what_promtool_takes_is_taken() {
    let folder = folder();
    let inline = |name: &str| {
        let text = std::fs::read_to_string(folder.path().join(name)).expect("written");
        text.lines().map(|line| format!("    {line}\n")).collect::<String>()
    };
    let (cert, key) = (inline("server.crt"), inline("server.key"));
    for yaml in [
        String::new(),
        "{}\n".into(),
        TLS.into(),
        format!("tls_server_config:\n  cert: |\n{cert}  key: |\n{key}"),
        format!("{TLS}  client_auth_type: NoClientCert\n"),
        format!("{TLS}  client_auth_type: RequestClientCert\n"),
        format!("{TLS}  client_auth_type: RequireAnyClientCert\n"),
        format!("{TLS}  client_auth_type: VerifyClientCertIfGiven\n  client_ca_file: ca.crt\n"),
        format!(
            "{TLS}  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.crt\n  \
             client_allowed_sans:\n  - a.example\n  - spiffe://a/b\n"
        ),
        format!("{TLS}  min_version: TLS13\n  max_version: TLS13\n"),
        format!(
            "{TLS}  cipher_suites:\n  - TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256\n  \
             - TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256\n  \
             - TLS_AES_256_GCM_SHA384\n  prefer_server_cipher_suites: false\n"
        ),
        format!("{TLS}  curve_preferences: [X25519, CurveP256, CurveP384]\n"),
        format!("{TLS}http_server_config:\n  http2: false\n"),
        format!("{TLS}  prefer_server_cipher_suites: on\nhttp_server_config: {{http2: yes}}\n"),
        format!("{TLS}http_server_config:\n  http2: Off\n"),
        format!("basic_auth_users:\n  1234: {HASH}\n  0123: {HASH}\n"),
        "http_server_config:\n  headers:\n    X-Frame-Options: sameorigin\n    \
         X-Content-Type-Options: nosniff\n    X-XSS-Protection: '1'\n    \
         Strict-Transport-Security: max-age=31536000\n    \
         Content-Security-Policy: default-src 'self'\n"
            .into(),
        format!("basic_auth_users:\n  alice: {HASH}\n  \"bob\": \"{HASH}\"\n"),
        format!("# a comment\n{TLS}basic_auth_users: {{alice: {HASH}}}\n"),
        "rate_limit: {interval: 1m30s, burst: 5}\n".into(),
        "rate_limit:\n  interval: 0\n".into(),
        "rate_limit: {interval: .5s, burst: 1}\n".into(),
    ] {
        assert_eq!(verdicts(folder.path(), &yaml), (Ok(()), Ok(())), "{yaml}");
    }
}

#[test]
fn what_promtool_refuses_is_refused() {
    let folder = folder();
    for yaml in [
        "a: b: c\n".to_owned(),
        "tls_server_configs: {}\n".into(),
        "tls_server_config: {certfile: server.crt}\n".into(),
        "tls_server_config: {cert_file: server.crt}\n".into(),
        "tls_server_config: {key_file: server.key}\n".into(),
        "tls_server_config: {cert_file: gone.crt, key_file: server.key}\n".into(),
        "tls_server_config: {cert_file: server.crt, key_file: other.key}\n".into(),
        "tls_server_config: {cert_file: server.key, key_file: server.crt}\n".into(),
        format!("{TLS}  client_auth_type: Everybody\n"),
        format!("{TLS}  client_ca_file: ca.crt\n"),
        format!(
            "{TLS}  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: gone.crt\n"
        ),
        format!("{TLS}  min_version: SSL30\n"),
        format!("{TLS}  cipher_suites: [TLS_WITH_NOTHING]\n"),
        format!("{TLS}  curve_preferences: [CurveP1]\n"),
        "http_server_config: {http2: perhaps}\n".into(),
        "http_server_config: {headers: {X-Powered-By: a}}\n".into(),
        "http_server_config: {headers: {X-Frame-Options: allow}}\n".into(),
        "http_server_config: {headers: {X-Content-Type-Options: sniff}}\n".into(),
        "basic_auth_users: {alice: secret}\n".into(),
        "rate_limit: {interval: 1d, burst: 1}\n".into(),
        "rate_limit: {interval: soon, burst: 1}\n".into(),
        "rate_limit: {interval: 1s, burst: many}\n".into(),
        "rate_limit: {interval: 1s, bursts: 1}\n".into(),
        "rate_limit: {burst: 1, burst: 2}\n".into(),
    ] {
        let (ours, theirs) = verdicts(folder.path(), &yaml);
        assert!(ours.is_err() && theirs.is_err(), "{yaml}: {ours:?} {theirs:?}");
        assert!(ours.expect_err("checked").contains("web.yml"), "{yaml}");
    }
}

/// Values that rustls does not have, where others remain.
#[test]
fn what_only_prometheus_has_is_left_out_with_a_warning() {
    let folder = folder();
    let gcm = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256";
    for (line, key) in [
        ("min_version: TLS10".to_owned(), "min_version"),
        ("min_version: TLS11\n  max_version: TLS12".into(), "min_version"),
        ("curve_preferences: [CurveP521, X25519]".into(), "curve_preferences[0]"),
        (format!("cipher_suites: [{gcm}, TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA]"), "cipher_suites[1]"),
        (format!("cipher_suites: [{gcm}, TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA]"), "cipher_suites[1]"),
        (
            format!("cipher_suites: [{gcm}, TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA]"),
            "cipher_suites[1]",
        ),
        (
            format!("cipher_suites: [{gcm}, TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA]"),
            "cipher_suites[1]",
        ),
    ] {
        let yaml = format!("{TLS}  {line}\n");
        assert_eq!(verdicts(folder.path(), &yaml), (Ok(()), Ok(())), "{yaml}");
        let config = WebConfig::read(&folder.path().join("web.yml")).expect("checked");
        let [warning] = &config.warnings[..] else { panic!("{line}: {:?}", config.warnings) };
        let want = format!("web.yml:4: tls_server_config.{key}: ");
        assert!(warning.contains(&want) && warning.contains("is not offered"), "{warning}");
    }
}

/// Values that rustls does not have, and values that Go accepts silently though nobody means them.
#[test]
fn what_only_we_refuse() {
    let folder = folder();
    for (line, key) in [
        ("max_version: TLS11", "max_version"),
        ("min_version: TLS13\n  max_version: TLS12", "min_version"),
        ("curve_preferences: [CurveP521]", "curve_preferences[0]"),
        ("cipher_suites: [TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA]", "cipher_suites[0]"),
        ("client_auth_type: RequireAndVerifyClientCert", "client_auth_type"),
        ("client_allowed_sans: [a.example]", "client_allowed_sans"),
    ] {
        let (ours, theirs) = verdicts(folder.path(), &format!("{TLS}  {line}\n"));
        let ours = ours.expect_err("it cannot be followed");
        let want = format!("web.yml:4: tls_server_config.{key}: ");
        assert!(ours.contains(&want) && theirs.is_ok(), "{line}: {ours} {theirs:?}");
    }
    let (ours, theirs) = verdicts(folder.path(), "rate_limit: {interval: 1s}\n");
    let ours = ours.expect_err("nothing would be answered");
    assert!(
        ours.contains("rate_limit.interval: needs burst") && theirs.is_ok(),
        "{ours} {theirs:?}"
    );
}

#[test]
fn a_key_on_a_curve_that_is_not_offered_is_named() {
    let folder = folder();
    let certificate = include_str!("../../data/tls/p521.crt");
    std::fs::write(folder.path().join("server.crt"), certificate).expect("written");
    let ours = verdicts(folder.path(), TLS).0.expect_err("it cannot be followed");
    assert!(ours.contains("tls_server_config.cert_file: ") && ours.contains("P-521"), "{ours}");
}

/// Our extensions, which Prometheus does not know.
#[test]
fn what_only_we_take() {
    let folder = folder();
    std::fs::write(folder.path().join("token"), "t0k3n").expect("written");
    for yaml in [
        format!("basic_auth_users: {{a: {HASH}}}\nbasic_auth_rights: {{a: [read]}}\n"),
        "bearer_tokens: [{name: a, token_file: token, rights: [read]}]\n".into(),
    ] {
        let (ours, theirs) = verdicts(folder.path(), &yaml);
        assert!(ours.is_ok() && theirs.is_err(), "{yaml}: {ours:?} {theirs:?}");
    }
}
