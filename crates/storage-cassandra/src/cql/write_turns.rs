//! Permits for writes of points: as many at a time as the servers keep up with (see `concurrency`).
//!
//! Waiters are served in order. A permit that is dropped without [`WriteTurns::end`] is returned without a result.

use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::cql::concurrency::{Concurrency, Reply};
use promkairos_telemetry::CassandraMetrics;

/// The permits.
pub(crate) struct WriteTurns {
    /// Has [`State::permits`] permits in total, free or taken.
    pub(crate) turns: Semaphore,
    state: Mutex<State>,
    metrics: CassandraMetrics,
}

struct State {
    concurrency: Concurrency,
    permits: usize,
}

impl WriteTurns {
    /// Permits of which at most `most` are taken at a time.
    pub(crate) fn new(most: usize, metrics: CassandraMetrics) -> Self {
        let concurrency = Concurrency::new(most);
        let permits = concurrency.limit();
        metrics.write_concurrency.set(permits as i64);
        let state = Mutex::new(State { concurrency, permits });
        Self { turns: Semaphore::new(permits), state, metrics }
    }

    /// Returns a permit and learns from the result of the write.
    pub(crate) fn end(&self, turn: SemaphorePermit<'_>, reply: Reply) {
        let mut state = self.state.lock();
        let in_flight = state.permits - self.turns.available_permits().min(state.permits);
        state.concurrency.observe(reply, in_flight);
        let limit = state.concurrency.limit();
        if state.permits <= limit {
            drop(turn);
            self.turns.add_permits(limit - state.permits);
            state.permits = limit;
        } else {
            // No waiter gets this permit. Others are removed as they are returned.
            turn.forget();
            state.permits -= 1;
            state.permits -= self.turns.forget_permits(state.permits - limit);
        }
        self.metrics.write_concurrency.set(limit as i64);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt;

    use super::*;

    fn turn(of: &WriteTurns) -> Option<SemaphorePermit<'_>> {
        of.turns.acquire().now_or_never().map(|turn| turn.expect("never closed"))
    }

    /// Takes all free permits.
    fn all(of: &WriteTurns) -> Vec<SemaphorePermit<'_>> {
        std::iter::from_fn(|| turn(of)).collect()
    }

    #[test]
    fn there_are_as_many_turns_as_the_limit_says() {
        let metrics = CassandraMetrics::default();
        let all_turns = WriteTurns::new(100, metrics.clone());
        let turns = all(&all_turns);
        assert_eq!((turns.len(), metrics.write_concurrency.get()), (64, 64));
        // A waiter gets no permit before the limit has room for it.
        let mut waiting = Box::pin(all_turns.turns.acquire());
        assert!((&mut waiting).now_or_never().is_none());
        let mut turns = turns.into_iter();
        for _ in 0..32 {
            all_turns.end(turns.next().expect("64"), Reply::Overload);
            assert!((&mut waiting).now_or_never().is_none());
        }
        assert_eq!(metrics.write_concurrency.get(), 32);
        all_turns.end(turns.next().expect("64"), Reply::Other);
        assert!((&mut waiting).now_or_never().is_some());
        drop(turns);
        assert_eq!(all(&all_turns).len(), 32);
    }

    #[test]
    fn quick_answers_make_more_turns() {
        let metrics = CassandraMetrics::default();
        let all_turns = WriteTurns::new(100, metrics.clone());
        for _ in 0..50 {
            for turn in all(&all_turns) {
                all_turns.end(turn, Reply::Done(1, Duration::from_millis(1)));
            }
        }
        assert_eq!((all(&all_turns).len(), metrics.write_concurrency.get()), (100, 100));
    }
}
