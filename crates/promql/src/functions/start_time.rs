//! Counter resets that start timestamps show and values do not.
//!
//! The start timestamp of a sample is when its counter began. 0 means unknown. A start timestamp
//! that is not before the time of the sample has no meaning.

/// Time and start timestamp of a sample.
#[derive(Debug, Clone, Copy)]
pub(super) struct Begun {
    pub(super) time: i64,
    pub(super) start: i64,
}

impl Begun {
    /// Whether the counter of this sample began after `previous`.
    pub(super) fn is_reset_after(self, previous: Self) -> bool {
        if self.start == previous.start || self.start == 0 || self.start >= self.time {
            return false;
        }
        if self.start == previous.time {
            // Samples of which each begins where the one before ended are deltas. But the first one
            // of a counter may also have its own time as its start timestamp.
            return previous.start != 0 && previous.start < previous.time;
        }
        self.start > previous.time
    }

    /// Whether the counter of this sample began after `time`, which is before the sample.
    pub(super) fn began_after(self, time: i64) -> bool {
        self.start > time && self.is_reset_after(Self { time, start: time })
    }

    /// Whether the counter began before the time of `previous`, and is a different counter.
    pub(super) fn overlaps(self, previous: Self) -> bool {
        self.start != 0 && self.start < previous.time && self.start != previous.start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(time: i64, start: i64) -> Begun {
        Begun { time, start }
    }

    #[test]
    fn a_later_beginning_is_a_reset() {
        let reset = |previous: (i64, i64), next: (i64, i64)| {
            at(next.0, next.1).is_reset_after(at(previous.0, previous.1))
        };
        assert!(reset((10, 5), (20, 15)));
        assert!(!reset((10, 5), (20, 5)));
        assert!(!reset((10, 5), (20, 0)));
        assert!(!reset((10, 5), (20, 20)));
        assert!(!reset((10, 5), (20, 25)));
        assert!(reset((10, 5), (20, 10)));
        assert!(!reset((10, 10), (20, 10)));
        assert!(!reset((10, 0), (20, 10)));
        assert!(!reset((10, 12), (20, 10)));
        // The same counter, whatever its start timestamp is.
        assert!(!reset((10, 15), (20, 15)));
    }

    #[test]
    fn overlaps_are_two_counters_at_once() {
        assert!(at(20, 7).overlaps(at(10, 5)));
        assert!(!at(20, 5).overlaps(at(10, 5)));
        assert!(!at(20, 0).overlaps(at(10, 5)));
        assert!(!at(20, 10).overlaps(at(10, 5)));
    }
}
