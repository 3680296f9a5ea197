//! Quantiles of native histograms.
//!
//! Buckets are counted from the nearer end up to the rank. The position within the bucket is
//! interpolated: linearly in the zero bucket and in custom buckets, by the logarithm in others.
//! Observations of NaN are in no bucket; they count as larger than all others.

use super::float::FloatHistogram;
use super::iterate::{Bucket, BucketRule};
use crate::go_math::{exp2, log2};

/// A quantile, and the effect of observations of NaN.
#[derive(Debug, Clone, Copy)]
pub struct Quantile {
    /// Its value.
    pub value: f64,
    /// Set if there are observations of NaN.
    pub nan: Option<NanObservations>,
}

/// The effect of observations of NaN on a quantile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NanObservations {
    /// The quantile is NaN.
    Result,
    /// The quantile is higher because of them.
    Skewed,
}

/// The quantile of anything, if `q` is not between 0 and 1.
pub(crate) fn beyond(q: f64) -> Option<f64> {
    match q {
        _ if q.is_nan() => Some(f64::NAN),
        _ if q < 0.0 => Some(f64::NEG_INFINITY),
        _ if q > 1.0 => Some(f64::INFINITY),
        _ => None,
    }
}

const NO_BUCKET: Bucket = Bucket { lower: 0.0, upper: 0.0, rule: BucketRule::OpenLeft, count: 0.0 };

impl FloatHistogram {
    /// The `q`-quantile.
    pub fn quantile(&self, q: f64) -> Quantile {
        let plain = |value| Quantile { value, nan: None };
        if let Some(value) = beyond(q) {
            return plain(value);
        }
        if self.count == 0.0 {
            return plain(f64::NAN);
        }
        let may_have_nan = self.sum.is_nan();
        let upwards = may_have_nan || q < 0.5;
        let rank = if upwards { q * self.count } else { (1.0 - q) * self.count };
        let found = if upwards {
            find(&mut self.buckets(), rank)
        } else {
            find(&mut self.buckets().rev(), rank)
        };
        let (bucket, counted) = (self.narrowed(found.bucket), found.counted.min(self.count));
        if self.has_custom_buckets() {
            if found.bucket.lower == f64::NEG_INFINITY && bucket.upper <= 0.0 {
                return plain(bucket.upper);
            }
            if found.bucket.lower != f64::NEG_INFINITY && bucket.upper == f64::INFINITY {
                return plain(bucket.lower);
            }
        }
        if counted < rank {
            return match may_have_nan {
                true => Quantile { value: f64::NAN, nan: Some(NanObservations::Result) },
                false => plain(bucket.upper),
            };
        }
        let within = if upwards { rank - (counted - bucket.count) } else { counted - rank };
        let skewed = may_have_nan && self.buckets().map(|b| b.count).sum::<f64>() < self.count;
        Quantile {
            value: self.interpolated(bucket, within / bucket.count),
            nan: skewed.then_some(NanObservations::Skewed),
        }
    }

    /// The bucket with the bounds between which its observations are assumed to lie. The zero bucket
    /// is halved by `one_sided`; a custom bucket from −Inf to a positive bound begins at zero.
    pub(super) fn narrowed(&self, bucket: Bucket) -> Bucket {
        if self.has_custom_buckets() {
            let from_zero = bucket.lower == f64::NEG_INFINITY && bucket.upper > 0.0;
            return if from_zero { Bucket { lower: 0.0, ..bucket } } else { bucket };
        }
        if bucket.lower < 0.0 && bucket.upper > 0.0 {
            return self.one_sided(bucket);
        }
        bucket
    }

    /// The zero bucket without its half on the side without buckets, if only one side has buckets.
    pub(super) fn one_sided(&self, zero: Bucket) -> Bucket {
        match (self.negative.is_empty(), self.positive.is_empty()) {
            (true, false) => Bucket { lower: 0.0, ..zero },
            (false, true) => Bucket { upper: 0.0, ..zero },
            _ => zero,
        }
    }

    /// The value at a share of the observations of a bucket.
    fn interpolated(&self, bucket: Bucket, share: f64) -> f64 {
        let Bucket { lower, upper, .. } = bucket;
        if self.has_custom_buckets() || bucket.touches_zero() {
            return lower + (upper - lower) * share;
        }
        let (log_lower, log_upper) = (log2(lower.abs()), log2(upper.abs()));
        if lower > 0.0 {
            exp2(log_lower + (log_upper - log_lower) * share)
        } else {
            -exp2(log_upper + (log_lower - log_upper) * (1.0 - share))
        }
    }
}

/// The bucket of a rank, and the number of observations up to the end of that bucket.
struct Found {
    bucket: Bucket,
    counted: f64,
}

/// Finds the bucket of `rank`, or the last bucket if all buckets together hold less.
fn find(buckets: &mut dyn Iterator<Item = Bucket>, rank: f64) -> Found {
    let mut found = Found { bucket: NO_BUCKET, counted: 0.0 };
    for bucket in buckets {
        found.bucket = bucket;
        found.counted += bucket.count;
        if bucket.count != 0.0 && found.counted >= rank {
            break;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::cases::{custom, positive};
    use super::*;

    fn close(got: f64, want: f64) {
        assert!((got - want).abs() <= 1e-9 * want.abs() || got == want, "{got} instead of {want}");
    }

    #[test]
    fn exponential_buckets() {
        // From native_histograms.test: (0.5,1] 4, (1,2] 3, (2,4] 0, (4,8] 1, zero 0.
        let h = positive(0, 0, &[4.0, 3.0, 0.0, 1.0], 0.0);
        close(h.quantile(0.0).value, 0.5);
        close(h.quantile(1.0).value, 8.0);
        close(h.quantile(0.5).value, 1.0);
        close(h.quantile(0.6875).value, 2f64.powf(0.5));
        assert_eq!(h.quantile(1.5).value, f64::INFINITY);
        assert_eq!(h.quantile(-0.1).value, f64::NEG_INFINITY);
        assert!(h.quantile(f64::NAN).value.is_nan());
        assert!(FloatHistogram::empty(0, None).quantile(0.5).value.is_nan());
    }

    #[test]
    fn the_negative_side_is_mirrored() {
        let mut h = positive(0, 0, &[], 0.0);
        h.negative = [(1, 4.0)].into_iter().collect(); // [-2,-1)
        h.count = 4.0;
        close(h.quantile(0.5).value, -(2f64.powf(0.5)));
        close(h.quantile(0.0).value, -2.0);
        close(h.quantile(1.0).value, -1.0);
    }

    #[test]
    fn the_zero_bucket_has_only_the_sides_that_exist() {
        let mut h = positive(0, 2, &[1.0], 0.0);
        (h.zero_threshold, h.zero_count, h.count) = (1.0, 3.0, 4.0);
        close(h.quantile(0.375).value, 0.5);
        h.negative = [(2, 1.0)].into_iter().collect();
        h.count = 5.0;
        close(h.quantile(0.5).value, 0.0);
    }

    #[test]
    fn custom_buckets() {
        let h = custom(&[5.0, 10.0], &[2.0, 4.0, 2.0], 0.0);
        close(h.quantile(0.125).value, 2.5);
        close(h.quantile(0.5).value, 7.5);
        close(h.quantile(0.9).value, 10.0);
        close(custom(&[-5.0, 10.0], &[2.0, 0.0, 2.0], 0.0).quantile(0.2).value, -5.0);
    }

    #[test]
    fn nan_is_larger_than_all_others() {
        let mut h = positive(0, 0, &[4.0, 4.0], f64::NAN);
        assert_eq!(h.quantile(0.9).nan, None);
        h.count = 10.0;
        let skewed = h.quantile(0.4);
        assert_eq!((skewed.value, skewed.nan), (1.0, Some(NanObservations::Skewed)));
        let result = h.quantile(0.9);
        assert!(result.value.is_nan());
        assert_eq!(result.nan, Some(NanObservations::Result));
    }
}
