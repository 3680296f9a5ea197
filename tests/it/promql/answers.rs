//! Our answers to queries compared with recorded ones of a real Prometheus 3.16, in process:
//! values, order, errors, warnings and infos with their places, and the number of samples read.
//!
//! `tests/data/prometheus-3.16/` holds the data written, and one request with its answer a line.
//! Parse errors, parameters and the shape of JSON are tested elsewhere.

use std::sync::Arc;
use std::time::Duration;

use promkairos::model::{Body, Labels, Protocol};
use promkairos::promql::format::sample_value;
use promkairos::promql::histogram::FloatHistogram;
use promkairos::promql::{
    Counting, Engine, Features, NameRemoval, Names, QueryOptions, QueryValue, Settings,
    StartTimestamps, Steps, Syntax, Value, parse,
};
use promkairos::storage::Store;
use promkairos::storage::memory::MemoryStore;
use promkairos::wire::{Policy, Scratch, decode};
use serde_json::{Value as Json, json};

/// Queries whose answers differ, and why.
const DIFFERENT: &[(&str, &str)] = &[
    ("requests function-021", SUBNORMAL),
    ("requests function-029", SUBNORMAL),
    ("requests aggregation-157", ORDER),
    ("requests annotation-038", ORDER),
    ("requests range-042", "its number of samples is garbage"),
    ("requests stats-024", "it counts spans as they are stored, also those that are empty"),
    ("requests step-009", "a step of 0.1 ms, by which it divides as 0"),
    ("requests-experimental experimental-error-054", EMPTY_NAME),
    ("requests-eager experimental-error-054", EMPTY_NAME),
];
const SUBNORMAL: &str = "Go's logarithm on amd64 is wrong for subnormal numbers";
const ORDER: &str = "which series comes first, it does not say; ours are sorted";
const EMPTY_NAME: &str = "a label without a name, which it gives out or panics at";

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_those_of_prometheus() {
    let store = store().await;
    let experimental = Settings { name_removal: NameRemoval::Delayed, ..Settings::default() };
    let eager = Settings { name_removal: NameRemoval::AtOnce, ..experimental.clone() };
    let names = Syntax { features: Features::Stable, names: Names::Unicode };
    let files = [
        ("requests", Features::Stable.into(), Settings::default()),
        ("requests-experimental", Features::Experimental.into(), experimental.clone()),
        ("requests-eager", Features::Experimental.into(), eager),
        ("requests-new", Features::Experimental.into(), experimental),
        ("requests-utf8", names, Settings::default()),
    ];
    let (mut total, mut wrong) = (0, Vec::new());
    for (file, syntax, settings) in files {
        let engine = Engine::new(settings);
        for recorded in lines(file).into_iter().filter_map(Recorded::new) {
            let id = format!("{file} {}", recorded.id);
            if DIFFERENT.iter().any(|(known, _)| *known == id) {
                continue;
            }
            total += 1;
            let Some(answer) = recorded.ask(&engine, &store, syntax).await else { continue };
            if let Err(difference) = recorded.compare(answer) {
                wrong.push(format!("{id}: {}\n{difference}", recorded.query));
            }
        }
    }
    assert!(total > 1500, "only {total} cases");
    assert!(wrong.is_empty(), "{} of {total} differ\n{}", wrong.len(), wrong.join("\n"));
}

fn lines(file: &str) -> Vec<Json> {
    let path = format!("{}/tests/data/prometheus-3.16/{file}.jsonl", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).expect(&path);
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

/// A store with the whole data set.
async fn store() -> Arc<dyn Store> {
    let store = MemoryStore::new();
    for line in lines("writes") {
        let hex = line["proto_hex"].as_str().expect("a message");
        let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex");
        let raw: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
        let compressed = promkairos::wire::snappy::compress(&raw).expect("small");
        let kind = line["headers"]["Content-Type"].as_str().unwrap_or_default();
        let protocol = if kind.contains("v2.Request") { Protocol::V2 } else { Protocol::V1 };
        let body = Body { protocol, compressed: &compressed };
        let mut scratch = Scratch::default();
        let batch = decode(body, &mut scratch, Policy::Accept).expect("a valid message");
        store.write(batch).await.expect("memory");
    }
    Arc::new(store)
}

/// A request for the value of a query, and its answer.
struct Recorded {
    id: String,
    query: String,
    asked: Asked,
    lookback: Option<Duration>,
    request: Json,
}

enum Asked {
    Instant(i64),
    Range(Steps),
}

impl Recorded {
    /// `None` for a request that is not about the value of a query.
    fn new(request: Json) -> Option<Self> {
        const KNOWN: [&str; 7] =
            ["query", "time", "start", "end", "step", "lookback_delta", "stats"];
        let params = request["params"].as_array()?;
        let known = params.iter().all(|pair| KNOWN.iter().any(|name| pair[0] == *name));
        let text = |name: &str| params.iter().find(|pair| pair[0] == name)?[1].as_str();
        let number = |name: &str| text(name)?.parse::<f64>().ok();
        // Times beyond 64 bits of nanoseconds belong to the tests of parameters.
        let near = |seconds: &f64| seconds.abs() < 9e9;
        let millis = |name: &str| Some((number(name).filter(near)? * 1000.0).round() as i64);
        let stats = text("stats").is_none_or(|stats| ["true", "all"].contains(&stats));
        let status = request["status"].as_u64()?;
        let plain = request["method"] == "GET" && [200, 422].contains(&status) && known && stats;
        let asked = match request["path"].as_str()? {
            "/api/v1/query" => Asked::Instant(millis("time")?),
            "/api/v1/query_range" => {
                let (start, end) = (millis("start")?, millis("end")?);
                Asked::Range(Steps { start, end, interval: millis("step")? })
            }
            _ => return None,
        };
        let lookback = match text("lookback_delta") {
            Some(_) => Some(Duration::from_millis(millis("lookback_delta")?.try_into().ok()?)),
            None => None,
        };
        let (id, query) = (request["id"].as_str()?.to_owned(), text("query")?.to_owned());
        plain.then_some(Self { id, query, asked, lookback, request })
    }

    /// The answer as JSON; `None` if the query does not parse (see the tests of the language).
    async fn ask(&self, engine: &Engine, store: &Arc<dyn Store>, syntax: Syntax) -> Option<Json> {
        let expr = parse(&self.query, syntax).ok()?;
        let counting = Counting::ByStep;
        let header = self.request["headers"]["X-Prometheus-Use-Start-Timestamps"].as_str();
        let start_timestamps = match header {
            Some("true" | "1") => Some(StartTimestamps::Used),
            Some("false" | "0") => Some(StartTimestamps::Ignored),
            _ => None,
        };
        let lookback = self.lookback;
        let options =
            QueryOptions { lookback, start_timestamps, counting, ..QueryOptions::default() };
        let store = Arc::clone(store);
        let result = match self.asked {
            Asked::Instant(time) => engine.instant(store, &expr, time, &options).await,
            Asked::Range(steps) => engine.range(store, &expr, steps, &options).await,
        };
        let result = match result {
            Ok(result) => result,
            Err(error) => return Some(json!({ "error": error.to_string() })),
        };
        let shown = result.annotations.shown(&self.query, 10);
        let (stats, by_step) = (&result.stats, result.stats.by_step.as_ref().expect("asked for"));
        let sums = [by_step.queryable.iter().sum::<u64>(), by_step.read.iter().sum()];
        assert_eq!(sums, [stats.total_queryable_samples, stats.samples_read], "{}", self.query);
        Some(json!({
            "result": shown_value(result.value),
            "warnings": shown.warnings,
            "infos": shown.infos,
            "queryable": stats.total_queryable_samples,
            "read": stats.samples_read,
            "series": stats.series_touched,
        }))
    }

    fn compare(&self, answer: Json) -> Result<(), String> {
        let want = &self.request["json"];
        let differs = |what: &str, got: &Json, want: &Json| {
            Err(format!("  {what}\n    got  {got}\n    want {want}"))
        };
        if let Some(error) = want["error"].as_str() {
            let got = answer["error"].as_str().unwrap_or_default();
            let head = |text: &str| text.split('[').next().unwrap_or_default().to_owned();
            let cut = self.request["compare"] == "before [";
            let same = if cut { head(got) == head(error) } else { got == error };
            return if same { Ok(()) } else { differs("error", &answer, &want["error"]) };
        }
        let unordered = self.request["compare"] == "unordered";
        let sorted = |value: &Json| {
            let mut items = value.as_array().cloned().unwrap_or_default();
            items.sort_by_key(Json::to_string);
            Json::Array(items)
        };
        let (mut got, mut result) = (answer["result"].clone(), want["data"]["result"].clone());
        let vector = want["data"]["resultType"] == "vector";
        if unordered || (vector && !self.query.starts_with("sort")) {
            (got, result) = (sorted(&got), sorted(&result));
        }
        let share = self.request["rel"].as_f64().unwrap_or(0.0);
        if !same(&got, &result, share) {
            return differs("result", &got, &result);
        }
        let mask = self.request["mask"].as_array().cloned().unwrap_or_default();
        if !mask.contains(&json!("annotations")) {
            for kind in ["warnings", "infos"] {
                let (got, want) = (sorted(&answer[kind]), sorted(&want[kind]));
                if got != want {
                    return differs(kind, &got, &want);
                }
            }
        }
        let samples = &want["data"]["stats"]["samples"];
        for (own, theirs) in [
            ("queryable", "totalQueryableSamples"),
            ("read", "samplesRead"),
            ("series", "seriesTouched"),
        ] {
            if !samples[theirs].is_null() && samples[theirs] != answer[own] {
                return differs(theirs, &answer[own], &samples[theirs]);
            }
        }
        Ok(())
    }
}

/// Whether two values are equal up to this relative difference of each number in quotes.
fn same(a: &Json, b: &Json, share: f64) -> bool {
    match (a, b) {
        (Json::Array(a), Json::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b, share))
        }
        (Json::Object(a), Json::Object(b)) => {
            let inside = |(key, a): (&String, &Json)| b.get(key).is_some_and(|b| same(a, b, share));
            a.len() == b.len() && a.iter().all(inside)
        }
        (Json::String(x), Json::String(y)) if share > 0.0 => {
            let close = |x: f64, y: f64| (x - y).abs() <= share * x.abs().max(y.abs());
            x == y || matches!((x.parse(), y.parse()), (Ok(x), Ok(y)) if close(x, y))
        }
        (Json::Number(a), Json::Number(b)) => a.as_f64() == b.as_f64(),
        _ => a == b,
    }
}

fn seconds(time: i64) -> Json {
    json!(time as f64 / 1000.0)
}

fn shown_labels(labels: &Labels) -> Json {
    Json::Object(labels.iter().map(|(name, value)| (name.to_owned(), json!(value))).collect())
}

fn shown_histogram(histogram: &FloatHistogram) -> Json {
    let text = |value: f64| json!(sample_value(value));
    let buckets: Vec<Json> = histogram
        .buckets()
        .filter(|bucket| bucket.count != 0.0)
        .map(|bucket| {
            json!([bucket.rule as u8, text(bucket.lower), text(bucket.upper), text(bucket.count)])
        })
        .collect();
    let mut shown = json!({ "count": text(histogram.count), "sum": text(histogram.sum) });
    if !buckets.is_empty() {
        shown["buckets"] = Json::Array(buckets);
    }
    shown
}

fn shown_value(value: QueryValue) -> Json {
    match value {
        QueryValue::Scalar(time, value) => {
            json!([seconds(time), promkairos::promql::format::fixed(value)])
        }
        QueryValue::String(time, text) => json!([seconds(time), text]),
        QueryValue::Vector(samples) => {
            let samples = samples.into_iter().map(|sample| {
                let metric = shown_labels(&sample.labels);
                let time = seconds(sample.time);
                match sample.value {
                    Value::Float(v) => {
                        json!({ "metric": metric, "value": [time, sample_value(v)] })
                    }
                    Value::Histogram(h) => {
                        json!({ "metric": metric, "histogram": [time, shown_histogram(&h)] })
                    }
                }
            });
            Json::Array(samples.collect())
        }
        QueryValue::Matrix(series) => {
            let series = series.into_iter().map(|series| {
                let mut shown = json!({ "metric": shown_labels(&series.labels) });
                let floats = series.floats.iter();
                let floats: Vec<Json> =
                    floats.map(|(time, v)| json!([seconds(*time), sample_value(*v)])).collect();
                let histograms = series.histograms.iter();
                let histograms: Vec<Json> = histograms
                    .map(|(time, h)| json!([seconds(*time), shown_histogram(h)]))
                    .collect();
                if !floats.is_empty() {
                    shown["values"] = Json::Array(floats);
                }
                if !histograms.is_empty() {
                    shown["histograms"] = Json::Array(histograms);
                }
                shown
            });
            Json::Array(series.collect())
        }
    }
}
