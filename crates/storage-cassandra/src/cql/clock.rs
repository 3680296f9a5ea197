//! The difference between our clock and the coordinator's.
//!
//! Write stamps decide which of two writers wins, so a clock that is far off would hide the data of
//! others, or ours. Only the part of a difference that the round trip does not explain counts.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;

use crate::cql::executor::Executor;
use crate::cql::prepared::Prepared;
use crate::cql::stamp::now_ms;
use promkairos_model::limits::NO_SETTING;
use promkairos_storage::{Result, StoreError};

/// A warning is logged beyond this many milliseconds.
const WARN_MS: i64 = 1_000;
/// Writes are refused beyond this many milliseconds.
const REFUSE_MS: i64 = 30_000;

/// The last measured difference, and our clock at that time: a step of our clock since then counts at once.
pub(crate) struct Skew {
    distance: AtomicI64,
    /// Our clock minus the monotonic clock at the measurement, in milliseconds.
    lead: AtomicI64,
    begin: Instant,
}

impl Default for Skew {
    fn default() -> Self {
        let (distance, lead) = (AtomicI64::new(0), AtomicI64::new(now_ms()));
        Self { distance, lead, begin: Instant::now() }
    }
}

impl Skew {
    /// Measures the difference. Fails when Cassandra does not answer.
    pub(crate) async fn measure(&self, executor: &Executor, clock: &Prepared) -> Result<()> {
        let before = now_ms();
        let answer = executor.rows(clock, (), executor.deadline()).await?;
        let after = now_ms();
        let (theirs,) = answer.one::<(i64,)>()?;
        let skew = distance(before, after, theirs);
        if skew.abs() > WARN_MS && self.distance.load(Ordering::Relaxed).abs() <= WARN_MS {
            tracing::warn!(skew_ms = skew, "our clock differs from Cassandra's");
        }
        executor.metrics.set_clock_skew(skew);
        self.distance.store(skew, Ordering::Relaxed);
        self.lead.store(self.lead_now(), Ordering::Relaxed);
        Ok(())
    }

    /// Refuses writes when the difference is too large for stamps to order them.
    pub(crate) fn check(&self) -> Result<()> {
        let skew = self.get();
        if skew.abs() <= REFUSE_MS {
            return Ok(());
        }
        Err(StoreError::unavailable(format!(
            "our clock is {skew} ms ahead of Cassandra's, and the most is {REFUSE_MS} ms: writes \
             would hide others or be hidden; {NO_SETTING}"
        )))
    }

    fn get(&self) -> i64 {
        let step = self.lead_now() - self.lead.load(Ordering::Relaxed);
        self.distance.load(Ordering::Relaxed).saturating_add(step)
    }

    fn lead_now(&self) -> i64 {
        let passed = i64::try_from(self.begin.elapsed().as_millis()).unwrap_or(i64::MAX);
        now_ms().saturating_sub(passed)
    }
}

/// Our clock minus theirs, in milliseconds; 0 where the round trip may explain the difference.
fn distance(before: i64, after: i64, theirs: i64) -> i64 {
    if theirs < before {
        before - theirs
    } else if theirs > after {
        after - theirs
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use promkairos_storage::StoreError;

    #[test]
    fn a_round_trip_is_no_skew() {
        for (before, after, theirs, want) in
            [(100, 120, 100, 0), (100, 120, 115, 0), (100, 120, 40, 60), (100, 120, 180, -60)]
        {
            assert_eq!(distance(before, after, theirs), want);
        }
    }

    #[test]
    fn writes_are_refused_beyond_the_limit() {
        for (skew, refused) in
            [(0, false), (29_000, false), (-29_000, false), (31_000, true), (-31_000, true)]
        {
            let check = |skew: Skew| {
                let is_refused = matches!(skew.check(), Err(StoreError::Unavailable { .. }));
                assert_eq!(is_refused, refused);
            };
            check(Skew { distance: AtomicI64::new(skew), ..Skew::default() });
            // Our clock stepped since the measurement.
            check(Skew { lead: AtomicI64::new(now_ms() - skew), ..Skew::default() });
        }
    }
}
