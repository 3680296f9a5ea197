//! Write stamps: the milliseconds that cells and tombstones carry.
//!
//! Within one millisecond Cassandra prefers a tombstone, then the greater bytes. So one millisecond
//! is never given to two different writes of one point, and no millisecond up to that of a delete
//! is given again: such a write waits for the next one. The clock may be turned back; stamps never
//! are.

use std::collections::HashSet;
use std::time::Duration;

use parking_lot::Mutex;

use crate::identity::Identity;

pub(crate) use promkairos_storage::clock::now_ms;

/// Gives out stamps.
#[derive(Default)]
pub(crate) struct Stamps(Mutex<LastStamp>);

/// The last stamp that was given.
#[derive(Default)]
struct LastStamp {
    stamp: i64,
    /// The points that were written in the millisecond `stamp`.
    written: HashSet<Identity>,
}

impl Stamps {
    /// A stamp for a write of these points, and how long to wait until the clock has reached it.
    pub(crate) fn for_write(&self, clock: i64, points: &[Identity]) -> (i64, Duration) {
        let mut last = self.0.lock();
        last.advance(clock);
        if points.iter().any(|point| last.written.contains(point)) {
            let next = last.stamp + 1;
            last.advance(next);
        }
        last.written.extend(points);
        (last.stamp, lead(last.stamp, clock))
    }

    /// A stamp for a delete: every earlier write has at most this stamp, every later write a higher
    /// one. The delete returns after the wait.
    pub(crate) fn for_delete(&self, clock: i64) -> (i64, Duration) {
        let mut last = self.0.lock();
        last.advance(clock);
        let stamp = last.stamp;
        last.advance(stamp + 1);
        (stamp, lead(stamp + 1, clock))
    }

    /// A stamp for an attempt to write index rows, which are the same every time.
    pub(crate) fn for_index(&self, clock: i64) -> i64 {
        let mut last = self.0.lock();
        last.advance(clock);
        last.stamp
    }
}

impl LastStamp {
    fn advance(&mut self, to: i64) {
        if to > self.stamp {
            self.stamp = to;
            self.written.clear();
        }
    }
}

/// How far a stamp is ahead of the clock; bounded, so that a clock that was turned back is not waited for.
fn lead(stamp: i64, clock: i64) -> Duration {
    const LONGEST: u64 = 10;
    let millis = u64::try_from(stamp.saturating_sub(clock)).unwrap_or(0);
    Duration::from_millis(millis.min(LONGEST))
}

/// Waits, unless the wait is zero.
pub(crate) async fn pause(wait: Duration) {
    if !wait.is_zero() {
        tokio::time::sleep(wait).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Duration = Duration::ZERO;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn one_point_never_has_a_millisecond_twice() {
        let stamps = Stamps::default();
        let (a, b) = (Identity::of(&[b"a"]), Identity::of(&[b"b"]));
        assert_eq!(stamps.for_write(100, &[a]), (100, NONE));
        assert_eq!(stamps.for_write(100, &[b]), (100, NONE));
        assert_eq!(stamps.for_write(100, &[b]), (101, ms(1)));
        assert_eq!(stamps.for_write(100, &[a]), (101, ms(1)));
        assert_eq!(stamps.for_write(102, &[a]), (102, NONE));
    }

    #[test]
    fn a_clock_turned_back_does_not_turn_stamps_back() {
        let stamps = Stamps::default();
        let a = Identity::of(&[b"a"]);
        assert_eq!(stamps.for_write(100, &[a]).0, 100);
        assert_eq!(stamps.for_write(90, &[]), (100, ms(10)));
        assert_eq!(stamps.for_write(80, &[a]), (101, ms(10)));
        assert_eq!(stamps.for_index(50), 101);
    }

    #[test]
    fn a_delete_parts_before_from_after() {
        let stamps = Stamps::default();
        let a = Identity::of(&[b"a"]);
        assert_eq!(stamps.for_write(100, &[a]).0, 100);
        assert_eq!(stamps.for_delete(100), (100, ms(1)));
        assert_eq!(stamps.for_write(100, &[a]), (101, ms(1)));
        assert_eq!(stamps.for_delete(101), (101, ms(1)));
        assert_eq!(stamps.for_delete(101), (102, ms(2)));
    }
}
