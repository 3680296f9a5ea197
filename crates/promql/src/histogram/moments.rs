//! Mean, variance and standard deviation.
//!
//! The mean is exact. For the variance, every observation is assumed to be in the middle of its
//! bucket: the geometric mean of the bounds, 0 in the zero bucket, the arithmetic mean in custom
//! buckets.

use super::amount::{Amount, Kahan};
use super::float::FloatHistogram;
use super::iterate::Bucket;

impl FloatHistogram {
    /// The mean of the observations.
    pub fn mean(&self) -> f64 {
        self.sum / self.count
    }

    /// The estimated variance of the observations.
    pub fn variance(&self) -> f64 {
        let mean = self.mean();
        let mut squares = Kahan::default();
        for bucket in self.buckets().filter(|bucket| bucket.count != 0.0) {
            let distance = self.middle(bucket) - mean;
            squares.add(bucket.count * distance * distance);
        }
        squares.value() / self.count
    }

    fn middle(&self, bucket: Bucket) -> f64 {
        if self.has_custom_buckets() {
            (bucket.upper + bucket.lower) / 2.0
        } else if bucket.touches_zero() {
            0.0
        } else {
            (bucket.upper * bucket.lower).sqrt().copysign(bucket.upper)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::cases::{custom, positive};

    #[test]
    fn observations_lie_in_the_middle_of_their_buckets() {
        let h = positive(-1, 1, &[4.0], 8.0); // (1,4], middle 2
        assert_eq!((h.mean(), h.variance()), (2.0, 0.0));
        let mut h = positive(-1, 1, &[1.0], 0.0);
        h.negative = [(1, 1.0)].into_iter().collect();
        (h.count, h.zero_count) = (4.0, 2.0);
        assert_eq!((h.mean(), h.variance()), (0.0, 2.0));
        let h = custom(&[0.0, 4.0], &[0.0, 4.0], 12.0);
        assert_eq!((h.mean(), h.variance()), (3.0, 1.0));
    }
}
