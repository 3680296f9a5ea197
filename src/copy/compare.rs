//! Compares two sides by number and checksum of the points of every series and day.
//!
//! Both sides are read again, sorted, and merged. If number or checksum differ, the points are
//! compared one by one. Start timestamps count only if both sides keep them. The position is part of
//! the [`Progress`], so an interrupted comparison resumes after the last series that it completed.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::compared::{Compared, Difference, What};
use super::comparison::Comparison;
use super::days::times_of;
use super::digest::{Digest, hashes};
use super::endpoint::{Endpoint, Starts};
use super::error::CopyError;
use super::exemplars::Pieces;
use super::job::Job;
use super::left_out::{LeftOut, START_TIMESTAMP};
use super::plan::Plan;
use super::position::Position;
use super::progress::{Progress, Stage};
use super::runs::{Run, Runs};
use super::transfer::{Copier, Patience};
use crate::chunk::Chunk;
use crate::model::{Exemplar, Labels, TimeRange};
use crate::storage::ExemplarList;
use crate::storage::cassandra::LeftOut as Met;

/// Series between two calls of `moved`.
const SERIES_A_STEP: usize = 64;

impl Copier {
    /// Compares both sides, from `progress` on. `met` counts data of the source that promkairos
    /// cannot represent. `moved` is called after each step.
    pub async fn compare(
        &self,
        progress: &mut Progress,
        met: Option<&Met>,
        mut moved: impl FnMut(&Progress, Stage) -> Result<(), CopyError>,
    ) -> Result<(Compared, LeftOut), CopyError> {
        let mut patience = Patience::new(self.patience);
        let before_this_run = progress.comparison.met.clone();
        let take_in = |progress: &mut Progress| {
            if let Some(met) = met {
                let all = &mut progress.comparison.met;
                all.clone_from(&before_this_run);
                all.join(&met.so_far().into());
            }
        };
        let mut moved = |progress: &mut Progress, stage| {
            take_in(progress);
            moved(progress, stage)
        };
        loop {
            let before = progress.comparison.clone();
            let error = match self.compare_on(progress, &mut moved).await {
                Ok(compared) => {
                    take_in(progress);
                    let Comparison { met, mut left_out, .. } = *progress.comparison.clone();
                    left_out.join(&met);
                    return Ok((compared, left_out));
                }
                Err(error) => error,
            };
            if progress.comparison != before {
                patience = Patience::new(self.patience);
            }
            patience.wait(error).await?;
        }
    }

    async fn compare_on(
        &self,
        progress: &mut Progress,
        moved: &mut impl FnMut(&mut Progress, Stage) -> Result<(), CopyError>,
    ) -> Result<Compared, CopyError> {
        let sides = [&self.from, &Endpoint::Store(self.to.clone())];
        let begin = || Plan::begin(&self.job, i64::MIN);
        while !progress.comparison.plan.get_or_insert_with(begin).step(&sides, &self.job).await? {
            let days = progress.comparison.plan.as_ref().map_or(0, |plan| plan.days().len());
            moved(progress, Stage::Planning { days })?;
        }
        loop {
            let Comparison { outside, left_out, .. } = &mut *progress.comparison;
            if outside.step(&self.from, &self.job, left_out).await? {
                break;
            }
            let days = progress.comparison.plan.as_ref().map_or(0, |plan| plan.days().len());
            moved(progress, Stage::Planning { days })?;
        }
        let plan = progress.comparison.plan.clone();
        let days = plan.as_ref().map(Plan::days).cloned().unwrap_or_default();
        let from = progress.comparison.position.day.unwrap_or(i64::MIN);
        let before = days.len() - days.since(from).count() as u64;
        for (day, done) in days.since(from).zip(before..) {
            let stage = Stage::Comparing { done, days: days.len() };
            progress.comparison.position.enter_day(day);
            let range = times_of(&self.job, day, day);
            let job = &self.job;
            if range.is_empty() {
                progress.comparison.position.end_day();
                continue;
            }
            let mut day = Day { job, sides, range };
            while progress.comparison.position.selector < job.selectors.len() {
                day.compare_points(progress, &mut |progress: &mut Progress| moved(progress, stage))
                    .await?;
                progress.comparison.position.next_selector();
            }
            let mut compared = progress.comparison.compared.clone();
            for selector in 0..job.selectors.len() {
                day.compare_exemplars(selector, &mut compared).await?;
            }
            progress.comparison.compared = compared;
            progress.comparison.position.end_day();
            moved(progress, stage)?;
        }
        let Comparison { compared, digests: [source, target], .. } = &*progress.comparison;
        let mut compared = compared.clone();
        compared.compare_metadata(self.metadata_of_both().await?);
        compared.points = source.points;
        compared.target_points = target.points;
        compared.checksum = format!("{:016x}", source.checksum);
        compared.target_checksum = format!("{:016x}", target.checksum);
        Ok(compared)
    }
}

/// One day of the comparison.
struct Day<'a> {
    job: &'a Job,
    /// Source and target.
    sides: [&'a Endpoint; 2],
    range: TimeRange,
}

impl<'a> Day<'a> {
    /// The start timestamps that both sides keep.
    fn starts(&self) -> Starts {
        self.sides[0].starts().min(self.sides[1].starts())
    }

    /// Compares the points of the series that belong to the selector of the position, from the position on.
    async fn compare_points(
        &mut self,
        progress: &mut Progress,
        moved: &mut impl FnMut(&mut Progress) -> Result<(), CopyError>,
    ) -> Result<(), CopyError> {
        let Position { selector, .. } = progress.comparison.position;
        let after = progress.comparison.position.after()?;
        let mut sources = self.cursor(0, selector, after.clone()).await?;
        let mut targets = self.cursor(1, selector, after).await?;
        let (mut source, mut target) = (sources.next().await?, targets.next().await?);
        for number in 1.. {
            let order = match (&source, &target) {
                (None, None) => return Ok(()),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(source), Some(target)) => source.labels.cmp(&target.labels),
            };
            let mut both: [Option<Series>; 2] = [None, None];
            if order != Ordering::Greater {
                both[0] = std::mem::replace(&mut source, sources.next().await?);
            }
            if order != Ordering::Less {
                both[1] = std::mem::replace(&mut target, targets.next().await?);
            }
            let Some(last) = both.iter().flatten().map(|one| one.labels.clone()).next() else {
                return Ok(());
            };
            let digests = both.each_ref().map(|one| one.as_ref().map(|one| one.digest));
            if digests[0] != digests[1] {
                let difference = self.differing_points(&last, &both)?;
                progress.comparison.compared.note(difference);
            }
            let Comparison { left_out, digests: sums, position, .. } = &mut *progress.comparison;
            for (sum, one) in sums.iter_mut().zip(digests) {
                sum.add(one.unwrap_or_default());
            }
            let starts = both[0].as_ref().map_or(0, |source| source.starts_left_out);
            left_out.add(START_TIMESTAMP, starts, || last.to_string());
            if number % SERIES_A_STEP == 0 {
                position.done(&last);
                moved(progress)?;
            }
        }
        Ok(())
    }

    /// The number of points in which a series differs.
    fn differing_points(
        &self,
        labels: &Labels,
        both: &[Option<Series>; 2],
    ) -> Result<Difference, CopyError> {
        let mut points = [BTreeMap::new(), BTreeMap::new()];
        for ((points, series), side) in points.iter_mut().zip(both).zip(self.sides) {
            if let Some(series) = series {
                let found = hashes(&series.chunks, self.range, self.starts());
                points.extend(found.map_err(|why| CopyError::chunk(side.name(), labels, why))?);
            }
        }
        let mut differing = Differing::default();
        differing.add(&points);
        Ok(self.difference(What::Points, labels, differing))
    }

    /// Compares the exemplars of the series that belong to a selector.
    async fn compare_exemplars(
        &mut self,
        selector: usize,
        compared: &mut Compared,
    ) -> Result<(), CopyError> {
        let mut pieces = Pieces::new(&self.sides, &self.job.selectors[selector], self.range);
        let mut differing = BTreeMap::new();
        while let Some(found) = pieces.next().await? {
            let exemplars = self.compare_piece(selector, found, &mut differing);
            compared.exemplars = compared.exemplars.saturating_add(exemplars);
        }
        for (labels, differing) in differing {
            compared.note(self.difference(What::Exemplars, &labels, differing));
        }
        Ok(())
    }

    /// Compares the exemplars of both sides in a part of the day, and adds the differences of each
    /// series to `differing`. Returns the number of exemplars of the source.
    fn compare_piece(
        &self,
        selector: usize,
        found: Vec<ExemplarList>,
        differing: &mut BTreeMap<Labels, Differing>,
    ) -> u64 {
        type ByLabels = BTreeMap<Labels, BTreeMap<(i64, Labels), u64>>;
        let mut both = [ByLabels::new(), ByLabels::new()];
        for (all, found) in both.iter_mut().zip(found) {
            for (labels, exemplars) in found {
                if self.job.is_first(selector, &labels) {
                    let one = |e: Exemplar| ((e.timestamp, e.labels), e.value.to_bits());
                    all.entry(labels).or_default().extend(exemplars.into_iter().map(one));
                }
            }
        }
        let [sources, targets] = &both;
        let none = BTreeMap::new();
        let only_targets = targets.keys().filter(|labels| !sources.contains_key(*labels));
        for labels in sources.keys().chain(only_targets) {
            let pair = both.each_ref().map(|all| all.get(labels).unwrap_or(&none).clone());
            if pair[0] != pair[1] {
                differing.entry(labels.clone()).or_default().add(&pair);
            }
        }
        sources.values().map(|all| all.len() as u64).sum()
    }

    fn difference(&self, what: What, labels: &Labels, differing: Differing) -> Difference {
        let Differing { missing, different, too_many } = differing;
        let (of, day) = (labels.to_string(), Some(self.range.start));
        Difference { of, day, what, missing, different, too_many }
    }

    async fn cursor(
        &self,
        side: usize,
        selector: usize,
        after: Option<Labels>,
    ) -> Result<Cursor<'a>, CopyError> {
        let name = self.sides[side].name().to_owned();
        let runs = self.sides[side].runs(&self.job.selectors[selector], self.range, after).await?;
        let (job, range, starts) = (self.job, self.range, self.starts());
        Ok(Cursor { name, job, selector, range, starts, runs, run: Run::new().into_iter() })
    }
}

/// Number of points or exemplars of a series that differ.
#[derive(Default)]
struct Differing {
    missing: u64,
    different: u64,
    too_many: u64,
}

impl Differing {
    /// Adds the differences between source and target, each a map from key to hash of the value.
    fn add<K: Ord>(&mut self, [source, target]: &[BTreeMap<K, u64>; 2]) {
        self.missing += source.keys().filter(|key| !target.contains_key(*key)).count() as u64;
        self.too_many += target.keys().filter(|key| !source.contains_key(*key)).count() as u64;
        let other =
            |(key, value): &(&K, &u64)| target.get(*key).is_some_and(|found| found != *value);
        self.different += source.iter().filter(other).count() as u64;
    }
}

/// A series with points in the range.
struct Series {
    labels: Labels,
    chunks: Vec<Chunk>,
    digest: Digest,
    starts_left_out: u64,
}

/// Iterates over the series of one side.
struct Cursor<'a> {
    name: String,
    job: &'a Job,
    selector: usize,
    range: TimeRange,
    starts: Starts,
    runs: Runs,
    run: std::vec::IntoIter<(Labels, Vec<Chunk>)>,
}

impl Cursor<'_> {
    async fn next(&mut self) -> Result<Option<Series>, CopyError> {
        loop {
            for (labels, chunks) in self.run.by_ref() {
                if !self.job.is_first(self.selector, &labels) {
                    continue;
                }
                let (digest, starts_left_out) = Digest::of(&chunks, self.range, self.starts)
                    .map_err(|why| CopyError::chunk(&self.name, &labels, why))?;
                if digest.points > 0 {
                    return Ok(Some(Series { labels, chunks, digest, starts_left_out }));
                }
            }
            match self.runs.next().await? {
                Some(run) => self.run = run.into_iter(),
                None => return Ok(None),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::sync::Arc;
    use std::time::Duration;

    use super::super::left_out::TIME;
    use super::super::state::{decode, encode};
    use super::super::{JobText, Selector, StoreEndpoint, Totals};
    use super::*;
    use crate::model::{
        ExemplarEntry, MAX_TIMESTAMP, MIN_TIMESTAMP, MatchOp, Matcher, RawLabels, Sample,
        SeriesEntry, TimeLimits, WriteBatch,
    };
    use crate::storage::Store;
    use crate::storage::memory::MemoryStore;

    const DAY: i64 = 86_400_000;

    /// Series with points on five days, start timestamps, and a point after the year 9999.
    async fn source() -> StoreEndpoint {
        let store = MemoryStore::default();
        for number in 0..150 {
            let labels = Labels::from_pairs([("__name__", format!("m{number}"))]).expect("valid");
            let times = (0..5).map(|day| day * DAY + number).chain([1_588_233_300_000_000]);
            let start_timestamp = 7;
            let samples = times.map(|timestamp| Sample { timestamp, start_timestamp, value: 0.5 });
            let (labels, none) = (RawLabels(labels.as_bytes()), RawLabels(&[]));
            let exemplars = vec![ExemplarEntry { labels: none, value: 1.0, timestamp: 9 * DAY }];
            let entry =
                SeriesEntry { labels, index: 0, samples: 0..6, histograms: 0..0, exemplars: 0..1 };
            let (series, samples) = (vec![entry], samples.collect());
            let batch = WriteBatch { series, samples, exemplars, ..WriteBatch::default() };
            store.write(batch).await.expect("written");
        }
        StoreEndpoint { name: "a".into(), store: Arc::new(store), starts: Starts::All }
    }

    /// Copies and compares, interrupted after `most` steps each time. Also returns the number of steps.
    async fn cut_off_after(
        most: usize,
        from: StoreEndpoint,
    ) -> ((Compared, LeftOut), Totals, usize) {
        let matchers = vec![Matcher::new(MatchOp::Regex, "__name__", "m.*").expect("valid")];
        let selectors = vec![Selector { text: "m".into(), matchers }];
        let range = TimeRange::new(MIN_TIMESTAMP, MAX_TIMESTAMP);
        let to = StoreEndpoint {
            name: "b".into(),
            store: Arc::new(MemoryStore::default()),
            starts: Starts::Histograms,
        };
        let (job, patience) = (Job { selectors, range }, Duration::ZERO);
        let (from, times) = (Endpoint::Store(from), TimeLimits::default());
        let copier = Copier { from, to, job, at_once: 2, patience, times };
        let (from, to, selectors) = ("a".to_owned(), "b".to_owned(), vec!["m".to_owned()]);
        let text = JobText { from, to, selectors, times: (1, 2) };
        let saved = RefCell::new(encode(&Progress::default(), &text).expect("JSON"));
        let mut all = 0;
        loop {
            let mut progress = decode(&saved.borrow(), &text).expect("its own");
            let mut steps = 0;
            let mut moved = |progress: &Progress, _| {
                saved.replace(encode(progress, &text).expect("JSON"));
                steps += 1;
                if steps < most { Ok(()) } else { Err(CopyError::State("cut off".into())) }
            };
            let done = async {
                copier.copy(&mut progress, &mut moved).await?;
                copier.compare(&mut progress, None, &mut moved).await
            };
            let done = done.await;
            all += steps;
            assert!(all < 10_000, "it makes no progress");
            if let Ok(found) = done {
                return (found, progress.totals, all);
            }
        }
    }

    #[tokio::test]
    async fn every_step_counts_however_often_it_is_cut_off() {
        let source = source().await;
        let (whole, copied, steps) = cut_off_after(usize::MAX, source.clone()).await;
        let (compared, left_out) = &whole;
        assert_eq!((compared.points, compared.differences), (750, 0));
        assert_eq!((compared.exemplars, copied.exemplars, copied.floats), (150, 150, 750));
        let counts: Vec<_> = left_out.iter().map(|(reason, all)| (reason, all.count)).collect();
        assert_eq!(counts, [(START_TIMESTAMP, 750), (TIME, 150)]);
        for most in [1, 2, 3, 10] {
            let (found, totals, all) = cut_off_after(most, source.clone()).await;
            assert_eq!((&found, &totals), (&whole, &copied), "{most}");
            // Each reading begins with a run of one series; each run has up to four times as many as the run before.
            let done: usize = (0..most as u32).map(|run| 4usize.pow(run)).sum();
            assert!(
                all <= steps + 5 * 150usize.div_ceil(done) * most,
                "{all} steps, cut off after {most}; {steps} without"
            );
        }
    }
}
