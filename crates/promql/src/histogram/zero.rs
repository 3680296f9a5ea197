//! Makes two zero buckets equally wide.
//!
//! A zero bucket is only widened, and never ends within a bucket that is not empty: it takes the
//! whole bucket and is widened to the end of that bucket.

use super::amount::Amount;
use super::bounds;
use super::buckets::Buckets;
use super::float::FloatHistogram;

impl<N: Amount> FloatHistogram<N> {
    /// The count and the threshold of the zero bucket if it were widened to `threshold`, or to the end
    /// of the bucket that contains `threshold` if that bucket is not empty.
    pub(super) fn widened_zero(&self, mut threshold: f64) -> (N, f64) {
        if threshold <= self.zero_threshold {
            return (self.zero_count, self.zero_threshold);
        }
        loop {
            let (count, reach) = self.taken(self.zero_count, &self.positive, threshold);
            threshold = threshold.max(reach);
            let (count, reach) = self.taken(count, &self.negative, threshold);
            if reach <= threshold {
                return (count, threshold);
            }
            // The positive side may have more buckets below the new threshold.
            threshold = reach;
        }
    }

    /// `taken` plus the counts of the buckets of one side that begin below `threshold`, and the end of
    /// the last of them that is not empty.
    fn taken(&self, mut taken: N, side: &Buckets<N>, threshold: f64) -> (N, f64) {
        let mut reach = 0.0;
        for (index, count) in side.iter() {
            if bounds::exponential(index.wrapping_sub(1), self.schema) >= threshold {
                break;
            }
            taken = taken.plus(count);
            if count.value() != 0.0 {
                reach = bounds::exponential(index, self.schema);
            }
        }
        (taken, reach)
    }

    /// Widens the zero bucket to `threshold`, or farther as `widened_zero` says.
    fn widen_zero(&mut self, threshold: f64) {
        let (count, threshold) = self.widened_zero(threshold);
        (self.zero_count, self.zero_threshold) = (count, threshold);
        let schema = self.schema;
        let inside = |index: i32| bounds::exponential(index.wrapping_sub(1), schema) < threshold;
        self.positive.skip_while(inside);
        self.negative.skip_while(inside);
        self.compact();
    }

    /// Widens the zero bucket until it is as wide as the widened zero bucket of `other`. Returns the
    /// count of the latter.
    pub(super) fn reconcile_zero(&mut self, other: &FloatHistogram) -> f64 {
        let (mut count, mut threshold) = (other.zero_count, other.zero_threshold);
        while threshold != self.zero_threshold {
            if self.zero_threshold > threshold {
                (count, threshold) = other.widened_zero(self.zero_threshold);
            }
            if threshold > self.zero_threshold {
                self.widen_zero(threshold);
            }
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::super::cases::positive;

    #[test]
    fn a_threshold_inside_a_bucket_grows_to_its_end() {
        let mut h = positive(0, 0, &[1.0, 2.0, 4.0], 0.0); // (0.5,1], (1,2], (2,4]
        h.zero_count = 8.0;
        assert_eq!(h.widened_zero(0.5), (8.0, 0.5));
        assert_eq!(h.widened_zero(1.5), (11.0, 2.0));
        h.widen_zero(1.5);
        assert_eq!((h.zero_count, h.zero_threshold), (11.0, 2.0));
        assert_eq!(h.positive.iter().collect::<Vec<_>>(), [(2, 4.0)]);
    }

    #[test]
    fn both_sides_push_each_other() {
        let mut h = positive(0, 2, &[1.0], 0.0); // (2,4]
        h.negative = [(1, 2.0), (3, 4.0)].into_iter().collect(); // [-2,-1), [-8,-4)
        // 1.5 is in [-2,-1): 2. (2,4] begins there. 3 is in (2,4]: 4, and [-8,-4) begins there.
        assert_eq!(h.widened_zero(1.5), (2.0, 2.0));
        assert_eq!(h.widened_zero(3.0), (3.0, 4.0));
        assert_eq!(h.widened_zero(4.5), (7.0, 8.0));
    }

    #[test]
    fn an_empty_bucket_may_be_cut() {
        let h = positive(0, 0, &[0.0, 1.0], 0.0);
        assert_eq!(h.widened_zero(0.75), (0.0, 0.75));
    }

    #[test]
    fn two_histograms_agree_on_a_width() {
        let mut a = positive(0, 0, &[1.0, 2.0], 0.0);
        (a.zero_threshold, a.zero_count) = (0.25, 1.0);
        let mut b = positive(0, 1, &[5.0], 0.0); // (1,2]
        (b.zero_threshold, b.zero_count) = (0.75, 1.0);
        // 0.75 is in (0.5,1] of a: 1 there, and 1 in b.
        assert_eq!(a.reconcile_zero(&b), 1.0);
        assert_eq!((a.zero_threshold, a.zero_count), (1.0, 2.0));
        assert_eq!(a.positive.iter().collect::<Vec<_>>(), [(1, 2.0)]);
    }
}
