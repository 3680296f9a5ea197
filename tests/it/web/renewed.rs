//! Files of the web configuration that change under a running server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::task::spawn_blocking;

use super::client::Client;
use super::pki::{Authority, Identity};
use super::{ALICE, BOB, HASH, Secured, TLS, is, start};
use crate::api::float_body;
use crate::support::eventually;

const PAGE: &str = "/metrics";

/// A certificate of another authority is used once its key fits, and not before.
#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_is_renewed_while_it_serves() {
    let secured = Secured::start(TLS, &[]);
    secured.ready().await;
    let new = Authority::new("new");
    let old_client = || secured.client();
    let new_client = || Client::new(secured.address(), &new, None);
    // An open connection keeps working.
    let held = old_client();
    held.get(PAGE, None).expect("an answer");
    new_client().get(PAGE, None).expect_err("not yet");

    let identity = new.server();
    std::fs::write(secured.path().join("server.crt"), &identity.certificate).expect("written");
    eventually("half of it is refused", async || match old_client().get(PAGE, None) {
        Ok((200, page)) if page.contains("promkairos_web_config_last_reload_successful 0") => {
            Ok(())
        }
        other => Err(format!("{other:?}")),
    })
    .await;
    eventually("it is warned of once", async || {
        let log = secured.server.process.log();
        let why = "does not fit the certificate";
        let warned = |line: &&str| line.contains("WARN") && line.contains(why);
        match log.lines().filter(warned).count() {
            1 => Ok(()),
            _ => Err(log),
        }
    })
    .await;

    identity.write(secured.path(), "server");
    eventually("the new one is served", async || is(new_client().get(PAGE, None), 200)).await;
    old_client().get(PAGE, None).expect_err("its authority is no longer the one");
    held.get(PAGE, None).expect("the open connection is served on");
    eventually("all is well again", async || match new_client().get(PAGE, None) {
        Ok((200, page)) if page.contains("promkairos_web_config_last_reload_successful 1") => {
            Ok(())
        }
        other => Err(format!("{other:?}")),
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn users_and_tokens_follow_their_files() {
    let first = format!("{TLS}basic_auth_users: {{alice: {HASH}}}\n");
    let secured = Secured::start(&first, &[]);
    secured.ready().await;
    let file = secured.path().join("web.yml");
    let write = |yaml: &str| std::fs::write(&file, yaml).expect("written");
    let get = |said: &str| secured.client().get(PAGE, Some(said));
    assert_eq!((is(get(ALICE), 200), is(get(BOB), 401)), (Ok(()), Ok(())));

    let token = secured.path().join("reader.token");
    std::fs::write(&token, "one").expect("written");
    write(&format!(
        "{TLS}basic_auth_users: {{bob: {HASH}}}\n\
         bearer_tokens: [{{name: reader, token_file: reader.token, rights: [read]}}]\n"
    ));
    eventually("bob is known", async || is(get(BOB), 200)).await;
    assert_eq!((is(get(ALICE), 401), is(get("Bearer one"), 200)), (Ok(()), Ok(())));
    std::fs::write(&token, "two").expect("written");
    eventually("the token is another", async || is(get("Bearer two"), 200)).await;
    assert_eq!(is(get("Bearer one"), 401), Ok(()));

    // A change that would let everybody in, or plain text, needs a restart.
    for (yaml, why) in [
        (TLS.to_owned(), "the last credentials are taken away by a restart only"),
        (
            format!("basic_auth_users: {{alice: {HASH}}}\n"),
            "TLS is switched on and off by a restart",
        ),
        (
            "basic_auth_users: {alice: s3cr3t}\n".into(),
            "basic_auth_users.alice: is not a bcrypt hash",
        ),
    ] {
        write(&yaml);
        eventually(why, async || match secured.server.process.log() {
            log if log.contains(why) => Ok(()),
            log => Err(log),
        })
        .await;
        assert_eq!((is(get(BOB), 200), is(get(ALICE), 401)), (Ok(()), Ok(())), "{why}");
    }
    write(&first);
    eventually("alice is known again", async || is(get(ALICE), 200)).await;
    assert_eq!(is(get(BOB), 401), Ok(()));
    assert!(!secured.server.process.log().contains("s3cr3t"));
}

/// After a token is revoked, a reload takes effect without waiting for the next check of the files.
#[tokio::test(flavor = "multi_thread")]
async fn a_reload_takes_the_web_configuration_over_at_once() {
    let users = format!("{TLS}basic_auth_users: {{alice: {HASH}}}\n");
    let token = "bearer_tokens: [{name: reader, token_file: agents.token, rights: [read]}]\n";
    let secured = Secured::start(&format!("{users}{token}"), &["--enable-admin-api"]);
    secured.ready().await;
    let file = secured.path().join("web.yml");
    let write = |yaml: &str| std::fs::write(&file, yaml).expect("written");
    let client = secured.client();
    let reload = || client.post("/-/reload", ALICE).expect("an answer");
    let said = |text: &str| (200, format!("{text}\n"));
    let reader = "Bearer t0k3n-of-agents";
    assert_eq!(reload(), said("nothing that holds at once has changed"));
    assert_eq!(is(client.get(PAGE, Some(reader)), 200), Ok(()));
    write(&users);
    assert_eq!(reload(), said("changed: web configuration"));
    assert_eq!(is(client.get(PAGE, Some(reader)), 401), Ok(()));
    assert_eq!(reload(), said("nothing that holds at once has changed"));
    // A change that needs a restart is reported.
    for (yaml, why) in [
        (TLS.to_owned(), "the last credentials are taken away by a restart only"),
        (users.replace(TLS, ""), "TLS is switched on and off by a restart only"),
    ] {
        write(&yaml);
        let waits = format!(
            "nothing that holds at once has changed; needs a restart: web configuration ({why})"
        );
        assert_eq!(reload(), said(&waits));
        assert_eq!(is(client.get(PAGE, Some(reader)), 401), Ok(()));
    }
}

/// Clients move from one authority to another in the usual order: the server trusts both, the clients change, the
/// server trusts the new one alone. Meanwhile every write over a new connection is answered.
#[tokio::test(flavor = "multi_thread")]
async fn certificates_of_clients_are_replaced_under_load() {
    const YAML: &str =
        "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: clients.crt\n";
    let folder = tempfile::tempdir().expect("a folder");
    let [authority, old, new] = ["authority", "old", "new"].map(Authority::new);
    let trusted = folder.path().join("clients.crt");
    let trust = |text: &str| std::fs::write(&trusted, text).expect("written");
    authority.server().write(folder.path(), "server");
    trust(&old.pem);
    let server = start(folder.path(), &format!("{TLS}{YAML}"), &[]);
    let client_of = {
        let (address, authority) = (server.address, Arc::new(authority));
        move |identity: &Identity| Client::new(address, &authority, Some(identity))
    };
    let [a, b] = [&old, &new].map(|authority| Arc::new(authority.sign("client", Vec::new())));
    eventually("it is ready", async || is(client_of(&a).get("/-/ready", None), 200)).await;

    let in_use = Arc::new(Mutex::new(Arc::clone(&a)));
    let (done, written) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let writer = spawn_blocking({
        let (in_use, done, written) =
            (Arc::clone(&in_use), Arc::clone(&done), Arc::clone(&written));
        let client_of = client_of.clone();
        move || {
            while !done.load(Ordering::Relaxed) {
                let client = client_of(&in_use.lock());
                let number = written.load(Ordering::Relaxed);
                let body = float_body("load", 1_000 + number as i64, number as f64);
                assert_eq!(is(client.write(&body, ""), 204), Ok(()), "write {number}");
                written.store(number + 1, Ordering::Relaxed);
            }
        }
    });
    let some_writes = async || {
        let enough = written.load(Ordering::Relaxed) + 20;
        eventually("writes go on", async || match written.load(Ordering::Relaxed) {
            now if now >= enough || writer.is_finished() => Ok(()),
            now => Err(now.to_string()),
        })
        .await;
    };
    some_writes().await;
    client_of(&b).get("/metrics", None).expect_err("its authority is not trusted");

    // A truncated file changes nothing.
    trust(&new.pem[..new.pem.len() / 2]);
    eventually("half of a file is refused", async || match client_of(&a).get("/metrics", None) {
        Ok((200, page)) if page.contains("promkairos_web_config_last_reload_successful 0") => {
            Ok(())
        }
        other => Err(format!("{other:?}")),
    })
    .await;
    some_writes().await;

    trust(&format!("{}{}", old.pem, new.pem));
    eventually("both are trusted", async || is(client_of(&b).get("/metrics", None), 200)).await;
    some_writes().await;
    *in_use.lock() = Arc::clone(&b);
    some_writes().await;

    trust(&new.pem);
    eventually("the old one is no longer trusted", async || {
        match client_of(&a).get("/metrics", None) {
            Err(_) => Ok(()),
            Ok((status, _)) => Err(status.to_string()),
        }
    })
    .await;
    some_writes().await;
    done.store(true, Ordering::Relaxed);
    writer.await.expect("every write is answered");
    let path = "/api/v1/query?query=count_over_time(up%5B1h%5D)&time=1800";
    let (status, body) = client_of(&b).get(path, None).expect("an answer");
    let count = format!("\"{}\"", written.load(Ordering::Relaxed));
    assert!(status == 200 && body.contains(&count), "{count}: {body}");
}
