//! Bytes that one thread may have ready for another: the one that makes them waits while the other is behind.
//!
//! Invariant: they are never more than the share, but for one piece that is larger, which has it alone. Who waits goes
//! on when the other end is gone.

use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

/// The share. Its clones are the same one.
#[derive(Clone)]
pub(super) struct Share(Arc<Inner>);

struct Inner {
    most: u64,
    state: Mutex<State>,
    less: Condvar,
}

#[derive(Default)]
struct State {
    taken: u64,
    closed: bool,
}

/// Bytes of the share, until this is dropped.
pub(super) struct Piece {
    share: Share,
    bytes: u64,
}

/// Nobody waits any more once this is dropped.
pub(super) struct Closing(Share);

impl Share {
    /// One of so many bytes.
    pub(super) fn new(most: u64) -> Self {
        Self(Arc::new(Inner { most, state: Mutex::default(), less: Condvar::new() }))
    }

    /// Waits until these bytes have room.
    pub(super) fn take(&self, bytes: u64) -> Piece {
        let mut state = self.0.state.lock();
        while !state.closed && state.taken > 0 && state.taken.saturating_add(bytes) > self.0.most {
            self.0.less.wait(&mut state);
        }
        state.taken = state.taken.saturating_add(bytes);
        Piece { share: self.clone(), bytes }
    }

    /// What the end that takes holds.
    pub(super) fn closing(&self) -> Closing {
        Closing(self.clone())
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        let Inner { state, less, .. } = &*self.share.0;
        let mut state = state.lock();
        state.taken = state.taken.saturating_sub(self.bytes);
        less.notify_all();
    }
}

impl Drop for Closing {
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
    fn who_makes_more_than_the_share_waits_for_the_other_end() {
        let share = Share::new(10);
        let closing = share.closing();
        let (made, taken) = channel();
        let maker = std::thread::spawn(move || {
            for bytes in [30, 4, 6, 1, 100, 7, 8] {
                if made.send((bytes, share.take(bytes))).is_err() {
                    return;
                }
            }
        });
        let next = || taken.recv_timeout(Duration::from_secs(60)).expect("it makes them");
        let waits = || {
            let none = taken.recv_timeout(Duration::from_millis(20)).err();
            assert_eq!(none, Some(RecvTimeoutError::Timeout));
        };
        // Larger than all of it, alone.
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
        drop(closing);
        assert_eq!((next().0, next().0), (7, 8));
        maker.join().expect("it ends");
    }
}
