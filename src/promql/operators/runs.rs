//! Work on the chunks of series, spread over the cores by runs of series.
//!
//! Runs are read and worked on ahead of the consumer, a few at a time, and given in order. So
//! memory is bounded by the runs under way, and the result does not hang on the number of cores.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::task::{JoinHandle, spawn_blocking};
use tracing::Instrument;

use crate::chunk::Chunk;
use crate::promql::context::Context;
use crate::promql::error::QueryError;
use crate::promql::points::Points;
use crate::promql::source::Selected;

/// Steps of all series of a run, together.
const RUN_STEPS: usize = 1 << 18;
/// Series of a run.
const RUN_SERIES: usize = 64;
/// Series of a run, at least, where there are few for all cores.
const FEWEST_SERIES: usize = 16;
/// With so few series nothing is spread.
const FEW_SERIES: usize = 4;

/// What is done with one series.
pub(crate) trait SeriesWork: Send + Sync + 'static {
    /// What is kept from one series of a run to the next.
    type Scratch: Default;

    /// Turns the chunks of the series at `position` into its points.
    fn work(
        &self,
        position: usize,
        chunks: &[Chunk],
        scratch: &mut Self::Scratch,
        points: &mut Points,
    ) -> Result<(), QueryError>;
}

/// The results of some work on all series of a selection, in their order.
pub(crate) struct Runs<W> {
    selected: Arc<Selected>,
    work: Arc<W>,
    context: Arc<Context>,
    runtime: Handle,
    /// Series of a run.
    run: usize,
    /// Runs under way at a time.
    ahead: usize,
    next: usize,
    under_way: VecDeque<JoinHandle<Result<Vec<Points>, QueryError>>>,
    ready: std::vec::IntoIter<Points>,
}

impl<W: SeriesWork> Runs<W> {
    /// Work for so many steps; nothing is begun.
    pub(crate) fn new(
        selected: Arc<Selected>,
        work: W,
        context: Arc<Context>,
        runtime: Handle,
        steps: usize,
    ) -> Self {
        let ahead = std::thread::available_parallelism().map_or(1, usize::from) + 1;
        let even = selected.series.len().div_ceil(ahead).clamp(FEWEST_SERIES, RUN_SERIES);
        let run = (RUN_STEPS / steps.max(1)).clamp(1, even);
        Self {
            selected,
            work: Arc::new(work),
            context,
            runtime,
            run,
            ahead,
            next: 0,
            under_way: VecDeque::new(),
            ready: Vec::new().into_iter(),
        }
    }

    /// What is done with each series.
    pub(crate) fn work(&self) -> &W {
        &self.work
    }

    /// The points of the next series.
    pub(crate) fn next(&mut self, points: &mut Points) -> Result<(), QueryError> {
        loop {
            if let Some(done) = self.ready.next() {
                if done.has_histograms() {
                    // What is done with them takes long.
                    self.context.check()?;
                }
                *points = done;
                return Ok(());
            }
            self.context.check()?;
            self.ready = self.next_run()?.into_iter();
        }
    }

    fn next_run(&mut self) -> Result<Vec<Points>, QueryError> {
        let total = self.selected.series.len();
        if total <= FEW_SERIES {
            let chunks = self.runtime.block_on(self.selected.reader.read(0..total))?;
            self.next = total;
            return work_on(&*self.work, &self.context, 0, &chunks);
        }
        while self.next < total && self.under_way.len() < self.ahead {
            let run = self.next..(self.next + self.run).min(total);
            self.next = run.end;
            let run = self.begin(run);
            self.under_way.push_back(run);
        }
        let run = self.under_way.pop_front().expect("asked for no more series than there are");
        self.runtime.block_on(run).unwrap_or_else(|failed| match failed.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(QueryError::Canceled),
        })
    }

    fn begin(&self, run: Range<usize>) -> JoinHandle<Result<Vec<Points>, QueryError>> {
        let (selected, work) = (Arc::clone(&self.selected), Arc::clone(&self.work));
        let context = Arc::clone(&self.context);
        let run = async move {
            let chunks = selected.reader.read(run.clone()).await?;
            let done = spawn_blocking(move || work_on(&*work, &context, run.start, &chunks)).await;
            done.unwrap_or_else(|failed| match failed.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => Err(QueryError::Canceled),
            })
        };
        self.runtime.spawn(run.in_current_span())
    }
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
    first: usize,
    chunks: &[Vec<Chunk>],
) -> Result<Vec<Points>, QueryError> {
    let mut scratch = W::Scratch::default();
    let mut done = Vec::with_capacity(chunks.len());
    for (at, chunks) in chunks.iter().enumerate() {
        context.check()?;
        let mut points = Points::default();
        work.work(first + at, chunks, &mut scratch, &mut points)?;
        done.push(points);
    }
    Ok(done)
}
