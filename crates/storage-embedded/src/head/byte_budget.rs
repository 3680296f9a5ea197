//! A budget of bytes that one thread may have ready for another: the producer waits while the
//! consumer is behind.
//!
//! Invariant: the reserved bytes never exceed the budget, except for one larger reservation, which is then the only
//! one. A waiting producer goes on when the consumer is gone. The bytes themselves are elsewhere.

use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

/// The budget. Clones share it.
#[derive(Clone)]
pub(super) struct ByteBudget(Arc<Inner>);

struct Inner {
    most: u64,
    state: Mutex<BudgetState>,
    less: Condvar,
}

#[derive(Default)]
struct BudgetState {
    taken: u64,
    closed: bool,
}

/// Bytes of the budget, until this is dropped.
pub(super) struct Reserved {
    budget: ByteBudget,
    bytes: u64,
}

/// Ends all waiting when it is dropped.
pub(super) struct CloseOnDrop(ByteBudget);

impl ByteBudget {
    /// A budget of `most` bytes.
    pub(super) fn new(most: u64) -> Self {
        Self(Arc::new(Inner { most, state: Mutex::default(), less: Condvar::new() }))
    }

    /// Reserves these bytes; waits until there is room.
    pub(super) fn take(&self, bytes: u64) -> Reserved {
        let mut state = self.0.state.lock();
        while !state.closed && state.taken > 0 && state.taken.saturating_add(bytes) > self.0.most {
            self.0.less.wait(&mut state);
        }
        state.taken = state.taken.saturating_add(bytes);
        Reserved { budget: self.clone(), bytes }
    }

    /// A guard for the consumer.
    pub(super) fn close_on_drop(&self) -> CloseOnDrop {
        CloseOnDrop(self.clone())
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        let Inner { state, less, .. } = &*self.budget.0;
        let mut state = state.lock();
        state.taken = state.taken.saturating_sub(self.bytes);
        less.notify_all();
    }
}

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.0.state.lock().closed = true;
        self.0.0.less.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{RecvTimeoutError, channel};
    use std::time::Duration;

    use super::*;

    #[test]
    fn who_makes_more_than_the_budget_waits_for_the_other_end() {
        let budget = ByteBudget::new(10);
        let closer = budget.close_on_drop();
        let (made, taken) = channel();
        let maker = std::thread::spawn(move || {
            for bytes in [30, 4, 6, 1, 100, 7, 8] {
                if made.send((bytes, budget.take(bytes))).is_err() {
                    return;
                }
            }
        });
        let next = || taken.recv_timeout(Duration::from_secs(60)).expect("it makes them");
        let waits = || {
            let none = taken.recv_timeout(Duration::from_millis(20)).err();
            assert_eq!(none, Some(RecvTimeoutError::Timeout));
        };
        // Larger than the budget, so alone.
        let first = next();
        assert_eq!(first.0, 30);
        waits();
        drop(first);
        let (four, six) = (next(), next());
        waits();
        drop(four);
        assert_eq!(next().0, 1);
        waits();
        drop(six);
        let hundred = next();
        assert_eq!(hundred.0, 100);
        waits();
        // The other end is gone.
        drop(closer);
        assert_eq!((next().0, next().0), (7, 8));
        maker.join().expect("it ends");
    }
}
