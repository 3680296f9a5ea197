//! Index pre-write: when a new window begins, the index rows of the live series are already written.
//! Tests move the clock of the store instead of waiting.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use promkairos::model::{Labels, STALE_NAN_BITS, TimeRange};
use promkairos::storage::Clock;
use promkairos::storage::cassandra::doctor::Kind;
use promkairos::storage::cassandra::{CassandraStore, Options};
use promkairos::telemetry::Metrics;
use scylla::value::CqlTimestamp;

use super::doctor;
use super::keyspace::{Request, TestKeyspace, labels, named, read};
use crate::support::promkairos::statements;
use crate::support::proxy::Proxy;
use crate::support::{self, eventually};

const SECOND: i64 = 1_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const WIDTH: i64 = 1_814_400_000;
const TTL: i32 = 5_000;

/// When the next window begins by the system clock.
fn begin() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis();
    (i64::try_from(now).expect("fits") / WIDTH + 1) * WIDTH
}

/// A store with a clock that the test moves.
struct Adapter {
    store: CassandraStore,
    metrics: Metrics,
    time: Arc<AtomicI64>,
}

impl Adapter {
    async fn open(options: Options, time: i64) -> Self {
        let time = Arc::new(AtomicI64::new(time));
        let shown = Arc::clone(&time);
        let clock = Clock::new(move || shown.load(Ordering::Relaxed));
        let (metrics, live_within) = (Metrics::new(), Duration::from_secs(5 * 3600));
        let ttl_seconds = TTL.unsigned_abs();
        let options = Options { clock, live_within, ttl_seconds, ..options };
        let store = support::cassandra::open(options, &metrics.cassandra).await;
        Self { store, metrics, time }
    }

    fn set(&self, time: i64) {
        self.time.store(time, Ordering::Relaxed);
    }

    /// Writes a value for each series at the time of the clock.
    async fn write(&self, all: &[Labels], value: f64) {
        let time = self.time.load(Ordering::Relaxed);
        let add = |request: Request, series| request.floats(series, &[(time, value)]);
        let outcome = all.iter().fold(Request::default(), add).write(&self.store).await;
        assert_eq!(outcome.samples, all.len() as u64);
    }

    /// How many statements wrote index rows.
    fn inserts(&self) -> u64 {
        let text = self.metrics.encode();
        let of = |statement| statements(&text, statement);
        assert!(of("insert_point") > 0, "{text}");
        of("insert_row_key") + of("insert_row_time") + of("insert_name")
    }

    fn ahead(&self) -> u64 {
        self.metrics.cassandra.index_rows_ahead.get()
    }
}

fn host(metric: &str, n: usize) -> Labels {
    labels(&[("__name__", metric), ("host", &format!("h{n:03}"))])
}

/// A row of `row_keys`: metric, table name, type, host, TTL.
type Row = (String, String, String, String, Option<i32>);

async fn rows_of(keyspace: &TestKeyspace, row_time: i64) -> BTreeSet<Row> {
    type Found = (String, String, CqlTimestamp, Option<String>, Option<String>, Option<i32>);
    let cql = "SELECT metric, table_name, row_time, data_type, tags['host'], TTL(value) \
               FROM {k}.row_keys";
    let all: Vec<Found> = keyspace.rows(cql).await;
    let rows = all.into_iter().filter(|row| row.2.0 == row_time);
    rows.map(|(metric, table, _, kind, host, ttl)| {
        (metric, table, kind.expect("a type"), host.expect("a host"), ttl)
    })
    .collect()
}

fn hosts(rows: &BTreeSet<Row>) -> Vec<(&str, &str)> {
    rows.iter().map(|(_, _, kind, host, _)| (&**kind, &**host)).collect()
}

#[tokio::test]
async fn a_window_begins_without_writes_of_index_rows() {
    let (keyspace, begin) = (TestKeyspace::new().await, begin());
    let adapter = Adapter::open(keyspace.options(), begin - 4 * HOUR).await;
    let mut all: Vec<Labels> = (0..250).map(|n| host("large", n)).collect();
    all.extend((0..10).map(|n| host(&format!("small{n}"), n)));
    adapter.write(&all, 1.5).await;
    adapter.write(&[host("large", 7)], f64::NAN).await;
    let open = rows_of(&keyspace, begin - WIDTH).await;
    assert_eq!((open.len(), rows_of(&keyspace, begin).await.len()), (261, 0));

    adapter.set(begin - 10 * MINUTE);
    let next = eventually("all rows stand ahead", async || {
        let rows = rows_of(&keyspace, begin).await;
        if rows.len() == open.len() { Ok(rows) } else { Err(format!("{} rows", rows.len())) }
    })
    .await;
    let without_ttl = |rows: &BTreeSet<Row>| -> Vec<Row> {
        rows.iter()
            .map(|row| (row.0.clone(), row.1.clone(), row.2.clone(), row.3.clone(), None))
            .collect()
    };
    assert_eq!(without_ttl(&next), without_ttl(&open));
    assert_eq!(adapter.ahead(), 261);
    // The last data of the window can be written `10 * MINUTE + WIDTH` from now, and the rows live as long.
    let last = TTL + i32::try_from((10 * MINUTE + WIDTH) / SECOND).expect("fits");
    let lasts = |ttl: Option<i32>| ttl.is_some_and(|ttl| (last..last + 700).contains(&ttl));
    assert!(next.iter().all(|row| lasts(row.4)), "{last}: {next:?}");
    let cql = "SELECT metric, row_time, TTL(value) FROM {k}.row_key_time_index";
    let times: Vec<(String, CqlTimestamp, Option<i32>)> = keyspace.rows(cql).await;
    let times: Vec<_> = times.into_iter().filter(|(_, time, _)| time.0 == begin).collect();
    assert_eq!(times.len(), 12, "one for each window, two of `large`");
    assert!(times.iter().all(|(_, _, ttl)| lasts(*ttl)), "{last}: {times:?}");
    let report = doctor::examine(&keyspace, doctor::settings()).await;
    assert!(report.findings.is_empty(), "rows without data yet are none: {report:?}");

    let before = adapter.inserts();
    adapter.set(begin + SECOND);
    adapter.write(&all, 2.5).await;
    adapter.write(&[host("large", 7)], f64::NAN).await;
    assert_eq!(adapter.inserts(), before);
    let new = TimeRange::new(begin, begin + WIDTH);
    assert_eq!(read(&adapter.store, &named("large"), new).await.len(), 250);
    let other = keyspace.open().await;
    assert_eq!(read(&other, &[], new).await.len(), 260);
    // The index row of a new series is written with its first sample.
    adapter.write(&[host("large", 300)], 1.0).await;
    assert_eq!(adapter.inserts(), before + 1);
    keyspace.drop().await;
}

#[tokio::test]
async fn a_series_that_stopped_is_not_carried_over() {
    let (keyspace, begin) = (TestKeyspace::new().await, begin());
    let adapter = Adapter::open(keyspace.options(), begin - 10 * HOUR).await;
    let [stopped, vanished, live] = [0, 1, 2].map(|n| host("m", n));
    let stale = f64::from_bits(STALE_NAN_BITS);
    let all = [stopped, vanished.clone(), live.clone()];
    adapter.write(&all, 1.0).await;
    adapter.write(&all[2..], f64::NAN).await;
    adapter.set(begin - 4 * HOUR);
    adapter.write(&[vanished], stale).await;
    adapter.write(std::slice::from_ref(&live), 1.0).await;
    adapter.set(begin - 4 * HOUR + 1);
    adapter.write(&[live], f64::INFINITY).await;
    assert_eq!(rows_of(&keyspace, begin - WIDTH).await.len(), 5);
    adapter.set(begin - MINUTE);
    // The live series is the last of both its windows.
    let want = [("kairos_double", "h002"), ("prom_double", "h002")];
    eventually("the live rows are written ahead", async || {
        let rows = rows_of(&keyspace, begin).await;
        let found = hosts(&rows);
        if want.iter().all(|row| found.contains(row)) { Ok(()) } else { Err(format!("{rows:?}")) }
    })
    .await;
    assert_eq!(hosts(&rows_of(&keyspace, begin).await), want);
    keyspace.drop().await;
}

#[tokio::test]
async fn what_one_process_left_half_done_another_ends_and_a_third_leaves_alone() {
    let (keyspace, begin) = (TestKeyspace::new().await, begin());
    let proxy = Proxy::to(&support::cassandra()).await;
    let behind = Options { contact_points: vec![proxy.address.to_string()], ..keyspace.options() };
    let all: Vec<Labels> = (0..250).map(|n| host("m", n)).collect();
    let first = Adapter::open(behind, begin - 3 * HOUR).await;
    first.write(&all, 1.0).await;
    // Rows are sent in hundreds.
    proxy.hold(b"h150");
    first.set(begin - 10 * MINUTE);
    proxy.holds_one().await;
    assert_eq!(rows_of(&keyspace, begin).await.len(), 100);
    drop(first);
    drop(proxy);

    let second = Adapter::open(keyspace.options(), begin - 3 * HOUR).await;
    second.write(&all, 2.0).await;
    second.set(begin - 10 * MINUTE);
    eventually("the rest stands ahead", async || match rows_of(&keyspace, begin).await.len() {
        250 => Ok(()),
        rows => Err(format!("{rows} rows")),
    })
    .await;
    assert_eq!(second.ahead(), 150, "only what was missing");

    let third = Adapter::open(keyspace.options(), begin - 3 * HOUR).await;
    third.write(&all, 3.0).await;
    // The last series of the window: when its row is written, the others were checked.
    third.write(&[host("m", 999)], 3.0).await;
    third.set(begin - 5 * MINUTE);
    eventually("its own series stands ahead", async || match third.ahead() {
        0 => Err("nothing yet".into()),
        _ => Ok(()),
    })
    .await;
    assert_eq!((third.ahead(), rows_of(&keyspace, begin).await.len()), (1, 251));
    keyspace.drop().await;
}

/// A process that has just started knows no rows; it writes no row that exists.
#[tokio::test]
async fn a_cold_process_reads_a_window_and_writes_only_what_is_missing() {
    let (keyspace, begin) = (TestKeyspace::new().await, begin());
    let all: Vec<Labels> = (0..120).map(|n| host("m", n)).collect();
    let open = async || Adapter::open(keyspace.options(), begin - 20 * HOUR).await;
    open().await.write(&all[..100], 1.0).await;
    let cold = open().await;
    cold.write(&all[..100], 2.0).await;
    assert_eq!(cold.inserts(), 0);
    cold.write(&all, 3.0).await;
    assert_eq!((cold.inserts(), cold.metrics.cassandra.index_rows_written.get()), (1, 20));
    assert_eq!(rows_of(&keyspace, begin - WIDTH).await.len(), 120);
    keyspace.drop().await;
}

/// Series that vanish as a window ends leave pre-written rows without data: a finding that the doctor
/// can fix once their window is closed.
#[tokio::test]
async fn rows_ahead_of_what_vanished_are_taken_away_when_their_window_is_closed() {
    for (begin, is_closed) in [(begin() - 2 * WIDTH, true), (begin() - WIDTH, false)] {
        let keyspace = TestKeyspace::new().await;
        let adapter = Adapter::open(keyspace.options(), begin - 4 * HOUR).await;
        let both = [host("m", 0), host("m", 1)];
        adapter.write(&both, 1.5).await;
        adapter.set(begin - 10 * MINUTE);
        eventually("both stand ahead", async || {
            let rows = rows_of(&keyspace, begin).await;
            if rows.len() == 2 { Ok(()) } else { Err(format!("{rows:?}")) }
        })
        .await;
        adapter.set(begin + HOUR);
        adapter.write(&both[..1], 2.5).await;
        let report = doctor::examine(&keyspace, doctor::settings()).await;
        let found = report.total(Kind::IndexWithoutData).map(|total| total.found);
        assert_eq!((found, report.left()), (is_closed.then_some(1), u64::from(is_closed)));
        let fixed = doctor::examine(&keyspace, doctor::fixing()).await;
        assert_eq!(fixed.left(), 0, "{fixed:?}");
        let rows = rows_of(&keyspace, begin).await;
        let left: &[_] = if is_closed { &["h000"] } else { &["h000", "h001"] };
        assert_eq!(hosts(&rows).iter().map(|(_, host)| *host).collect::<Vec<_>>(), left);
        assert!(doctor::examine(&keyspace, doctor::fixing()).await.findings.is_empty());
        let all = read(&keyspace.open().await, &named("m"), TimeRange::ALL).await;
        assert_eq!((all[&both[0]].len(), all[&both[1]].len()), (2, 1));
        keyspace.drop().await;
    }
}
