//! Slow requests are logged with their parameters, whatever they read.

use crate::support::eventually;
use crate::support::promkairos::{Backend, Promkairos};
use crate::support::series::{floats, send};

#[tokio::test(flavor = "multi_thread")]
async fn slow_requests_are_logged_with_what_they_asked() {
    let data = tempfile::tempdir().expect("a folder");
    // Each of these requests takes longer than 1 ms, if not the first time.
    let flags = ["--slow-query-log=1ms", "--query-max-samples=3000"];
    let server = Promkairos::ready(data.path(), &Backend::Embedded, &flags).await;
    let one = |n: usize| floats(&[("__name__", "slow"), ("n", &n.to_string())], &[(1_000, 1.0)]);
    assert_eq!(send(&server.url(""), (0..5_000).map(one).collect()).await, 204);
    for (path, want) in [
        ("/api/v1/series?match[]=slow", "slow request: /api/v1/series match[]=slow"),
        (
            "/api/v1/label/n/values?match[]=slow",
            "slow request: /api/v1/label/n/values match[]=slow",
        ),
        ("/api/v1/status/tsdb?limit=5", "slow request: /api/v1/status/tsdb limit=5"),
    ] {
        eventually(want, async || {
            let (status, text) = server.get(path).await.expect("an answer");
            assert_eq!(status, 200, "{text}");
            is_logged(&server, want)
        })
        .await;
    }
    // A failed query has a cost too.
    let want = "slow query: slow: query processing would load too many samples";
    eventually(want, async || {
        let (status, text) =
            server.get("/api/v1/query?query=slow&time=1").await.expect("an answer");
        assert_eq!(status, 422, "{text}");
        is_logged(&server, want)
    })
    .await;
    let log = server.process.log();
    let line = log.lines().find(|line| line.contains(want)).expect("logged");
    let read = line.split_once("samples_read=").and_then(|(_, rest)| rest.split(' ').next());
    assert!(read.is_some_and(|read| read.parse::<u64>().is_ok_and(|read| read > 0)), "{line}");
    // The most series that one read may return.
    let want = "slow request: /api/v1/read {n=~\"1.+\"} from ";
    eventually(want, async || {
        assert_eq!(server.read("n", "1.+").await.expect("it can be read").len(), 1_110);
        is_logged(&server, want)
    })
    .await;
}

/// Fails with the log unless a warning has this text.
fn is_logged(server: &Promkairos, want: &str) -> Result<(), String> {
    let log = server.process.log();
    let says = |line: &str| line.contains("WARN") && line.contains(want);
    if log.lines().any(says) { Ok(()) } else { Err(log) }
}
