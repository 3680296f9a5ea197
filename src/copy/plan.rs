//! Finds the days with anything to copy by bisection, one query of the sides at a time.
//!
//! A found day may turn out empty, but no day is missed. A plan is saved between queries, in the
//! file of a copy too, and resumes from there. Days that may have only exemplars are found by
//! reading the exemplars: the index of series covers only points.
//!
//! Invariant: `found`, with what is still to be found in `open` and `exemplars`, is complete.

use serde::{Deserialize, Serialize};

use super::days::{DayRange, Days, day_of, times_of};
use super::endpoint::Endpoint;
use super::error::CopyError;
use super::exemplars::Pieces;
use super::job::Job;
use crate::model::TimeRange;

/// Found runs up to this number of days are included when exemplars are looked for on both sides of them.
const SHORT_RUN: u64 = 21;
/// Most days whose exemplars are looked for at once, between days with points.
const MOST_DAYS: u64 = 366;

/// The days of a job, as far as they are known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Plan {
    /// All days of the job; `None` = none.
    all: Option<DayRange>,
    /// For each side and selector: the names that it selects, if they are few and were looked up.
    names: Vec<Option<Vec<String>>>,
    /// Days still to be searched for points; the last run is next.
    open: Vec<DayRange>,
    /// Days with points or exemplars.
    found: Days,
    /// Days still to be searched for exemplars; the last run is next. `None` before the search for points has ended.
    exemplars: Option<Vec<DayRange>>,
}

impl Plan {
    /// A new plan for the days from `from` on.
    pub(super) fn begin(job: &Job, from: i64) -> Self {
        let all = DayRange::new(from.max(day_of(job.range.start)), day_of(job.range.end));
        let all = all.filter(|_| !job.range.is_empty());
        Self {
            all,
            names: Vec::new(),
            open: all.into_iter().collect(),
            found: Days::default(),
            exemplars: None,
        }
    }

    /// The days that were found.
    pub(super) fn days(&self) -> &Days {
        &self.found
    }

    /// Whether it is complete, and all of its days are before `from`.
    pub(super) fn is_behind(&self, from: i64) -> bool {
        let is_whole = self.open.is_empty() && self.exemplars.as_ref().is_some_and(Vec::is_empty);
        is_whole && self.found.last().is_some_and(|last| last < from)
    }

    /// Sends the next query. Returns whether there was none.
    pub(super) async fn step(&mut self, sides: &[&Endpoint], job: &Job) -> Result<bool, CopyError> {
        let Some(all) = self.all else { return Ok(true) };
        if let Some(range) = self.open.last().copied() {
            let (side, selector) =
                (self.names.len() / job.selectors.len(), self.names.len() % job.selectors.len());
            if side < sides.len() {
                let times = times_of(job, all.first, all.last);
                let names = sides[side].few_names(&job.selectors[selector], times).await?;
                self.names.push(names);
                return Ok(false);
            }
            let may_have = self.any(sides, job, times_of(job, range.first, range.last)).await?;
            self.open.pop();
            match range.halves() {
                _ if !may_have => {}
                None => self.found.insert(range.first),
                Some([earlier, later]) => self.open.extend([later, earlier]),
            }
            return Ok(false);
        }
        let open = self.exemplars.get_or_insert_with(|| gaps(all, self.found.runs()));
        let Some(range) = open.last().copied() else { return Ok(true) };
        for selector in &job.selectors {
            let times = times_of(job, range.first, range.last);
            let mut pieces = Pieces::new(sides, selector, times);
            while let Some(piece) = pieces.next().await? {
                let exemplars = piece.iter().flatten().flat_map(|(_, exemplars)| exemplars);
                exemplars.for_each(|exemplar| self.found.insert(day_of(exemplar.timestamp)));
            }
        }
        if let Some(open) = &mut self.exemplars {
            open.pop();
        }
        Ok(false)
    }

    async fn any(
        &self,
        sides: &[&Endpoint],
        job: &Job,
        range: TimeRange,
    ) -> Result<bool, CopyError> {
        let pairs = sides.iter().flat_map(|side| job.selectors.iter().map(move |one| (side, one)));
        for ((side, selector), names) in pairs.zip(&self.names) {
            if side.may_have(selector, names.as_deref(), range).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// The gaps between runs, in descending order; gaps around a short run are joined.
fn gaps(all: DayRange, runs: &[DayRange]) -> Vec<DayRange> {
    let mut gaps: Vec<DayRange> = Vec::new();
    let mut from = all.first;
    let ends = runs.iter().map(|run| (run.first - 1, run.last + 1));
    for (end, next) in ends.chain([(all.last, all.last)]) {
        if let Some(gap) = DayRange::new(from, end) {
            let together = gaps.last().and_then(|last| DayRange::new(last.first, gap.last));
            let is_near = |last: &DayRange| last.last.abs_diff(gap.first) <= SHORT_RUN + 1;
            match (gaps.last_mut(), together) {
                (Some(last), Some(both)) if is_near(last) && both.len() <= MOST_DAYS => {
                    *last = both;
                }
                _ => gaps.push(gap),
            }
        }
        from = next;
    }
    gaps.reverse();
    gaps
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::super::{Selector, Starts, StoreEndpoint};
    use super::*;
    use crate::limits::PARTITION_MS;
    use crate::model::{
        ExemplarEntry, Labels, MAX_TIMESTAMP, MIN_TIMESTAMP, MatchOp, Matcher, RawLabels, Sample,
        SeriesEntry, WriteBatch,
    };
    use crate::storage::Store;
    use crate::storage::memory::MemoryStore;

    const DAY: i64 = PARTITION_MS;

    async fn store(times: &[i64], exemplars: &[i64]) -> Endpoint {
        let store = MemoryStore::default();
        let labels = Labels::from_pairs([("__name__", "up")]).expect("valid");
        let sample = |&timestamp: &i64| Sample { timestamp, start_timestamp: 0, value: 1.0 };
        let entry = SeriesEntry {
            labels: RawLabels(labels.as_bytes()),
            index: 0,
            samples: 0..times.len() as u32,
            histograms: 0..0,
            exemplars: 0..exemplars.len() as u32,
        };
        let samples = times.iter().map(sample).collect();
        let exemplar =
            |&timestamp: &i64| ExemplarEntry { labels: RawLabels(&[]), value: 1.0, timestamp };
        let exemplars = exemplars.iter().map(exemplar).collect();
        let batch = WriteBatch { series: vec![entry], samples, exemplars, ..WriteBatch::default() };
        store.write(batch).await.expect("written");
        Endpoint::Store(StoreEndpoint {
            name: "m".into(),
            store: Arc::new(store),
            starts: Starts::All,
        })
    }

    fn job(op: MatchOp, value: &str, range: TimeRange) -> Job {
        let matchers = vec![Matcher::new(op, "__name__", value).expect("valid")];
        Job { selectors: vec![Selector { text: "up".into(), matchers }], range }
    }

    /// The days of a plan that is written to its file and read between any two queries; and the number of queries.
    async fn find(sides: &[&Endpoint], job: &Job, from: i64) -> (Vec<i64>, usize) {
        let (mut plan, mut steps) = (Plan::begin(job, from), 0);
        while !plan.step(sides, job).await.expect("answered") {
            let kept = serde_json::to_string(&plan).expect("JSON");
            plan = serde_json::from_str(&kept).expect("its own");
            steps += 1;
        }
        (plan.days().since(i64::MIN).collect(), steps)
    }

    #[tokio::test]
    async fn days_with_points_are_found_wherever_they_lie() {
        let all = job(MatchOp::Regex, "u.*", TimeRange::new(MIN_TIMESTAMP, MAX_TIMESTAMP));
        let find = async |sides: &[&Endpoint], job: &Job, from| find(sides, job, from).await.0;
        let times = [MIN_TIMESTAMP, -1, 0, DAY - 1, 19_000 * DAY, MAX_TIMESTAMP];
        let side = store(&times, &[]).await;
        let want = [day_of(MIN_TIMESTAMP), -1, 0, 19_000, day_of(MAX_TIMESTAMP)];
        assert_eq!(find(&[&side], &all, i64::MIN).await, want);
        assert_eq!(find(&[&side], &all, 1).await, want[3..]);
        let other = store(&[5 * DAY], &[3 * DAY, 3 * DAY + 1, 5 * DAY, 900 * DAY]).await;
        assert_eq!(find(&[&side, &other], &all, 0).await[..4], [0, 3, 5, 900]);
        assert_eq!(find(&[&other], &all, 4).await, [5, 900]);
        let some = Job { range: TimeRange::new(1, 19_000 * DAY), ..all };
        assert_eq!(find(&[&side], &some, i64::MIN).await, [0, 19_000]);
        assert_eq!(times_of(&some, 0, 0), TimeRange::new(1, DAY - 1));
        let none = Job { range: TimeRange::new(2 * DAY, DAY), ..some };
        assert_eq!(find(&[&side], &none, i64::MIN).await, [0_i64; 0]);
        let other_name =
            job(MatchOp::Regex, "down.*", TimeRange::new(MIN_TIMESTAMP, MAX_TIMESTAMP));
        assert_eq!(find(&[&side], &other_name, i64::MIN).await, [0_i64; 0]);
    }

    /// The number of queries follows the runs of days with points, not the number of days.
    #[tokio::test]
    async fn a_plan_takes_few_questions() {
        let side = store(&(0..90).map(|day| (20_000 + day) * DAY).collect::<Vec<_>>(), &[]).await;
        let all = job(MatchOp::Equal, "up", TimeRange::new(MIN_TIMESTAMP, MAX_TIMESTAMP));
        let (days, steps) = find(&[&side], &all, i64::MIN).await;
        assert_eq!(days.len(), 90);
        assert!(steps < 260, "{steps}");
    }

    proptest! {
        #[test]
        fn gaps_have_every_day_without_points(
            runs in prop::collection::vec((0i64..900, 1i64..60), 0..12),
        ) {
            let mut days = Days::default();
            let all = runs.iter().flat_map(|(first, len)| *first..first + len);
            all.for_each(|day| days.insert(day));
            let all = DayRange::new(-5, 1_000).expect("days");
            let mut gaps = gaps(all, days.runs());
            gaps.reverse();
            prop_assert!(gaps.is_sorted_by(|a, b| a.last < b.first));
            for day in all.first..=all.last {
                let is_looked_at = gaps.iter().any(|gap| gap.first <= day && day <= gap.last);
                let is_found = days.since(day).next() == Some(day);
                prop_assert!(is_looked_at || is_found, "{day}");
            }
            prop_assert!(gaps.len() <= days.runs().len() + 1);
        }
    }
}
