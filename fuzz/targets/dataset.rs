//! Twenty minutes of series that are difficult for queries: counters with resets, gaps, stale
//! markers, NaN and infinities, native histograms of every kind, classic ones, UTF-8 names,
//! instances that come and go.

use promkairos::api::proto::v1;
use promkairos::api::proto::v1::histogram::{Count, ResetHint, ZeroCount};

/// Time of the first sample in milliseconds.
pub(crate) const START: i64 = 1_700_000_010_000;
/// Milliseconds between samples.
pub(crate) const STEP: i64 = 15_000;
/// Samples of a series without gaps.
pub(crate) const SAMPLES: i64 = 80;

/// The NaN that marks the end of a series.
const STALE: u64 = 0x7ff0_0000_0000_0002;

/// The series of a seed, without duplicates.
pub(crate) fn series(seed: u64) -> Vec<v1::TimeSeries> {
    let mut random = Random(seed | 1);
    let mut all = Vec::new();
    for (instance, job) in [("0", "api"), ("1", "api"), ("2", "web"), ("3", "web")] {
        let labels = [("__name__", "requests_total"), ("instance", instance), ("job", job)];
        all.push(floats(&labels, counter(&mut random, instance)));
    }
    for room in ["a", "b", "c"] {
        let value = |random: &mut Random, at: i64| match (room, at) {
            ("c", 20..=25) => f64::NAN,
            ("c", 50) => f64::INFINITY,
            _ => random.fraction() * 40.0 - 10.0,
        };
        let values = (0..SAMPLES).map(|at| (at, value(&mut random, at))).collect();
        all.push(floats(&[("__name__", "temperature"), ("room", room)], values));
    }
    for (side, gap) in [("left", 3), ("right", 30)] {
        // Absent for a while, with a marker and without.
        let away = |at: &i64| at % (2 * gap) < gap;
        let value =
            |at: i64| if side == "left" && at % (2 * gap) == gap - 1 { stale() } else { 1.0 };
        let values = (0..SAMPLES).filter(away).map(|at| (at, value(at))).collect();
        all.push(floats(&[("__name__", "flapping"), ("side", side)], values));
    }
    for dots in ["x", "y"] {
        let values = (0..SAMPLES).map(|at| (at, random.fraction())).collect();
        all.push(floats(&[("__name__", "utf8.metric"), ("label.dots", dots)], values));
    }
    for instance in ["0", "1"] {
        all.extend(classic(&mut random, instance));
        all.push(histograms("native", instance, |at| exponential(at, instance == "1")));
        all.push(histograms("native_gauge", instance, gauge));
        all.push(histograms("native_custom", instance, custom));
    }
    all
}

fn stale() -> f64 {
    f64::from_bits(STALE)
}

/// Grows, is reset now and then, misses samples; instance 2 ends in the middle, where 3 begins.
fn counter(random: &mut Random, instance: &str) -> Vec<(i64, f64)> {
    let (mut value, mut values) = (0.0, Vec::new());
    for at in 0..SAMPLES {
        value += (random.fraction() * 16.0).floor() / 4.0;
        if random.next().is_multiple_of(23) {
            value = 0.25;
        }
        match (instance, at) {
            ("2", 40) => values.push((at, stale())),
            ("2", 41..) | ("3", ..=40) => {}
            ("1", _) if random.next().is_multiple_of(5) => {}
            _ => values.push((at, value)),
        }
    }
    values
}

fn classic(random: &mut Random, instance: &str) -> Vec<v1::TimeSeries> {
    const BOUNDS: [&str; 4] = ["0.1", "0.5", "1", "+Inf"];
    let (mut counts, mut sum) = ([0.0; 4], 0.0);
    let mut series: [Vec<(i64, f64)>; 6] = Default::default();
    for at in 0..SAMPLES {
        for _ in 0..3 {
            let first = (random.next() % 4) as usize;
            counts[first..].iter_mut().for_each(|count| *count += 1.0);
            sum += first as f64 * 0.25;
        }
        for (series, value) in series.iter_mut().zip(counts.into_iter().chain([sum, counts[3]])) {
            series.push((at, value));
        }
    }
    let names = ["latency_bucket"; 4].into_iter().chain(["latency_sum", "latency_count"]);
    let bounds = BOUNDS.map(Some).into_iter().chain([None, None]);
    let all = names.zip(bounds).zip(series).map(|((name, bound), values)| {
        let mut labels = vec![("__name__", name), ("instance", instance)];
        labels.extend(bound.map(|bound| ("le", bound)));
        floats(&labels, values)
    });
    all.collect()
}

/// A counter that is reset after 30 samples; `fine`: with another resolution in the second half.
fn exponential(at: i64, fine: bool) -> v1::Histogram {
    let age = (at % 30) as u64 + 1;
    let schema = if fine && at >= 40 { 1 } else { 0 };
    v1::Histogram {
        count: Some(Count::CountInt(6 * age)),
        sum: age as f64 * 3.5,
        schema,
        zero_threshold: 0.001,
        zero_count: Some(ZeroCount::ZeroCountInt(age)),
        positive_spans: vec![span(0, 2), span(1, 1)],
        // Counts age, 3 age, age.
        positive_deltas: vec![age as i64, 2 * age as i64, -2 * age as i64],
        ..v1::Histogram::default()
    }
}

/// A gauge with buckets on both sides.
fn gauge(at: i64) -> v1::Histogram {
    let wave = at % 7 + 1;
    v1::Histogram {
        count: Some(Count::CountInt(4 * wave as u64)),
        sum: wave as f64 * -0.5,
        schema: 2,
        zero_threshold: 0.01,
        zero_count: Some(ZeroCount::ZeroCountInt(wave as u64)),
        positive_spans: vec![span(1, 2)],
        positive_deltas: vec![wave, 0],
        negative_spans: vec![span(-1, 1)],
        negative_deltas: vec![wave],
        reset_hint: ResetHint::Gauge.into(),
        ..v1::Histogram::default()
    }
}

/// A counter with custom bounds.
fn custom(at: i64) -> v1::Histogram {
    let age = at % 50 + 1;
    v1::Histogram {
        count: Some(Count::CountInt(4 * age as u64)),
        sum: age as f64 * 1.25,
        schema: -53,
        zero_count: Some(ZeroCount::ZeroCountInt(0)),
        positive_spans: vec![span(0, 3)],
        positive_deltas: vec![age, age, -age],
        custom_values: vec![0.1, 0.5, 1.0],
        ..v1::Histogram::default()
    }
}

fn span(offset: i32, length: u32) -> v1::BucketSpan {
    v1::BucketSpan { offset, length }
}

fn labels(pairs: &[(&str, &str)]) -> Vec<v1::Label> {
    let label = |(name, value): &(&str, &str)| v1::Label {
        name: (*name).to_owned(),
        value: (*value).to_owned(),
    };
    pairs.iter().map(label).collect()
}

/// A series with float samples; pairs are sorted by name.
fn floats(pairs: &[(&str, &str)], values: Vec<(i64, f64)>) -> v1::TimeSeries {
    let sample = |(at, value)| v1::Sample { value, timestamp: START + at * STEP };
    let samples = values.into_iter().map(sample).collect();
    v1::TimeSeries { labels: labels(pairs), samples, ..v1::TimeSeries::default() }
}

fn histograms(
    name: &str,
    instance: &str,
    histogram: impl Fn(i64) -> v1::Histogram,
) -> v1::TimeSeries {
    let at = |at| v1::Histogram { timestamp: START + at * STEP, ..histogram(at) };
    v1::TimeSeries {
        labels: labels(&[("__name__", name), ("instance", instance)]),
        histograms: (0..SAMPLES).map(at).collect(),
        ..v1::TimeSeries::default()
    }
}

/// The same numbers from the same seed, in every build.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        // Steele, Lea, Flood: SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number below 1 with few digits.
    fn fraction(&mut self) -> f64 {
        (self.next() % 4096) as f64 / 4096.0
    }
}
