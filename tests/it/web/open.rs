//! Warnings of a start and of `check-config` about open access: files with secrets that everybody can read, an admin
//! API that everybody reaches, and users without a line in the table of rights.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use super::pki::Authority;
use super::{HASH, TLS, everything, start};
use crate::api::run;
use crate::limits::logged;
use crate::support::process::Process;

const EXPOSED: &str = "holds a secret, and every user of this machine can read it";
const OPEN: &str = "may delete samples: --enable-admin-api is on";

/// A folder that everybody may enter, with a certificate, its key, the authority, a token, a password and a header.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    set(folder.path(), 0o755);
    let authority = Authority::new("authority");
    authority.write(&folder.path().join("ca.crt"));
    authority.server().write(folder.path(), "server");
    for (name, text) in [("agents.token", "t0k3n"), ("password", "p"), ("headers", "x-key=k")] {
        std::fs::write(folder.path().join(name), text).expect("written");
    }
    folder
}

fn set(path: &Path, mode: u32) {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).expect("set");
}

/// The warnings of `check-config` about settings whose files are in a folder.
fn warnings(folder: &Path, yaml: &str, settings: &[&str]) -> Vec<String> {
    std::fs::write(folder.join("web.yml"), yaml).expect("written");
    let all = [&["check-config", "--web-config-file=web.yml"], settings].concat();
    let output = run(folder, &all, &[]);
    let said = String::from_utf8(output.stdout.clone()).expect("UTF-8");
    assert!(output.status.success(), "{output:?}");
    let warnings = said.lines().filter_map(|line| line.strip_prefix("Warning: "));
    warnings.map(str::to_owned).collect()
}

/// The files that are reported as exposed.
fn exposed(warnings: &[String]) -> Vec<&str> {
    let named = warnings.iter().filter_map(|line| line.split_once(&format!(" {EXPOSED}")));
    named.map(|(path, _)| path).collect()
}

#[test]
fn files_with_secrets_that_everybody_can_read_are_named() {
    let folder = folder();
    let secrets = ["server.key", "agents.token", "password", "headers", "web.yml"];
    let cassandra = [
        "--store=cassandra",
        "--cassandra-username=u",
        "--cassandra-password-file=password",
        "--cassandra-tls",
        "--cassandra-tls-ca=ca.crt",
        "--cassandra-tls-cert=server.crt",
        "--cassandra-tls-key=server.key",
        "--otlp-endpoint=http://127.0.0.1:9",
        "--otlp-headers-file=headers",
    ];
    let yaml = everything();
    std::fs::write(folder.path().join("web.yml"), &yaml).expect("written");
    let mode_of_all = |mode| {
        secrets.iter().for_each(|name| set(&folder.path().join(name), mode));
    };
    mode_of_all(0o644);
    let seen = warnings(folder.path(), &yaml, &cassandra);
    assert_eq!(
        exposed(&seen),
        ["headers", "password", "server.key", "server.key", "agents.token", "web.yml"],
        "{seen:?}"
    );
    mode_of_all(0o640);
    let seen = warnings(folder.path(), &yaml, &cassandra);
    assert_eq!(exposed(&seen), [""; 0], "{seen:?}");
    // A certificate is public, and a file without hashes and keys has nothing to hide.
    mode_of_all(0o644);
    set(&folder.path().join("server.key"), 0o600);
    let seen = warnings(folder.path(), TLS, &[]);
    assert_eq!(exposed(&seen), [""; 0], "{seen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_names_them_and_who_has_all_rights() {
    let folder = folder();
    for name in ["agents.token", "server.key"] {
        set(&folder.path().join(name), 0o604);
    }
    let yaml = everything().replacen("  bob:", &format!("  carol: {HASH}\n  bob:"), 1);
    let server = start(folder.path(), &yaml, &[]);
    for name in ["agents.token", "server.key"] {
        logged(&server, &format!("{} {EXPOSED}", folder.path().join(name).display())).await;
    }
    let text = "users without a line in basic_auth_rights have all rights, as in Prometheus: ";
    logged(&server, text).await;
    let log = server.process.log();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains(text)).collect();
    assert!(lines.len() == 1 && lines[0].ends_with(": alice, carol"), "{log}");
}

#[test]
fn an_admin_api_that_everybody_reaches_is_reported() {
    let folder = folder();
    let asks = |kind: &str| format!("{TLS}  client_auth_type: {kind}\n");
    let any = asks("RequireAnyClientCert");
    let verifies = asks("RequireAndVerifyClientCert\n  client_ca_file: ca.crt");
    let user = format!("basic_auth_users: {{alice: {HASH}}}\n");
    let token = "bearer_tokens: [{name: a, token_file: agents.token, rights: [read]}]\n";
    for (yaml, listen, admin, want) in [
        ("", "0.0.0.0:9201", true, true),
        ("", "[::]:9201", true, true),
        ("", "10.1.2.3:9201", true, true),
        ("", "0.0.0.0:9201", false, false),
        ("", "127.0.0.1:9201", true, false),
        ("", "[::1]:9201", true, false),
        ("", "localhost:9201", true, false),
        (TLS, "0.0.0.0:9201", true, true),
        (any.as_str(), "0.0.0.0:9201", true, true),
        (verifies.as_str(), "0.0.0.0:9201", true, false),
        (user.as_str(), "0.0.0.0:9201", true, false),
        (token, "0.0.0.0:9201", true, false),
    ] {
        let (listen, admin) = (format!("--listen={listen}"), format!("--enable-admin-api={admin}"));
        let seen = warnings(folder.path(), yaml, &[&listen, &admin]);
        assert_eq!(seen.iter().any(|line| line.contains(OPEN)), want, "{listen} {yaml}: {seen:?}");
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_promkairos"));
    command.args(["--listen=0.0.0.0:0", "--enable-admin-api", "--data-dir"]);
    command.arg(folder.path().join("data"));
    let mut server = Process::start("promkairos", &mut command);
    let line =
        server.wait_for_line("a warning", |line| line.contains(OPEN).then(|| line.to_owned()));
    assert!(line.expect("it starts").contains("WARN"), "{}", server.log());
}
