//! A real KairosDB and the running program on one keyspace: each answers with the points of the other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use promkairos::kairos::{RowSpec, TimeUnit};
use promkairos::model::{Counts, Histogram, Labels, METRIC_NAME, ResetHint, STALE_NAN_BITS, Span};
use rand::SeedableRng;
use rand::rngs::StdRng;
use serde_json::{Value as Json, json};
use tempfile::TempDir;

use super::points::{
    Case, TAGS, agree, cells, of_kairosdb, of_promkairos, post, random_cases, send,
};
use crate::cassandra::keyspace::{OwnedExemplar, Request};
use crate::support::kairosdb::{KairosDb, KairosSeries, TagMap};
use crate::support::promkairos::{Backend, Promkairos};
use crate::support::remote_read::{LabelMap, Point};
use crate::support::{self, api, eventually};

/// Both on one keyspace.
pub(super) struct Both {
    pub(super) kairosdb: Arc<KairosDb>,
    pub(super) server: Promkairos,
    spec: RowSpec,
    _data: TempDir,
}

impl Both {
    async fn start(unit: TimeUnit) -> Self {
        Self::start_with(unit, &[]).await
    }

    pub(super) async fn start_with(unit: TimeUnit, flags: &[&str]) -> Self {
        let kairosdb = KairosDb::shared(unit).await;
        let data = tempfile::tempdir().expect("a folder");
        let backend = Backend::CassandraStore {
            address: support::cassandra(),
            keyspace: kairosdb.keyspace.clone(),
        };
        // Points that are sent once must be accepted, however slow this Cassandra is.
        // Without a cache, late writes of KairosDB are visible at once.
        let always = [
            "--cassandra-request-timeout=100s",
            "--cassandra-read-cache-size=0",
            "--max-sample-lead=3000y",
        ];
        let flags = [flags, &always].concat();
        let server = Promkairos::ready(data.path(), &backend, &flags).await;
        let width = match unit {
            TimeUnit::Seconds => 1_814_400,
            TimeUnit::Milliseconds | TimeUnit::Legacy => RowSpec::DEFAULT.width(),
        };
        let spec = RowSpec::new(unit, width).expect("valid");
        Self { kairosdb, server, spec, _data: data }
    }

    /// Waits until our answer agrees with KairosDB's current answer.
    async fn ours_agrees(&self, metric: &str) -> usize {
        eventually(&format!("ours agrees for {metric}"), async || {
            let theirs = self.kairosdb.query(metric, &[], &TAGS).await?;
            agree(&of_promkairos(&self.server, metric).await?, &of_kairosdb(metric, theirs))
        })
        .await
    }
}

/// Names of metrics are not shared between tests, nor between runs on one keyspace.
pub(super) fn unique(name: &str) -> String {
    format!("{name}{:x}", rand::random::<u32>())
}

fn by_metric(cases: &[Case]) -> BTreeMap<&str, Vec<&Case>> {
    let mut metrics: BTreeMap<&str, Vec<&Case>> = BTreeMap::new();
    for case in cases {
        metrics.entry(&case.metric).or_default().push(case);
    }
    metrics
}

async fn random_points(unit: TimeUnit) {
    let both = Both::start(unit).await;
    let mut random = StdRng::seed_from_u64(support::seed());
    let points = if support::long() { 600 } else { 60 };
    // Written by KairosDB's REST API: our answer equals KairosDB's own.
    let types = ["long", "double", "double", "string"];
    let cases = random_cases(&mut random, &unique("rest"), &types, 30, points);
    for case in &cases {
        let all: Vec<(i64, Json)> = case.points.clone().into_iter().collect();
        both.kairosdb.ingest(&case.metric, &case.tags, case.data_type, &all).await;
    }
    let mut compared = 0;
    for (metric, cases) in by_metric(&cases) {
        let want = cells(&cases, both.spec);
        let all = |series: &[KairosSeries]| series.iter().map(|s| s.values.len()).sum::<usize>();
        both.kairosdb.query_until(metric, &TAGS, |series| all(series) == want).await;
        compared += both.ours_agrees(metric).await;
    }
    assert!(compared > 15 * points, "{compared} points");
    // Written by remote write: KairosDB's answer equals ours, and the points that were sent.
    let cases = random_cases(&mut random, &unique("ours"), &["double"], 30, points);
    for case in &cases {
        let value = |value: &Json| value.as_f64().expect("a double");
        let all: Vec<(i64, f64)> = case.points.iter().map(|(t, v)| (*t, value(v))).collect();
        send(&both.server, &case.labels(), &all).await;
    }
    for (metric, cases) in by_metric(&cases) {
        let ours = of_promkairos(&both.server, metric).await.expect("an answer");
        for case in &cases {
            let found: BTreeSet<i64> = ours[&case.labels()].keys().copied().collect();
            let floored = |time: &i64| {
                let (row_time, offset) = both.spec.split(*time);
                both.spec.timestamp(row_time, offset)
            };
            assert_eq!(found, case.points.keys().map(floored).collect());
        }
        let theirs = both.kairosdb.query(metric, &[], &TAGS).await.expect("an answer");
        agree(&ours, &of_kairosdb(metric, theirs)).expect("the same");
    }
}

#[tokio::test]
async fn random_points_in_milliseconds() {
    random_points(TimeUnit::Milliseconds).await;
}

#[tokio::test]
async fn random_points_in_seconds() {
    random_points(TimeUnit::Seconds).await;
}

#[tokio::test]
async fn random_points_in_legacy() {
    random_points(TimeUnit::Legacy).await;
}

pub(super) const AT: i64 = 1_700_000_000_000;

pub(super) fn tags() -> TagMap {
    TagMap::from([("instance".to_owned(), "h:9100".to_owned())])
}

pub(super) fn labels(metric: &str) -> LabelMap {
    let name = (METRIC_NAME.to_owned(), metric.to_owned());
    tags().into_iter().chain([name]).collect()
}

#[tokio::test]
async fn both_write_one_series_and_both_see_the_union() {
    let both = Both::start(TimeUnit::Milliseconds).await;
    let (metric, tags) = (&unique("union"), tags());
    let labels = labels(metric);
    let theirs = async {
        for n in 0..20 {
            let points: Vec<(i64, Json)> =
                (0..10).map(|i| (AT + 20 * n + 2 * i, json!(0.5))).collect();
            both.kairosdb.ingest(metric, &tags, "double", &points).await;
        }
    };
    let ours = async {
        for n in 0..20 {
            let points: Vec<(i64, f64)> = (0..10).map(|i| (AT + 20 * n + 2 * i + 1, 1.5)).collect();
            send(&both.server, &labels, &points).await;
        }
    };
    futures::join!(theirs, ours);
    both.kairosdb
        .query_until(metric, &["instance"], |series| {
            series.len() == 1 && series[0].values.len() == 400
        })
        .await;
    assert_eq!(both.ours_agrees(metric).await, 400);
    // The same by PromQL.
    let time = ((AT + 1_000) / 1_000).to_string();
    for (function, want) in [("count", "400"), ("sum", "400"), ("min", "0.5"), ("max", "1.5")] {
        let query = format!("{function}_over_time({{__name__=\"{metric}\"}}[10s])");
        let url = both.server.url("/api/v1/query");
        let (status, answer) = api::get(&url, &[("query", &query), ("time", &time)]).await;
        assert_eq!(status, 200, "{answer}");
        let results = answer["data"]["result"].as_array().expect("a vector");
        let values: Vec<&Json> = results.iter().map(|result| &result["value"][1]).collect();
        assert_eq!(values, [&json!(want)], "{function}: {answer}");
    }
}

/// The numbers in KairosDB's answer at a time.
fn at(series: &[KairosSeries], time: i64) -> Vec<f64> {
    let values = series.iter().flat_map(|series| &series.values);
    let values = values.filter(|(t, _)| *t == time).filter_map(|(_, value)| value.as_f64());
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

#[tokio::test]
async fn the_later_write_wins_on_both_sides() {
    let both = Both::start(TimeUnit::Milliseconds).await;
    let (metric, tags) = (&unique("later"), tags());
    let labels = labels(metric);
    let ours = async |time: i64, want: f64| {
        eventually(&format!("ours is {want} at {time}"), async || {
            let all = of_promkairos(&both.server, metric).await?;
            let found = all.get(&labels).and_then(|points| points.get(&time)).copied();
            if found == Some(want) { Ok(()) } else { Err(format!("{found:?}")) }
        })
        .await;
    };
    let theirs = async |time: i64, want: &[f64]| {
        both.kairosdb.query_until(metric, &["instance"], |all| at(all, time) == want).await;
    };
    // A KairosDB that gets no answer of Cassandra in time repeats its points with a new write time. That
    // repeat may be the later write; then ours is sent again.
    let ours_wins = async |time: i64, value: f64, want: &[f64]| {
        eventually(&format!("{value} is the later one at {time}"), async || {
            send(&both.server, &labels, &[(time, value)]).await;
            let ours = of_promkairos(&both.server, metric).await?;
            let found = ours.get(&labels).and_then(|points| points.get(&time)).copied();
            let theirs = at(&both.kairosdb.query(metric, &[], &["instance"]).await?, time);
            let is_right = found == Some(value) && theirs == want;
            if is_right { Ok(()) } else { Err(format!("{found:?}, {theirs:?}")) }
        })
        .await;
    };
    let put = async |time: i64, data_type: &str, value: Json| {
        both.kairosdb.ingest(metric, &tags, data_type, &[(time, value)]).await;
    };
    // In one type.
    put(AT, "double", json!(1.5)).await;
    theirs(AT, &[1.5]).await;
    ours(AT, 1.5).await;
    ours_wins(AT, 2.5, &[2.5]).await;
    put(AT, "double", json!(0.25)).await;
    theirs(AT, &[0.25]).await;
    ours(AT, 0.25).await;
    // KairosDB returns both values of two types.
    put(AT + 1, "long", json!(7)).await;
    theirs(AT + 1, &[7.0]).await;
    ours(AT + 1, 7.0).await;
    ours_wins(AT + 1, 8.5, &[7.0, 8.5]).await;
    send(&both.server, &labels, &[(AT + 2, 8.5)]).await;
    put(AT + 2, "long", json!(7)).await;
    theirs(AT + 2, &[7.0, 8.5]).await;
    ours(AT + 2, 7.0).await;
}

fn histogram() -> Histogram {
    let (positive, negative) = (vec![1, 1], vec![]);
    Histogram {
        schema: 3,
        zero_threshold: 0.001,
        sum: 12.5,
        reset_hint: ResetHint::Unknown,
        positive_spans: vec![Span { offset: 0, length: 2 }],
        negative_spans: vec![],
        custom_values: vec![],
        counts: Counts::Integer { count: 4, zero_count: 1, positive, negative },
    }
}

#[tokio::test]
async fn what_kairosdb_cannot_show_does_not_disturb_it() {
    let both = Both::start(TimeUnit::Milliseconds).await;
    let metric = &unique("special");
    let series = Labels::from_pairs(labels(metric)).expect("labels");
    let special = [
        (AT + 1, f64::NAN),
        (AT + 2, f64::INFINITY),
        (AT + 3, f64::NEG_INFINITY),
        (AT + 4, f64::from_bits(STALE_NAN_BITS)),
    ];
    let finite = [(AT, 1.5), (AT + 6, 2.5)];
    let trace = Labels::from_pairs([("trace_id", "a")]).expect("labels");
    let exemplar = OwnedExemplar { labels: trace.as_bytes().to_vec(), value: 3.5, timestamp: AT };
    let request = Request::default()
        .floats(&series, &finite)
        .floats(&series, &special)
        .histogram(&series, AT + 5, histogram())
        .exemplar(&series, exemplar);
    post(&both.server, &request).await;
    let shown = both.kairosdb.query(metric, &[("instance", "h:9100")], &["instance"]).await;
    let want = KairosSeries {
        tags: tags(),
        values: finite.map(|(time, value)| (time, json!(value))).to_vec(),
    };
    assert_eq!(shown, Ok(vec![want]), "found by its tag, with the finite points");
    let other = both.kairosdb.query(metric, &[("instance", "h:9101")], &["instance"]).await;
    assert_eq!(other, Ok(vec![]));
    let range = AT..=AT + 10;
    let read = both.server.read_range(METRIC_NAME, metric, range).await.expect("an answer");
    let [read] = &read[..] else { panic!("{read:?}") };
    let mut floats: Vec<(i64, f64)> = finite.into_iter().chain(special).collect();
    floats.sort_by_key(|(time, _)| *time);
    for (time, value) in floats {
        assert_eq!(read.points[&time], Point::Float(value.to_bits()), "{time}");
    }
    assert!(matches!(read.points[&(AT + 5)], Point::Histogram(_)));
    // KairosDB does not know a metric that has only such values.
    let only = &unique("only.special");
    let series = Labels::from_pairs(labels(only)).expect("labels");
    post(&both.server, &Request::default().floats(&series, &special)).await;
    assert_eq!(both.kairosdb.query(only, &[], &["instance"]).await, Ok(vec![]));
}

#[tokio::test]
async fn what_kairosdb_deletes_is_gone_and_what_it_writes_again_is_there() {
    let both = Both::start(TimeUnit::Milliseconds).await;
    let metric = &unique("deleted");
    let count = async |want: usize| {
        eventually(&format!("ours has {want} points"), async || {
            let all = of_promkairos(&both.server, metric).await?;
            let found: usize = all.values().map(BTreeMap::len).sum();
            if found == want { Ok(()) } else { Err(format!("{found}")) }
        })
        .await;
    };
    send(&both.server, &labels(metric), &[(AT, 1.5)]).await;
    both.kairosdb.ingest(metric, &tags(), "long", &[(AT + 1, json!(2))]).await;
    count(2).await;
    both.kairosdb.delete(metric).await;
    count(0).await;
    both.kairosdb.ingest(metric, &tags(), "long", &[(AT + 2, json!(3))]).await;
    both.kairosdb.query_until(metric, &["instance"], |all| at(all, AT + 2) == [3.0]).await;
    count(1).await;
}
