//! The result of a query as JSON: `resultType` before `result`, then statistics, warnings and infos. Series are
//! written while the answer is sent, long ones piece by piece, because the text of a histogram is much longer than
//! its memory.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::response::Response;
use serde_json::json;

use super::json;
use promkairos_promql::annotations::{SHOWN, Shown};
use promkairos_promql::format::{
    fixed, push_sample_value, push_timestamp, sample_value, timestamp,
};
use promkairos_promql::histogram::FloatHistogram;
use promkairos_promql::{
    Estimate, QueryError, QueryResult, QueryValue, Room, Sample, SeriesPoints, Stats, StepCounts,
    Steps, Value,
};

/// The warning if a limit truncated a result.
pub(super) const TRUNCATED: &str = "results truncated due to limit";

/// The answer to `query` with at most `limit` series. `stats` is the parameter of that name.
pub(super) fn answer(
    result: QueryResult,
    query: &str,
    limit: Option<usize>,
    stats: &str,
) -> Response {
    let QueryResult { mut value, annotations, stats: counted, estimate, room } = result;
    let mut shown = annotations.shown(query, SHOWN);
    if truncate(&mut value, limit) {
        shown.warnings.push(TRUNCATED.to_owned());
    }
    let cost = estimate.map(|estimate| compared(estimate, &counted, &mut shown));
    let tail = tail(&counted, stats, &cost.unwrap_or_default(), &mut shown);
    match value {
        QueryValue::Scalar(time, value) => single("scalar", time, &fixed(value), tail),
        QueryValue::String(time, text) => single("string", time, &text, tail),
        QueryValue::Vector(samples) => vector(samples, room, &tail),
        QueryValue::Matrix(series) => {
            let mut matrix =
                Matrix { series: series.into_iter(), current: None, first: true, room };
            let next = move |out: &mut String| matrix.next(out);
            json::stream("{\"resultType\":\"matrix\",\"result\":[".into(), next, format!("]{tail}"))
        }
    }
}

/// Truncates the value; returns whether anything was removed.
fn truncate(value: &mut QueryValue, limit: Option<usize>) -> bool {
    fn cut<T>(items: &mut Vec<T>, limit: Option<usize>) -> bool {
        let cut = limit.is_some_and(|limit| items.len() > limit);
        items.truncate(limit.unwrap_or(usize::MAX));
        cut
    }
    match value {
        QueryValue::Vector(samples) => cut(samples, limit),
        QueryValue::Matrix(series) => cut(series, limit),
        QueryValue::Scalar(..) | QueryValue::String(..) => false,
    }
}

fn vector(samples: Vec<Sample>, mut room: Room, tail: &str) -> Response {
    let write = move |out: &mut String, sample: Sample| {
        write_sample(out, &sample);
        // If the client disconnects, dropping `room` returns the rest.
        room.give_back(sample.bytes());
    };
    json::list("{\"resultType\":\"vector\",\"result\":", samples, write, tail)
}

/// Scalars and strings have the time as a float, without trailing zeros.
fn single(kind: &str, time: i64, value: &str, tail: String) -> Response {
    let (time, value) = (time as f64 / 1000.0, json::text(value));
    let head = format!("{{\"resultType\":\"{kind}\",\"result\":[{time},{value}]");
    json::stream(head, |_| false, tail)
}

/// The text after the result, up to the end.
fn tail(stats: &Stats, wanted: &str, cost: &str, shown: &mut Shown) -> String {
    shown.warnings.extend(stats_warning(wanted));
    let mut out = String::new();
    if !wanted.is_empty() {
        let _ = write!(out, ",\"stats\":{}", stats_json(stats));
    }
    out + cost + "}" + &json::tail(shown)
}

/// The cost of a query.
#[derive(serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Figures {
    pub(super) series_touched: u64,
    pub(super) samples_read: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) peak_samples: Option<u64>,
}

/// The part of an answer that compares the estimate with the actual cost, with a comma before it. Empty if the
/// estimate failed; then a warning says why.
fn compared(estimate: Result<Estimate, QueryError>, stats: &Stats, shown: &mut Shown) -> String {
    let Estimate { series_touched, samples_read, warnings } = match estimate {
        Ok(estimate) => estimate,
        Err(why) => {
            shown.warnings.push(format!("cost estimation failed: {why}"));
            return String::new();
        }
    };
    shown.warnings.extend(warnings);
    let estimated = Figures { series_touched, samples_read, peak_samples: None };
    let actual = Figures {
        series_touched: stats.series_touched,
        samples_read: stats.samples_taken,
        peak_samples: Some(stats.peak_samples).filter(|peak| *peak > 0),
    };
    let estimated = serde_json::to_string(&estimated).unwrap_or_default();
    let actual = serde_json::to_string(&actual).unwrap_or_default();
    format!(",\"cost\":{{\"estimated\":{estimated},\"actual\":{actual}}}")
}

/// The warning about an unknown value of the parameter `stats`.
pub(super) fn stats_warning(wanted: &str) -> Option<String> {
    (!["", "true", "all"].contains(&wanted)).then(|| {
        format!(
            "value {} for parameter \"stats\" is deprecated and will be rejected in the next \
             major release, use \"true\" or \"all\"",
            promkairos_promql::quoted(wanted)
        )
    })
}

fn stats_json(stats: &Stats) -> String {
    let evaluated = stats.preparation + stats.evaluation + stats.sorting;
    let timings = [
        ("evalTotalTime", evaluated),
        ("resultSortTime", stats.sorting),
        ("queryPreparationTime", stats.preparation),
        ("innerEvalTime", stats.evaluation),
        ("execQueueTime", stats.queued),
        ("execTotalTime", stats.total),
    ];
    let timings = timings.map(|(name, time)| format!("\"{name}\":{}", json!(time.as_secs_f64())));
    let by_step = |name: &str, of: fn(&StepCounts) -> &[u64]| {
        let counts = stats.by_step.as_ref().filter(|counts| !of(counts).is_empty());
        counts.map(|counts| steps_json(name, counts.steps, of(counts))).unwrap_or_default()
    };
    format!(
        "{{\"timings\":{{{}}},\"samples\":{{{}\"totalQueryableSamples\":{},{}\"samplesRead\":{},\
         \"seriesTouched\":{},\"peakSamples\":{}}}}}",
        timings.join(","),
        by_step("totalQueryableSamplesPerStep", |counts| &counts.queryable),
        stats.total_queryable_samples,
        by_step("samplesReadPerStep", |counts| &counts.read),
        stats.samples_read,
        stats.series_touched,
        stats.peak_samples
    )
}

/// A number for each step, with a comma at the end.
fn steps_json(name: &str, steps: Steps, counts: &[u64]) -> String {
    let mut out = format!("\"{name}\":");
    let mut separator = '[';
    for (time, count) in steps.times().zip(counts) {
        let _ = write!(out, "{separator}[{},{count}]", time as f64 / 1000.0);
        separator = ',';
    }
    out + "],"
}

fn write_sample(out: &mut String, sample: &Sample) {
    out.push_str("{\"metric\":");
    json::labels(out, &sample.labels);
    let time = timestamp(sample.time);
    match &sample.value {
        Value::Float(value) => {
            let _ = write!(out, ",\"value\":[{time},\"{}\"]}}", sample_value(*value));
        }
        Value::Histogram(histogram) => {
            let _ = write!(out, ",\"histogram\":[{time},");
            write_histogram(out, histogram);
            out.push_str("]}");
        }
    }
}

/// Floats that are written at a time.
const FLOATS_AT_A_TIME: usize = 1024;

/// A matrix that is written in small pieces.
struct Matrix {
    series: std::vec::IntoIter<SeriesPoints>,
    /// The series that is being written.
    current: Option<OpenSeries>,
    /// Whether `current` is the first series.
    first: bool,
    room: Room,
}

/// The rest of a series.
struct OpenSeries {
    floats: std::vec::IntoIter<(i64, f64)>,
    histograms: std::vec::IntoIter<(i64, Arc<FloatHistogram>)>,
    /// The texts before the next point, and after the last one.
    before: &'static str,
    end: &'static str,
    /// Bytes of the series in memory.
    bytes: usize,
}

impl Matrix {
    /// Writes a piece. `false` = nothing is left.
    fn next(&mut self, out: &mut String) -> bool {
        let Some(current) = &mut self.current else {
            let Some(series) = self.series.next() else { return false };
            if !std::mem::take(&mut self.first) {
                out.push(',');
            }
            self.current = Some(OpenSeries::begin(out, series));
            return true;
        };
        if !current.next(out) {
            // If the client disconnects, dropping `room` returns the rest.
            self.room.give_back(current.bytes);
            self.current = None;
        }
        true
    }
}

impl OpenSeries {
    fn begin(out: &mut String, series: SeriesPoints) -> Self {
        out.push_str("{\"metric\":");
        json::labels(out, &series.labels);
        let bytes = series.bytes();
        let (floats, histograms) = (series.floats.into_iter(), series.histograms.into_iter());
        Self { floats, histograms, before: ",\"values\":[", end: "", bytes }
    }

    /// Writes some points, or the end of the series: then it returns `false`.
    fn next(&mut self, out: &mut String) -> bool {
        if self.floats.len() > 0 {
            for (time, value) in self.floats.by_ref().take(FLOATS_AT_A_TIME) {
                out.push_str(self.before);
                out.push('[');
                push_timestamp(out, time);
                out.push_str(",\"");
                push_sample_value(out, value);
                out.push_str("\"]");
                (self.before, self.end) = (",", "]");
            }
            if self.floats.len() == 0 {
                out.push_str(std::mem::take(&mut self.end));
            }
            return true;
        }
        if let Some((time, histogram)) = self.histograms.next() {
            let before = if self.end.is_empty() { ",\"histograms\":[" } else { "," };
            let _ = write!(out, "{before}[{},", timestamp(time));
            write_histogram(out, &histogram);
            out.push(']');
            self.end = "]";
            return true;
        }
        out.push_str(self.end);
        out.push('}');
        false
    }
}

fn write_histogram(out: &mut String, histogram: &FloatHistogram) {
    let (count, sum) = (sample_value(histogram.count), sample_value(histogram.sum));
    let _ = write!(out, "{{\"count\":\"{count}\",\"sum\":\"{sum}\"");
    let (mut separator, mut end) = (",\"buckets\":[", "");
    for bucket in histogram.buckets().filter(|bucket| bucket.count != 0.0) {
        let [lower, upper, count] = [bucket.lower, bucket.upper, bucket.count].map(sample_value);
        let rule = bucket.rule as u8;
        let _ = write!(out, "{separator}[{rule},\"{lower}\",\"{upper}\",\"{count}\"]");
        (separator, end) = (",", "]");
    }
    out.push_str(end);
    out.push('}');
}
