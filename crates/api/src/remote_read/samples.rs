//! The answer of the type SAMPLES: one snappy block with a `ReadResponse`.
//!
//! The block is in memory whole, so samples and bytes are limited: by the limits of a query, and by
//! a share of all memory. Floats and histograms are encoded while they are decoded; no list of
//! samples is built.

use crate::workers::Caller;
use crate::{ApiError, AppState};
use promkairos_chunk::Chunk;
use promkairos_model::{
    Counts, Histogram, Labels, LabelsRef, ResetHint, ShownSize, Span, TimeRange, Value,
};
use promkairos_storage::{MEMORY_LIMIT, SelectHints, SharedStore};
use promkairos_telemetry::LimitMetrics;
use promkairos_wire::snappy;

use super::named::named;
use super::protobuf::{
    enclose, put_double, put_double_always, put_int, put_packed_doubles, put_packed_sints,
    put_sint, put_uint, put_uint_always,
};
use super::request::Query;
use super::runs::{Run, Runs};
use super::window::{around, first_hint, has_point, overlapping, reaches_over};

/// The setting that limits samples, shared with queries.
const MAX_SAMPLES: &str = "query-max-samples";

/// Reads all that the queries select and returns the compressed answer.
pub(super) async fn answer(
    state: &AppState,
    store: &SharedStore,
    queries: &[Query],
) -> Result<Vec<u8>, ApiError> {
    let workers = &state.workers;
    let max_samples = state.evaluator().engine.settings().max_samples;
    let reached = state.metrics.http.limits.clone();
    let mut response = Response::with_limits(max_samples, state.read_answer_bytes, reached);
    for query in queries {
        let start = response.bytes.len();
        if query.matchers.is_empty() {
            enclose(&mut response.bytes, 1, start);
            continue;
        }
        // The client sorts.
        let hints = SelectHints { sorted: false, ..state.read_hints(query.hints.clone()) };
        let selection = store.select(&query.matchers, around(query.range), &hints).await;
        let mut runs = Runs::new(selection.map_err(named)?, hints.max_series_bytes);
        while let Some(run) = runs.next().await {
            let (run, range) = (run.map_err(named)?, query.range);
            let external = query.external.clone();
            let push = move |caller: &Caller<'_>| response.push_run(&run, range, &external, caller);
            response = workers.run(push).await?;
        }
        let enclosed = move |_: &Caller<'_>| {
            enclose(&mut response.bytes, 1, start);
            Ok(response)
        };
        response = workers.run(enclosed).await?;
    }
    state.metrics.http.read_series.inc_by(response.series);
    state.metrics.http.read_bytes.inc_by(response.bytes.len() as u64);
    let compress = move |_: &Caller<'_>| {
        let block = snappy::compress(&response.bytes);
        block.map_err(|error| ApiError::BadRequest(error.to_string()))
    };
    workers.run(compress).await
}

/// The answer, as far as it is encoded.
struct Response {
    bytes: Vec<u8>,
    series: u64,
    samples: usize,
    max_samples: usize,
    max_bytes: usize,
    /// Counts answers that reach a limit.
    reached: LimitMetrics,
}

impl Response {
    fn with_limits(max_samples: usize, max_bytes: usize, reached: LimitMetrics) -> Self {
        Self { bytes: Vec::new(), series: 0, samples: 0, max_samples, max_bytes, reached }
    }

    /// Appends the series of a run, with the external labels that they do not have.
    fn push_run(
        mut self,
        run: &Run,
        range: TimeRange,
        external: &Labels,
        caller: &Caller<'_>,
    ) -> Result<Self, ApiError> {
        let mut buffer = Vec::new();
        for (labels, chunks) in run.series() {
            let labels = labels.as_ref().completed_in(external.as_ref(), &mut buffer);
            self.series += u64::from(self.push_series(labels, chunks, range, caller)?);
        }
        Ok(self)
    }

    /// Appends a series. Returns false and writes nothing if it has no point in the range. If the range ends before
    /// it starts, the series is written without samples if it spans the range.
    fn push_series(
        &mut self,
        labels: LabelsRef<'_>,
        chunks: &[Chunk],
        range: TimeRange,
        caller: &Caller<'_>,
    ) -> Result<bool, ApiError> {
        caller.check()?;
        let damaged = |source| ApiError::Chunk { series: labels.to_owned(), source };
        let (overlap, is_wanted) = match range.is_empty() {
            true => (&[][..], reaches_over(chunks, range)),
            false => {
                let overlap = overlapping(chunks, range);
                (overlap, has_point(overlap, range).map_err(damaged)?)
            }
        };
        if !is_wanted {
            return Ok(false);
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(labels.as_bytes());
        self.check_limits()?;
        // Floats before histograms, the order of the fields in Prometheus.
        let of_kind = |floats| overlap.iter().filter(move |c| c.kind.is_floats() == floats);
        for chunk in of_kind(true).chain(of_kind(false)) {
            caller.check()?;
            let mut before = None;
            for point in chunk.points() {
                let point = point.map_err(damaged)?;
                if range.contains(point.timestamp) {
                    self.samples += 1;
                    match &point.value {
                        Value::Float(value) => self.push_float(point.timestamp, *value),
                        Value::Histogram(histogram) => {
                            let mut hint = histogram.reset_hint;
                            if before.is_none_or(|before| before < range.start) {
                                hint = first_hint(hint, before, range);
                            }
                            let at = self.bytes.len();
                            push_histogram(&mut self.bytes, point.timestamp, histogram, hint);
                            enclose(&mut self.bytes, 4, at);
                        }
                    }
                }
                before = Some(point.timestamp);
            }
            self.check_limits()?;
        }
        enclose(&mut self.bytes, 1, start);
        Ok(true)
    }

    fn push_float(&mut self, timestamp: i64, value: f64) {
        // A sample has at most 20 bytes, so its length is one byte.
        self.bytes.extend_from_slice(&[2 << 3 | 2, 0]);
        let start = self.bytes.len();
        put_double(&mut self.bytes, 1, value);
        put_int(&mut self.bytes, 2, timestamp);
        self.bytes[start - 1] = (self.bytes.len() - start) as u8;
    }

    fn check_limits(&self) -> Result<(), ApiError> {
        let Self { max_samples, max_bytes, .. } = self;
        if self.samples > *max_samples {
            self.reached.reached(MAX_SAMPLES);
            // The text begins as in Prometheus.
            return Err(ApiError::BadRequest(format!(
                "exceeded sample limit ({max_samples}), which is the setting {MAX_SAMPLES}, use \
                 STREAMED_XOR_CHUNKS"
            )));
        }
        if self.bytes.len() > *max_bytes {
            self.reached.reached(MEMORY_LIMIT);
            return Err(ApiError::BadRequest(format!(
                "exceeded response limit ({}), which is a share of the setting {MEMORY_LIMIT}, use \
                 STREAMED_XOR_CHUNKS",
                ShownSize::of(*max_bytes)
            )));
        }
        Ok(())
    }
}

/// The fields of a `prometheus.Histogram`.
fn push_histogram(out: &mut Vec<u8>, timestamp: i64, histogram: &Histogram, hint: ResetHint) {
    match &histogram.counts {
        Counts::Integer { count, .. } => put_uint_always(out, 1, *count),
        Counts::Float { count, .. } => put_double_always(out, 2, *count),
    }
    put_double(out, 3, histogram.sum);
    put_sint(out, 4, histogram.schema);
    put_double(out, 5, histogram.zero_threshold);
    match &histogram.counts {
        Counts::Integer { zero_count, .. } => put_uint_always(out, 6, *zero_count),
        Counts::Float { zero_count, .. } => put_double_always(out, 7, *zero_count),
    }
    push_spans(out, 8, &histogram.negative_spans);
    match &histogram.counts {
        Counts::Integer { negative, .. } => put_packed_sints(out, 9, negative),
        Counts::Float { negative, .. } => put_packed_doubles(out, 10, negative),
    }
    push_spans(out, 11, &histogram.positive_spans);
    match &histogram.counts {
        Counts::Integer { positive, .. } => put_packed_sints(out, 12, positive),
        Counts::Float { positive, .. } => put_packed_doubles(out, 13, positive),
    }
    put_uint(out, 14, hint as u64);
    put_int(out, 15, timestamp);
    put_packed_doubles(out, 16, &histogram.custom_values);
}

fn push_spans(out: &mut Vec<u8>, field: u64, spans: &[Span]) {
    for span in spans {
        let start = out.len();
        put_sint(out, 1, span.offset);
        put_uint(out, 2, u64::from(span.length));
        enclose(out, field, start);
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;
    use crate::proto::v1::{self, histogram::Count};
    use promkairos_chunk::encode_points;
    use promkairos_model::{Point, Sample};

    /// A caller that still waits for the result.
    const HERE: Caller<'_> = Caller(&|| false);

    fn labels() -> Labels {
        Labels::from_pairs([("__name__", "up"), ("job", "a")]).expect("valid")
    }

    fn floats(samples: &[(i64, f64)]) -> Vec<Chunk> {
        let points: Vec<Point> = samples
            .iter()
            .map(|&(timestamp, value)| Sample { timestamp, start_timestamp: 0, value }.into())
            .collect();
        encode_points(&points)
    }

    /// The series, decoded with code that the encoder does not share.
    fn decode(response: Response) -> Vec<v1::TimeSeries> {
        v1::QueryResult::decode(response.bytes.as_slice()).expect("a message").timeseries
    }

    #[test]
    fn the_series_of_the_reference() {
        let mut response = Response::with_limits(10, 1000, LimitMetrics::default());
        let chunks = floats(&[(1_700_000_000_000, 1.0)]);
        response.push_series(labels().as_ref(), &chunks, TimeRange::ALL, &HERE).expect("small");
        let want =
            b"\x0a\x2c\x0a\x0e\x0a\x08__name__\x12\x02up\x0a\x08\x0a\x03job\x12\x01a\x12\x10\
            \x09\x00\x00\x00\x00\x00\x00\xf0\x3f\x10\x80\xd0\x95\xff\xbc\x31";
        assert_eq!(response.bytes, want);
    }

    #[test]
    fn samples_are_cut_to_the_range_and_keep_their_bits() {
        let stale = f64::from_bits(promkairos_model::STALE_NAN_BITS);
        let chunks = floats(&[(-9, 5.0), (0, -0.0), (1, 0.0), (2, stale), (9, 1.0)]);
        let mut response = Response::with_limits(10, 1000, LimitMetrics::default());
        let written = response.push_series(labels().as_ref(), &chunks, TimeRange::new(0, 2), &HERE);
        assert!(written.expect("small"));
        let series = decode(response);
        let samples: Vec<(i64, u64)> =
            series[0].samples.iter().map(|s| (s.timestamp, s.value.to_bits())).collect();
        assert_eq!(samples, [(0, (-0.0_f64).to_bits()), (1, 0), (2, stale.to_bits())]);

        let mut response = Response::with_limits(10, 1000, LimitMetrics::default());
        let written = response.push_series(labels().as_ref(), &chunks, TimeRange::new(3, 8), &HERE);
        assert!(!written.expect("small") && response.bytes.is_empty());
    }

    #[test]
    fn limits_name_themselves() {
        let chunks = floats(&[(1, 5.0), (2, 6.0), (3, 7.0)]);
        let check = |max_samples, max_bytes, want: &str| {
            let mut response =
                Response::with_limits(max_samples, max_bytes, LimitMetrics::default());
            let error = response.push_series(labels().as_ref(), &chunks, TimeRange::ALL, &HERE);
            assert_eq!(error.expect_err("too much").to_string(), want);
        };
        check(
            2,
            1000,
            "exceeded sample limit (2), which is the setting query-max-samples, use \
             STREAMED_XOR_CHUNKS",
        );
        check(
            3,
            50,
            "exceeded response limit (50 bytes), which is a share of the setting memory-limit, use \
             STREAMED_XOR_CHUNKS",
        );
    }

    #[test]
    fn a_histogram_has_every_field() {
        let histogram = Histogram {
            schema: -4,
            zero_threshold: 0.001,
            sum: -0.0,
            reset_hint: ResetHint::Gauge,
            positive_spans: vec![Span { offset: -5, length: 2 }, Span { offset: 1, length: 1 }],
            negative_spans: vec![Span { offset: 0, length: 1 }],
            custom_values: vec![0.5, 2.5],
            counts: Counts::Integer {
                count: 0,
                zero_count: 0,
                positive: vec![1, -1, i64::MIN],
                negative: vec![i64::MAX],
            },
        };
        let mut bytes = Vec::new();
        push_histogram(&mut bytes, -7, &histogram, histogram.reset_hint);
        let got = v1::Histogram::decode(bytes.as_slice()).expect("a message");
        assert_eq!(got.count, Some(Count::CountInt(0)), "an arm is written also when it is 0");
        assert_eq!(got.zero_count, Some(v1::histogram::ZeroCount::ZeroCountInt(0)));
        assert_eq!((got.schema, got.timestamp, got.reset_hint), (-4, -7, 3));
        assert_eq!(got.sum.to_bits(), (-0.0_f64).to_bits());
        assert_eq!(got.zero_threshold.to_bits(), 0.001_f64.to_bits());
        let spans: Vec<_> = got.positive_spans.iter().map(|s| (s.offset, s.length)).collect();
        assert_eq!(spans, [(-5, 2), (1, 1)]);
        assert_eq!(got.negative_spans.len(), 1);
        assert_eq!(got.positive_deltas, [1, -1, i64::MIN]);
        assert_eq!(got.negative_deltas, [i64::MAX]);
        assert_eq!(got.custom_values, [0.5, 2.5]);
        assert!(got.positive_counts.is_empty() && got.negative_counts.is_empty());
    }
}
