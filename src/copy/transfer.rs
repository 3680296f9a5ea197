//! Carrying points, exemplars and metadata over.
//!
//! A few pieces are written at the same time while the next is read; they are acknowledged in
//! their order, so that the progress never passes one that is not. A side that is away for a while
//! is asked again, from the progress on.

use std::time::{Duration, Instant};

use futures::StreamExt;

use super::batch::Batch;
use super::days::{self, times_of};
use super::exemplars::Pieces;
use super::progress::{Progress, Stage, Totals};
use super::runs::Run;
use super::side::{Side, StoreSide};
use super::{CopyError, Job};
use crate::limits::{LEAST_RETRY, MOST_RETRY};
use crate::model::{Labels, SampleTimes, TimeLimits, TimeRange};
use crate::storage::Clock;

/// How long a side that is away is waited for, with longer and longer pauses.
pub(super) struct Patience {
    most: Duration,
    pause: Duration,
    away_since: Option<Instant>,
}

impl Patience {
    /// Nothing was in vain yet.
    pub(super) fn new(most: Duration) -> Self {
        Self { most, pause: LEAST_RETRY, away_since: None }
    }

    /// Waits before what has failed is tried again. Gives the error back where that is of no use, or where
    /// it would be too long.
    pub(super) async fn wait(&mut self, error: CopyError) -> Result<(), CopyError> {
        let since = self.away_since.get_or_insert_with(Instant::now);
        if !error.may_pass() || since.elapsed() + self.pause > self.most {
            return Err(error);
        }
        tracing::warn!("tried again in {:?}: {error}", self.pause);
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(MOST_RETRY);
        Ok(())
    }

    /// What `work` gives, as soon as no side is away.
    pub(super) async fn over<T>(
        most: Duration,
        mut work: impl AsyncFnMut() -> Result<T, CopyError>,
    ) -> Result<T, CopyError> {
        let mut patience = Self::new(most);
        loop {
            match work().await {
                Ok(done) => return Ok(done),
                Err(error) => patience.wait(error).await?,
            }
        }
    }
}

/// A copy: from where, to where, what, and how.
pub struct Copier {
    /// The source.
    pub from: Side,
    /// The target.
    pub to: StoreSide,
    /// What is copied.
    pub job: Job,
    /// Pieces that are written at the same time; at least 1.
    pub at_once: usize,
    /// How long a side may be away before the copy gives up.
    pub patience: Duration,
    /// How far from the clock the times of points and exemplars may be.
    pub times: TimeLimits,
}

impl Copier {
    /// Copies all that the progress does not name as copied. `moved` is told of each step forward;
    /// its error ends the copy.
    pub async fn copy(
        &self,
        progress: &mut Progress,
        mut moved: impl FnMut(&Progress, Stage) -> Result<(), CopyError>,
    ) -> Result<(), CopyError> {
        let mut patience = Patience::new(self.patience);
        while !progress.is_done {
            let before = progress.clone();
            let Err(error) = self.go_on(progress, &mut moved).await else { break };
            if *progress != before {
                patience = Patience::new(self.patience);
            }
            patience.wait(error).await?;
        }
        Ok(())
    }

    async fn go_on(
        &self,
        progress: &mut Progress,
        moved: &mut impl FnMut(&Progress, Stage) -> Result<(), CopyError>,
    ) -> Result<(), CopyError> {
        let from = progress.day.unwrap_or(i64::MIN);
        let days = days::find(&[&self.from], &self.job, from).await?;
        for (done, day) in days.iter().enumerate() {
            let stage = Stage::Copying { done, days: days.len() };
            if progress.day != Some(*day) {
                progress.begin_day(*day);
            }
            let range = times_of(&self.job, *day, *day);
            while progress.selector < self.job.selectors.len() {
                self.copy_points(range, progress, &mut |progress: &Progress| {
                    moved(progress, stage)
                })
                .await?;
                progress.next_selector();
            }
            let totals = self.copy_exemplars(range).await?;
            progress.totals.add(totals);
            progress.begin_day(day + 1);
            moved(progress, Stage::Copying { done: done + 1, days: days.len() })?;
        }
        let totals = self.copy_metadata().await?;
        progress.totals.add(totals);
        progress.is_done = true;
        moved(progress, Stage::Copying { done: days.len(), days: days.len() })
    }

    /// Copies the points of the series that the selector of the progress selects.
    async fn copy_points(
        &self,
        range: TimeRange,
        progress: &mut Progress,
        moved: &mut impl FnMut(&Progress) -> Result<(), CopyError>,
    ) -> Result<(), CopyError> {
        let at = progress.selector;
        let selector = &self.job.selectors[at];
        let after = progress.after().map_err(|error| CopyError::State(error.to_string()))?;
        let runs = self.from.runs(selector, range, after).await?;
        let write = |run: Result<Run, CopyError>| async move { self.write(at, range, run?).await };
        let pieces = runs.into_stream().map(write).buffered(self.at_once);
        let mut pieces = std::pin::pin!(pieces);
        while let Some(piece) = pieces.next().await {
            let (last, totals) = piece?;
            progress.copied(&last);
            progress.totals.add(totals);
            moved(progress)?;
        }
        Ok(())
    }

    /// Writes a piece; gives its last series and what was written.
    async fn write(
        &self,
        selector: usize,
        range: TimeRange,
        run: Run,
    ) -> Result<(Labels, Totals), CopyError> {
        let (mut batch, mut totals) = (self.batch(), Totals::default());
        let last = run.last().map(|(labels, _)| labels.clone()).unwrap_or_default();
        for (labels, chunks) in run {
            if !self.job.is_first(selector, &labels) {
                continue;
            }
            for point in chunks.iter().flat_map(|chunk| chunk.points()) {
                let point = point.map_err(|source| CopyError::Chunk {
                    side: self.from.name().to_owned(),
                    series: labels.clone(),
                    source,
                })?;
                if range.contains(point.timestamp) {
                    batch.point(&labels, point, &self.to);
                }
                if batch.is_full() {
                    totals.add(batch.send(&self.to).await?);
                }
            }
        }
        totals.add(batch.send(&self.to).await?);
        Ok((last, totals))
    }

    /// An empty batch, for what may be written now.
    fn batch(&self) -> Batch {
        Batch::new(SampleTimes::at(Clock::default().now_ms(), self.times))
    }

    async fn copy_exemplars(&self, range: TimeRange) -> Result<Totals, CopyError> {
        let (mut batch, mut totals) = (self.batch(), Totals::default());
        for (at, selector) in self.job.selectors.iter().enumerate() {
            let mut pieces = Pieces::new(&[&self.from], selector, range);
            while let Some(found) = pieces.next().await? {
                for (labels, exemplars) in found.into_iter().flatten() {
                    if !self.job.is_first(at, &labels) {
                        continue;
                    }
                    for exemplar in exemplars {
                        batch.exemplar(&labels, exemplar);
                        if batch.is_full() {
                            totals.add(batch.send(&self.to).await?);
                        }
                    }
                }
            }
        }
        totals.add(batch.send(&self.to).await?);
        Ok(totals)
    }

    /// Copies the metadata of the families that the target knows nothing of: what it knows may be
    /// newer.
    async fn copy_metadata(&self) -> Result<Totals, CopyError> {
        let (mut batch, mut totals) = (self.batch(), Totals::default());
        for (family, metadata) in self.missing_metadata().await? {
            batch.metadata(family, metadata);
            if batch.is_full() {
                totals.add(batch.send(&self.to).await?);
            }
        }
        totals.add(batch.send(&self.to).await?);
        Ok(totals)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::storage::StoreError;

    #[tokio::test]
    async fn a_side_that_is_away_is_waited_for_as_long_as_was_said() {
        let away = || {
            let (what, retry_after) = ("away".to_owned(), Duration::ZERO);
            let source = StoreError::Unavailable { what, retry_after };
            CopyError::Store { side: "there".into(), source }
        };
        let tries = Cell::new(0);
        let fails = async |times: u32| {
            tries.set(tries.get() + 1);
            if tries.get() <= times { Err(away()) } else { Ok(tries.get()) }
        };
        let done = Patience::over(Duration::from_secs(60), async || fails(2).await).await;
        assert_eq!(done.ok(), Some(3));
        tries.set(0);
        assert!(Patience::over(Duration::ZERO, async || fails(2).await).await.is_err());
        assert_eq!(tries.get(), 1);
        tries.set(0);
        let wrong = async || {
            tries.set(tries.get() + 1);
            Err::<(), _>(CopyError::Unsorted("there".into()))
        };
        assert!(Patience::over(Duration::from_secs(60), wrong).await.is_err());
        assert_eq!(tries.get(), 1);
    }
}
