//! Background work that keeps failing, and a stop meanwhile: the server is not ready and says why. The log of a stop
//! gives the number of points that are not in the store, and the folder of the log that keeps them.

use std::path::Path;

use crate::cassandra::keyspace::TestKeyspace;
use crate::limits::{logged, metric, send, series};
use crate::support::promkairos::{Backend, Promkairos};
use crate::support::proxy::Proxy;
use crate::support::{cassandra, eventually};

/// The number of points of a metric.
async fn points(server: &Promkairos, name: &str) -> Result<usize, String> {
    let found = server.read("__name__", name).await?;
    Ok(found.iter().map(|series| series.points.len()).sum())
}

async fn is_ready(server: &Promkairos, gauge: f64) {
    eventually("the gauge of readiness", async || match metric(server, "ready").await {
        Some(ready) if ready == gauge => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
}

/// Waits until `/-/ready` answers 503 with all of these texts.
async fn refused(server: &Promkairos, texts: &[&str]) {
    eventually("it is not ready", async || match server.get("/-/ready").await {
        Ok((503, body)) if texts.iter().all(|text| body.contains(text)) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
}

/// Asserts that the server ends well and reports the points that the log in this folder keeps.
fn kept(server: &mut Promkairos, points: u64, log: &Path) {
    let status = server.process.terminate();
    let text = server.process.log();
    assert!(status.success(), "{status}: {text}");
    let want = format!(
        "{points} points are not in the store yet: the log in {} keeps them for the next start",
        log.display()
    );
    let last = text.lines().rev().take(2).collect::<Vec<_>>();
    assert!(last[0].contains("stopped") && last[1].contains(&want), "{text}");
}

/// The folder of the part files is moved away and back, like a disk that comes and goes. The log's disk is fine.
#[tokio::test(flavor = "multi_thread")]
async fn flushes_that_keep_failing_make_the_embedded_store_not_ready_until_they_work() {
    let data = tempfile::tempdir().expect("a folder");
    let (parts, away) = (data.path().join("embedded/parts"), data.path().join("away"));
    let log = data.path().join("embedded/wal");
    let flags = ["--flush-interval=1s"];
    let mut server = Promkairos::ready(data.path(), &Backend::Embedded, &flags).await;
    is_ready(&server, 1.0).await;
    std::fs::rename(&parts, &away).expect("moved");
    assert_eq!(send(&server, &[series("m", "a", 5)]).await.status, 204);
    let text = format!("{}/", parts.display());
    refused(&server, &["a flush has failed ", " times in a row: ", &text]).await;
    is_ready(&server, 0.0).await;
    // The log works, and accepts writes.
    assert_eq!(send(&server, &[series("m", "b", 7)]).await.status, 204);
    std::fs::rename(&away, &parts).expect("moved");
    server.wait_ready().await;
    is_ready(&server, 1.0).await;
    std::fs::rename(&parts, &away).expect("moved");
    assert_eq!(send(&server, &[series("m", "c", 3)]).await.status, 204);
    kept(&mut server, 3, &log);
    std::fs::rename(&away, &parts).expect("moved");
    let mut server = Promkairos::ready(data.path(), &Backend::Embedded, &flags).await;
    assert_eq!(points(&server, "m").await, Ok(15));
    logged(&server, "flushed points=").await;
    // Neither store nor log is usable: the exit code is an error.
    std::fs::rename(&parts, &away).expect("moved");
    assert_eq!(send(&server, &[series("m", "d", 2)]).await.status, 204);
    logged(&server, "a flush failed").await;
    std::fs::remove_dir_all(&log).expect("removed");
    let status = server.process.terminate();
    let text = server.process.log();
    assert_eq!(status.code(), Some(1), "{text}");
    let why = format!("the log in {} cannot be relied on", log.display());
    assert!(text.contains(&why) && text.contains("2 points may be lost"), "{text}");
}

/// A server with a log over this keyspace, after Cassandra has answered.
async fn behind_the_log(data: &Path, address: &str, keyspace: &str, flags: &[&str]) -> Promkairos {
    let backend =
        Backend::CassandraWal { address: address.to_owned(), keyspace: keyspace.to_owned() };
    let server = Promkairos::ready(data, &backend, flags).await;
    logged(&server, "Cassandra is there").await;
    server
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_over_a_cassandra_that_refuses_says_what_the_log_keeps() {
    let keyspace = TestKeyspace::new().await;
    let data = tempfile::tempdir().expect("a folder");
    let log = data.path().join("cassandra/wal");
    let flags = ["--flush-interval=1s"];
    let mut server = behind_the_log(data.path(), &cassandra(), &keyspace.name, &flags).await;
    keyspace.cql("DROP TABLE {k}.data_points").await;
    assert_eq!(send(&server, &[series("m", "a", 9)]).await.status, 204);
    refused(&server, &["a flush has failed", &format!("{}.data_points", keyspace.name)]).await;
    is_ready(&server, 0.0).await;
    kept(&mut server, 9, &log);
    // The tables are created again.
    let server = behind_the_log(data.path(), &cassandra(), &keyspace.name, &flags).await;
    eventually("all is there", async || match points(&server, "m").await {
        Ok(9) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    drop(server);
    keyspace.drop().await;
}

/// Cassandra no longer answers: the last flush would wait without end.
#[tokio::test(flavor = "multi_thread")]
async fn a_stop_does_not_wait_longer_than_it_may_for_the_last_flush() {
    let keyspace = TestKeyspace::new().await;
    let data = tempfile::tempdir().expect("a folder");
    let log = data.path().join("cassandra/wal");
    let proxy = Proxy::to(&cassandra()).await;
    let address = proxy.address.to_string();
    let flags = ["--shutdown-timeout=1s"];
    let mut server = behind_the_log(data.path(), &address, &keyspace.name, &flags).await;
    assert_eq!(send(&server, &[series("m", "a", 11)]).await.status, 204);
    proxy.hold(&[]);
    // The timeout of a statement is 100 s here, longer than the test waits.
    kept(&mut server, 11, &log);
    let server = behind_the_log(data.path(), &cassandra(), &keyspace.name, &[]).await;
    eventually("all is there", async || match points(&server, "m").await {
        Ok(11) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    drop(server);
    keyspace.drop().await;
}

/// Another process repairs the log, so it is not replayed yet.
#[tokio::test(flavor = "multi_thread")]
async fn a_stop_before_the_log_is_read_back_names_its_folder() {
    let data = tempfile::tempdir().expect("a folder");
    let mut server = Promkairos::ready(data.path(), &Backend::Embedded, &[]).await;
    assert_eq!(send(&server, &[series("m", "a", 1)]).await.status, 204);
    server.process.kill();
    let log = data.path().join("embedded/wal");
    let lock = std::fs::File::open(log.join("lock")).expect("it is there");
    lock.lock().expect("nobody has it");
    let mut server = Promkairos::start(data.path(), &Backend::Embedded, &[]);
    logged(&server, "a running promkairos uses this log").await;
    let status = server.process.terminate();
    let text = server.process.log();
    assert!(status.success(), "{status}: {text}");
    let want = format!("what the log in {} holds stays there", log.display());
    assert!(text.contains(&want), "{text}");
}
