//! Commands that ask a server with TLS and credentials.

use std::path::PathBuf;

use rcgen::SanType;

use super::pki::Authority;
use super::{ALICE, Secured, everything, is};
use crate::api::{float_body, run};
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

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_logs_in_at_its_source() {
    let secured = Secured::start(&everything(), &[]);
    secured.ready().await;
    assert_eq!(is(secured.client().write(&float_body("a", 1000, 7.0), ALICE), 204), Ok(()));
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(file("password"), "pass-47\n").expect("written");
    std::fs::write(file("wrong"), "guess-47\n").expect("written");
    std::fs::write(file("agents.token"), "t0k3n-of-agents\n").expect("written");
    let from = secured.server.url("").replace("http:", "https:");
    let to = format!("embedded:{}", file("data"));
    let copy = |more: &[String]| {
        let fixed = ["copy", "--from", &from, "--to", &to, "--patience", "0s"];
        let more = more.iter().map(String::as_str);
        run(folder.path(), &fixed.into_iter().chain(more).collect::<Vec<_>>(), &[])
    };
    let ca = format!("--server-ca={}", secured.path().join("ca.crt").display());
    let login = |password: &str| {
        let password = format!("--server-password-file={}", file(password));
        vec![ca.clone(), "--server-username=bob".to_owned(), password]
    };
    let token = |name: &str| vec![ca.clone(), format!("--server-token-file={}", file(name))];
    for (arguments, code, want) in [
        (vec![ca.clone()], 2, "401 Unauthorized: Unauthorized"),
        (login("wrong"), 2, "401 Unauthorized: Unauthorized"),
        (token("agents.token"), 2, "this needs the right \"read\""),
        (token("gone"), 2, "gone: No such file"),
        (login("password").split_off(1), 2, "its certificate is not accepted: "),
    ] {
        let refused = copy(&arguments);
        let text = String::from_utf8(refused.stderr).expect("UTF-8");
        assert_eq!(refused.status.code(), Some(code), "{arguments:?}: {text}");
        assert!(text.contains(want), "{arguments:?}: {text}");
        assert!(!text.contains("t0k3n") && !text.contains("s-47"), "{text}");
    }
    let copied = copy(&login("password"));
    let text = String::from_utf8_lossy(&copied.stdout);
    assert!(copied.status.success(), "{copied:?}");
    assert!(text.starts_with("Copied 1 points (1 floats, "), "{text}");
    assert!(text.contains("The same on both sides: 1 points"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_without_tls_gets_an_error_that_says_so() {
    let secured = Secured::start(&everything(), &[]);
    secured.ready().await;
    let url = secured.server.url("").replace("https:", "http:");
    let asked = run(secured.path(), &["health", "--server", &url], &[]);
    let text = String::from_utf8(asked.stdout).expect("UTF-8");
    assert_eq!(asked.status.code(), Some(1), "{text}");
    assert!(text.contains("Client sent an HTTP request to an HTTPS server."), "{text}");
    assert!(text.contains("Try --server https://NAME:PORT"), "{text}");
    let url = url.replace("http:", "https:");
    let ca = format!("--server-ca={}", secured.path().join("ca.crt").display());
    let asked = run(secured.path(), &["health", "--server", &url, &ca], &[]);
    assert!(asked.status.success(), "{asked:?}");
}
