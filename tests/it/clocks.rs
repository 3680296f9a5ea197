//! A system clock that steps by a day under load, and two servers on one keyspace of which one is ten minutes ahead.
//! The real program runs, and a preloaded library (`LD_PRELOAD`) shifts its clock.

use std::path::{Path, PathBuf};
use std::process::Command;

use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::cassandra::doctor::examine_whole;
use crate::cassandra::keyspace::TestKeyspace;
use crate::limits::{logged, metric, send, series};
use crate::support::load::Load;
use crate::support::promkairos::{Backend, Promkairos};
use crate::support::{cassandra, eventually, seed};
use crate::tidy::root;

const MINUTE: i64 = 60_000;
const DAY: i64 = 24 * 60 * MINUTE;

/// A clock with an adjustable shift, for the servers that are started under it.
struct ShiftedClock {
    folder: tempfile::TempDir,
}

impl ShiftedClock {
    /// A clock that is right.
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let clock = Self { folder };
        clock.shift(0);
        let source = root().join("tests/data/clock/shift.c");
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(clock.library()).arg(source);
        assert!(compiler.status().expect("what links Rust is there").success());
        clock
    }

    fn library(&self) -> PathBuf {
        self.folder.path().join("shift.so")
    }

    /// Sets the clock `ms` milliseconds ahead of the clock of the system.
    fn shift(&self, ms: i64) {
        use std::os::unix::fs::FileExt;
        let path = self.folder.path().join("shift");
        let mut options = std::fs::File::options();
        let file = options.write(true).create(true).truncate(false).open(path).expect("a file");
        file.write_all_at(&ms.to_ne_bytes(), 0).expect("written");
    }

    fn start(&self, data: &Path, backend: &Backend, flags: &[&str]) -> Promkairos {
        let library = format!("LD_PRELOAD={}", self.library().display());
        let shift = format!("CLOCK_SHIFT={}", self.folder.path().join("shift").display());
        Promkairos::start_under(&["env", &library, &shift], data, backend, flags)
    }

    async fn ready(&self, data: &Path, backend: &Backend, flags: &[&str]) -> Promkairos {
        let mut server = self.start(data, backend, flags);
        server.wait_ready().await;
        server
    }
}

/// Steps a day ahead, a day back and from one to the other, with flushes, merges, a kill and a start under each.
#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_steps_by_a_day_costs_the_embedded_store_nothing() {
    let (data, load, clock) =
        (tempfile::tempdir().expect("a folder"), Load::default(), ShiftedClock::new());
    let mut random = StdRng::seed_from_u64(seed());
    let flags = ["--flush-interval=1s", "--retention=30y"];
    let mut server = clock.ready(data.path(), &Backend::Embedded, &flags).await;
    for (step, days) in [0, 1, 0, -1, 1, -1, 0].into_iter().enumerate() {
        clock.shift(days * DAY);
        for _ in 0..15 {
            assert_eq!(load.send(&server, &mut random).await.expect("it answers"), 204);
        }
        load.check(&server).await;
        match step % 3 {
            0 => server.process.kill(),
            1 => assert!(server.process.terminate().success(), "{}", server.process.log()),
            _ => continue,
        }
        server = clock.ready(data.path(), &Backend::Embedded, &flags).await;
        load.check(&server).await;
    }
    let log = server.process.log();
    assert!(!log.contains("ERROR") && !log.contains("failed"), "{log}");
}

/// While the clock is wrong, writes that Cassandra must acknowledge are refused, and writes behind a log wait. Either
/// way all acknowledged samples are found when the clock is right again.
async fn a_clock_that_steps_by_a_day_over_cassandra(backend: Backend, while_wrong: u16) {
    let (data, load, clock) =
        (tempfile::tempdir().expect("a folder"), Load::default(), ShiftedClock::new());
    let mut random = StdRng::seed_from_u64(seed());
    let flags = ["--flush-interval=1s"];
    let mut server = clock.ready(data.path(), &backend, &flags).await;
    if matches!(backend, Backend::CassandraWal { .. }) {
        logged(&server, "Cassandra is there").await;
    }
    for days in [1, -1] {
        clock.shift(0);
        assert_eq!(load.send(&server, &mut random).await.expect("it answers"), 204);
        clock.shift(days * DAY);
        for _ in 0..5 {
            assert_eq!(load.send(&server, &mut random).await.expect("it answers"), while_wrong);
        }
        eventually("it says why it is not ready", async || match server.get("/-/ready").await {
            Ok((503, why)) if why.contains("our clock is ") => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .await;
        eventually("the gauge says it", async || match metric(&server, "ready").await {
            Some(0.0) => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .await;
    }
    clock.shift(0);
    server.wait_ready().await;
    assert_eq!(load.send(&server, &mut random).await.expect("it answers"), 204);
    load.check_soon(&server).await;
    assert!(server.process.terminate().success(), "{}", server.process.log());
    let (Backend::CassandraWal { address, keyspace }
    | Backend::CassandraStore { address, keyspace }) = backend
    else {
        unreachable!("it is over Cassandra")
    };
    let direct = Backend::CassandraStore { address, keyspace };
    let other = tempfile::tempdir().expect("a folder");
    let server = Promkairos::ready(other.path(), &direct, &[]).await;
    load.check(&server).await;
    drop(server);
    examine_whole(direct.options()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_steps_by_a_day_costs_cassandra_nothing_but_time() {
    a_clock_that_steps_by_a_day_over_cassandra(Backend::cassandra_store(), 503).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_steps_by_a_day_costs_cassandra_nothing_behind_the_log() {
    a_clock_that_steps_by_a_day_over_cassandra(Backend::cassandra_wal(), 204).await;
}

/// One of two servers on a keyspace is ten minutes ahead: it writes nothing there, so it hides nothing, and says why.
/// The other server goes on. The samples of the first wait in its log until its clock is right; then both find them.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_ten_minutes_ahead_waits_and_the_other_goes_on() {
    let keyspace = TestKeyspace::new().await;
    let (address, name) = (cassandra(), keyspace.name.clone());
    let direct = Backend::CassandraStore { address: address.clone(), keyspace: name.clone() };
    let behind = Backend::CassandraWal { address, keyspace: name };
    let (load, clock) = (Load::default(), ShiftedClock::new());
    let mut random = StdRng::seed_from_u64(seed());
    let folders = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    let right = Promkairos::ready(folders[0].path(), &direct, &[]).await;
    clock.shift(10 * MINUTE);
    let flags = ["--flush-interval=1s"];
    let mut ahead = clock.start(folders[1].path(), &behind, &flags);
    let says_why = |status, why: &str| status == 503 && why.contains("our clock is ");
    ahead.settled(says_why).await.expect("it does not end");
    for number in 0..5 {
        assert_eq!(load.send(&ahead, &mut random).await.expect("it answers"), 204);
        assert_eq!(send(&right, &[series("m", "a", number + 1)]).await.status, 204);
    }
    assert_eq!(right.get("/-/ready").await.expect("it answers").0, 200);
    let found = right.read("__name__", "load|m").await.expect("it can be read");
    assert_eq!(found.iter().map(|series| series.points.len()).sum::<usize>(), 5, "{found:?}");
    clock.shift(0);
    ahead.wait_ready().await;
    load.check_soon(&right).await;
    assert!(ahead.process.terminate().success(), "{}", ahead.process.log());
    drop(right);
    examine_whole(keyspace.options()).await;
    keyspace.drop().await;
}
