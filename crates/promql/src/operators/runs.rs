//! Work on the chunks of series, spread over the cores by runs of series.
//!
//! Runs are read and worked on ahead of the consumer, a few at a time, and given in order. So the
//! runs under way bound the memory, and the result does not depend on the number of cores. If the
//! consumer folds, whole pieces of a run are folded in the same task, and their points are not kept.
//! A run reads about [`READ_RUN_BYTES`], unless it is a single series. The budget of the query counts
//! these bytes until the run was worked on, and the resulting floats until the consumer took them.
//! Starting a run wakes threads, which is expensive compared with the work on a few points of each
//! series: where series have few points, a run has more series.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use futures::FutureExt;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::task::{JoinHandle, spawn_blocking};
use tracing::Instrument;

use super::{Operator, PIECE, PieceFolder, Series};
use crate::budget::Held;
use crate::context::Context;
use crate::error::{QueryError, joined};
use crate::points::Points;
use crate::source::Selected;
use promkairos_chunk::Chunk;
use promkairos_model::TimeRange;
use promkairos_model::limits::READ_RUN_BYTES;
use promkairos_storage::{RunLength, StoreError, chunk_bytes};

/// Maximum number of steps of all series of a run together.
const RUN_STEPS: usize = 1 << 18;
/// Maximum number of series of a run, if they have few points.
const RUN_SERIES: usize = 256;
/// Maximum number of series of a run, if they have many points.
const RUN_LONG_SERIES: usize = 64;
/// Estimated points of all series of a run together, if it has more than [`RUN_LONG_SERIES`].
const RUN_POINTS: u64 = 1 << 16;
/// Milliseconds between two points of a series, for the estimate.
const SPACING: u64 = 15_000;
/// Minimum number of series of a run, if there are few series for all cores.
const FEWEST_SERIES: usize = 16;
/// Bytes of a decoded sample.
const SAMPLE_BYTES: usize = 16;
/// At most this many series are not spread over the cores.
const FEW_SERIES: usize = 4;

/// The work on one series.
pub(crate) trait SeriesWork: Send + Sync + 'static {
    /// Memory that is reused from one series of a run to the next.
    type Scratch: Default;
    /// Whether pieces of the results may be folded.
    const FOLDS: bool = true;

    /// The selection whose chunks it works on.
    fn selected(&self) -> &Arc<Selected>;

    /// The series of the result.
    fn series(&self) -> &[Series] {
        &self.selected().series
    }

    /// See [`Operator::named`].
    fn named(&self) -> Option<&[Series]> {
        None
    }

    /// Turns the chunks of the series at `position` into its points.
    fn work(
        &self,
        position: usize,
        chunks: &[Chunk],
        scratch: &mut Self::Scratch,
        points: &mut Points,
    ) -> Result<(), QueryError>;
}

/// The results of the work on all series of a selection, in their order.
pub(crate) struct Runs<W> {
    work: Arc<W>,
    context: Arc<Context>,
    runtime: Handle,
    length: Arc<Mutex<RunLength>>,
    steps: usize,
    /// Maximum number of runs under way.
    ahead: usize,
    next: usize,
    under_way: VecDeque<JoinHandle<Result<Worked, QueryError>>>,
    ready: std::vec::IntoIter<Done>,
    /// The memory of `ready`.
    ready_held: Option<Held>,
    folder: Option<Arc<dyn PieceFolder>>,
}

/// The results of a run, counted in the budget.
struct Worked {
    done: Vec<Done>,
    held: Held,
}

/// A result of a run.
enum Done {
    /// The points of a series.
    Series(Points),
    /// A piece that was folded.
    Piece,
}

impl<W: SeriesWork> Runs<W> {
    /// Work for `steps` steps. Nothing is started.
    pub(crate) fn new(work: W, context: &Arc<Context>, runtime: &Handle, steps: usize) -> Self {
        let selected = work.selected();
        let ahead = std::thread::available_parallelism().map_or(1, usize::from) + 1;
        let even = selected.series.len().div_ceil(ahead);
        let even = even.clamp(FEWEST_SERIES, most_series(selected.range));
        let run = (RUN_STEPS / steps.max(1)).clamp(1, even);
        // All runs under way take at most a quarter of the memory of the query.
        let bytes = READ_RUN_BYTES.min(context.budget.max_bytes() / (4 * ahead));
        let length = RunLength::new(run, bytes, FEWEST_SERIES);
        Self {
            work: Arc::new(work),
            context: Arc::clone(context),
            runtime: runtime.clone(),
            length: Arc::new(Mutex::new(length)),
            steps,
            ahead,
            next: 0,
            under_way: VecDeque::new(),
            ready: Vec::new().into_iter(),
            ready_held: None,
            folder: None,
        }
    }

    fn make_ready(&mut self) -> Result<(), QueryError> {
        while self.ready.as_slice().is_empty() {
            self.context.check()?;
            self.ready_held = None;
            let Worked { done, held } = self.next_run()?;
            (self.ready, self.ready_held) = (done.into_iter(), Some(held));
        }
        Ok(())
    }

    fn next_run(&mut self) -> Result<Worked, QueryError> {
        let selected = self.work.selected();
        let total = selected.series.len();
        if total <= FEW_SERIES {
            let read = self.runtime.block_on(selected.reader.read(0..total));
            self.next = total;
            let read = Read::of(read, &self.context, &self.length)?;
            return work_on(&*self.work, &self.context, None, 0, read);
        }
        while self.next < total && self.under_way.len() < self.ahead {
            let run = self.length.lock().run(&*selected.reader, self.next, total);
            let run = of_whole_pieces(run, total);
            self.next = run.end;
            let run = self.begin(run);
            self.under_way.push_back(run);
        }
        let run = self.under_way.pop_front().expect("asked for no more series than there are");
        joined(self.runtime.block_on(run))
    }

    fn begin(&self, run: Range<usize>) -> JoinHandle<Result<Worked, QueryError>> {
        let (selected, work) = (Arc::clone(self.work.selected()), Arc::clone(&self.work));
        let (context, folder, first) = (Arc::clone(&self.context), self.folder.clone(), run.start);
        let of_budget = (Arc::clone(&self.context), Arc::clone(&self.length));
        let read = async move {
            let read = selected.reader.read(run).await;
            Read::of(read, &of_budget.0, &of_budget.1)
        };
        let mut read = read.in_current_span().boxed();
        let work_on = move |read: Result<Read, QueryError>| {
            work_on(&*work, &context, folder.as_deref(), first, read?)
        };
        // Chunks in memory are ready at once, so no task has to wait for them.
        if let Some(read) = (&mut read).now_or_never() {
            return self.runtime.spawn_blocking(move || work_on(read));
        }
        let run = async move {
            let read = read.await;
            joined(spawn_blocking(move || work_on(read)).await)
        };
        self.runtime.spawn(run.in_current_span())
    }
}

impl<W: SeriesWork> Operator for Runs<W> {
    fn series(&self) -> &[Series] {
        self.work.series()
    }

    fn named(&self) -> Option<&[Series]> {
        self.work.named()
    }

    fn next(&mut self, points: &mut Points) -> Result<(), QueryError> {
        self.make_ready()?;
        match self.ready.next() {
            Some(Done::Series(done)) => {
                if done.has_histograms() {
                    // Work on histograms takes long.
                    self.context.check()?;
                }
                *points = done;
                Ok(())
            }
            Some(Done::Piece) | None => unreachable!("a folded piece is taken as such"),
        }
    }

    /// Folds pieces from now on, unless there are few series or no run can contain a piece.
    fn fold_pieces(&mut self, folder: Arc<dyn PieceFolder>) -> bool {
        let few = self.work.selected().series.len() <= FEW_SERIES;
        let folds = W::FOLDS && !few && self.steps.saturating_mul(PIECE) <= RUN_STEPS;
        self.folder = folds.then_some(folder);
        folds
    }

    fn next_folded(&mut self) -> Result<bool, QueryError> {
        self.make_ready()?;
        let folded = matches!(self.ready.as_slice(), [Done::Piece, ..]);
        if folded {
            self.ready.next();
        }
        Ok(folded)
    }
}

/// The chunks of a run. The budget of the query counts them until they are dropped.
struct Read {
    chunks: Vec<Vec<Chunk>>,
    held: Held,
}

impl Read {
    /// The chunks that a reader returned for a run.
    fn of(
        read: Result<Vec<Vec<Chunk>>, StoreError>,
        context: &Context,
        length: &Mutex<RunLength>,
    ) -> Result<Self, QueryError> {
        let chunks = read?;
        let bytes = chunk_bytes(&chunks);
        length.lock().note(chunks.len(), bytes);
        // Series are decoded one after another, so the largest one decides.
        let samples =
            |chunks: &Vec<Chunk>| chunks.iter().map(|chunk| usize::from(chunk.count)).sum();
        let largest: usize = chunks.iter().map(samples).max().unwrap_or(0);
        let held = context.budget.hold(0, bytes.saturating_add(largest * SAMPLE_BYTES))?;
        Ok(Self { chunks, held })
    }
}

/// The run shortened to whole pieces, unless it is shorter than a piece or the last run.
fn of_whole_pieces(run: Range<usize>, total: usize) -> Range<usize> {
    match run.len() < PIECE || run.end == total {
        true => run,
        false => run.start..run.end / PIECE * PIECE,
    }
}

/// The maximum number of series of a run whose points are in this range.
fn most_series(range: TimeRange) -> usize {
    let points = range.end.abs_diff(range.start) / SPACING;
    let series = usize::try_from(RUN_POINTS / points.max(1)).unwrap_or(usize::MAX);
    series.clamp(RUN_LONG_SERIES, RUN_SERIES)
}

impl<W> Drop for Runs<W> {
    fn drop(&mut self) {
        for run in &self.under_way {
            run.abort();
        }
    }
}

fn work_on<W: SeriesWork>(
    work: &W,
    context: &Context,
    folder: Option<&dyn PieceFolder>,
    first: usize,
    read: Read,
) -> Result<Worked, QueryError> {
    let mut scratch = W::Scratch::default();
    let mut done = Vec::with_capacity(read.chunks.len());
    // The points of a piece, or of a single series.
    let mut piece: Vec<Points> = Vec::new();
    let end = first + read.chunks.len();
    let mut position = first;
    while position < end {
        let whole = position.is_multiple_of(PIECE) && position + PIECE <= end;
        let folder = folder.filter(|folder| whole && folder.wants(position / PIECE));
        let length = if folder.is_some() { PIECE } else { 1 };
        piece.resize_with(length, Points::default);
        for (at, points) in piece.iter_mut().enumerate() {
            context.check()?;
            let chunks = &read.chunks[position + at - first];
            work.work(position + at, chunks, &mut scratch, points)?;
        }
        match folder.is_some_and(|folder| folder.fold(position / PIECE, &piece)) {
            true => done.push(Done::Piece),
            false => done.extend(piece.drain(..).map(Done::Series)),
        }
        position += length;
    }
    let mut held = read.held;
    // The chunks are no longer needed.
    drop(read.chunks);
    let floats = |done: &Done| match done {
        Done::Series(points) => points.steps() * size_of::<f64>() + size_of::<Done>(),
        Done::Piece => size_of::<Done>(),
    };
    held.release();
    held.take(0, done.iter().map(floats).sum())?;
    Ok(Worked { done, held })
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::cost::{CostLimits, Limits};
    use crate::counts::{Counting, SampleCounts};
    use crate::plan::Requested;
    use crate::settings::Settings;
    use crate::source::select;
    use crate::steps::Steps;
    use promkairos_chunk::encode_points;
    use promkairos_model::{Labels, Matcher, Point, Value};
    use promkairos_storage::memory::MemoryStore;
    use promkairos_storage::{Flush, SeriesRun, Store};

    /// Returns the position of each series as its point.
    struct Positions {
        selected: Arc<Selected>,
        steps: usize,
    }

    impl SeriesWork for Positions {
        type Scratch = ();

        fn selected(&self) -> &Arc<Selected> {
            &self.selected
        }

        fn work(
            &self,
            position: usize,
            _: &[Chunk],
            (): &mut (),
            points: &mut Points,
        ) -> Result<(), QueryError> {
            points.clear(self.steps);
            points.floats_mut().fill(position as f64);
            Ok(())
        }
    }

    /// Folds every other piece, and keeps the positions of its series.
    #[derive(Default)]
    struct EveryOther(Mutex<Vec<(usize, Vec<f64>)>>);

    impl PieceFolder for EveryOther {
        fn wants(&self, piece: usize) -> bool {
            piece.is_multiple_of(2)
        }

        fn fold(&self, piece: usize, series: &[Points]) -> bool {
            let positions = series.iter().map(|points| points.floats()[0]).collect();
            self.0.lock().push((piece, positions));
            true
        }
    }

    async fn store(series: usize) -> MemoryStore {
        let store = MemoryStore::new();
        let value = Value::Float(1.0);
        let chunks = encode_points(&[Point { timestamp: 0, start_timestamp: 0, value }]);
        let run = |number: usize| SeriesRun {
            labels: Labels::from_pairs([("__name__", "m"), ("i", &format!("{number:04}"))])
                .expect("valid"),
            chunks: chunks.clone(),
        };
        let runs = Box::new((0..series).map(run).collect::<Vec<_>>().into_iter());
        let (exemplars, days, metadata, pace) = Default::default();
        let flush = Flush { through: 0, runs, exemplars, days, metadata, pace };
        store.ingest_flush(flush).await.expect("chunks that were just encoded");
        store
    }

    /// The number of folded pieces of `series` series at `steps` steps.
    async fn folded(series: usize, steps: usize) -> usize {
        let settings = Settings::default();
        let counts = SampleCounts::new(Counting::Total, Steps::instant(0));
        let minute = Some(Duration::from_secs(60));
        let limits = Limits::new(&settings, minute, &CostLimits::default());
        let context = Context::new(&settings, 0, counts, limits, Instant::now());
        let context = Arc::new(context);
        let matchers = vec![Matcher::equal("__name__", "m")];
        let requested = Requested { matchers, range: TimeRange::ALL, hints: None, users: 1 };
        let store = store(series).await;
        let selected = select(&store, &requested, &context.budget).await.expect("selected");
        let runtime = Handle::current();
        let work = move || {
            let mut runs = Runs::new(Positions { selected, steps }, &context, &runtime, steps);
            let folder = Arc::new(EveryOther::default());
            let folds = runs.fold_pieces(Arc::clone(&folder) as _);
            let (mut position, mut skipped, mut points) = (0, Vec::new(), Points::default());
            while position < series {
                if position.is_multiple_of(PIECE) && runs.next_folded().expect("read") {
                    skipped.push(position / PIECE);
                    position += PIECE;
                    continue;
                }
                runs.next(&mut points).expect("read");
                assert_eq!(points.floats(), vec![position as f64; steps]);
                position += 1;
            }
            let mut done = std::mem::take(&mut *folder.0.lock());
            done.sort_by_key(|(piece, _)| *piece);
            for (piece, positions) in &done {
                let first = piece * PIECE;
                let want: Vec<f64> = (first..first + PIECE).map(|at| at as f64).collect();
                assert_eq!(positions, &want);
            }
            assert_eq!(done.into_iter().map(|(piece, _)| piece).collect::<Vec<_>>(), skipped);
            assert!(folds || skipped.is_empty());
            skipped.len()
        };
        spawn_blocking(work).await.expect("no panic")
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn whole_pieces_that_are_wanted_are_folded_by_the_work() {
        for (series, pieces) in [(4, 0), (15, 0), (16, 1), (100, 3), (1_000, 31)] {
            assert_eq!(folded(series, 10).await, pieces, "{series} series");
        }
        assert_eq!(folded(40, RUN_STEPS / PIECE).await, 1);
        assert_eq!(folded(40, RUN_STEPS / PIECE + 1).await, 0, "no run has a piece");
    }

    #[test]
    fn runs_end_where_pieces_do() {
        assert_eq!(of_whole_pieces(0..100, 500), 0..96);
        assert_eq!(of_whole_pieces(5..21, 500), 5..16);
        assert_eq!(of_whole_pieces(15..30, 500), 15..30, "shorter than a piece");
        assert_eq!(of_whole_pieces(480..500, 500), 480..500);
    }
}
