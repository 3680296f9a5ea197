//! A Cassandra that hangs, or is late with one statement: every request ends, and nothing is lost.
//!
//! A proxy holds frames back, so no test depends on a race.

use std::sync::Arc;
use std::time::Duration;

use promkairos::model::{Labels, STALE_NAN_BITS, TimeRange};
use promkairos::storage::cassandra::{CassandraStore, Options};
use promkairos::storage::{Store, StoreError};
use promkairos::telemetry::{CassandraMetrics, Metrics};
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::deletes::now;
use super::keyspace::{Request, TestKeyspace, bits, labels, named, read};
use crate::limits::metric;
use crate::support::load::Load;
use crate::support::promkairos::{Backend, Promkairos};
use crate::support::proxy::Proxy;
use crate::support::{self, DEADLINE, eventually, seed};

const WIDTH: i64 = 1_814_400_000;

/// The options of a store behind a proxy.
fn through(keyspace: &TestKeyspace, proxy: &Proxy, request_timeout: Duration) -> Options {
    let contact_points = vec![proxy.address.to_string()];
    Options { contact_points, request_timeout, ..keyspace.options() }
}

/// A store behind a proxy.
async fn open(keyspace: &TestKeyspace, proxy: &Proxy) -> Arc<CassandraStore> {
    let options = through(keyspace, proxy, DEADLINE);
    Arc::new(keyspace.open_with(options).await)
}

/// A store behind a proxy with a request timeout of 8 s. A slow machine may exceed it, so callers
/// repeat their requests.
async fn open_impatient(
    keyspace: &TestKeyspace,
    proxy: &Proxy,
    metrics: &CassandraMetrics,
) -> CassandraStore {
    // Creates the tables with a longer timeout.
    // A store that is not closed counts as a neighbour that still runs.
    open(keyspace, proxy).await.close().await.expect("closed");
    let options = through(keyspace, proxy, Duration::from_secs(8));
    support::cassandra::open(options, metrics).await
}

/// The identifier of the statement that deletes a row of `row_keys`, to find its frames. Cassandra
/// derives the identifier from the text, so this text equals the text in the store.
async fn delete_of_row_keys(keyspace: &TestKeyspace) -> Vec<u8> {
    let cql = format!(
        "DELETE value FROM \"{}\".row_keys USING TIMESTAMP ? WHERE metric = ? AND table_name = ? \
         AND row_time = ? AND data_type = ? AND tags = ?",
        keyspace.name
    );
    keyspace.session.prepare(cql).await.expect("prepared").get_id().to_vec()
}

/// The jobs in the index rows of `old`.
async fn listed(keyspace: &TestKeyspace) -> Vec<(String,)> {
    let cql = "SELECT tags['job'] FROM {k}.row_keys WHERE metric = 'old' \
               AND table_name = 'data_points' AND row_time = 0";
    let mut rows: Vec<(Option<String>,)> = keyspace.rows(cql).await;
    rows.sort();
    rows.into_iter().filter_map(|(job,)| Some((job?,))).collect()
}

fn old() -> [Labels; 2] {
    ["a", "b"].map(|job| labels(&[("__name__", "old"), ("job", job)]))
}

#[tokio::test]
async fn writes_go_on_while_index_rows_are_deleted() {
    let (keyspace, proxy) = (TestKeyspace::new().await, Proxy::to(&support::cassandra()).await);
    let store = open(&keyspace, &proxy).await;
    let [a, _] = old();
    let points: Vec<_> = (0..3).map(|window| (window * WIDTH, 1.0)).collect();
    Request::default().floats(&a, &points).write(&*store).await;
    proxy.hold(&delete_of_row_keys(&keyspace).await);
    let deleting = Arc::clone(&store);
    let delete = tokio::spawn(async move { deleting.delete(&named("old"), TimeRange::ALL).await });
    proxy.holds_one().await;
    // A write waits for the window whose rows are being deleted, and for no other.
    let (new, request) = (labels(&[("__name__", "new")]), Request::default());
    let request = request.floats(&new, &[(1, 1.0)]);
    let mut write = Box::pin(request.write(&*store));
    assert!(futures::poll!(&mut write).is_pending());
    proxy.release_one();
    let written = tokio::time::timeout(DEADLINE, write).await;
    assert_eq!(written.expect("it goes on before the next window").samples, 1);
    assert!(!delete.is_finished());
    proxy.release();
    delete.await.expect("no panic").expect("deleted");
    assert!(read(&*store, &named("old"), TimeRange::ALL).await.is_empty());
    let all = read(&*store, &named("new"), TimeRange::ALL).await;
    assert_eq!(bits(&all[&new]), [(1, 1.0f64.to_bits())]);
    keyspace.drop().await;
}

#[tokio::test]
async fn a_delete_that_arrives_late_hides_no_later_write() {
    let (keyspace, proxy) = (TestKeyspace::new().await, Proxy::to(&support::cassandra()).await);
    let store = open_impatient(&keyspace, &proxy, &CassandraMetrics::default()).await;
    let write = async |request: &dyn Fn() -> Request| {
        let once = async || store.write(request().batch()).await.map_err(|e| e.to_string());
        eventually("it is written", once).await;
    };
    let [a, b] = old();
    let points = [(10, 1.0)];
    write(&|| Request::default().floats(&a, &points).floats(&b, &points)).await;
    proxy.hold(&delete_of_row_keys(&keyspace).await);
    let error = eventually("the delete waits for index rows", async || {
        let error = store.delete(&named("old"), TimeRange::ALL).await.expect_err("no answer");
        if proxy.holds_any() { Ok(error) } else { Err(error.to_string()) }
    })
    .await;
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
    // The message has the whole timeout, not the rest that was left for the last attempt.
    let why = error.to_string();
    assert!(why.ends_with("no answer within 8s (--cassandra-request-timeout)"), "{why}");
    assert_eq!(listed(&keyspace).await, [("a".into(),), ("b".into(),)]);
    write(&|| Request::default().floats(&a, &[(20, 2.0)])).await;
    proxy.release();
    eventually("the delete arrives", async || match listed(&keyspace).await {
        left if left.contains(&("b".into(),)) => Err(format!("{left:?}")),
        _ => Ok(()),
    })
    .await;
    let other = keyspace.open().await;
    let all = read(&other, &named("old"), TimeRange::ALL).await;
    assert_eq!(bits(&all[&a]), [(20, 2.0f64.to_bits())]);
    keyspace.drop().await;
}

/// A coordinator that dies in the middle of a batch leaves it half written.
#[tokio::test]
async fn a_batch_that_is_half_there_and_not_answered_is_repeated() {
    let (keyspace, proxy) = (TestKeyspace::new().await, Proxy::to(&support::cassandra()).await);
    let store = open_impatient(&keyspace, &proxy, &CassandraMetrics::default()).await;
    let ([a, b], begin) = (old(), now());
    let write = async |points: &[(i64, f64)]| {
        let request = || Request::default().floats(&a, points).floats(&b, points);
        let once =
            async || store.write(request().batch()).await.map(drop).map_err(|e| e.to_string());
        eventually("it is written", once).await;
    };
    // This write is not late, and makes the series known: later writes are points alone.
    let first = [(begin, 0.5)];
    write(&first).await;
    proxy.halve_a_batch();
    let points: Vec<(i64, f64)> = (1..5).map(|n| (begin + n, n as f64 / 8.0)).collect();
    write(&points).await;
    assert_eq!(proxy.halved(), 1);
    let other = keyspace.open().await;
    let all = read(&other, &named("old"), TimeRange::ALL).await;
    let want: Vec<_> = first.iter().chain(&points).map(|(t, v)| (*t, v.to_bits())).collect();
    for series in [&a, &b] {
        assert_eq!(bits(&all[series]), want, "{series}");
    }
    keyspace.drop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_to_a_cassandra_that_hangs_is_answered() {
    let proxy = Proxy::to(&support::cassandra()).await;
    let (address, keyspace) = (proxy.address.to_string(), support::keyspace());
    let backend = Backend::CassandraStore { address, keyspace };
    let (data, load) = (tempfile::tempdir().expect("a folder"), Load::default());
    let mut random = StdRng::seed_from_u64(seed());
    let flags = ["--cassandra-request-timeout=8s"];
    let server = Promkairos::ready(data.path(), &backend, &flags).await;
    let accepted = async |random: &mut StdRng| match load.send(&server, random).await {
        Ok(204) => Ok(()),
        other => Err(format!("{other:?}")),
    };
    eventually("a write is accepted", async || accepted(&mut random).await).await;
    // Connections are open, and nothing answers.
    proxy.hold(b"");
    assert_eq!(load.send(&server, &mut random).await.expect("an answer"), 503);
    proxy.release();
    eventually("writes are accepted again", async || accepted(&mut random).await).await;
    load.check(&server).await;
}

/// Many targets vanish at once: each series needs an index row for its stale marker.
#[tokio::test(flavor = "multi_thread")]
async fn index_rows_of_many_series_hold_up_no_data_of_others() {
    let (keyspace, proxy) = (TestKeyspace::new().await, Proxy::to(&support::cassandra()).await);
    let options = Options { in_flight: 8, ..through(&keyspace, &proxy, Duration::from_secs(10)) };
    let metrics = CassandraMetrics::default();
    let store = Arc::new(support::cassandra::open(options, &metrics).await);
    let live = labels(&[("__name__", "live")]);
    Request::default().floats(&live, &[(1, 1.0)]).write(&*store).await;
    let stale = f64::from_bits(STALE_NAN_BITS);
    let vanished = |n| labels(&[("__name__", &format!("vanished{n}"))]);
    let markers = move || {
        (0..100).fold(Request::default(), |request, n| request.floats(&vanished(n), &[(2, stale)]))
    };
    proxy.hold(b"vanished");
    let writing = Arc::clone(&store);
    let writes = tokio::spawn(async move { writing.write(markers().batch()).await });
    let in_flight = &metrics.in_flight;
    eventually("half of all turns are taken", async || match in_flight.get() {
        4.. => Ok(()),
        few => Err(format!("{few}")),
    })
    .await;
    Request::default().floats(&live, &[(3, 3.0)]).write(&*store).await;
    assert!(in_flight.get() <= 4, "{}", in_flight.get());
    // Nothing answers: the write ends at its timeout, and may be sent again.
    let error = writes.await.expect("no panic").expect_err("nothing answers");
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
    proxy.release();
    eventually("the markers are accepted", async || {
        store.write(markers().batch()).await.map(drop).map_err(|error| error.to_string())
    })
    .await;
    assert_eq!(read(&*store, &[], TimeRange::ALL).await.len(), 101);
    keyspace.drop().await;
}

/// Writes that are not answered in time lower the number of writes in flight.
#[tokio::test]
async fn writes_that_are_not_answered_leave_fewer_permits() {
    let (keyspace, proxy) = (TestKeyspace::new().await, Proxy::to(&support::cassandra()).await);
    let all = Metrics::new();
    let metrics = all.cassandra.clone();
    let store = open_impatient(&keyspace, &proxy, &metrics).await;
    // The sample is not late, so no statement goes before the points.
    let (live, at) = (labels(&[("__name__", "live")]), now());
    let write = async || {
        let request = Request::default().floats(&live, &[(at, 1.0)]);
        store.write(request.batch()).await.map(drop).map_err(|error| error.to_string())
    };
    // Enough writes to know how long an answer takes.
    for _ in 0..32 {
        eventually("it is written", async || write().await).await;
    }
    let turns = &metrics.write_concurrency;
    let before = turns.get();
    let reached = || {
        let page = all.encode();
        let head = "promkairos_limits_reached_total{limit=\"cassandra-max-in-flight\"} ";
        let count = page.lines().find_map(|line| line.strip_prefix(head)).expect("counted");
        count.parse::<usize>().expect("a number")
    };
    let refused_before = reached();
    proxy.hold(b"");
    let unanswered = futures::future::join_all((0..2 * before).map(|_| write())).await;
    assert!(unanswered.iter().all(Result::is_err), "nothing answers");
    assert!(turns.get() < before, "{} of {before}", turns.get());
    // Each write is a statement, and not all get a permit before their timeout.
    let no_permit = "the setting cassandra-max-in-flight says how many are under way";
    let why = unanswered.iter().filter_map(|result| result.as_ref().err());
    let without = why.filter(|why| why.contains(no_permit)).count();
    assert!(without > 0, "{unanswered:?}");
    assert_eq!(reached() - refused_before, without);
    proxy.release();
    eventually("it is written again", async || write().await).await;
    keyspace.drop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_from_a_cassandra_that_never_answered_are_refused_in_time() {
    let proxy = Proxy::to(&support::cassandra()).await;
    // From the beginning Cassandra accepts connections and does not answer.
    proxy.hold(b"");
    let (address, keyspace) = (proxy.address.to_string(), support::keyspace());
    let backend = Backend::CassandraWal { address, keyspace };
    let data = tempfile::tempdir().expect("a folder");
    let flags = ["--cassandra-request-timeout=1s"];
    let server = Promkairos::ready(data.path(), &backend, &flags).await;
    let error = server.read("__name__", "up").await.expect_err("nothing can be read");
    // This is not the timeout of the driver, which is many times longer.
    assert!(error.contains("503") && error.contains("not answered for 1s"), "{error}");
    let (status, text) = server.get("/-/ready").await.expect("an answer");
    assert!(status == 200 && text.contains("reads are refused: Cassandra"), "{status} {text}");
    assert_eq!(metric(&server, "cassandra_reachable{}").await, Some(0.0));
    proxy.release();
    eventually("it can be read", async || server.read("__name__", "up").await.map(drop)).await;
    assert_eq!(metric(&server, "cassandra_reachable{}").await, Some(1.0));
    // Cassandra hangs after it was reachable.
    proxy.hold(b"");
    eventually("it is reported", async || match server.get("/-/ready").await {
        Ok((200, text)) if text.contains("reads are refused: Cassandra") => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
}
