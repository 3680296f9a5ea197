//! How far apart the points of a metric are, and how large its histograms, as this process wrote and read them.
//! Used to estimate the cost of a query: Cassandra's index only says in which three weeks a series is.
//!
//! Only runs of several points are evaluated; a write of one point per series costs nothing here. A bounded
//! number of metrics is remembered, and forgotten when memory is short.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::cql::stamp::now_ms;
use crate::index::found::{FoundRow, windows_of};
use crate::plan::Plan;
use promkairos_chunk::Chunk;
use promkairos_kairos::{DataType, RowSpec};
use promkairos_model::{METRIC_NAME, TimeRange, Value};
use promkairos_storage::forecast::Expected;
use promkairos_storage::{Basis, Forecast};

/// The most metrics that are remembered.
const METRICS: usize = 10_000;
/// Assumed milliseconds between two points where nothing is known.
const GUESS: f64 = 15_000.0;
/// Assumed words of a histogram where nothing is known.
const WORDS: f64 = 20.0;
/// Above this number of intervals or histograms, newer ones count more.
const ENOUGH: f64 = 10_000.0;

/// The observations of all metrics.
#[derive(Debug, Default)]
pub(crate) struct Spacings {
    by_metric: Mutex<HashMap<Box<str>, Seen>>,
}

/// The observations of a metric.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    intervals: f64,
    milliseconds: f64,
    histograms: f64,
    words: f64,
}

impl Seen {
    fn add(&mut self, other: Self) {
        if self.intervals > ENOUGH || self.histograms > ENOUGH {
            let all = [&mut self.intervals, &mut self.milliseconds];
            let sizes = [&mut self.histograms, &mut self.words];
            all.into_iter().chain(sizes).for_each(|sum| *sum /= 2.0);
        }
        self.intervals += other.intervals;
        self.milliseconds += other.milliseconds;
        self.histograms += other.histograms;
        self.words += other.words;
    }

    /// Milliseconds between two points.
    fn spacing(&self) -> Option<f64> {
        (self.intervals > 0.0).then(|| self.milliseconds / self.intervals)
    }

    /// Words of a histogram.
    fn histogram(&self) -> Option<f64> {
        (self.histograms > 0.0).then(|| self.words / self.histograms)
    }
}

impl Spacings {
    /// Observes a write: rows with several points.
    pub(crate) fn written(&self, plan: &Plan, spec: RowSpec) {
        for row in plan.rows.iter().filter(|row| row.cells.len() > 1) {
            let cells = &plan.cells[row.cells.clone()];
            let times = cells.iter().map(|cell| row.timestamp(spec, cell.column()));
            let (Some(first), Some(last)) = (times.clone().min(), times.max()) else { continue };
            if row.data_type == DataType::PromExemplar || first == last {
                continue;
            }
            let metric = plan.series[row.series as usize].labels.get(METRIC_NAME);
            let milliseconds = last.saturating_sub(first) as f64;
            let intervals = (cells.len() - 1) as f64;
            self.note(metric, Seen { intervals, milliseconds, ..Seen::default() });
        }
    }

    /// Observes chunks of a series that were read.
    pub(crate) fn read(&self, metric: &str, chunks: &[Chunk]) {
        let mut seen = Seen::default();
        for chunk in chunks.iter().filter(|chunk| chunk.count > 1) {
            seen.intervals += f64::from(chunk.count) - 1.0;
            seen.milliseconds += chunk.max_time.saturating_sub(chunk.min_time) as f64;
        }
        let histograms = chunks.iter().find(|chunk| !chunk.kind.is_floats());
        if let Some(Ok(point)) = histograms.and_then(|chunk| chunk.points().next())
            && let Value::Histogram(histogram) = point.value
        {
            seen.words = histogram.elements() as f64;
            seen.histograms = 1.0;
        }
        if seen.intervals > 0.0 || seen.histograms > 0.0 {
            self.note(metric, seen);
        }
    }

    fn note(&self, metric: &str, seen: Seen) {
        let mut by_metric = self.by_metric.lock();
        if let Some(known) = by_metric.get_mut(metric) {
            known.add(seen);
            return;
        }
        if by_metric.len() >= METRICS {
            let mut at = 0;
            by_metric.retain(|_, _| {
                at += 1;
                at % 2 == 0
            });
        }
        by_metric.insert(metric.into(), seen);
    }

    /// Forgets everything.
    pub(crate) fn forget_all(&self) {
        *self.by_metric.lock() = HashMap::new();
    }

    /// The expected cost of a read of these rows in `range`.
    pub(crate) fn forecast(
        &self,
        rows: &[Vec<FoundRow>],
        range: TimeRange,
        width: i64,
    ) -> Forecast {
        let by_metric = self.by_metric.lock();
        let mut overall = Seen::default();
        by_metric.values().for_each(|seen| overall.add(*seen));
        let now = now_ms();
        let past = match range.start > now {
            true => range,
            false => TimeRange::new(range.start, range.end.min(now)),
        };
        let mut basis = Basis::Stored;
        let series = rows.iter().map(|rows| {
            let seen = rows.first().and_then(|row| by_metric.get(row.metric())).copied();
            let seen = seen.unwrap_or_default();
            basis = basis.max(match seen.spacing() {
                Some(_) => Basis::Seen,
                None => Basis::Guessed,
            });
            let spacing = seen.spacing().or(overall.spacing()).unwrap_or(GUESS);
            let words = seen.histogram().or(overall.histogram()).unwrap_or(WORDS);
            let mut expected = Expected::default();
            for rows in windows_of(rows) {
                if let Some(own) = window(rows, width).intersection(past) {
                    expected.add(of_window(rows, Expected::evenly(own, spacing), words));
                }
            }
            expected
        });
        Forecast { series: series.collect(), basis }
    }
}

/// The times of a window.
fn window(rows: &[FoundRow], width: i64) -> TimeRange {
    let start = rows[0].row_time.millis();
    match start < 0 {
        true => TimeRange::new(i64::MIN, 0),
        false => TimeRange::new(start, start.saturating_add(width - 1)),
    }
}

/// Points of a series in a window, by the types of its rows. Rows of the type for values that KairosDB
/// cannot show hold mostly stale markers.
fn of_window(rows: &[FoundRow], points: Expected, words: f64) -> Expected {
    let has = |wanted: fn(&DataType) -> bool| rows.iter().any(|row| wanted(row.data_type()));
    let histograms = has(|kind| *kind == DataType::PromHistogram);
    let floats = has(|kind| !matches!(kind, DataType::PromHistogram | DataType::PromDouble));
    let histograms_only = points.as_histograms(words);
    match (floats, histograms) {
        (_, false) => points,
        (false, true) => histograms_only,
        (true, true) => Expected {
            histograms: histograms_only.histograms / 2.0,
            words: histograms_only.words / 2.0,
            ..points
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use promkairos_chunk::encode_points;
    use promkairos_model::Point;

    #[test]
    fn what_was_read_says_how_far_apart_points_are() {
        let spacings = Spacings::default();
        let point = |timestamp| Point { timestamp, start_timestamp: 0, value: Value::Float(1.0) };
        let chunks =
            |every: i64| encode_points(&(0..500).map(|at| point(at * every)).collect::<Vec<_>>());
        let spacing = |metric: &str| spacings.by_metric.lock().get(metric)?.spacing();
        spacings.read("a", &chunks(30_000));
        spacings.read("b", &encode_points(&[point(7)]));
        assert_eq!((spacing("a"), spacing("b")), (Some(30_000.0), None));
        // Later observations count more.
        (0..200).for_each(|_| spacings.read("a", &chunks(10_000)));
        let newer = spacing("a").expect("known");
        assert!((10_000.0..11_000.0).contains(&newer), "{newer}");
        (0..2 * METRICS).for_each(|at| spacings.read(&format!("m{at}"), &chunks(1_000)));
        assert!(spacings.by_metric.lock().len() <= METRICS);
        spacings.forget_all();
        assert_eq!(spacing("a"), None);
    }
}
