//! Detects a counter reset between two histograms.
//!
//! A counter only grows, and so does every bucket of it. Any change that growth cannot cause is a
//! reset: fewer observations in a bucket, a finer resolution, a narrower zero bucket.

use super::arithmetic::{common_bounds, containing, same_bounds};
use super::bounds;
use super::buckets::Buckets;
use super::float::FloatHistogram;
use promkairos_model::ResetHint;

impl FloatHistogram {
    /// Whether the counter was reset between `previous` and this one. A hint that answers this is
    /// trusted.
    pub fn is_reset_after(&self, previous: &Self) -> bool {
        match self.reset_hint {
            ResetHint::Reset => return true,
            ResetHint::NotReset => return false,
            ResetHint::Unknown | ResetHint::Gauge => {}
        }
        if self.count < previous.count {
            return true;
        }
        if self.has_custom_buckets() {
            return !previous.has_custom_buckets() || self.has_lost_custom(previous);
        }
        if previous.has_custom_buckets()
            || self.schema > previous.schema
            || self.zero_threshold < previous.zero_threshold
        {
            return true;
        }
        let (zero_count, threshold) = previous.widened_zero(self.zero_threshold);
        threshold != self.zero_threshold
            || self.zero_count < zero_count
            || self.has_lost(&self.positive, previous, &previous.positive)
            || self.has_lost(&self.negative, previous, &previous.negative)
    }

    /// Whether a bucket outside of the zero bucket holds less than before.
    fn has_lost(&self, own: &Buckets, previous: &Self, side: &Buckets) -> bool {
        let threshold = self.zero_threshold;
        let inside = |index: i32| {
            threshold != 0.0 && bounds::exponential(index, previous.schema) <= threshold
        };
        let first = side.iter().take_while(|(index, _)| inside(*index)).count();
        match previous.schema - self.schema {
            0 => has_fallen(own, side.iter().skip(first)),
            shift => has_fallen(own, side.reduced(first, shift).iter()),
        }
    }

    /// Whether fewer observations are below one of the bounds that both have.
    fn has_lost_custom(&self, previous: &Self) -> bool {
        if same_bounds(self, previous) {
            return has_fallen(&self.positive, previous.positive.iter());
        }
        let common = common_bounds(self.custom_bounds(), previous.custom_bounds());
        let own = self.positive.moved(containing(self.custom_bounds(), &common));
        let before = previous.positive.moved(containing(previous.custom_bounds(), &common));
        has_fallen(&own, before.iter())
    }
}

/// Whether a bucket holds less than in `before`, or is missing.
fn has_fallen(own: &Buckets, mut before: impl Iterator<Item = (i32, f64)>) -> bool {
    let mut own = own.iter().peekable();
    before.any(|(index, count)| {
        while own.next_if(|(i, _)| *i < index).is_some() {}
        match own.peek() {
            Some((i, now)) if *i == index => *now < count,
            _ => count != 0.0,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::cases::{custom, positive};
    use super::*;

    fn base() -> FloatHistogram {
        let mut h = positive(1, 0, &[1.0, 0.0, 2.0, 3.0], 0.0);
        (h.zero_threshold, h.zero_count, h.count) = (0.01, 5.0, 11.0);
        h
    }

    fn changed(change: impl Fn(&mut FloatHistogram)) -> bool {
        let mut next = base();
        change(&mut next);
        next.is_reset_after(&base())
    }

    #[test]
    fn growing_is_no_reset() {
        assert!(!changed(|_| {}));
        assert!(!changed(|h| h.count = 12.0));
        assert!(!changed(
            |h| h.positive = [(0, 1.0), (2, 2.5), (3, 3.0), (9, 1.0)].into_iter().collect()
        ));
        assert!(!changed(|h| h.reduce_resolution(0)));
        // The zero bucket widened to 2^-0.5, the lower end of the first bucket.
        assert!(!changed(|h| h.zero_threshold = 0.5));
    }

    #[test]
    fn losing_anything_is_a_reset() {
        assert!(changed(|h| h.count = 10.0));
        assert!(changed(|h| h.zero_count = 4.0));
        assert!(changed(|h| h.zero_threshold = 0.001));
        assert!(changed(|h| h.schema = 2));
        assert!(changed(|h| h.positive = [(0, 1.0), (2, 1.0), (3, 9.0)].into_iter().collect()));
        assert!(changed(|h| h.positive = [(0, 1.0), (3, 9.0)].into_iter().collect()));
        assert!(changed(|h| h.positive = [(0, 9.0), (2, 9.0)].into_iter().collect()));
        // A threshold within a bucket that is not empty.
        assert!(changed(|h| h.zero_threshold = 0.9));
        assert!(changed(|h| *h = custom(&[1.0], &[20.0], 0.0)));
    }

    #[test]
    fn hints_are_believed() {
        assert!(changed(|h| h.reset_hint = ResetHint::Reset));
        assert!(!changed(|h| (h.reset_hint, h.count) = (ResetHint::NotReset, 0.0)));
        assert!(changed(|h| (h.reset_hint, h.count) = (ResetHint::Gauge, 0.0)));
    }

    #[test]
    fn custom_buckets_are_compared_between_common_bounds() {
        let before = custom(&[1.0, 2.0, 3.0], &[1.0, 2.0, 3.0, 4.0], 0.0);
        let more = custom(&[1.0, 3.0, 9.0], &[1.0, 5.0, 4.0, 0.0], 0.0);
        assert!(!more.is_reset_after(&before));
        let less = custom(&[1.0, 3.0, 9.0], &[1.0, 4.0, 9.0, 0.0], 0.0);
        assert!(less.is_reset_after(&before));
        assert!(base().is_reset_after(&custom(&[1.0], &[1.0], 0.0)));
    }
}
