//! Points of series for query languages other than PromQL, under the limits of a query.
//!
//! [`Engine::evaluate_raw`] waits for a permit like a query, and gives a [`RawReader`] to work on a blocking thread.
//! The budget of the query counts label sets and chunks while they are held; each point read counts as taken from the
//! store, a histogram as one. Reading notices within 1,024 points that the query was canceled, is late or has read too
//! much. Histograms have no raw points.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Instant;

use tokio::runtime::Handle;
use tokio::task::spawn_blocking;
use tokio::time::timeout_at;
use tracing::{Instrument, Span, info_span};

use super::budget::Held;
use super::context::Context;
use super::engine::{Engine, QueryOptions};
use super::error::{EVALUATION, QueryError, joined};
use super::plan::Requested;
use super::source::{Selected, damaged, in_range, select};
use super::steps::Steps;
use promkairos_chunk::{Chunk, ChunkError, StampedPoint};
use promkairos_model::limits::READ_RUN_BYTES;
use promkairos_model::{Labels, Matcher, TimeRange, Value};
use promkairos_storage::{RunLength, Store, chunk_bytes};

/// Points after which the limits of the query are checked.
const AT_ONCE: u64 = 1_024;
/// Most series that are read at a time.
const RUN_SERIES: usize = 256;
/// Series of the first run.
const FIRST_RUN: usize = 16;
/// Bytes of a decoded point of a chunk in columns.
const POINT_BYTES: usize = 16;
/// Bytes of a series that is being read, besides its labels and chunks.
const SERIES_BYTES: usize = 512;
/// Bytes of a label in a map, besides its text.
const LABEL_BYTES: usize = 128;

impl Engine {
    /// Runs `work` under the limits of a query, on a blocking thread. Fails as a query does, or as `work` does; if the
    /// time is over, before `work` has ended.
    pub async fn evaluate_raw<T: Send + 'static>(
        &self,
        store: Arc<dyn Store>,
        options: &QueryOptions,
        work: impl FnOnce(&RawReader) -> Result<T, QueryError> + Send + 'static,
    ) -> Result<T, QueryError> {
        let begin = options.began.unwrap_or_else(Instant::now);
        let guard = self.watched(Steps::instant(0), 0, begin, options);
        let evaluation = async {
            let permit = self.admit(&guard).await?;
            let (context, runtime) = (Arc::clone(&guard.context), Handle::current());
            let reader = RawReader { store, context, runtime };
            let evaluate = async move {
                let span = Span::current();
                // Work that goes on for a moment after its time is over still has its permit.
                let work = move || {
                    let _permit = permit;
                    let done = span.in_scope(|| work(&reader))?;
                    // The last points that it read may be beyond the limit.
                    reader.check().map(|()| done)
                };
                joined(spawn_blocking(work).await)
            };
            evaluate.instrument(info_span!("evaluate")).await
        };
        guard.in_time(evaluation).await
    }
}

/// Waits for `work` until the time of the query is over: what waits longer could outlive the runtime.
fn in_time<T>(
    runtime: &Handle,
    context: &Context,
    work: impl Future<Output = T>,
) -> Result<T, QueryError> {
    let deadline = context.deadline().into();
    let done = runtime.block_on(async { timeout_at(deadline, work).await });
    done.map_err(|_| context.late(EVALUATION))
}

/// Reads series for one query. Its calls block.
pub struct RawReader {
    store: Arc<dyn Store>,
    context: Arc<Context>,
    runtime: Handle,
}

impl RawReader {
    /// Label sets of the matching series, and the reader of their points in the range.
    pub fn select(
        &self,
        matchers: Vec<Matcher>,
        range: TimeRange,
    ) -> Result<RawSelection, QueryError> {
        self.context.check()?;
        let requested = Requested { matchers, range, hints: None, users: 1 };
        let selected = select(&*self.store, &requested, &self.context.budget);
        let selected = in_time(&self.runtime, &self.context, selected)??;
        self.context.add_series(selected.series.len())?;
        let context = Arc::clone(&self.context);
        let passed = Passed { context, points: Cell::new(0), steps: Cell::new(0) };
        Ok(RawSelection { selected, runtime: self.runtime.clone(), passed })
    }

    /// Fails if the query is canceled or late.
    pub fn check(&self) -> Result<(), QueryError> {
        self.context.check()
    }

    /// Memory of the query that holds nothing yet.
    pub fn memory(&self) -> Held {
        self.context.budget.nothing()
    }
}

/// Selected series.
pub struct RawSelection {
    selected: Arc<Selected>,
    runtime: Handle,
    passed: Passed,
}

impl RawSelection {
    /// The label sets, sorted.
    pub fn labels(&self) -> impl Iterator<Item = &Labels> {
        self.selected.series.iter().map(|series| &series.labels)
    }

    /// The chunks of the series for whose labels `is_wanted` returns true, all in memory.
    pub fn read(
        &self,
        is_wanted: impl Fn(&Labels) -> bool,
    ) -> Result<Vec<RawSeries<'_>>, QueryError> {
        let reader = &*self.selected.reader;
        let mut length = RunLength::new(RUN_SERIES, READ_RUN_BYTES, FIRST_RUN);
        let mut all = Vec::new();
        let is_wanted = |labels: &Labels| self.passed.step().map(|()| is_wanted(labels));
        let wanted = self.labels().map(is_wanted).collect::<Result<Vec<bool>, QueryError>>()?;
        let (mut first, total) = (0, wanted.len());
        while let Some(skipped) = wanted[first..].iter().position(|is_wanted| *is_wanted) {
            first += skipped;
            let others = wanted[first..].iter().take(RUN_SERIES).position(|is_wanted| !is_wanted);
            let end = others.map_or(total, |wanted| first + wanted);
            let run = length.run(reader, first, end);
            first = run.end;
            self.passed.context.check()?;
            let read = reader.read(run.clone());
            let chunks = in_time(&self.runtime, &self.passed.context, read)??;
            length.note(chunks.len(), chunk_bytes(&chunks));
            for (at, chunks) in run.zip(chunks) {
                all.push(self.series(at, chunks)?);
            }
        }
        Ok(all)
    }

    fn series(&self, at: usize, chunks: Vec<Chunk>) -> Result<RawSeries<'_>, QueryError> {
        let labels = &self.selected.series[at].labels;
        // Columns of one chunk are in memory at a time.
        let largest = chunks.iter().map(|chunk| usize::from(chunk.count)).max().unwrap_or(0);
        let bytes = chunk_bytes(std::slice::from_ref(&chunks))
            + largest * POINT_BYTES
            + labels.as_bytes().len()
            + labels.iter().count() * LABEL_BYTES
            + SERIES_BYTES;
        let held = self.passed.context.budget.hold(0, bytes)?;
        let (range, passed) = (self.selected.range, &self.passed);
        Ok(RawSeries { labels, chunks, range, passed, _held: held })
    }
}

/// A number in the type in which it was written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RawValue {
    /// A float.
    Double(f64),
    /// An integer, which PromQL sees as the nearest float.
    Long(i64),
}

/// One series with its chunks.
pub struct RawSeries<'a> {
    /// The label set.
    pub labels: &'a Labels,
    chunks: Vec<Chunk>,
    range: TimeRange,
    passed: &'a Passed,
    _held: Held,
}

impl RawSeries<'_> {
    /// Most points that it may have.
    pub fn max_points(&self) -> usize {
        in_range(&self.chunks, self.range).map(|chunk| usize::from(chunk.count)).sum()
    }

    /// The numbers in the range with their times in milliseconds, rising in time.
    pub fn points(&self) -> impl Iterator<Item = Result<(i64, RawValue), QueryError>> {
        let points = in_range(&self.chunks, self.range).flat_map(Chunk::stamped_points);
        points.filter_map(move |point| match self.point(point) {
            Ok(point) => point.map(Ok),
            Err(error) => Some(Err(error)),
        })
    }

    fn point(
        &self,
        point: Result<StampedPoint, ChunkError>,
    ) -> Result<Option<(i64, RawValue)>, QueryError> {
        let StampedPoint { point, long, .. } = point.map_err(damaged)?;
        if !self.range.contains(point.timestamp) {
            return self.passed.step().map(|()| None);
        }
        self.passed.read()?;
        let value = match (long, point.value) {
            (Some(long), _) => RawValue::Long(long),
            (None, Value::Float(value)) => RawValue::Double(value),
            (None, Value::Histogram(_)) => return Ok(None),
        };
        Ok(Some((point.timestamp, value)))
    }
}

/// Counts what passes of a selection, whichever series it is of.
struct Passed {
    context: Arc<Context>,
    /// Points that were read and are not counted yet.
    points: Cell<u64>,
    /// Steps since the last check.
    steps: Cell<u64>,
}

impl Passed {
    /// A point of the range was read.
    fn read(&self) -> Result<(), QueryError> {
        self.points.set(self.points.get() + 1);
        self.step()
    }

    /// Something else was done.
    fn step(&self) -> Result<(), QueryError> {
        self.steps.set((self.steps.get() + 1) % AT_ONCE);
        if self.steps.get() > 0 {
            return Ok(());
        }
        self.count();
        self.context.check()
    }

    fn count(&self) {
        let points = self.points.take();
        let destination = self.context.counts.destination();
        let mut tally = destination.tally();
        tally.add(0, points, points);
        self.context.counts.add(&tally);
    }
}

impl Drop for Passed {
    fn drop(&mut self) {
        self.count();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::setting_names::{MAX_BYTES, MAX_SAMPLES_READ, MAX_SERIES};
    use crate::settings::Settings;
    use promkairos_chunk::encode_points;
    use promkairos_model::{METRIC_NAME, Point};
    use promkairos_storage::memory::MemoryStore;
    use promkairos_storage::{Flush, SeriesRun};

    /// Ten series `m{i="0"}` to `m{i="9"}`, each with a float at 0 to 2,999.
    async fn store() -> Arc<dyn Store> {
        let point = |timestamp| Point {
            timestamp,
            start_timestamp: 0,
            value: Value::Float(timestamp as f64 / 2.0),
        };
        let chunks = encode_points(&(0..3_000).map(point).collect::<Vec<_>>());
        let run = |i: usize| SeriesRun {
            labels: Labels::from_pairs([(METRIC_NAME, "m"), ("i", &i.to_string())]).expect("valid"),
            chunks: chunks.clone(),
        };
        let runs = Box::new((0..10).map(run).collect::<Vec<_>>().into_iter());
        let (exemplars, days, metadata, pace) = Default::default();
        let flush = Flush { through: 0, runs, exemplars, days, metadata, pace };
        let store = MemoryStore::new();
        store.ingest_flush(flush).await.expect("chunks that were just encoded");
        Arc::new(store)
    }

    /// The times that the series with an odd number have in the range.
    async fn odd(settings: Settings, options: &QueryOptions) -> Result<Vec<i64>, QueryError> {
        let engine = Engine::new(settings);
        let read = |reader: &RawReader| {
            let matchers = vec![Matcher::equal(METRIC_NAME, "m")];
            let selection = reader.select(matchers, TimeRange::new(1_000, 2_499))?;
            assert_eq!(selection.labels().count(), 10);
            let is_odd = |labels: &Labels| labels.get("i").parse::<u32>().is_ok_and(|i| i % 2 == 1);
            let found = selection.read(is_odd)?;
            let mut times = Vec::new();
            for series in &found {
                for point in series.points() {
                    let (time, value) = point?;
                    assert_eq!(value, RawValue::Double(time as f64 / 2.0));
                    times.push(time);
                }
                assert!(series.max_points() >= 1_500);
            }
            Ok(times)
        };
        engine.evaluate_raw(store().await, options, read).await
    }

    #[tokio::test]
    async fn the_points_of_wanted_series_are_read_and_counted() {
        let options = QueryOptions::default();
        let times = odd(Settings::default(), &options).await.expect("read");
        assert_eq!(times, (0..5).flat_map(|_| 1_000..2_500).collect::<Vec<i64>>());
        assert_eq!((options.cost.samples_read(), options.cost.series_touched()), (7_500, 10));
    }

    #[tokio::test]
    async fn the_limits_of_a_query_hold() {
        let limit = |settings| async {
            odd(settings, &QueryOptions::default()).await.expect_err("beyond a limit").setting()
        };
        for max_samples_read in [1, 2_000, 7_499] {
            let settings = Settings { max_samples_read, ..Settings::default() };
            assert_eq!(limit(settings).await, Some(MAX_SAMPLES_READ));
        }
        assert_eq!(
            limit(Settings { max_series: 9, ..Settings::default() }).await,
            Some(MAX_SERIES)
        );
        let settings = Settings { max_bytes: 20_000, ..Settings::default() };
        assert_eq!(limit(settings).await, Some(MAX_BYTES));
        let options = QueryOptions { timeout: Some(Duration::ZERO), ..QueryOptions::default() };
        let late = odd(Settings::default(), &options).await.expect_err("it has no time");
        assert!(matches!(late, QueryError::TimedOut { .. }), "{late}");
    }
}
