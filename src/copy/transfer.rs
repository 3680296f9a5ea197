//! Transfers points, exemplars and metadata.
//!
//! A few pieces are written concurrently while the next is read. They are acknowledged in order, so
//! that the progress never passes a piece that is not acknowledged. If a side is unavailable, the
//! copy retries from the progress on for a limited time.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures::StreamExt;

use super::batch::Batch;
use super::compared::BothMetadata;
use super::days::times_of;
use super::endpoint::{Endpoint, StoreEndpoint};
use super::error::CopyError;
use super::exemplars::Pieces;
use super::job::Job;
use super::plan::Plan;
use super::progress::{Progress, Stage, Totals};
use super::runs::Run;
use crate::limits::{LEAST_RETRY, MOST_RETRY};
use crate::model::{Labels, Metadata, SampleTimes, TimeLimits, TimeRange};
use crate::storage::Clock;

/// Retries while a side is unavailable, with growing pauses.
pub(super) struct Patience {
    most: Duration,
    pause: Duration,
    away_since: Option<Instant>,
}

impl Patience {
    /// No retry yet.
    pub(super) fn new(most: Duration) -> Self {
        Self { most, pause: LEAST_RETRY, away_since: None }
    }

    /// Waits before a retry. Returns the error if a retry makes no sense or the time is up.
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
}

/// A copy: source, target, job and options.
pub struct Copier {
    /// The source.
    pub from: Endpoint,
    /// The target.
    pub to: StoreEndpoint,
    /// What to copy.
    pub job: Job,
    /// Pieces that are written concurrently; at least 1.
    pub at_once: usize,
    /// How long a side may be unavailable before the copy fails.
    pub patience: Duration,
    /// How far from the clock the times of points and exemplars may be.
    pub times: TimeLimits,
}

impl Copier {
    /// Copies everything after `progress`. `moved` is called after each step; its error ends the
    /// copy.
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
        while !self.is_planned(progress, moved).await? {
            self.copy_days(progress, moved).await?;
        }
        let totals = self.copy_metadata().await?;
        progress.totals.add(totals);
        (progress.is_done, progress.plan) = (true, None);
        moved(progress, Stage::Copying { done: 0, days: 0 })
    }

    /// Completes the plan. Returns whether all of its days are copied, with no new day after them.
    async fn is_planned(
        &self,
        progress: &mut Progress,
        moved: &mut impl FnMut(&Progress, Stage) -> Result<(), CopyError>,
    ) -> Result<bool, CopyError> {
        let from = progress.position.day.unwrap_or(i64::MIN);
        if progress.plan.as_ref().is_none_or(|plan| plan.is_behind(from)) {
            progress.plan = Some(Plan::begin(&self.job, from));
        }
        while let Some(plan) = &mut progress.plan
            && !plan.step(&[&self.from], &self.job).await?
        {
            let days = plan.days().len();
            moved(progress, Stage::Planning { days })?;
        }
        Ok(progress.plan.as_ref().is_none_or(|plan| plan.days().since(from).next().is_none()))
    }

    /// Copies the days of the plan.
    async fn copy_days(
        &self,
        progress: &mut Progress,
        moved: &mut impl FnMut(&Progress, Stage) -> Result<(), CopyError>,
    ) -> Result<(), CopyError> {
        let days = progress.plan.as_ref().map(Plan::days).cloned().unwrap_or_default();
        let from = progress.position.day.unwrap_or(i64::MIN);
        let before = days.len() - days.since(from).count() as u64;
        for (day, done) in days.since(from).zip(before..) {
            let stage = |done| Stage::Copying { done, days: days.len() };
            progress.position.enter_day(day);
            let range = times_of(&self.job, day, day);
            if range.is_empty() {
                // The file was written by another program.
                progress.position.end_day();
                continue;
            }
            while progress.position.selector < self.job.selectors.len() {
                self.copy_points(range, progress, &mut |progress: &Progress| {
                    moved(progress, stage(done))
                })
                .await?;
                progress.position.next_selector();
            }
            let totals = self.copy_exemplars(range).await?;
            progress.totals.add(totals);
            progress.position.end_day();
            moved(progress, stage(done + 1))?;
        }
        Ok(())
    }

    /// Copies the points of the series that belong to the selector of the progress.
    async fn copy_points(
        &self,
        range: TimeRange,
        progress: &mut Progress,
        moved: &mut impl FnMut(&Progress) -> Result<(), CopyError>,
    ) -> Result<(), CopyError> {
        let at = progress.position.selector;
        let selector = &self.job.selectors[at];
        let after = progress.position.after()?;
        let runs = self.from.runs(selector, range, after).await?;
        let write = |run: Result<Run, CopyError>| async move { self.write(at, range, run?).await };
        let pieces = runs.into_stream().map(write).buffered(self.at_once);
        let mut pieces = std::pin::pin!(pieces);
        while let Some(piece) = pieces.next().await {
            let (last, totals) = piece?;
            progress.position.done(&last);
            progress.totals.add(totals);
            moved(progress)?;
        }
        Ok(())
    }

    /// Writes a piece; returns its last series and the counts.
    async fn write(
        &self,
        selector: usize,
        range: TimeRange,
        run: Run,
    ) -> Result<(Labels, Totals), CopyError> {
        let mut batch = self.batch();
        let last = run.last().map(|(labels, _)| labels.clone()).unwrap_or_default();
        for (labels, chunks) in run {
            if !self.job.is_first(selector, &labels) {
                continue;
            }
            for point in chunks.iter().flat_map(|chunk| chunk.stamped_points()) {
                let entry =
                    point.map_err(|why| CopyError::chunk(self.from.name(), &labels, why))?;
                if range.contains(entry.point.timestamp) {
                    batch.point(&labels, entry);
                }
                batch.send_if_full().await?;
            }
        }
        Ok((last, batch.finish().await?))
    }

    /// An empty batch that accepts the times that are allowed now.
    fn batch(&self) -> Batch<'_> {
        Batch::new(&self.to, SampleTimes::at(Clock::default().now_ms(), self.times))
    }

    async fn copy_exemplars(&self, range: TimeRange) -> Result<Totals, CopyError> {
        let mut batch = self.batch();
        for (at, selector) in self.job.selectors.iter().enumerate() {
            let mut pieces = Pieces::new(&[&self.from], selector, range);
            while let Some(found) = pieces.next().await? {
                for (labels, exemplars) in found.into_iter().flatten() {
                    if !self.job.is_first(at, &labels) {
                        continue;
                    }
                    for exemplar in exemplars {
                        batch.exemplar(&labels, exemplar);
                        batch.send_if_full().await?;
                    }
                }
            }
        }
        batch.finish().await
    }

    /// Copies the metadata of the families that the target does not know; other metadata of the
    /// target may be newer.
    async fn copy_metadata(&self) -> Result<Totals, CopyError> {
        let mut batch = self.batch();
        let both = self.metadata_of_both().await?.into_iter();
        for (family, metadata, _) in both.filter(|(_, _, known)| known.is_none()) {
            batch.metadata(family, metadata);
            batch.send_if_full().await?;
        }
        batch.finish().await
    }

    /// Metadata of all families of the source, and what the target has of each.
    pub(super) async fn metadata_of_both(&self) -> Result<Vec<BothMetadata>, CopyError> {
        let known = Endpoint::Store(self.to.clone()).metadata().await?;
        let mut known: BTreeMap<String, Metadata> = known.into_iter().collect();
        let all = self.from.metadata().await?.into_iter();
        let with_known = |(family, said)| {
            let there = known.remove(&family);
            (family, said, there)
        };
        Ok(all.map(with_known).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::StoreError;

    #[tokio::test]
    async fn a_side_that_is_away_is_waited_for_as_long_as_was_said() {
        let away = || {
            let (what, retry_after) = ("away".to_owned(), Duration::ZERO);
            let source = StoreError::Unavailable { what, retry_after };
            CopyError::Store { side: "there".into(), source }
        };
        let mut patience = Patience::new(Duration::from_secs(60));
        for _ in 0..2 {
            patience.wait(away()).await.expect("it is waited for");
        }
        assert!(Patience::new(Duration::ZERO).wait(away()).await.is_err());
        let wrong = CopyError::Unsorted("there".into());
        assert!(Patience::new(Duration::from_secs(60)).wait(wrong).await.is_err());
    }
}
