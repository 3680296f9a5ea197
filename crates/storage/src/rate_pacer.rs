//! The pace of a flush: spread over a time, so that a shared store sees no peak of load, or at full speed.
//!
//! The creator of the flush sets the time and the condition that ends the spreading; the store that takes the flush
//! calls [`RatePacer::wait`] before each piece. Waiting is the only effect, so a store may ignore the pacer. A store
//! that only wants to leave room for others checks [`RatePacer::is_urgent`].

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

/// How often the urgency is checked during a wait.
const LOOK: Duration = Duration::from_millis(100);

/// The pace of one flush. The default is full speed.
#[derive(Clone, Default)]
pub struct RatePacer(Option<Spread>);

#[derive(Clone)]
struct Spread {
    begin: Instant,
    over: Duration,
    runs: usize,
    hurry: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl RatePacer {
    /// Spreads a flush of `runs` runs evenly over a time that begins now. `hurry` is checked ten
    /// times a second; as soon as it returns true, the rest of the flush goes at full speed.
    pub fn spread(
        runs: usize,
        over: Duration,
        hurry: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Self {
        let hurry = Arc::new(hurry);
        Self(Some(Spread { begin: Instant::now(), over, runs, hurry }))
    }

    /// Whether the flush should go at full speed: a caller waits, or room is short.
    pub fn is_urgent(&self) -> bool {
        self.0.as_ref().is_none_or(|spread| (spread.hurry)())
    }

    /// Waits until the runs after the first `done` ones may be written.
    pub async fn wait(&self, done: usize) {
        let Some(spread) = &self.0 else { return };
        let due = spread.begin + spread.due(done);
        while Instant::now() < due && !(spread.hurry)() {
            tokio::time::sleep_until(due.min(Instant::now() + LOOK)).await;
        }
    }
}

impl Spread {
    /// The time after the beginning when the runs after the first `done` ones may be written.
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
        let pace = RatePacer::spread(2, DAY, move || asked.load(Ordering::SeqCst));
        assert_eq!(pace.wait(0).now_or_never(), Some(()));
        let mut wait = Box::pin(pace.wait(1));
        assert_eq!((&mut wait).now_or_never(), None);
        assert!(!pace.is_urgent());
        hurry.store(true, Ordering::SeqCst);
        assert!(pace.is_urgent() && RatePacer::default().is_urgent());
        wait.await;
        assert_eq!(pace.wait(2).now_or_never(), Some(()));
        assert_eq!(RatePacer::default().wait(1).now_or_never(), Some(()));
    }
}
