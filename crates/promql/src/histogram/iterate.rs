//! Buckets with their bounds, from the most negative up.
//!
//! An exponential bucket includes the bound that is farther from zero, a custom bucket its upper
//! bound. The zero bucket and the first custom bucket include both bounds. A zero bucket without
//! observations is left out.

use super::bounds;
use super::float::FloatHistogram;
use crate::go_math::log2;

/// A bucket with its bounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bucket {
    /// Its lower bound.
    pub lower: f64,
    /// Its upper bound.
    pub upper: f64,
    /// Which bounds belong to the bucket.
    pub rule: BucketRule,
    /// Observations in it.
    pub count: f64,
}

/// Which bounds belong to a bucket. The numbers are the ones that the HTTP API uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum BucketRule {
    /// (lower, upper]
    OpenLeft = 0,
    /// [lower, upper)
    OpenRight = 1,
    /// (lower, upper)
    OpenBoth = 2,
    /// [lower, upper]
    ClosedBoth = 3,
}

impl Bucket {
    /// Whether zero is in the bucket or at one of its bounds.
    pub(super) fn touches_zero(&self) -> bool {
        self.lower <= 0.0 && self.upper >= 0.0
    }

    /// The share of the width of the bucket below `value`, which is inside: by length if `linear`,
    /// else by the logarithm.
    pub(super) fn share_below(&self, value: f64, linear: bool) -> f64 {
        if linear {
            return (value - self.lower) / (self.upper - self.lower);
        }
        let log = |bound: f64| log2(bound.abs());
        if value > 0.0 {
            (log(value) - log(self.lower)) / (log(self.upper) - log(self.lower))
        } else {
            1.0 - (log(value) - log(self.upper)) / (log(self.lower) - log(self.upper))
        }
    }
}

impl FloatHistogram {
    /// The upper bound of the positive bucket `index`.
    pub(super) fn bound(&self, index: i32) -> f64 {
        if self.has_custom_buckets() {
            bounds::custom(index, self.custom_bounds())
        } else {
            bounds::exponential(index, self.schema)
        }
    }

    /// The positive (or custom) bucket `index`.
    pub(super) fn positive_bucket(&self, index: i32, count: f64) -> Bucket {
        let lower = self.bound(index.wrapping_sub(1));
        let closed = self.has_custom_buckets() && index == 0;
        let rule = if closed { BucketRule::ClosedBoth } else { BucketRule::OpenLeft };
        Bucket { lower, upper: self.bound(index), rule, count }
    }

    /// The negative bucket `index`.
    pub(super) fn negative_bucket(&self, index: i32, count: f64) -> Bucket {
        let (lower, upper) = (-self.bound(index), -self.bound(index.wrapping_sub(1)));
        Bucket { lower, upper, rule: BucketRule::OpenRight, count }
    }

    /// The zero bucket.
    pub(super) fn zero_bucket(&self) -> Bucket {
        let (lower, upper) = (-self.zero_threshold, self.zero_threshold);
        Bucket { lower, upper, rule: BucketRule::ClosedBoth, count: self.zero_count }
    }

    /// All buckets by rising bounds with `zero` between them, including empty ones.
    pub(super) fn full_buckets(
        &self,
        zero: Option<Bucket>,
    ) -> impl DoubleEndedIterator<Item = Bucket> {
        let below = self.negative.iter().rev();
        let below = below.map(|(index, count)| self.negative_bucket(index, count));
        let above = self.positive.iter();
        let above = above.map(|(index, count)| self.positive_bucket(index, count));
        below.chain(zero).chain(above)
    }

    /// All buckets by rising bounds, including empty ones. The buckets next to the zero bucket do not
    /// overlap it. An empty zero bucket is left out.
    pub fn buckets(&self) -> impl DoubleEndedIterator<Item = Bucket> {
        let threshold = self.zero_threshold;
        let zero = (self.zero_count > 0.0).then(|| self.zero_bucket());
        self.full_buckets(zero).map(move |mut bucket| {
            if bucket.upper < 0.0 && bucket.upper > -threshold {
                bucket.upper = -threshold;
            } else if bucket.lower > 0.0 && bucket.lower < threshold {
                bucket.lower = threshold;
            }
            bucket
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::cases::{custom, positive};
    use super::BucketRule::{ClosedBoth, OpenLeft, OpenRight};
    use super::*;

    fn shown(h: &FloatHistogram) -> Vec<(BucketRule, f64, f64, f64)> {
        h.buckets().map(|b| (b.rule, b.lower, b.upper, b.count)).collect()
    }

    #[test]
    fn negative_zero_and_positive_buckets_in_order() {
        let mut h = positive(0, 0, &[3.0, 4.0], 0.0);
        h.negative = [(0, 1.0), (2, 2.0)].into_iter().collect();
        (h.zero_count, h.zero_threshold) = (5.0, 0.75);
        let want = [
            (OpenRight, -4.0, -2.0, 2.0),
            (OpenRight, -1.0, -0.75, 1.0),
            (ClosedBoth, -0.75, 0.75, 5.0),
            (OpenLeft, 0.75, 1.0, 3.0),
            (OpenLeft, 1.0, 2.0, 4.0),
        ];
        assert_eq!(shown(&h), want);
        let mut back: Vec<_> = h.buckets().rev().map(|b| b.count).collect();
        back.reverse();
        assert_eq!(back, [2.0, 1.0, 5.0, 3.0, 4.0]);
    }

    #[test]
    fn a_zero_bucket_of_less_than_nothing_is_not_there() {
        let mut h = positive(0, 0, &[-3.0], 0.0);
        h.zero_count = -1.0;
        assert_eq!(shown(&h), [(OpenLeft, 0.5, 1.0, -3.0)]);
    }

    #[test]
    fn custom_buckets_are_open_at_the_ends() {
        let h = custom(&[1.0, 2.0], &[1.0, 2.0, 3.0], 0.0);
        let want = [
            (ClosedBoth, f64::NEG_INFINITY, 1.0, 1.0),
            (OpenLeft, 1.0, 2.0, 2.0),
            (OpenLeft, 2.0, f64::INFINITY, 3.0),
        ];
        assert_eq!(shown(&h), want);
    }
}
