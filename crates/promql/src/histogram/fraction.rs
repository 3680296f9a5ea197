//! The share of observations between two values.
//!
//! The position within a bucket is estimated as for quantiles. Observations of NaN are between no
//! values, but they count as observations.

use super::float::FloatHistogram;
use super::iterate::Bucket;

/// A share, and whether observations of NaN were left out.
#[derive(Debug, Clone, Copy)]
pub struct Fraction {
    /// From 0 to 1.
    pub value: f64,
    /// Whether there are observations of NaN.
    pub has_nan: bool,
}

impl FloatHistogram {
    /// The share of the observations above `lower`, up to `upper`.
    pub fn fraction(&self, lower: f64, upper: f64) -> Fraction {
        let plain = |value| Fraction { value, has_nan: false };
        if self.count == 0.0 || lower.is_nan() || upper.is_nan() {
            return plain(f64::NAN);
        }
        if lower >= upper {
            return plain(0.0);
        }
        let (mut below_lower, mut below_upper) = (None, None);
        let mut rank = 0.0;
        for bucket in self.buckets() {
            below_lower = below_lower.or_else(|| self.rank_of(lower, bucket, rank));
            below_upper = below_upper.or_else(|| self.rank_of(upper, bucket, rank));
            rank += bucket.count;
        }
        // Without NaN all observations are in buckets, even if rounding makes the sum differ.
        let counted = if self.sum.is_nan() { rank } else { self.count };
        let rank = |below: Option<f64>| below.filter(|rank| *rank <= counted).unwrap_or(counted);
        Fraction {
            value: (rank(below_upper) - rank(below_lower)) / self.count,
            has_nan: counted < self.count,
        }
    }

    /// The number of observations below `value`; `None` if `value` is not below the end of `bucket`.
    /// `rank` observations are below the bucket.
    fn rank_of(&self, value: f64, bucket: Bucket, rank: f64) -> Option<f64> {
        let custom = self.has_custom_buckets();
        let around_zero = !custom && bucket.touches_zero();
        let bucket = match around_zero {
            true => self.one_sided(bucket),
            false if custom => self.narrowed(bucket),
            false => bucket,
        };
        if bucket.lower >= value {
            return Some(rank);
        }
        if bucket.upper <= value {
            return None;
        }
        let linear = custom || around_zero;
        if linear && bucket.lower == f64::NEG_INFINITY {
            return Some(bucket.count);
        }
        Some(rank + bucket.count * bucket.share_below(value, linear))
    }
}

#[cfg(test)]
mod tests {
    use super::super::cases::{custom, positive};
    use super::*;

    fn close(got: f64, want: f64) {
        assert!((got - want).abs() < 1e-12, "{got} instead of {want}");
    }

    #[test]
    fn counts_what_lies_between() {
        let h = positive(0, 0, &[4.0, 3.0, 0.0, 1.0], 0.0); // (0.5,1] (1,2] (2,4] (4,8]
        close(h.fraction(f64::NEG_INFINITY, f64::INFINITY).value, 1.0);
        close(h.fraction(0.5, 1.0).value, 0.5);
        close(h.fraction(1.0, 2f64.sqrt()).value, 1.5 / 8.0);
        close(h.fraction(2.0, 1.0).value, 0.0);
        close(h.fraction(-3.0, 0.1).value, 0.0);
        assert!(h.fraction(f64::NAN, 1.0).value.is_nan());
        assert!(FloatHistogram::empty(0, None).fraction(0.0, 1.0).value.is_nan());
    }

    #[test]
    fn zero_and_negative_buckets() {
        let mut h = positive(0, 1, &[1.0], 0.0);
        (h.zero_threshold, h.zero_count, h.count) = (0.5, 2.0, 3.0);
        close(h.fraction(0.0, 0.25).value, 1.0 / 3.0);
        h.negative = [(1, 1.0)].into_iter().collect(); // [-2,-1)
        h.count = 4.0;
        close(h.fraction(-(2f64.sqrt()), -1.0).value, 0.5 / 4.0);
        close(h.fraction(-0.5, 0.0).value, 1.0 / 4.0);
    }

    #[test]
    fn nan_is_left_out() {
        let mut h = positive(0, 0, &[4.0], f64::NAN);
        h.count = 8.0;
        let all = h.fraction(f64::NEG_INFINITY, f64::INFINITY);
        assert_eq!((all.value, all.has_nan), (0.5, true));
    }

    #[test]
    fn custom_buckets_are_even() {
        let h = custom(&[5.0, 10.0], &[2.0, 4.0, 2.0], 0.0);
        close(h.fraction(5.0, 7.5).value, 0.25);
        // The first bucket begins at 0.
        close(h.fraction(f64::NEG_INFINITY, 2.5).value, 0.125);
        // It is unknown where the observations above the last bound lie.
        close(h.fraction(f64::NEG_INFINITY, 20.0).value, 0.75);
        // A bucket that only ends or begins at 0 is no zero bucket.
        let h = custom(&[-1.0, 0.0, 5.0], &[2.0, 2.0, 4.0, 0.0], 0.0);
        close(h.fraction(-0.5, 2.5).value, 3.0 / 8.0);
    }
}
