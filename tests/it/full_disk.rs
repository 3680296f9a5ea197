//! A real server on a disk that is full: no file may get any longer, as the shell's limit of the
//! size of files has it, until the test lifts that.

use rand::SeedableRng;
use rand::rngs::StdRng;
use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::support::load::Load;
use crate::support::promkairos::{Backend, Promkairos};
use crate::support::{eventually, seed};

/// Without the signal of the limit a write fails, as on a full disk.
const FULL: [&str; 3] = ["bash", "-c", "trap '' XFSZ; ulimit -S -f 0; exec \"$0\" \"$@\""];
/// The log's line for what is refused.
const REFUSED: &str = "the log cannot be written";

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_is_full_from_the_start_is_not_ready_until_there_is_room() {
    let (data, load) = (tempfile::tempdir().expect("a folder"), Load::default());
    // A store that is there: none can be made on such a disk.
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
    // One at the start, one when requests came, and no more than one in ten seconds.
    let lines = server.process.log().lines().filter(|line| line.contains(REFUSED)).count() as u64;
    assert!((1..=2 + begin.elapsed().as_secs() / 10).contains(&lines), "{}", server.process.log());
    let pid = Pid::from_raw(server.process.id() as i32);
    let none = Rlimit { current: None, maximum: None };
    prlimit(pid, Resource::Fsize, none).expect("the limit is lifted");
    server.wait_ready().await;
    assert_eq!(load.send(&server, &mut random).await.expect("it answers"), 204);
    load.check(&server).await;
}
