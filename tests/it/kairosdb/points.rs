//! Random points for both writers, and the answers of both.

use std::collections::{BTreeMap, BTreeSet};

use promkairos::kairos::RowSpec;
use promkairos::model::{Labels, METRIC_NAME, TimeRange};
use promkairos::storage::cassandra::CassandraStore;
use promkairos::wire;
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::{Value as Json, json};

use crate::cassandra::keyspace::{Request, named, read};
use crate::support::eventually;
use crate::support::kairosdb::{KairosDb, KairosSeries, TagMap};
use crate::support::promkairos::{Message, Promkairos};
use crate::support::remote_read::{LabelMap, Point};

/// Values by time; one time may have two values, in two types.
pub(super) type Values = BTreeMap<i64, Vec<f64>>;

/// Names of tags that the series may have.
pub(super) const TAGS: [&str; 9] =
    ["host", "a b", "a.b", "a:b", "a=b", "::", "é", "\u{10000}", "\u{e000}"];
const VALUES: [&str; 8] = ["h:9100", "=", ":", "a=b:c", "ü ", "\u{1f600}", "\"q\"\\", "a\nb"];

/// A series with points in one type.
pub(super) struct Case {
    pub(super) metric: String,
    pub(super) tags: TagMap,
    /// `long`, `double` or `string`.
    pub(super) data_type: &'static str,
    pub(super) points: BTreeMap<i64, Json>,
}

impl Case {
    pub(super) fn labels(&self) -> LabelMap {
        let name = (METRIC_NAME.to_owned(), self.metric.clone());
        self.tags.clone().into_iter().chain([name]).collect()
    }
}

/// Series of some metrics, each with about `points` points over decades.
pub(super) fn random_cases(
    random: &mut StdRng,
    prefix: &str,
    types: &[&'static str],
    series: usize,
    points: usize,
) -> Vec<Case> {
    let mut cases: BTreeMap<(String, TagMap, &'static str), BTreeMap<i64, Json>> = BTreeMap::new();
    for at in 0..series {
        let metric = format!("{prefix}.{}é m", at % 5);
        let mut tags = TagMap::from([("host".to_owned(), format!("h{}", at % 7))]);
        for _ in 0..random.random_range(0..4) {
            let name = TAGS[random.random_range(0..TAGS.len())];
            let value = VALUES[random.random_range(0..VALUES.len())];
            tags.insert(name.to_owned(), value.to_owned());
        }
        let data_type = types[random.random_range(0..types.len())];
        let into = cases.entry((metric, tags, data_type)).or_default();
        for _ in 0..points {
            into.insert(random_time(random), random_value(random, data_type));
        }
    }
    let case = |((metric, tags, data_type), points)| Case { metric, tags, data_type, points };
    cases.into_iter().map(case).collect()
}

/// A time that is often at the edge of a row, often in a burst, and sometimes long ago.
fn random_time(random: &mut StdRng) -> i64 {
    const YEAR: i64 = 365 * 24 * 3_600_000;
    const WIDTH: i64 = 1_814_400_000;
    match random.random_range(0..10) {
        0 => -random.random_range(1..30 * YEAR),
        1 => random.random_range(-5..5),
        2 => random.random_range(0..900) * WIDTH + random.random_range(-2..2),
        3..6 => random.random_range(0..60 * YEAR),
        _ => 1_700_000_000_000 + random.random_range(0..3_600_000),
    }
}

fn random_value(random: &mut StdRng, data_type: &str) -> Json {
    match (data_type, random.random_range(0..4)) {
        ("string", n) => json!(["x", "é€", "\u{1f600}", "y"][n]),
        ("long", 0) => json!([0, -1, i64::MAX, i64::MIN, 1_i64 << 53][random.random_range(0..5)]),
        ("long", _) => json!(random.random_range(-1_000_000..1_000_000)),
        (_, 0) => {
            json!([0.5, 1e300, -1e300, 5e-324, f64::MAX, 0.1][random.random_range(0..6)])
        }
        (_, _) => json!(random.random_range(-1e6..1e6)),
    }
}

/// The number of cells of these cases: which of two points in one cell is left is unknown.
pub(super) fn cells(cases: &[&Case], spec: RowSpec) -> usize {
    let cell = |time: &i64| {
        let (row_time, offset) = spec.split(*time);
        (row_time, offset)
    };
    let count = |case: &&Case| {
        let cells: std::collections::HashSet<_> = case.points.keys().map(cell).collect();
        cells.len()
    };
    cases.iter().map(count).sum()
}

/// An answer of KairosDB as series of Prometheus.
pub(super) fn of_kairosdb(metric: &str, series: Vec<KairosSeries>) -> BTreeMap<LabelMap, Values> {
    let mut all: BTreeMap<LabelMap, Values> = BTreeMap::new();
    for series in series {
        let mut labels = series.tags;
        labels.insert(METRIC_NAME.to_owned(), metric.to_owned());
        for (time, value) in series.values {
            if let Some(value) = value.as_f64() {
                all.entry(labels.clone()).or_default().entry(time).or_default().push(value);
            }
        }
    }
    all
}

/// The program's remote-read answer for a metric without histograms.
pub(super) async fn of_promkairos(
    server: &Promkairos,
    metric: &str,
) -> Result<BTreeMap<LabelMap, BTreeMap<i64, f64>>, String> {
    let range = i64::MIN / 2..=i64::MAX / 2;
    let series = server.read_range(METRIC_NAME, metric, range).await?.into_iter();
    let floats = series.map(|series| {
        let points = series.points.into_iter().map(|(time, point)| match point {
            Point::Float(bits) => (time, f64::from_bits(bits)),
            Point::Histogram(_) => panic!("a histogram"),
        });
        (series.labels, points.collect::<BTreeMap<_, _>>())
    });
    Ok(floats.filter(|(_, points)| !points.is_empty()).collect())
}

/// Fails unless every time has one value of ours that is also a value of KairosDB.
pub(super) fn agree(
    ours: &BTreeMap<LabelMap, BTreeMap<i64, f64>>,
    theirs: &BTreeMap<LabelMap, Values>,
) -> Result<usize, String> {
    if !ours.keys().eq(theirs.keys()) {
        return Err(format!("series differ: {:?}\n{:?}", ours.keys(), theirs.keys()));
    }
    let mut points = 0;
    for (labels, ours) in ours {
        let theirs = &theirs[labels];
        if !ours.keys().eq(theirs.keys()) {
            return Err(format!("times differ in {labels:?}"));
        }
        for (time, value) in ours {
            if !theirs[time].contains(value) {
                return Err(format!("{labels:?} at {time}: {value}, not {:?}", theirs[time]));
            }
        }
        points += ours.len();
    }
    Ok(points)
}

/// Sends floats of one series by remote write.
pub(super) async fn send(server: &Promkairos, labels: &LabelMap, points: &[(i64, f64)]) {
    let labels = Labels::from_pairs(labels).expect("labels");
    post(server, &Request::default().floats(&labels, points)).await;
}

/// Sends a request by remote write.
pub(super) async fn post(server: &Promkairos, request: &Request) {
    let body = wire::encode_v2(&request.batch());
    let block = snap::raw::Encoder::new().compress_vec(&body).expect("small");
    let answer = server.write(Message::V2, block).await.expect("it answers");
    assert!(matches!(answer.status, 200 | 204), "{answer:?}");
}

/// Waits until KairosDB returns points of a metric at these times and no others.
pub(super) async fn kairosdb_shows(kairosdb: &KairosDb, metric: &str, times: &[i64]) {
    let want: BTreeSet<i64> = times.iter().copied().collect();
    let is_right = |series: &[KairosSeries]| {
        let values = series.iter().flat_map(|series| &series.values);
        values.map(|(time, _)| *time).collect::<BTreeSet<_>>() == want
    };
    kairosdb.query_until(metric, &["instance"], is_right).await;
}

/// Waits until a store has points of a metric at these times and no others.
pub(super) async fn store_shows(store: &CassandraStore, metric: &str, times: &[i64]) {
    eventually(&format!("{metric} has points at {times:?}"), async || {
        let all = read(store, &named(metric), TimeRange::ALL).await;
        let found: Vec<i64> = all.values().flatten().map(|point| point.timestamp).collect();
        if found == times { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await;
}
