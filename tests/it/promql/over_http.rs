//! Prometheus' scripts over HTTP against real servers on the embedded store and on Cassandra:
//! `load` is a remote write 2.0, `clear` a delete through the admin API, and each answer must have
//! the bytes of the answer from a store in memory, which `runner` compares with the scripts.
//!
//! The settings are those of the runner, passed as flags. Whether the answers are right is not tested here.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use futures::StreamExt;
use promkairos::model::{
    HistogramSample, Labels, MatchOp, Matcher, Point, RawLabels, Sample, SeriesEntry, TimeRange,
    Value, WriteBatch,
};
use promkairos::promql::Syntax;
use promkairos::storage::Store;
use promkairos::storage::memory::MemoryStore;
use promkairos::wire::{encode_v2, snappy};

use super::script::variants::{as_range, pinned};
use super::script::{self, Command, Eval, Load, When};
use super::{data, runner};
use crate::support::promkairos::{Backend, Message, Promkairos};
use crate::support::{long, memory};

/// The number of queries asked at the same time.
const AT_ONCE: usize = 8;

/// Scripts that do not depend on the store: on Cassandra only in the long form.
const OF_ANY_STORE: &[&str] = &[
    "aggregators.test",
    "functions.test",
    "literals.test",
    "operators.test",
    "trig_functions.test",
];

/// Line numbers by script.
type Lines = &'static [(&'static str, &'static [usize])];

/// Why and where the answers of Cassandra differ.
const DIFFERENT: &[(&str, Lines)] = &[
    (
        "KairosDB's doubles have no room for a start timestamp",
        &[(
            "start_timestamps.test",
            &[9, 14, 19, 25, 30, 35, 48, 72, 80, 88, 112, 132, 213, 217, 272],
        )],
    ),
    (
        "nothing before the range is read, so whether its first histogram is after a reset is not \
         known, and that it conflicts with others is not reported",
        &[("native_histograms.test", &[1498, 1503])],
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn scripts_on_the_embedded_store() {
    run(&Backend::Embedded, Extent::Full, &[], &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn scripts_on_cassandra() {
    let (extent, left_out) = match long() {
        true => (Extent::Full, &[][..]),
        false => (Extent::Unpinned, OF_ANY_STORE),
    };
    run(&Backend::cassandra_store(), extent, left_out, DIFFERENT).await;
}

/// How instant queries are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// As they are, and as the middle of a range.
    Unpinned,
    /// Also pinned to their time by `@`, at other times.
    Full,
}

/// Runs the scripts; panics if a query differs without being listed, or the reverse.
async fn run(
    backend: &Backend,
    extent: Extent,
    left_out: &[&str],
    different: &[(&'static str, Lines)],
) {
    let folder = tempfile::tempdir().expect("a folder");
    let pair = Pair::start(folder.path(), backend, extent).await;
    let reason = |name: &str, line: usize| {
        let listed = |(script, lines): &(&str, &[usize])| *script == name && lines.contains(&line);
        let of = different.iter().find(|(_, lines)| lines.iter().any(listed));
        of.map(|(reason, _)| *reason)
    };
    let (mut passed, mut total, mut failures) = (0, 0, Vec::new());
    for (name, text) in scripts() {
        if left_out.contains(&&*name) {
            println!("{name}: left out");
            continue;
        }
        let checked = pair.run(&name, &text).await;
        let same = checked.iter().filter(|(_, checked)| checked.is_ok()).count();
        println!("{name}: {same} of {}", checked.len());
        (passed, total) = (passed + same, total + checked.len());
        failures.extend(checked.into_iter().filter_map(|(line, checked)| {
            match (checked, reason(&name, line)) {
                (Ok(()), None) | (Err(_), Some(_)) => None,
                (Ok(()), Some(reason)) => Some(format!("{name}:{line} is equal; listed: {reason}")),
                (Err(why), None) => Some(format!("{name}:{line} {why}")),
            }
        }));
    }
    println!("all scripts: {passed} of {total}");
    assert!(failures.is_empty(), "{} failed:\n{}", failures.len(), failures.join("\n"));
}

/// Names and texts of the scripts, each text once.
fn scripts() -> Vec<(String, String)> {
    let mut seen = BTreeSet::new();
    let mut scripts = Vec::new();
    for path in runner::paths() {
        let text = std::fs::read_to_string(&path).expect("a readable script");
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        if seen.insert(text.clone()) {
            scripts.push((name, text));
        }
    }
    scripts
}

/// A real server, and a server in this process over a store in memory, with the same data.
struct Pair {
    server: Promkairos,
    store: Arc<MemoryStore>,
    in_memory: String,
    http: reqwest::Client,
    extent: Extent,
}

impl Pair {
    async fn start(folder: &Path, backend: &Backend, extent: Extent) -> Self {
        let samples = format!("--query-max-samples={}", runner::MAX_SAMPLES);
        let mut flags = vec![
            "--promql-experimental",
            "--promql-unquoted-utf8-names",
            "--enable-admin-api",
            &samples,
        ];
        if !matches!(backend, Backend::Embedded) {
            // Without a cache, Cassandra answers each query.
            flags.push("--cassandra-read-cache-size=0");
        }
        let server = Promkairos::ready(folder, backend, &flags).await;
        let store = Arc::new(MemoryStore::new());
        let in_memory = memory::serve(store.clone(), runner::settings(), Syntax::ALL).await;
        Self { server, store, in_memory, http: reqwest::Client::new(), extent }
    }

    /// Runs a script from an empty store; returns each query's line and the difference of answers.
    async fn run(&self, name: &str, text: &str) -> Vec<(usize, Result<(), String>)> {
        let commands = script::parse(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let (mut checked, mut evals) = (Vec::new(), Vec::new());
        self.clear().await;
        for command in commands {
            match command {
                Command::Eval(eval) => evals.push(eval),
                Command::Clear => {
                    checked.extend(self.check_all(&std::mem::take(&mut evals)).await);
                    self.clear().await;
                }
                Command::Load(load) => {
                    checked.extend(self.check_all(&std::mem::take(&mut evals)).await);
                    self.load(&load).await;
                }
            }
        }
        checked.extend(self.check_all(&evals).await);
        checked
    }

    async fn check_all(&self, evals: &[Box<Eval>]) -> Vec<(usize, Result<(), String>)> {
        let checks = futures::stream::iter(evals);
        let checks = checks.map(async |eval| (eval.line, self.check(eval).await));
        checks.buffered(AT_ONCE).collect().await
    }

    async fn clear(&self) {
        let all = ("match[]", "{__name__=~\".+\"}".to_owned());
        let delete = ("/api/v1/admin/tsdb/delete_series", vec![all]);
        assert_eq!(self.ask(&self.server.url(""), &delete).await, (204, String::new()));
        let all = Matcher::new(MatchOp::Regex, "__name__", ".+").expect("valid");
        let range = TimeRange::new(i64::MIN, i64::MAX);
        self.store.delete(&[all], range).await.expect("a store in memory");
    }

    async fn load(&self, load: &Load) {
        data::add(&self.store, &load.series).await;
        let answer = self.server.write(Message::V2, body(&load.series)).await;
        let answer = answer.expect("an answer");
        assert_eq!(answer.status, 204, "{answer:?}");
    }

    /// Asks both servers all variants of a query of a script.
    async fn check(&self, eval: &Eval) -> Result<(), String> {
        for asked in questions(eval, self.extent) {
            let url = self.server.url("");
            let (ours, reference) =
                tokio::join!(self.ask(&url, &asked), self.ask(&self.in_memory, &asked));
            if ours != reference {
                let (path, parameters) = asked;
                return Err(format!(
                    "{path} {parameters:?}\n    in memory {reference:?}\n    the server {ours:?}"
                ));
            }
        }
        Ok(())
    }

    /// Status and body.
    async fn ask(&self, url: &str, (path, parameters): &Asked) -> (u16, String) {
        let form =
            form_urlencoded::Serializer::new(String::new()).extend_pairs(parameters).finish();
        let request = self
            .http
            .post(format!("{url}{path}"))
            .header("Content-Type", "application/x-www-form-urlencoded")
            .body(form);
        let answer = request.send().await.expect("an answer");
        (answer.status().as_u16(), answer.text().await.expect("a body"))
    }
}

/// Path and parameters.
type Asked = (&'static str, Vec<(&'static str, String)>);

/// The requests for all variants of a query of a script.
fn questions(eval: &Eval, extent: Extent) -> Vec<Asked> {
    let seconds = |millis: i64| (millis as f64 / 1000.0).to_string();
    let range = |expr: &str, (start, end, step)| {
        let times = [("start", start), ("end", end), ("step", step)];
        let times = times.map(|(name, millis)| (name, seconds(millis)));
        let query = ("query", expr.to_owned());
        ("/api/v1/query_range", std::iter::once(query).chain(times).collect())
    };
    if let When::Range(start, end, step) = eval.when {
        return vec![range(&eval.expr, (start, end, step))];
    }
    let mut variants = pinned(eval).expect("a query of the language, which the runner checks");
    if extent == Extent::Unpinned {
        variants.truncate(1);
    }
    let mut all = Vec::new();
    for variant in variants {
        let time = ("time", seconds(variant.time));
        all.push(("/api/v1/query", vec![("query", variant.expr.clone()), time]));
        all.extend(as_range(eval, &variant).map(|times| range(&variant.expr, times)));
    }
    all
}

/// Series as the body of a remote write 2.0, with all their start timestamps.
fn body(series: &[(Labels, Vec<Point>)]) -> Vec<u8> {
    let mut batch = WriteBatch::default();
    let length = |of: usize| u32::try_from(of).expect("a script is small");
    for (labels, points) in series.iter().filter(|(_, points)| !points.is_empty()) {
        let before = (length(batch.samples.len()), length(batch.histograms.len()));
        for Point { timestamp, start_timestamp, value } in points.iter().cloned() {
            match value {
                Value::Float(value) => {
                    batch.samples.push(Sample { timestamp, start_timestamp, value });
                }
                Value::Histogram(histogram) => {
                    let histogram = Arc::unwrap_or_clone(histogram);
                    let sample = HistogramSample { timestamp, start_timestamp, histogram };
                    batch.histograms.push(sample);
                }
            }
        }
        batch.series.push(SeriesEntry {
            labels: RawLabels(labels.as_bytes()),
            index: length(batch.series.len()),
            samples: before.0..length(batch.samples.len()),
            histograms: before.1..length(batch.histograms.len()),
            exemplars: 0..0,
        });
    }
    snappy::compress(&encode_v2(&batch)).expect("small")
}
