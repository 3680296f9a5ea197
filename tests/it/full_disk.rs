//! A real server on a full disk: the shell's limit of the size of files keeps every file from
//! growing until the test lifts it. And a small file system that fills up.

use rand::SeedableRng;
use rand::rngs::StdRng;
use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::limits::metric;
use crate::support::load::Load;
use crate::support::promkairos::{Backend, Promkairos};
use crate::support::{eventually, seed};

/// Without the signal of this limit a write fails as on a full disk.
const FULL: [&str; 3] = ["bash", "-c", "trap '' XFSZ; ulimit -S -f 0; exec \"$0\" \"$@\""];
/// The line in the log about a refused write.
const REFUSED: &str = "the log cannot be written";

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_is_full_from_the_start_is_not_ready_until_there_is_room() {
    let (data, load) = (tempfile::tempdir().expect("a folder"), Load::default());
    // The store exists before: it could not be created on such a disk.
    let mut server = Promkairos::ready(data.path(), &Backend::Embedded, &[]).await;
    assert!(server.process.terminate().success(), "{}", server.process.log());
    let mut server = Promkairos::start_under(&FULL, data.path(), &Backend::Embedded, &[]);
    let why = eventually("it says what is in the way", async || {
        let (status, body) = server.get("/-/ready").await.map_err(|error| error.to_string())?;
        assert_eq!(status, 503, "{body}");
        if body.contains(REFUSED) { Ok(body) } else { Err(body) }
    })
    .await;
    assert!(why.contains("no segment of ") && why.contains("embedded/wal"), "{why}");
    let mut random = StdRng::seed_from_u64(seed());
    let begin = std::time::Instant::now();
    for _ in 0..20 {
        assert_eq!(load.send(&server, &mut random).await.expect("it answers"), 503);
    }
    // One at the start, one when requests came, and at most one in ten seconds.
    let lines = server.process.log().lines().filter(|line| line.contains(REFUSED)).count() as u64;
    assert!((1..=2 + begin.elapsed().as_secs() / 10).contains(&lines), "{}", server.process.log());
    let pid = Pid::from_raw(server.process.id() as i32);
    let none = Rlimit { current: None, maximum: None };
    prlimit(pid, Resource::Fsize, none).expect("the limit is lifted");
    server.wait_ready().await;
    assert_eq!(load.send(&server, &mut random).await.expect("it answers"), 204);
    load.check(&server).await;
}

/// The test removes this file to free space.
const BALLAST: &str = "ballast";

/// A real file system in memory with 2 MiB left, in a mount namespace of the server's own.
#[tokio::test(flavor = "multi_thread")]
async fn a_small_file_system_that_fills_up_refuses_writes_until_there_is_room() {
    let (data, load) = (tempfile::tempdir().expect("a folder"), Load::default());
    let folder = data.path().to_str().expect("UTF-8");
    let script = format!(
        "mount -t tmpfs -o size=16m tmpfs '{folder}' && fallocate -l 14M '{folder}/{BALLAST}' && \
         exec \"$0\" \"$@\""
    );
    let small = ["unshare", "--user", "--map-root-user", "--mount", "bash", "-c", &script];
    let mut server = Promkairos::start_under(&small, data.path(), &Backend::Embedded, &[]);
    server.wait_ready().await;
    let mut random = StdRng::seed_from_u64(seed());
    let mut refused = None;
    for _ in 0..20_000 {
        let answer = load.attempt(&server, &mut random).await.expect("it answers");
        if answer.status != 204 {
            refused = Some(answer);
            break;
        }
    }
    let answer = refused.expect("the disk is full");
    assert!(load.acknowledged() > 0, "{answer:?}");
    assert_eq!(answer.status, 503, "{answer:?}");
    assert!(answer.body.starts_with(REFUSED), "{answer:?}");
    let log = format!("{folder}/embedded/wal");
    assert!(answer.body.contains(&log) && answer.body.contains("No space left"), "{answer:?}");
    load.check(&server).await;
    // However often `/-/ready` is asked and tries again, there is no room for the refused request.
    for _ in 0..20 {
        let (status, why) = server.get("/-/ready").await.expect("it answers");
        assert_eq!(status, 503, "{why}");
    }
    eventually("the gauge of readiness", async || match metric(&server, "ready").await {
        Some(0.0) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    // The path as the server sees it; the file system is not mounted outside its namespace.
    let ballast = format!("/proc/{}/root{folder}/{BALLAST}", server.process.id());
    std::fs::remove_file(ballast).expect("it is there");
    eventually("a write is taken", async || match load.send(&server, &mut random).await {
        Ok(204) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    load.check(&server).await;
    server.wait_ready().await;
    assert!(server.process.terminate().success(), "{}", server.process.log());
}
