//! How fast a flush goes down: spread over a time, so that a store which others use too sees no storm, or
//! as fast as it can be taken.
//!
//! Whoever makes the flush says over how long and what ends the spreading; the store that takes it asks
//! before each piece. It only ever waits, so a store that has no use for it leaves it alone. One that would
//! only like to leave room for others asks whether there is a hurry.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

/// How often it is asked while a piece waits whether there is a hurry.
const LOOK: Duration = Duration::from_millis(100);

/// The pace of one flush. The default has it go down at full speed.
#[derive(Clone, Default)]
pub struct Pace(Option<Spread>);

#[derive(Clone)]
struct Spread {
    begin: Instant,
    over: Duration,
    runs: usize,
    hurry: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl Pace {
    /// Spreads a flush of so many runs evenly over a time that begins now. As soon as `hurry` is true,
    /// which is asked ten times a second, the rest goes down at full speed.
    pub fn spread(
        runs: usize,
        over: Duration,
        hurry: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Self {
        let hurry = Arc::new(hurry);
        Self(Some(Spread { begin: Instant::now(), over, runs, hurry }))
    }

    /// Whether the flush should go down as fast as it can be taken: somebody waits, or room is short.
    pub fn is_urgent(&self) -> bool {
        self.0.as_ref().is_none_or(|spread| (spread.hurry)())
    }

    /// Waits until the runs after the first `done` ones may go down.
    pub async fn wait(&self, done: usize) {
        let Some(spread) = &self.0 else { return };
        let due = spread.begin + spread.due(done);
        while Instant::now() < due && !(spread.hurry)() {
            tokio::time::sleep_until(due.min(Instant::now() + LOOK)).await;
        }
    }
}

impl Spread {
    /// How long after the beginning the runs after the first `done` ones may go down.
    fn due(&self, done: usize) -> Duration {
        let share = done as f64 / self.runs.max(1) as f64;
        self.over.mul_f64(share.min(1.0))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use futures::FutureExt;

    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    #[test]
    fn runs_are_spread_evenly() {
        let due = |runs, done| {
            let begin = Instant::now();
            Spread { begin, over: DAY, runs, hurry: Arc::new(|| false) }.due(done)
        };
        assert_eq!([0, 1, 6, 24].map(|done| due(24, done)), [0, 1, 6, 24].map(|n| DAY / 24 * n));
        assert_eq!((due(24, 25), due(0, 0), due(0, 7)), (DAY, Duration::ZERO, DAY));
    }

    #[tokio::test]
    async fn the_first_runs_wait_for_nothing_and_the_others_until_there_is_a_hurry() {
        let hurry = Arc::new(AtomicBool::new(false));
        let asked = hurry.clone();
        let pace = Pace::spread(2, DAY, move || asked.load(Ordering::SeqCst));
        assert_eq!(pace.wait(0).now_or_never(), Some(()));
        let mut wait = Box::pin(pace.wait(1));
        assert_eq!((&mut wait).now_or_never(), None);
        assert!(!pace.is_urgent());
        hurry.store(true, Ordering::SeqCst);
        assert!(pace.is_urgent() && Pace::default().is_urgent());
        wait.await;
        assert_eq!(pace.wait(2).now_or_never(), Some(()));
        assert_eq!(Pace::default().wait(1).now_or_never(), Some(()));
    }
}
