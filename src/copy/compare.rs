//! Comparing two sides: number and checksum of the points of every series and day.
//!
//! Both sides are read again, sorted, and walked side by side. Where number or checksum differ, the
//! points are compared one by one. Start timestamps count only where both sides keep them. A day at which
//! a side was away is compared again.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde::Serialize;

use super::days::{self, times_of};
use super::digest::{Digest, hashes};
use super::exemplars::Pieces;
use super::progress::Stage;
use super::runs::{Run, Runs};
use super::side::{Side, Starts};
use super::transfer::{Copier, Patience};
use super::{CopyError, Job};
use crate::chunk::{Chunk, ChunkError};
use crate::model::{Exemplar, Labels, Metadata, TimeRange};
use crate::storage::ExemplarList;

/// Most differences that are listed.
const LISTED: usize = 100;

/// What a comparison has found.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Compared {
    /// Points of the source.
    pub points: u64,
    /// Points of the target.
    pub target_points: u64,
    /// Checksum of the source's points, as hexadecimal digits; that of the target is the same
    /// when there are no differences.
    pub checksum: String,
    /// Checksum of the target's points.
    pub target_checksum: String,
    /// Exemplars of the source.
    pub exemplars: u64,
    /// Families of metadata of the source.
    pub metadata: u64,
    /// Those of them that the target describes otherwise, which is no difference: what it knows stays.
    pub metadata_otherwise: u64,
    /// The first of them.
    pub first_otherwise: Option<String>,
    /// Series and days, families of metadata included, that are not the same.
    pub differences: u64,
    /// Those of them of which the target has all that the source has, and more.
    pub differences_of_more: u64,
    /// The first of them; where there are too many, those of which the target has not all rather than others.
    pub listed: Vec<Difference>,
}

/// What is not the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The series, or the family.
    pub of: String,
    /// First millisecond of the day; none for metadata.
    pub day: Option<i64>,
    /// What of it.
    pub what: What,
    /// In the source and not in the target.
    pub missing: u64,
    /// In both, with other values.
    pub different: u64,
    /// In the target and not in the source.
    pub too_many: u64,
}

/// What a difference is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// Points.
    Points,
    /// Exemplars.
    Exemplars,
    /// Metadata.
    Metadata,
}

impl Difference {
    /// Whether the target has all that the source has, and more.
    fn is_of_more(&self) -> bool {
        self.missing == 0 && self.different == 0
    }
}

impl Compared {
    fn note(&mut self, difference: Difference) {
        self.differences += 1;
        self.differences_of_more += u64::from(difference.is_of_more());
        if self.listed.len() == LISTED {
            if difference.is_of_more() {
                return;
            }
            // One that says less gives its place.
            match self.listed.iter().rposition(Difference::is_of_more) {
                Some(at) => self.listed.remove(at),
                None => return,
            };
        }
        self.listed.push(difference);
    }
}

/// A family, what the source says of it, and what the target does, if it knows it.
type BothMetadata = (String, Metadata, Option<Metadata>);

impl Compared {
    fn compare_metadata(&mut self, both: Vec<BothMetadata>) {
        for (family, said, known) in both {
            self.metadata += 1;
            match known {
                None => {
                    let (day, what) = (None, What::Metadata);
                    let (missing, different, too_many) = (1, 0, 0);
                    self.note(Difference { of: family, day, what, missing, different, too_many });
                }
                Some(known) if known != said => {
                    self.metadata_otherwise += 1;
                    self.first_otherwise.get_or_insert(family);
                }
                Some(_) => {}
            }
        }
    }
}

impl Copier {
    /// Compares both sides. `moved` is told of each day.
    pub async fn compare(
        &self,
        mut moved: impl FnMut(&Compared, Stage) -> Result<(), CopyError>,
    ) -> Result<Compared, CopyError> {
        let sides = [&self.from, &Side::Store(self.to.clone())];
        let find = async || days::find(&sides, &self.job, i64::MIN).await;
        let days = Patience::over(self.patience, find).await?;
        let mut compared = Compared::default();
        let (mut source, mut target) = (Digest::default(), Digest::default());
        for (done, day) in days.iter().enumerate() {
            moved(&compared, Stage::Comparing { done, days: days.len() })?;
            let range = times_of(&self.job, *day, *day);
            let whole = async || self.compare_day(sides, range, compared.clone()).await;
            let (with_day, [of_source, of_target]) = Patience::over(self.patience, whole).await?;
            compared = with_day;
            source.add(of_source);
            target.add(of_target);
        }
        let whole = async || self.metadata_of_both().await;
        compared.compare_metadata(Patience::over(self.patience, whole).await?);
        compared.points = source.points;
        compared.target_points = target.points;
        compared.checksum = format!("{:016x}", source.checksum);
        compared.target_checksum = format!("{:016x}", target.checksum);
        Ok(compared)
    }

    /// Adds what the sides have in a day to what was compared before; gives that and their digests.
    async fn compare_day(
        &self,
        sides: [&Side; 2],
        range: TimeRange,
        mut compared: Compared,
    ) -> Result<(Compared, [Digest; 2]), CopyError> {
        let mut day = Day { job: &self.job, sides, range, compared: &mut compared };
        let mut digests = [Digest::default(); 2];
        for selector in 0..self.job.selectors.len() {
            for (sum, one) in digests.iter_mut().zip(day.compare_points(selector).await?) {
                sum.add(one);
            }
            day.compare_exemplars(selector).await?;
        }
        Ok((compared, digests))
    }

    /// Metadata of the families that the target knows nothing of.
    pub(super) async fn missing_metadata(&self) -> Result<Vec<(String, Metadata)>, CopyError> {
        let both = self.metadata_of_both().await?.into_iter();
        Ok(both
            .filter(|(_, _, known)| known.is_none())
            .map(|(family, said, _)| (family, said))
            .collect())
    }

    async fn metadata_of_both(&self) -> Result<Vec<BothMetadata>, CopyError> {
        let known = Side::Store(self.to.clone()).metadata().await?;
        let mut known: BTreeMap<String, Metadata> = known.into_iter().collect();
        let all = self.from.metadata().await?.into_iter();
        let with_known = |(family, said)| {
            let there = known.remove(&family);
            (family, said, there)
        };
        Ok(all.map(with_known).collect())
    }
}

/// One day of the comparison.
struct Day<'a> {
    job: &'a Job,
    /// Source and target.
    sides: [&'a Side; 2],
    range: TimeRange,
    compared: &'a mut Compared,
}

impl<'a> Day<'a> {
    /// Which start timestamps both sides keep.
    fn starts(&self) -> Starts {
        self.sides[0].starts().min(self.sides[1].starts())
    }

    /// Compares the points of the series that are left to a selector; gives their digests.
    async fn compare_points(&mut self, selector: usize) -> Result<[Digest; 2], CopyError> {
        let mut sources = self.cursor(0, selector).await?;
        let mut targets = self.cursor(1, selector).await?;
        let mut digests = [Digest::default(); 2];
        let (mut source, mut target) = (sources.next().await?, targets.next().await?);
        loop {
            let order = match (&source, &target) {
                (None, None) => return Ok(digests),
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
            let both_digests = both.each_ref().map(|one| one.as_ref().map(|one| one.digest));
            for (sum, one) in digests.iter_mut().zip(both_digests) {
                sum.add(one.unwrap_or_default());
            }
            if both_digests[0] != both_digests[1] {
                self.note_points(&both)?;
            }
        }
    }

    /// Says in how many points a series differs.
    fn note_points(&mut self, both: &[Option<Series>; 2]) -> Result<(), CopyError> {
        let Some(labels) = both.iter().flatten().map(|series| &series.labels).next() else {
            return Ok(());
        };
        let mut points = [BTreeMap::new(), BTreeMap::new()];
        for ((points, series), side) in points.iter_mut().zip(both).zip(self.sides) {
            if let Some(series) = series {
                let found = hashes(&series.chunks, self.range, self.starts());
                points.extend(found.map_err(|source| damaged(side.name(), labels, source))?);
            }
        }
        let mut differing = Differing::default();
        differing.add(&points);
        self.note(What::Points, labels, differing);
        Ok(())
    }

    /// Compares the exemplars of the series that are left to a selector.
    async fn compare_exemplars(&mut self, selector: usize) -> Result<(), CopyError> {
        let mut pieces = Pieces::new(&self.sides, &self.job.selectors[selector], self.range);
        let mut differing = BTreeMap::new();
        while let Some(found) = pieces.next().await? {
            self.compare_piece(selector, found, &mut differing);
        }
        for (labels, differing) in differing {
            self.note(What::Exemplars, &labels, differing);
        }
        Ok(())
    }

    /// Compares what each side has of exemplars in a part of the day, and adds how series differ to `differing`.
    fn compare_piece(
        &mut self,
        selector: usize,
        found: Vec<ExemplarList>,
        differing: &mut BTreeMap<Labels, Differing>,
    ) {
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
        self.compared.exemplars += sources.values().map(|all| all.len() as u64).sum::<u64>();
        let none = BTreeMap::new();
        let only_targets = targets.keys().filter(|labels| !sources.contains_key(*labels));
        for labels in sources.keys().chain(only_targets) {
            let pair = both.each_ref().map(|all| all.get(labels).unwrap_or(&none).clone());
            if pair[0] != pair[1] {
                differing.entry(labels.clone()).or_default().add(&pair);
            }
        }
    }

    fn note(&mut self, what: What, labels: &Labels, differing: Differing) {
        let Differing { missing, different, too_many } = differing;
        let (of, day) = (labels.to_string(), Some(self.range.start));
        self.compared.note(Difference { of, day, what, missing, different, too_many });
    }

    async fn cursor(&self, side: usize, selector: usize) -> Result<Cursor<'a>, CopyError> {
        let name = self.sides[side].name().to_owned();
        let runs = self.sides[side].runs(&self.job.selectors[selector], self.range, None).await?;
        let (job, range, starts) = (self.job, self.range, self.starts());
        Ok(Cursor { name, job, selector, range, starts, runs, run: Run::new().into_iter() })
    }
}

/// How many points or exemplars of a series differ.
#[derive(Default)]
struct Differing {
    missing: u64,
    different: u64,
    too_many: u64,
}

impl Differing {
    /// Adds those that differ of what the source and the target have, each a hash of its value under its key.
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
}

/// The series of one side, one after the other.
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
                let digest = Digest::of(&chunks, self.range, self.starts)
                    .map_err(|source| damaged(&self.name, &labels, source))?;
                if digest.points > 0 {
                    return Ok(Some(Series { labels, chunks, digest }));
                }
            }
            match self.runs.next().await? {
                Some(run) => self.run = run.into_iter(),
                None => return Ok(None),
            }
        }
    }
}

fn damaged(side: &str, series: &Labels, source: ChunkError) -> CopyError {
    CopyError::Chunk { side: side.to_owned(), series: series.clone(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_listed_rather_than_what_is_too_many() {
        let difference = |of: usize, missing, too_many| {
            let (of, day, what) = (of.to_string(), Some(0), What::Points);
            Difference { of, day, what, missing, different: 0, too_many }
        };
        let mut compared = Compared::default();
        compared.note(difference(0, 1, 1));
        (1..=LISTED).for_each(|of| compared.note(difference(of, 0, 1)));
        compared.note(difference(500, 1, 0));
        assert_eq!((compared.differences, compared.differences_of_more), (102, 100));
        let listed: Vec<&str> = compared.listed.iter().map(|one| one.of.as_str()).collect();
        assert_eq!((listed.len(), listed[0], listed[98], listed[99]), (LISTED, "0", "98", "500"));
        (0..LISTED).for_each(|of| compared.note(difference(1_000 + of, 1, 0)));
        assert!(compared.listed.iter().all(|one| one.missing == 1));
        assert_eq!(compared.listed.len(), LISTED);
    }
}
