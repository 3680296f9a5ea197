//! Samples with a short TTL in short rows, on a Cassandra that reads past few tombstones: series begin, expire and are
//! deleted by promkairos and by a KairosDB beside it. At any time each acknowledged sample that lives is found with its
//! value, and no deleted sample comes back.
//!
//! Index rows outlive samples by the width of a row, and are to expire within the run. So a normal run has rows of five
//! seconds, and the long one has rows of a minute. A read that fails for any other reason than a timeout fails the
//! test. Only the number of rounds depends on the speed of the machine.
//!
//! KairosDB cannot read partitions with many tombstones, so each metric that it deletes is a new one.

mod model;

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use promkairos::kairos::{RowSpec, TimeUnit};
use promkairos::model::{Labels, METRIC_NAME};
use promkairos::storage::Store;
use promkairos::storage::cassandra::Options;
use promkairos::telemetry::CassandraMetrics;
use promkairos::wire;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use reqwest::Method;
use serde_json::Value as Json;
use tempfile::TempDir;
use tokio::task::spawn_blocking;

use self::model::{Model, Points, Scope, Span};
use super::deletes::now;
use super::keyspace::Request;
use crate::limits::metric;
use crate::support::cassandra::OwnCassandra;
use crate::support::kairosdb::KairosDb;
use crate::support::promkairos::{Backend, Message, Promkairos};
use crate::support::remote_read::{LabelMap, Point};
use crate::support::{self, DEADLINE, api, eventually, load, long, proto, seed};

/// How many tombstones a read may pass over before Cassandra warns, and before it aborts the read.
const THRESHOLDS: &str = "tombstone_warn_threshold: 100\ntombstone_failure_threshold: 500";
/// The failure threshold.
const MOST_DEAD: usize = 500;

const DAY: i64 = 86_400_000;
/// The number of old rows that samples are written to.
const ROWS: i64 = 3;
/// A few series whose samples are all in one row.
const DENSE: &str = "living_dense";
/// A metric with new series all the time, in one row.
const CHURN: &str = "living_churn";
/// Some series in some rows.
const MIXED: &str = "living_mixed";
const MIXED_SERIES: usize = 8;
/// Series with samples of now, so that the current window advances.
const CURRENT: &str = "living_current";
/// Rounds between a new metric for KairosDB to delete and the next one.
const PERIOD: usize = 3;
/// Rounds between two starts of the program: a restart empties its memory, and all is read anew.
const RESTART: usize = 10;

/// The durations of a run.
struct Durations {
    /// Milliseconds of a row.
    row: i64,
    /// Seconds that samples live.
    retention: i64,
    lasts: Duration,
    pause: Duration,
}

fn pace() -> Durations {
    let milliseconds = Duration::from_millis;
    let (row, retention, lasts, pause) = match long() {
        false => (5_000, 12, milliseconds(40_000), milliseconds(400)),
        true => (60_000, 120, milliseconds(600_000), milliseconds(1_000)),
    };
    Durations { row, retention, lasts, pause }
}

/// Counts of what happened so far.
#[derive(Debug, Default)]
struct Tally {
    /// Samples that had to be found, summed over all queries.
    judged: usize,
    /// Living samples that were deleted.
    deleted_by_us: usize,
    deleted_by_kairosdb: usize,
    /// Reads that Cassandra aborted: of points, and of index rows.
    given_up: [f64; 2],
}

/// Both programs on one keyspace, and what they must answer.
struct Life {
    server: Promkairos,
    kairosdb: KairosDb,
    backend: Backend,
    retention: String,
    pace: Durations,
    model: Model,
    random: StdRng,
    /// The beginning of old time, in milliseconds since 1970.
    old: i64,
    /// The beginning of the run.
    began: i64,
    tally: Tally,
    data: TempDir,
}

impl Life {
    async fn start(cassandra: &OwnCassandra) -> Self {
        let (pace, address, keyspace) = (pace(), cassandra.address(), support::keyspace());
        // Programs take the row width of an existing keyspace, KairosDB too.
        let row_spec = RowSpec::new(TimeUnit::Milliseconds, pace.row).expect("valid");
        let options = support::cassandra::options(address.clone(), &keyspace);
        let options = Options { row_spec, ..options };
        let store = support::cassandra::open(options, &CassandraMetrics::default()).await;
        store.close().await.expect("closed");
        let kairosdb = KairosDb::at(address.clone(), &keyspace, "").await;
        let data = tempfile::tempdir().expect("a folder");
        let backend = Backend::CassandraStore { address, keyspace };
        let retention = format!("--retention={}s", pace.retention);
        Self {
            server: ready(&data, &backend, &retention).await,
            kairosdb,
            backend,
            retention,
            model: Model::new(pace.retention),
            pace,
            random: StdRng::seed_from_u64(seed()),
            // The windows closed long ago, so that a delete removes index rows too.
            old: now() / DAY * DAY - 2 * DAY,
            began: now(),
            tally: Tally::default(),
            data,
        }
    }

    /// The range of old times that have samples.
    fn old_time(&self) -> RangeInclusive<i64> {
        self.old - 1_000..=self.old + ROWS * self.pace.row
    }

    /// The scopes that a round checks: all metrics but those that KairosDB deleted long ago.
    fn scopes(&self, number: usize) -> Vec<Scope> {
        let old = || self.old_time();
        let current = (self.began / 1_000 - 1) * 1_000..=(now() / 1_000 + 1) * 1_000;
        let mut scopes = vec![
            Scope::of(DENSE, old()),
            Scope::of(CHURN, old()),
            Scope::of(CHURN, old()).with("round", number),
            Scope::of(MIXED, old()),
            Scope::of(MIXED, old()).with("host", number % MIXED_SERIES),
            Scope::of(CURRENT, current),
            Scope::of(&for_kairosdb(number), old()),
        ];
        // Deleted by now.
        let before = number.checked_sub(PERIOD).map(for_kairosdb);
        scopes.extend(before.map(|metric| Scope::of(&metric, old())));
        scopes
    }

    /// The samples of a round: many for few series, at new and at known times, and one for each of many new series.
    fn next_batch(&mut self, number: usize) -> Points {
        let (row, all) = (self.pace.row, ROWS * self.pace.row);
        let (random, points) = (&mut self.random, Points::new());
        let mut batch = Batch { random, old: self.old, number, points };
        for host in 0..2 {
            batch.add_old(DENSE, host.to_string(), 60, row);
        }
        for host in 0..40 {
            batch.add_old(CHURN, format!("host-{number:05}-{host:02}.example.org:9100"), 1, row);
        }
        for host in 0..MIXED_SERIES {
            batch.add_old(MIXED, host.to_string(), 5, all);
        }
        for host in 0..10 {
            batch.add(CURRENT, host.to_string(), vec![now()]);
        }
        if number.is_multiple_of(PERIOD) {
            for host in 0..5 {
                batch.add_old(&for_kairosdb(number), host.to_string(), 5, all);
            }
        }
        batch.points
    }

    async fn write(&mut self, batch: Points) {
        let request = batch.iter().fold(Request::default(), |request, (labels, points)| {
            let points = points.iter().map(|(time, bits)| (*time, f64::from_bits(*bits)));
            let labels = Labels::from_pairs(labels).expect("labels");
            request.floats(&labels, &points.collect::<Vec<(i64, f64)>>())
        });
        let block = load::compress(&proto::Message(wire::encode_v1(&request.batch())));
        let began = eventually("a write is acknowledged", async || {
            let began = now();
            let answer = self.server.write(Message::V1, block.clone()).await.expect("an answer");
            match answer.status {
                204 => Ok(began),
                503 => Err(answer.body),
                _ => panic!("{answer:?}"),
            }
        })
        .await;
        self.model.acknowledged(batch, (began, now()));
    }

    /// What promkairos deletes next: whole rows of series that began recently, or a part of known series.
    fn next_delete(&mut self, number: usize) -> Scope {
        let random = &mut self.random;
        let seconds = ROWS * self.pace.row / 1_000;
        let first = random.random_range(0..seconds);
        let last = random.random_range(first..seconds);
        let part = self.old + first * 1_000..=self.old + last * 1_000;
        match random.random_range(0..4) {
            0 => Scope::of(DENSE, part).with("host", random.random_range(0..2)),
            1 => Scope::of(MIXED, part).with("host", random.random_range(0..MIXED_SERIES)),
            2 => Scope::of(MIXED, part),
            _ => {
                let round = number.saturating_sub(random.random_range(0..4));
                Scope::of(CHURN, self.old_time()).with("round", round)
            }
        }
    }

    async fn delete(&mut self, number: usize) {
        let scope = self.next_delete(number);
        let living = self.model.in_doubt(&scope, now());
        let (selector, start, end) = (scope.selector(), scope.start(), scope.end());
        let parameters = [("match[]", &*selector), ("start", &*start), ("end", &*end)];
        let url = self.server.url("/api/v1/admin/tsdb/delete_series");
        eventually("a delete is done", async || {
            match api::send(Method::POST, &url, &parameters, None).await {
                (204, _) => Ok(()),
                (status, why) => Err(only_a_timeout(&format!("{status}: {why}"))),
            }
        })
        .await;
        self.model.deleted(&scope, now());
        self.tally.deleted_by_us += living;
    }

    /// KairosDB deletes a metric while all other metrics are checked.
    async fn kairosdb_deletes(&mut self, number: usize) {
        let metric = for_kairosdb(number);
        let scope = Scope::of(&metric, self.old_time());
        let living = self.model.in_doubt(&scope, now());
        let ((), judged) = futures::join!(self.kairosdb.delete(&metric), self.look(number));
        eventually("what KairosDB deleted is gone", async || {
            let (found, _) = self.points(&scope).await;
            if found.is_empty() { Ok(()) } else { Err(format!("{found:?}")) }
        })
        .await;
        self.model.deleted(&scope, now());
        self.tally.deleted_by_kairosdb += living;
        self.tally.judged += judged;
    }

    async fn round(&mut self, number: usize) {
        let batch = self.next_batch(number);
        self.write(batch).await;
        match number % PERIOD {
            1 => self.delete(number).await,
            2 => self.kairosdb_deletes(number).await,
            _ => {}
        }
        self.tally.judged += self.look(number).await;
        if number % RESTART == RESTART - 1 {
            self.restart().await;
        }
    }

    /// Checks everything; returns how many samples had to be found.
    async fn look(&self, number: usize) -> usize {
        let (scopes, mut judged) = (self.scopes(number), 0);
        for scope in &scopes {
            judged += self.points(scope).await.1;
        }
        let scope = &scopes[number % scopes.len()];
        self.check_counts(scope).await;
        self.check_list(scope).await;
        if number.is_multiple_of(4) {
            judged += self.look_at_all_names().await;
        }
        judged
    }

    /// The samples of a scope, and how many of them had to be found.
    async fn points(&self, scope: &Scope) -> (Points, usize) {
        let (query, time) = (scope.range_selector(), scope.end());
        let parameters = [("query", &*query), ("time", &*time)];
        let (answer, span) = self.ask("/api/v1/query", &parameters).await;
        let found = matrix(&answer).map(|(labels, values)| {
            let bits = |value: &str| value.parse::<f64>().expect("a number").to_bits();
            (labels, values.into_iter().map(|(time, value)| (time, bits(value))).collect())
        });
        let found: Points = found.collect();
        let judged = self.model.check(scope, &found, span);
        (found, judged)
    }

    /// A range query counts the samples of each series.
    async fn check_counts(&self, scope: &Scope) {
        let (query, time) = (format!("count_over_time({})", scope.range_selector()), scope.end());
        let parameters = [("query", &*query), ("start", &*time), ("end", &*time), ("step", "1")];
        let (answer, span) = self.ask("/api/v1/query_range", &parameters).await;
        let counts = matrix(&answer).map(|(mut labels, values)| {
            // The function removes the name.
            labels.insert(METRIC_NAME.to_owned(), scope.metric().to_owned());
            let [(_, count)] = values[..] else { panic!("{values:?}") };
            (labels, count.parse().expect("a number"))
        });
        self.model.check_counts(scope, &counts.collect(), span);
    }

    async fn check_list(&self, scope: &Scope) {
        let (selector, start, end) = (scope.selector(), scope.start(), scope.end());
        let parameters = [("match[]", &*selector), ("start", &*start), ("end", &*end)];
        let (answer, span) = self.ask("/api/v1/series", &parameters).await;
        let listed: BTreeSet<LabelMap> =
            serde_json::from_value(answer["data"].clone()).expect("a list of series");
        self.model.check_list(scope, &listed, span);
    }

    /// Reads all metrics, found by a pattern of their names.
    async fn look_at_all_names(&self) -> usize {
        let asked = now();
        let read = eventually("all metrics are read", async || {
            let read = self.server.read(METRIC_NAME, "living_.+").await;
            read.map_err(|why| only_a_timeout(&why))
        })
        .await;
        let answered = now();
        let series = read.into_iter().map(|series| {
            let points = series.points.into_iter().map(|(time, point)| match point {
                Point::Float(bits) => (time, bits),
                Point::Histogram(_) => panic!("a histogram"),
            });
            (series.labels, points.collect())
        });
        let found: Points = series.collect();
        self.model.check(&Scope::everything(), &found, (asked, answered))
    }

    /// The answer to a GET, and when the request began and ended.
    async fn ask(&self, path: &str, parameters: &[(&str, &str)]) -> (Json, Span) {
        let asked = now();
        let url = self.server.url(path);
        let answer = eventually(path, async || match api::get(&url, parameters).await {
            (200, answer) => Ok(answer),
            (status, why) => Err(only_a_timeout(&format!("{status}: {why}"))),
        })
        .await;
        (answer, (asked, now()))
    }

    async fn restart(&mut self) {
        self.tally.given_up = self.given_up().await;
        self.stop();
        self.server = ready(&self.data, &self.backend, &self.retention).await;
    }

    fn stop(&mut self) {
        let process = &mut self.server.process;
        assert!(process.terminate().success(), "{}", process.log());
    }

    /// Reads that Cassandra aborted since the beginning: of points, and of index rows.
    async fn given_up(&self) -> [f64; 2] {
        let mut all = self.tally.given_up;
        for (all, statement) in all.iter_mut().zip(["select_points", "select_row_keys"]) {
            let labels = format!("{{statement=\"{statement}\",outcome=\"given_up\"}}");
            let name = format!("cassandra_statements_total{labels}");
            *all += metric(&self.server, &name).await.unwrap_or(0.0);
        }
        all
    }

    /// Whether every event that the test is about has happened.
    async fn is_worth_it(&self) -> bool {
        let Tally { judged, deleted_by_us, deleted_by_kairosdb, .. } = self.tally;
        let counts = [judged, deleted_by_us, deleted_by_kairosdb];
        self.given_up().await.into_iter().all(|reads| reads > 0.0)
            && counts.into_iter().all(|count| count > 0)
            && self.model.expired(now()) > MOST_DEAD
    }
}

/// The samples of a request under construction.
struct Batch<'a> {
    random: &'a mut StdRng,
    /// The beginning of old time.
    old: i64,
    /// The number of the round.
    number: usize,
    points: Points,
}

impl Batch<'_> {
    /// Some samples of a series in the first milliseconds of old time.
    fn add_old(&mut self, metric: &str, host: String, samples: usize, milliseconds: i64) {
        let times = (0..samples).map(|_| self.old + self.random.random_range(0..milliseconds));
        let times = times.collect();
        self.add(metric, host, times);
    }

    fn add(&mut self, metric: &str, host: String, times: Vec<i64>) {
        let name = (METRIC_NAME.to_owned(), metric.to_owned());
        let mut labels = LabelMap::from([name, ("host".to_owned(), host)]);
        if metric == CHURN {
            labels.insert("round".to_owned(), self.number.to_string());
        }
        let value = |time| (time, (f64::from(self.random.random::<i32>()) / 64.0).to_bits());
        let points = times.into_iter().map(value).collect();
        self.points.insert(labels, points);
    }
}

/// The metric of a round that KairosDB deletes within the same [`PERIOD`].
fn for_kairosdb(number: usize) -> String {
    format!("living_theirs_{}", number / PERIOD * PERIOD)
}

async fn ready(data: &TempDir, backend: &Backend, retention: &str) -> Promkairos {
    let flags = [
        retention,
        "--enable-admin-api=true",
        "--cassandra-request-timeout=100s",
        // Without a cache, deletes of KairosDB are visible at once.
        "--cassandra-read-cache-size=0",
    ];
    Promkairos::ready(data.path(), backend, &flags).await
}

/// Series with the times and values of their samples.
fn matrix(answer: &Json) -> impl Iterator<Item = (LabelMap, Vec<(i64, &str)>)> {
    let series = answer["data"]["result"].as_array().expect("a matrix").iter();
    series.map(|series| {
        let labels = serde_json::from_value(series["metric"].clone()).expect("labels");
        let values = series["values"].as_array().expect("values").iter();
        let values = values.map(|point| {
            let seconds = point[0].as_f64().expect("seconds");
            ((seconds * 1_000.0).round() as i64, point[1].as_str().expect("a value"))
        });
        (labels, values.collect())
    })
}

/// Returns the reason if it is a timeout and panics otherwise. No read may fail for tombstones.
fn only_a_timeout(why: &str) -> String {
    let timeouts = ["timed out", "no answer within", "\"errorType\":\"timeout\""];
    let is_timeout = timeouts.iter().any(|text| why.contains(text));
    assert!(is_timeout && !why.contains("tombstone"), "{why}");
    why.to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_living_sample_is_found_while_others_expire_and_are_deleted() {
    let start = || OwnCassandra::start_with("", THRESHOLDS);
    let cassandra = spawn_blocking(start).await.expect("it starts");
    let mut life = Life::start(&cassandra).await;
    let begin = Instant::now();
    for number in 0_usize.. {
        life.round(number).await;
        if begin.elapsed() >= life.pace.lasts && life.is_worth_it().await {
            break;
        }
        let is_late = begin.elapsed() > life.pace.lasts + DEADLINE;
        assert!(!is_late, "{:?}, {:?}", life.tally, life.given_up().await);
        tokio::time::sleep(life.pace.pause).await;
    }
    println!("{:?}, {:?} given up", life.tally, life.given_up().await);
    life.stop();
}
