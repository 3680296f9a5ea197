//! Decides when the epochs of metrics rise while plans are written one after the other: before the first
//! write of late points to a metric, and after its last one.
//!
//! One answer covers all of these plans, and a rise in between would add nothing to the last one: what
//! is read before the last rise belongs to an epoch that ends with it. So a metric of many series in
//! many plans costs two rows. Plans come sorted by series, so a metric is finished once a plan has no
//! point of it. Its epoch rises then, not only before the answer. If the metric comes again, it begins
//! anew.
//!
//! Lateness is judged by the current clock each time: a point that was not late when it was written may
//! be late when its metric is finished. Points that are still not late then are in no cache.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::cql::executor::Deadline;
use crate::cql::stamp::now_ms;
use crate::options::read_cache::LEAST_SETTLED_AFTER;
use crate::plan::Plan;
use crate::points::epochs::EpochLog;
use promkairos_storage::Result;

/// A writer treats older points as settled. A cache may keep points from twice this age on; the other
/// half allows for clocks that differ.
const LATE_AFTER: Duration = Duration::from_secs(LEAST_SETTLED_AFTER.as_secs() / 2);

/// The metrics that are being written to.
#[derive(Debug, Default)]
pub(crate) struct LateWrites {
    open: BTreeMap<String, Open>,
}

/// What was written to a metric since it began.
#[derive(Debug)]
struct Open {
    /// The earliest time of a point of the metric.
    first: i64,
    /// Whether its epoch rose before late points of it were written.
    raised: bool,
}

impl LateWrites {
    /// The metrics whose epochs have to rise before the next plan is written: those with their first late
    /// points in it, and those without points in it. `firsts` has the first point of each metric in the plan.
    fn due<'a>(&'a self, firsts: &BTreeMap<&'a str, i64>, late: i64) -> Vec<&'a str> {
        let begins = |(metric, first): (&&'a str, &i64)| {
            let is_raised = self.open.get(*metric).is_some_and(|open| open.raised);
            (*first < late && !is_raised).then_some(*metric)
        };
        let over = self.open.iter().filter(|(metric, _)| !firsts.contains_key(metric.as_str()));
        let over = over.filter(|(_, open)| open.is_late(late)).map(|(metric, _)| metric.as_str());
        firsts.iter().filter_map(begins).chain(over).collect()
    }

    /// Records the next plan, once the epochs that were due have risen.
    fn go_on(&mut self, firsts: &BTreeMap<&str, i64>, late: i64) {
        self.open.retain(|metric, _| firsts.contains_key(metric.as_str()));
        for (metric, first) in firsts {
            let new = Open { first: i64::MAX, raised: false };
            let open = self.open.entry((*metric).to_owned()).or_insert(new);
            open.first = open.first.min(*first);
            open.raised |= *first < late;
        }
    }

    /// The metrics whose epochs have to rise before the answer.
    fn left(&self, late: i64) -> Vec<&str> {
        let late = self.open.iter().filter(|(_, open)| open.is_late(late));
        late.map(|(metric, _)| metric.as_str()).collect()
    }
}

impl Open {
    fn is_late(&self, late: i64) -> bool {
        self.raised || self.first < late
    }
}

/// Points before this time are late.
fn late() -> i64 {
    now_ms() - LATE_AFTER.as_millis() as i64
}

impl EpochLog {
    /// Ok: the plan may be written. An error changes nothing: call this again, or
    /// [end](Self::end_late_writes).
    pub(crate) async fn begin_late_writes(
        &self,
        writes: &mut LateWrites,
        plan: &Plan,
        deadline: Deadline,
    ) -> Result<()> {
        let (firsts, late) = (plan.first_points(), late());
        self.raise(&writes.due(&firsts, late), deadline).await?;
        writes.go_on(&firsts, late);
        Ok(())
    }

    /// Ok: the plans may be answered. Call it after a failed write too, which may be done in part.
    pub(crate) async fn end_late_writes(&self, writes: LateWrites) -> Result<()> {
        self.raise(&writes.left(late()), self.cql.executor.deadline()).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes plans one after the other; each is the first point of its metrics, and the time before
    /// which points are late then. Returns the metrics that rise before each plan, and at the end.
    fn risen(plans: &[(&[(&'static str, i64)], i64)], end: i64) -> Vec<String> {
        let mut writes = LateWrites::default();
        let mut all = Vec::new();
        for (firsts, late) in plans {
            let firsts = firsts.iter().copied().collect();
            all.push(writes.due(&firsts, *late).join(" "));
            writes.go_on(&firsts, *late);
        }
        all.push(writes.left(end).join(" "));
        all
    }

    #[test]
    fn before_the_first_late_point_and_after_the_last() {
        let late = 100;
        let (a, b): (&[_], &[_]) = (&[("a", 1)], &[("b", 1)]);
        assert_eq!(risen(&[(a, late)], late), ["a", "a"]);
        assert_eq!(risen(&[(a, late), (a, late), (a, late)], late), ["a", "", "", "a"]);
        // When the next metric begins, the one before it is finished.
        assert_eq!(risen(&[(a, late), (b, late)], late), ["a", "b a", "b"]);
        let both: &[_] = &[("a", 1), ("b", 1)];
        assert_eq!(risen(&[(a, late), (both, late), (b, late)], late), ["a", "b", "a", "b"]);
        // Plans without points, and a metric that comes again.
        let none: &[_] = &[];
        assert_eq!(risen(&[(a, late), (none, late), (a, late)], late), ["a", "a", "a", "a"]);
    }

    #[test]
    fn what_is_late_is_found_by_the_clock_of_each_moment() {
        let (new, old): (&[_], &[_]) = (&[("a", 100)], &[("a", 99)]);
        assert_eq!(risen(&[(new, 100)], 100), ["", ""]);
        // It became late while it was written.
        assert_eq!(risen(&[(new, 100)], 101), ["", "a"]);
        let none: &[_] = &[];
        assert_eq!(risen(&[(new, 100), (none, 101)], 101), ["", "a", ""]);
        // Late points of a metric that had none before.
        assert_eq!(risen(&[(new, 100), (old, 100), (new, 100)], 100), ["", "a", "", "a"]);
        // The clock was set back meanwhile.
        assert_eq!(risen(&[(old, 100)], 50), ["a", "a"]);
    }

    #[test]
    fn an_epoch_that_did_not_rise_is_still_due() {
        let mut writes = LateWrites::default();
        let (a, b) = (BTreeMap::from([("a", 1)]), BTreeMap::from([("b", 1)]));
        assert_eq!(writes.due(&a, 100), ["a"]);
        writes.go_on(&a, 100);
        // Nothing rose before the next plan, so it is not written, and `a` is as it was.
        assert_eq!(writes.due(&b, 100), ["b", "a"]);
        assert_eq!(writes.left(100), ["a"]);
        assert_eq!(writes.due(&b, 100), ["b", "a"]);
    }
}
