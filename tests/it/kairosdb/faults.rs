//! A Cassandra that is killed and started again, under a write load too: no acknowledged sample is lost
//! and no data is without index, whether Cassandra or the log acknowledges. Lost tables, statements and
//! writes are created again.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tempfile::TempDir;
use tokio::task::spawn_blocking;

use crate::api::float_body;
use crate::cassandra::doctor::examine_whole;
use crate::limits::metric;
use crate::support::cassandra::OwnCassandra;
use crate::support::load::Load;
use crate::support::promkairos::{Backend, Message, Promkairos};
use crate::support::proxy::Proxy;
use crate::support::{self, eventually};

const WIDTH: i64 = 1_814_400_000;

/// A server under load.
struct Loaded {
    keyspace: String,
    server: Promkairos,
    /// Load of many points for few series.
    load: Load,
    /// Numbers of the acknowledged new series, which begin all the time in new windows.
    new: Mutex<BTreeSet<u32>>,
    _data: TempDir,
}

impl Loaded {
    async fn start(keyspace: String, backend: Backend) -> Self {
        let data = tempfile::tempdir().expect("a folder");
        // The last flush is not repeated, so it must succeed on a slow machine too.
        let flags = [
            "--flush-interval=200ms",
            "--cassandra-request-timeout=30s",
            "--tag-indexed-row-key-lookup-metrics=up",
        ];
        let server = Promkairos::ready(data.path(), &backend, &flags).await;
        Self { keyspace, server, load: Load::default(), new: Mutex::default(), _data: data }
    }

    /// Writes without end; backs off as a sender does.
    async fn write(&self, seed: u64, round: u32) {
        let points = async {
            let mut random = StdRng::seed_from_u64(seed);
            loop {
                let status = self.load.send(&self.server, &mut random).await.expect("it answers");
                back_off(status).await;
            }
        };
        let series = async {
            for number in round * 1_000_000.. {
                let time = i64::from(number % 700) * WIDTH;
                let body = float_body(&format!("j{number}"), time, 1.0);
                let answer = self.server.write(Message::V1, body).await.expect("it answers");
                if answer.status == 204 {
                    self.new.lock().expect("nobody panics").insert(number);
                    // The pause keeps flushes small enough to end within the timeout.
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                back_off(answer.status).await;
            }
        };
        futures::join!(points, series);
    }

    /// Waits until more points and more new series are acknowledged.
    async fn goes_on(&self) {
        let count = || (self.load.acknowledged(), self.new.lock().expect("nobody panics").len());
        let before = count();
        eventually("writes are acknowledged", async || {
            let now = count();
            if now.0 > before.0 && now.1 > before.1 { Ok(()) } else { Err(format!("{now:?}")) }
        })
        .await;
    }

    async fn check(&self) {
        self.load.check_soon(&self.server).await;
        let found = self.server.read("__name__", "up").await.expect("it can be read");
        let found: BTreeSet<&str> = found.iter().map(|series| &*series.labels["job"]).collect();
        let new = self.new.lock().expect("nobody panics");
        let lost = new.iter().filter(|number| !found.contains(&*format!("j{number}"))).count();
        assert_eq!(lost, 0, "of {} new series", new.len());
    }
}

/// Waits until nothing is in memory alone. A stop waits for a flush for its timeout only; the log keeps the rest.
async fn flushed(server: &Promkairos) {
    eventually("all is flushed", async || match metric(server, "head_size_bytes").await {
        Some(0.0) => Ok(()),
        bytes => Err(format!("{bytes:?} bytes")),
    })
    .await;
}

async fn back_off(status: u16) {
    if status != 204 {
        assert_eq!(status, 503);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Runs an action on Cassandra in a blocking thread, while the load continues.
async fn of_cassandra(cassandra: &Arc<OwnCassandra>, script: fn(&OwnCassandra)) {
    let cassandra = Arc::clone(cassandra);
    spawn_blocking(move || script(&cassandra)).await.expect("it is done");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cassandra_that_is_killed_loses_nothing_and_leaves_no_data_without_index() {
    let cassandra = spawn_blocking(OwnCassandra::start).await.expect("it starts");
    let cassandra = Arc::new(cassandra);
    let address = cassandra.address();
    let mut random = StdRng::seed_from_u64(support::seed());
    let [(store, a), (wal, b)] = Backend::both_at(&address);
    let (by_store, by_wal) = (Loaded::start(a, store).await, Loaded::start(b, wal).await);
    for round in 0..if support::long() { 10 } else { 2 } {
        let pause = Duration::from_millis(random.random_range(0..1_000));
        let faults = async {
            futures::join!(by_store.goes_on(), by_wal.goes_on());
            tokio::time::sleep(pause).await;
            of_cassandra(&cassandra, OwnCassandra::kill).await;
            by_wal.goes_on().await;
            of_cassandra(&cassandra, OwnCassandra::start_again).await;
            futures::join!(by_store.goes_on(), by_wal.goes_on());
        };
        let [one, other] = [random.random(), random.random()];
        tokio::select! {
            _ = by_store.write(one, round) => unreachable!("it writes without end"),
            _ = by_wal.write(other, round) => unreachable!("it writes without end"),
            () = faults => {}
        }
    }
    for mut loaded in [by_store, by_wal] {
        loaded.check().await;
        flushed(&loaded.server).await;
        let log = &mut loaded.server.process;
        assert!(log.terminate().success(), "{}", log.log());
        let options = support::cassandra::options(address.clone(), &loaded.keyspace);
        let report = examine_whole(options).await;
        // Each new series has a row of its own.
        let new = loaded.new.lock().expect("nobody panics").len() as u64;
        assert!(new > 0 && report.facts.rows > new, "{new}: {report:#?}");
        assert!(report.facts.tag_index_rows >= new, "{new}: {report:#?}");
    }
}

/// At its start Cassandra reads its list of tables first, and then the changes of the list in its log.
/// If it was killed before the list was on disk, as here, it lists tables that it does not know.
#[tokio::test(flavor = "multi_thread")]
async fn tables_that_a_killed_cassandra_forgot_are_made_again() {
    let start =
        || OwnCassandra::start_with("-Dcassandra.test.flush_local_schema_changes=false", "");
    let cassandra = Arc::new(spawn_blocking(start).await.expect("it starts"));
    let (address, data) = (cassandra.address(), tempfile::tempdir().expect("a folder"));
    let store = Backend::CassandraStore { address, keyspace: support::keyspace() };
    let mut server = Promkairos::ready(data.path(), &store, &[]).await;
    assert!(server.process.terminate().success());
    of_cassandra(&cassandra, OwnCassandra::kill).await;
    of_cassandra(&cassandra, OwnCassandra::start_again).await;
    let server = Promkairos::ready(data.path(), &store, &[]).await;
    let (load, mut random) = (Load::default(), StdRng::seed_from_u64(support::seed()));
    assert_eq!(load.send(&server, &mut random).await.expect("it answers"), 204);
    load.check(&server).await;
}

/// Cassandra keeps prepared statements on disk, except statements on a table that was changed since:
/// after a restart it does not know these.
#[tokio::test(flavor = "multi_thread")]
async fn statements_that_a_killed_cassandra_no_longer_knows_are_prepared_again() {
    let cassandra = Arc::new(spawn_blocking(OwnCassandra::start).await.expect("it starts"));
    let proxy = Proxy::to(&cassandra.address()).await;
    let (address, keyspace) = (proxy.address.to_string(), support::keyspace());
    let store = Backend::CassandraStore { address, keyspace: keyspace.clone() };
    let data = tempfile::tempdir().expect("a folder");
    let server = Promkairos::ready(data.path(), &store, &["--cassandra-request-timeout=30s"]).await;
    let (load, mut random) = (Load::default(), StdRng::seed_from_u64(support::seed()));
    let write = async |random: &mut StdRng| match load.send(&server, random).await {
        Ok(204) => Ok(()),
        other => Err(format!("{other:?}")),
    };
    eventually("a write is accepted", async || write(&mut random).await).await;
    let session = support::cassandra::session(&cassandra.address()).await;
    let cql = format!("ALTER TABLE {keyspace}.data_points ADD unused int");
    session.query_unpaged(cql, ()).await.expect("altered");
    drop(session);
    of_cassandra(&cassandra, OwnCassandra::kill).await;
    of_cassandra(&cassandra, OwnCassandra::start_again).await;
    eventually("a write is accepted again", async || write(&mut random).await).await;
    assert!(proxy.unprepared() > 0, "it knew all statements");
    load.check_soon(&server).await;
}

/// By default a killed Cassandra loses the writes that it acknowledged since its last sync of the log. The log of
/// `--ack wal` still has them, even if promkairos is killed at the same time.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_cassandra_had_not_synced_is_written_again() {
    const FLAGS: [&str; 2] = ["--flush-interval=200ms", "--cassandra-request-timeout=30s"];
    const WARNING: &str = "Cassandra answers a write when one node has it in memory";
    let cassandra = Arc::new(spawn_blocking(OwnCassandra::start_late).await.expect("it starts"));
    let folders = [(); 4].map(|()| tempfile::tempdir().expect("a folder"));
    let [kept, killed, forgetful] = [(); 3].map(|()| {
        let (address, keyspace) = (cassandra.address(), support::keyspace());
        Backend::CassandraWal { address, keyspace }
    });
    let flags = [&FLAGS[..], &["--cassandra-keep-unsynced=0"]].concat();
    let mut servers = [
        Promkairos::ready(folders[0].path(), &kept, &FLAGS).await,
        Promkairos::ready(folders[1].path(), &killed, &FLAGS).await,
        Promkairos::ready(folders[2].path(), &forgetful, &flags).await,
    ];
    let loads = [(); 3].map(|()| Load::default());
    let mut random = StdRng::seed_from_u64(support::seed());
    for (server, load) in servers.iter().zip(&loads) {
        for _ in 0..5 {
            assert_eq!(load.send(server, &mut random).await.expect("it answers"), 204);
        }
        flushed(server).await;
    }
    // The start warns of this, except with a log that keeps the writes.
    let (address, keyspace) = (cassandra.address(), support::keyspace());
    let store = Backend::CassandraStore { address, keyspace };
    let store = Promkairos::ready(folders[3].path(), &store, &FLAGS).await;
    for (server, warns) in [(&store, true), (&servers[0], false), (&servers[2], true)] {
        assert_eq!(server.process.log().contains(WARNING), warns, "{}", server.process.log());
    }
    servers[1].process.kill();
    of_cassandra(&cassandra, OwnCassandra::kill).await;
    of_cassandra(&cassandra, OwnCassandra::start_again).await;
    servers[1] = Promkairos::ready(folders[1].path(), &killed, &FLAGS).await;
    for (server, load) in servers.iter().zip(&loads).take(2) {
        load.check_soon(server).await;
        let again = metric(server, "head_handed_down_again_points_total").await;
        assert!(again.is_some_and(|points| points > 0.0), "{again:?}");
    }
    // It may not know yet that Cassandra is back.
    let lost = eventually("the last server reads", async || loads[2].difference(&servers[2]).await);
    let lost = lost.await;
    assert!(lost.is_some(), "this Cassandra has synced it, and proves nothing");
}
