//! Samples under the data folder that a start with other settings would not serve.

use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::cassandra::keyspace::TestKeyspace;
use crate::support::load::Load;
use crate::support::promkairos::{Backend, Promkairos, WHOLE_FLUSH};
use crate::support::{eventually, keyspace, seed};

/// The log of a start that must fail.
fn refusal(data: &std::path::Path, backend: &Backend) -> String {
    match Promkairos::try_start(data, backend, &[]) {
        Ok(server) => panic!("it started:\n{}", server.process.log()),
        Err(log) => log,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_cassandra_does_not_have_is_not_left_out() {
    let (data, load) = (tempfile::tempdir().expect("a folder"), Load::default());
    let wal = Backend::cassandra_wal();
    let Backend::CassandraWal { address, keyspace } = wal.clone() else { unreachable!() };
    let store = Backend::CassandraStore { address, keyspace: keyspace.clone() };
    let mut server = Promkairos::ready(data.path(), &wal, &[]).await;
    let mut random = StdRng::seed_from_u64(seed());
    assert_eq!(load.send(&server, &mut random).await.expect("it answers"), 204);
    server.process.kill();
    let folder = data.path().join("cassandra/wal");
    for other in [&store, &Backend::Embedded] {
        let log = refusal(data.path(), other);
        assert!(log.contains("exit status: 2") && log.contains("--ack wal"), "{log}");
        assert!(log.contains(&format!("{} holds", folder.display())), "{log}");
    }
    // Another process has the log open and serves it.
    let mut server = Promkairos::ready(data.path(), &wal, &[]).await;
    drop(Promkairos::ready(data.path(), &store, &[]).await);
    load.check(&server).await;
    assert!(server.process.terminate().success(), "{}", server.process.log());
    let server = Promkairos::ready(data.path(), &store, &[]).await;
    if let Some(wrong) = load.difference(&server).await.expect("it answers") {
        panic!("{wrong}; rows: {:?}", TestKeyspace::named(keyspace).await.counts().await);
    }
}

/// `promkairos wal repair` has the log open, but does not serve it.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_is_being_mended_is_not_taken_for_one_that_is_served() {
    let (data, load) = (tempfile::tempdir().expect("a folder"), Load::default());
    let ours = Backend::cassandra_wal();
    let Backend::CassandraWal { address, keyspace: own } = ours.clone() else { unreachable!() };
    let store = Backend::CassandraStore { address: address.clone(), keyspace: own.clone() };
    let theirs = Backend::CassandraWal { address, keyspace: keyspace() };
    let mut server = Promkairos::ready(data.path(), &ours, &[]).await;
    let mut random = StdRng::seed_from_u64(seed());
    assert_eq!(load.send(&server, &mut random).await.expect("it answers"), 204);
    server.process.kill();
    let lock = std::fs::File::open(data.path().join("cassandra/wal/lock")).expect("it is there");
    lock.lock().expect("nobody has it");
    for other in [&store, &Backend::Embedded] {
        let log = refusal(data.path(), other);
        assert!(log.contains("a running promkairos uses this log"), "{log}");
    }
    let home = data.path().join("cassandra/keyspace");
    let known = std::fs::read(&home).expect("it is kept");
    let mut other = Promkairos::start(data.path(), &theirs, &[]);
    eventually("it waits", async || match other.process.log() {
        log if log.contains("a running promkairos uses this log") => Ok(()),
        log => Err(log),
    })
    .await;
    assert_eq!(std::fs::read(&home).expect("it is kept"), known);
    lock.unlock().expect("it was ours");
    let status = other.ready_or_ended().await.expect_err("another keyspace");
    let log = other.process.log();
    assert!(status.code() == Some(2) && log.contains(&format!("keyspace {own}")), "{log}");
    let server = Promkairos::ready(data.path(), &ours, &[]).await;
    // Behind a log, the store may be opened a moment after the server is ready.
    eventually("Cassandra is found", async || load.difference(&server).await).await;
    load.check(&server).await;
}

/// The folder of the log cannot be listed, as without a permission or on a disk with an error.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_cannot_be_listed_is_not_taken_for_none() {
    let (data, load) = (tempfile::tempdir().expect("a folder"), Load::default());
    let ours = Backend::cassandra_wal();
    let Backend::CassandraWal { address, .. } = ours.clone() else { unreachable!() };
    let theirs = Backend::CassandraWal { address, keyspace: keyspace() };
    let mut server = Promkairos::ready(data.path(), &ours, &[]).await;
    let mut random = StdRng::seed_from_u64(seed());
    assert_eq!(load.send(&server, &mut random).await.expect("it answers"), 204);
    server.process.kill();
    let (log, away) = (data.path().join("cassandra/wal"), data.path().join("away"));
    let home = data.path().join("cassandra/keyspace");
    let known = std::fs::read(&home).expect("it is kept");
    std::fs::rename(&log, &away).expect("renamed");
    std::fs::write(&log, "").expect("written");
    for other in [&theirs, &Backend::Embedded] {
        let why = match Promkairos::try_start(data.path(), other, &[]) {
            Err(log) => log,
            Ok(mut server) => {
                let status = server.ready_or_ended().await.expect_err("a log may be there");
                format!("{status}\n{}", server.process.log())
            }
        };
        assert!(why.contains("exit status: 1"), "{why}");
        assert!(why.contains(&format!("{}: ", log.display())), "{why}");
    }
    assert_eq!(std::fs::read(&home).expect("it is kept"), known);
    std::fs::remove_file(&log).expect("removed");
    std::fs::rename(&away, &log).expect("renamed");
    let server = Promkairos::ready(data.path(), &ours, &[]).await;
    // Behind a log, the store may be opened a moment after the server is ready.
    eventually("Cassandra is found", async || load.difference(&server).await).await;
    load.check(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_embedded_store_is_reported_once_it_has_samples() {
    let (data, load) = (tempfile::tempdir().expect("a folder"), Load::default());
    let cassandra = Backend::cassandra_store();
    let is_reported = async || {
        let server = Promkairos::ready(data.path(), &cassandra, &[]).await;
        server.process.log().contains("holds data of the embedded store")
    };
    let mut server = Promkairos::ready(data.path(), &Backend::Embedded, &[]).await;
    assert!(server.process.terminate().success());
    assert!(!is_reported().await, "it never had any");
    let mut server = Promkairos::ready(data.path(), &Backend::Embedded, &[]).await;
    let mut random = StdRng::seed_from_u64(seed());
    assert_eq!(load.send(&server, &mut random).await.expect("it answers"), 204);
    server.process.kill();
    assert!(is_reported().await, "in the log");
    let mut server = Promkairos::ready(data.path(), &Backend::Embedded, &[]).await;
    assert!(server.process.terminate().success());
    assert!(is_reported().await, "in a part file");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_goes_to_no_other_keyspace_and_no_other_cluster() {
    let (data, load) = (tempfile::tempdir().expect("a folder"), Load::default());
    let ours = Backend::cassandra_wal();
    let Backend::CassandraWal { address, keyspace: own } = ours.clone() else { unreachable!() };
    let theirs = Backend::CassandraWal { address, keyspace: keyspace() };
    let mut server = Promkairos::ready(data.path(), &ours, &[]).await;
    let mut random = StdRng::seed_from_u64(seed());
    assert_eq!(load.send(&server, &mut random).await.expect("it answers"), 204);
    load.check(&server).await;
    server.process.kill();

    let mut other = Promkairos::start(data.path(), &theirs, &[]);
    let status = other.ready_or_ended().await.expect_err("another keyspace");
    let log = other.process.log();
    assert!(status.code() == Some(2) && log.contains(&format!("keyspace {own}")), "{log}");

    let home = data.path().join("cassandra/keyspace");
    let text = std::fs::read_to_string(&home).expect("the home of the log");
    let (first, cluster) = text.split_once("cluster ").expect("the cluster was reached");
    assert_eq!(first, format!("keyspace {own}\n"));
    std::fs::write(&home, format!("{first}cluster another {cluster}")).expect("written");
    let mut server = Promkairos::start(data.path(), &ours, &[]);
    eventually("the cluster is refused", async || match server.get("/-/ready").await {
        Ok((503, text)) if text.contains("\"another ") && text.contains("keyspace") => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    server.process.kill();

    std::fs::write(&home, text).expect("written");
    let mut server = Promkairos::ready(data.path(), &ours, &[WHOLE_FLUSH]).await;
    load.check(&server).await;
    assert!(server.process.terminate().success(), "{}", server.process.log());
    // Everything is flushed: the next start may use other settings.
    drop(Promkairos::ready(data.path(), &theirs, &[]).await);
}
