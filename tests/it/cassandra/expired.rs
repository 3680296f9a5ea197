//! Rows whose points have expired: Cassandra keeps them as tombstones and aborts a read that passes over 100,000 of
//! them. Live points behind and between them are found all the same.

use promkairos::wire;
use serde_json::Value;

use super::deletes::now;
use super::keyspace::{Request, labels};
use crate::support::promkairos::{Answer, Backend, Message, Promkairos};
use crate::support::{load, proto};

const DAY: i64 = 86_400_000;
/// More tombstones than Cassandra reads past by default.
const POINTS: i64 = 110_000;
const NO_CACHE: &str = "--cassandra-read-cache-size=0";

async fn write(server: &Promkairos, points: &[(i64, f64)]) -> Answer {
    let request = Request::default().floats(&labels(&[("__name__", "m")]), points);
    let body = load::compress(&proto::Message(wire::encode_v1(&request.batch())));
    server.write(Message::V1, body).await.expect("an answer")
}

/// The number of points in the last three days, by a query.
async fn count(server: &Promkairos) -> Option<String> {
    let (status, text) =
        server.get("/api/v1/query?query=count_over_time(m[3d])").await.expect("an answer");
    assert_eq!(status, 200, "{text}");
    let answer: Value = serde_json::from_str(&text).expect("JSON");
    answer["data"]["result"][0]["value"][1].as_str().map(str::to_owned)
}

async fn given_up(server: &Promkairos) -> f64 {
    let name = "cassandra_reads_given_up_total";
    crate::limits::metric(server, name).await.expect("it is counted")
}

#[tokio::test(flavor = "multi_thread")]
async fn what_lives_in_a_row_of_expired_points_is_found() {
    let data = tempfile::tempdir().expect("a folder");
    let backend = Backend::cassandra_store();
    // All points are of one row: one day lies within the three weeks of a row, whenever these began.
    let start = now() / DAY * DAY - 2 * DAY;
    let mut server = Promkairos::ready(data.path(), &backend, &["--retention=2s", NO_CACHE]).await;
    for first in (0..POINTS).step_by(10_000) {
        let points: Vec<_> = (first..first + 10_000).map(|n| (start + n * 700, n as f64)).collect();
        assert_eq!(write(&server, &points).await.status, 204);
    }
    // The status is 200 whatever has expired meanwhile.
    let begin = std::time::Instant::now();
    while count(&server).await.is_some() {
        assert!(begin.elapsed().as_secs() < 120, "they do not expire");
    }
    assert!(server.process.terminate().success(), "{}", server.process.log());

    let mut server = Promkairos::ready(data.path(), &backend, &[NO_CACHE]).await;
    assert_eq!(count(&server).await, None);
    let read = given_up(&server).await;
    assert!(read >= 1.0, "the row has fewer tombstones than the test needs: {read}");
    // The second query begins where the expired part ends.
    assert_eq!(count(&server).await, None);
    assert_eq!(given_up(&server).await, read);
    for (written, number) in [POINTS + 5, POINTS / 2, 0, POINTS / 3].into_iter().enumerate() {
        assert_eq!(write(&server, &[(start + number * 700, 1.0)]).await.status, 204);
        let want = (written + 1).to_string();
        assert_eq!(count(&server).await, Some(want), "acknowledged, and at {number} of the row");
    }
    assert!(server.process.terminate().success(), "{}", server.process.log());
}
