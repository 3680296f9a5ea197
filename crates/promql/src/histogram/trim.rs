//! Cuts a histogram at a value: `</` keeps the observations below, `>/` the observations above.
//!
//! The bucket that contains the value keeps a share, which is estimated as for quantiles. Within an
//! infinite bucket nothing can be estimated, so it is kept or dropped whole. Count and sum are
//! recomputed from the kept buckets; the sum is estimated from the middles of the buckets. If
//! nothing is cut off, the histogram is unchanged.

use super::buckets::Buckets;
use super::float::FloatHistogram;
use super::iterate::Bucket;

/// Which side of the cut is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Observations below the cut.
    Below,
    /// Observations above the cut.
    Above,
}

/// The observations kept of a bucket, and the value of each for the sum.
#[derive(Clone, Copy)]
struct Kept {
    count: f64,
    middle: f64,
}

impl FloatHistogram {
    /// Drops the observations on the other side of `cut`.
    pub fn trim(&mut self, cut: f64, keep: Keep) {
        let mut positive = std::mem::take(&mut self.positive);
        let mut negative = std::mem::take(&mut self.negative);
        let linear = self.has_custom_buckets();
        let holds = |side: &Buckets| side.iter().any(|(_, count)| count != 0.0);
        let (below_zero, above_zero) = (holds(&negative), holds(&positive));

        let (mut count, mut sum, mut changed) = (0.0, 0.0, false);
        let mut take = |held: &mut f64, kept: Kept| {
            count += kept.count;
            sum += kept.middle * kept.count;
            changed |= *held != kept.count;
            *held = kept.count;
        };
        for (index, held) in positive.iter_mut().filter(|(_, held)| **held != 0.0) {
            let bucket = self.positive_bucket(index, *held);
            take(held, bucket_kept(bucket, cut, keep, linear));
        }
        for (index, held) in negative.iter_mut().filter(|(_, held)| **held != 0.0) {
            let bucket = self.negative_bucket(index, *held);
            take(held, bucket_kept(bucket, cut, keep, linear));
        }
        if self.zero_count > 0.0 {
            let mut zero = self.zero_bucket();
            match (below_zero, above_zero) {
                (true, false) => zero.upper = 0.0,
                (false, true) => zero.lower = 0.0,
                _ => {}
            }
            take(&mut self.zero_count, zero_kept(zero, cut, keep));
        }
        (self.positive, self.negative) = (positive, negative);
        if changed {
            (self.count, self.sum) = (count, sum);
            self.compact();
        }
    }
}

/// The kept part of the zero bucket, in which observations are assumed to be spread evenly.
fn zero_kept(Bucket { lower, upper, count, .. }: Bucket, cut: f64, keep: Keep) -> Kept {
    let (whole, none, from, to) = match keep {
        Keep::Below => (cut >= upper, cut <= lower, lower, cut),
        Keep::Above => (cut <= lower, cut >= upper, cut, upper),
    };
    if none {
        Kept { count: 0.0, middle: 0.0 }
    } else if whole {
        Kept { count, middle: (lower + upper) / 2.0 }
    } else {
        Kept { count: count * ((to - from) / (upper - lower)), middle: (from + to) / 2.0 }
    }
}

/// The kept part of any other bucket.
fn bucket_kept(bucket: Bucket, cut: f64, keep: Keep, linear: bool) -> Kept {
    let Bucket { lower, upper, count, .. } = bucket;
    let (whole, cut_through) = match keep {
        Keep::Below => (upper <= cut, lower < cut),
        Keep::Above => (lower >= cut, upper > cut),
    };
    if whole {
        return Kept { count, middle: middle(lower, upper, linear) };
    }
    if !cut_through {
        return Kept { count: 0.0, middle: 0.0 };
    }
    if lower == f64::NEG_INFINITY {
        return first_kept(bucket, cut, keep);
    }
    if upper == f64::INFINITY {
        // It is unknown how many observations are below the cut.
        let count = if keep == Keep::Above { count } else { 0.0 };
        return Kept { count, middle: cut };
    }
    let below = count * bucket.share_below(cut, linear);
    match keep {
        Keep::Below => Kept { count: below, middle: middle(lower, cut, linear) },
        Keep::Above => Kept { count: count - below, middle: middle(cut, upper, linear) },
    }
}

/// The kept part of a bucket from −Inf that contains the cut. If its upper bound is positive and
/// the cut is not below 0, the bucket is assumed to begin at 0.
fn first_kept(Bucket { upper, count, .. }: Bucket, cut: f64, keep: Keep) -> Kept {
    let from_zero = upper > 0.0 && upper != f64::INFINITY;
    match keep {
        Keep::Below if from_zero && cut > 0.0 => {
            Kept { count: count * cut / upper, middle: cut / 2.0 }
        }
        Keep::Below if upper <= 0.0 => Kept { count, middle: cut },
        Keep::Above if from_zero && cut >= 0.0 => {
            Kept { count: count * (1.0 - cut / upper), middle: (cut + upper) / 2.0 }
        }
        _ => Kept { count: 0.0, middle: 0.0 },
    }
}

/// The value of each observation between two bounds for the sum.
fn middle(lower: f64, upper: f64, linear: bool) -> f64 {
    match (lower.is_infinite(), upper.is_infinite()) {
        (true, true) => 0.0,
        // Below a positive bound, observations are assumed to be above 0.
        (true, false) if upper > 0.0 => upper / 2.0,
        (true, false) => upper,
        (false, true) => lower,
        (false, false) if linear => (lower + upper) / 2.0,
        (false, false) => (lower * upper).abs().sqrt().copysign(lower),
    }
}

#[cfg(test)]
mod tests {
    use super::super::cases::{custom, positive};
    use super::*;

    fn trimmed(h: &FloatHistogram, cut: f64, keep: Keep) -> FloatHistogram {
        let mut h = h.clone();
        h.trim(cut, keep);
        h
    }

    fn counts(h: &FloatHistogram) -> Vec<f64> {
        h.buckets().map(|bucket| bucket.count).collect()
    }

    #[test]
    fn a_cut_that_takes_nothing_changes_nothing() {
        let h = positive(0, 0, &[1.0, 0.0, 2.0], 77.0);
        assert!(trimmed(&h, 4.0, Keep::Below).same_data(&h));
        assert!(trimmed(&h, 0.5, Keep::Above).same_data(&h));
        assert!(trimmed(&h, f64::INFINITY, Keep::Below).same_data(&h));
    }

    #[test]
    fn exponential_buckets_are_cut_by_the_logarithm() {
        let h = positive(-1, 1, &[4.0, 2.0], 99.0); // (1,4] (4,16]
        let below = trimmed(&h, 2.0, Keep::Below);
        assert_eq!((counts(&below), below.count), (vec![2.0], 2.0));
        assert_eq!(below.sum, 2.0 * 2f64.sqrt());
        let above = trimmed(&h, 2.0, Keep::Above);
        assert_eq!((counts(&above), above.count), (vec![2.0, 2.0], 4.0));
        assert!((above.sum - (2.0 * 8f64.sqrt() + 2.0 * 8.0)).abs() < 1e-12);
    }

    #[test]
    fn the_zero_bucket_is_cut_evenly() {
        let mut h = positive(0, 2, &[1.0], 0.0); // (2,4]
        (h.zero_threshold, h.zero_count, h.count) = (1.0, 4.0, 5.0);
        assert_eq!(counts(&trimmed(&h, 0.25, Keep::Below)), [1.0]);
        assert_eq!(counts(&trimmed(&h, 0.25, Keep::Above)), [3.0, 1.0]);
        h.negative = [(2, 1.0)].into_iter().collect();
        assert_eq!(counts(&trimmed(&h, 0.0, Keep::Above)), [2.0, 1.0]);
    }

    #[test]
    fn infinite_buckets_are_kept_or_dropped_whole() {
        let h = custom(&[4.0, 8.0], &[2.0, 4.0, 8.0], 0.0);
        assert_eq!(counts(&trimmed(&h, 100.0, Keep::Below)), [2.0, 4.0]);
        let above = trimmed(&h, 100.0, Keep::Above);
        assert_eq!((counts(&above), above.sum), (vec![8.0], 800.0));
        // The first bucket begins at 0.
        assert_eq!(counts(&trimmed(&h, 1.0, Keep::Below)), [0.5]);
        assert_eq!(counts(&trimmed(&h, 1.0, Keep::Above)), [1.5, 4.0, 8.0]);
        assert_eq!(counts(&trimmed(&h, -1.0, Keep::Below)), [0.0; 0]);
    }
}
