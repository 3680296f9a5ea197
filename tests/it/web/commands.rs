//! Commands that ask a server with TLS and credentials.

use std::path::PathBuf;

use rcgen::SanType;

use super::pki::Authority;
use super::{Secured, everything};
use crate::delete_command::{delete, said};
use crate::support::eventually;

const DRY: [&str; 4] = ["--match=up", "--start=0", "--end=1", "--dry-run"];

#[tokio::test(flavor = "multi_thread")]
async fn a_command_logs_in() {
    let yaml = everything().replace(
        "  key_file: server.key\n",
        "  key_file: server.key\n  client_auth_type: RequireAndVerifyClientCert\n  \
         client_ca_file: clients.crt\n",
    );
    let clients = Authority::new("clients");
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| -> PathBuf { folder.path().join(name) };
    clients
        .sign("operator", vec![SanType::DnsName("operator".try_into().expect("ASCII"))])
        .write(folder.path(), "operator");
    std::fs::write(file("password"), "pass-47\n").expect("written");
    std::fs::write(file("wrong"), "guess-47\n").expect("written");
    std::fs::write(file("agents.token"), "t0k3n-of-agents\n").expect("written");
    let yaml = yaml.replace("clients.crt", &file("clients.crt").display().to_string());
    clients.write(&file("clients.crt"));
    let secured = Secured::start(&yaml, &["--enable-admin-api"]);
    let flag = |name: &str, path: PathBuf| format!("--server-{name}={}", path.display());
    let tls = [
        format!("--server={}", secured.server.url("").replace("http:", "https:")),
        flag("ca", secured.path().join("ca.crt")),
        flag("cert", file("operator.crt")),
        flag("key", file("operator.key")),
    ];
    let ask = |arguments: &[String]| {
        let arguments = tls.iter().chain(arguments).map(String::as_str);
        delete(folder.path(), &DRY.into_iter().chain(arguments).collect::<Vec<_>>())
    };
    let login = |user: &str, password: &str| {
        [format!("--server-username={user}"), flag("password-file", file(password))]
    };
    // The store may be opening still.
    eventually("it is ready", async || {
        let output = ask(&login("alice", "password"));
        match output.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    })
    .await;
    let done = ask(&login("alice", "password"));
    assert_eq!(said(&done), "0 series with 0 points would go. Nothing was deleted.\n");
    for (arguments, want) in [
        (vec![], "401 Unauthorized: Unauthorized"),
        (login("alice", "wrong").to_vec(), "401 Unauthorized: Unauthorized"),
        (login("bob", "password").to_vec(), "this needs the right \"admin\""),
        (vec![flag("token-file", file("agents.token"))], "this needs the right \"admin\""),
        (vec![flag("token-file", file("gone"))], "gone: No such file"),
    ] {
        let refused = ask(&arguments);
        let text = String::from_utf8(refused.stderr).expect("UTF-8");
        assert_eq!(refused.status.code(), Some(2), "{text}");
        assert!(text.contains(want) && text.lines().count() == 1, "{arguments:?}: {text}");
        assert!(!text.contains("t0k3n") && !text.contains("s-47"), "{text}");
    }
    let untrusted = delete(folder.path(), &[&DRY[..], &[tls[0].as_str()]].concat());
    assert_eq!(untrusted.status.code(), Some(1), "its authority is not known");
}
