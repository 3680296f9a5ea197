//! Quantiles and fractions of classic histograms: one series per bucket, cumulative counts.
//!
//! Counts are scraped and summed separately, so a count may be lower than the count of a lower
//! bucket, which must not be. Such a count is raised to the highest count below it. A difference
//! within rounding is ignored; a larger one is returned to the caller. Without a bucket up to +Inf
//! the result is NaN, as the number of observations is unknown.

use std::cmp::Ordering;

use super::quantile::beyond;

/// A classic bucket.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClassicBucket {
    /// The value of its label `le`.
    pub upper: f64,
    /// The number of observations that are not above `upper`.
    pub count: f64,
}

/// A quantile, and how the counts were changed for it.
#[derive(Debug, Clone, Copy)]
pub struct ClassicQuantile {
    /// Its value.
    pub value: f64,
    /// Set if counts had to be raised.
    pub forced: Option<Monotonicity>,
}

/// The counts that were raised.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Monotonicity {
    /// The upper bound of the lowest bucket that was raised.
    pub lowest: f64,
    /// The upper bound of the highest bucket that was raised.
    pub highest: f64,
    /// The largest difference by which a count was raised.
    pub difference: f64,
}

/// A difference up to this share of the counts is rounding.
const ROUNDING: f64 = 1e-12;

/// The `q`-quantile of a classic histogram of at least one bucket.
pub fn classic_quantile(q: f64, mut buckets: Vec<ClassicBucket>) -> ClassicQuantile {
    let plain = |value| ClassicQuantile { value, forced: None };
    if let Some(value) = beyond(q) {
        return plain(value);
    }
    if !merge_by_bound(&mut buckets) {
        return plain(f64::NAN);
    }
    let forced = make_monotonic(&mut buckets);
    ClassicQuantile { value: interpolate(q, &buckets), forced }
}

fn interpolate(q: f64, buckets: &[ClassicBucket]) -> f64 {
    let [.., second_last, last] = buckets else { return f64::NAN };
    if last.count == 0.0 {
        return f64::NAN;
    }
    let rank = q * last.count;
    // As Go's binary search: with NaN counts, the first bucket that is not known to be too low.
    let finite = &buckets[..buckets.len() - 1];
    let found = finite
        .partition_point(|bucket| bucket.count.partial_cmp(&rank).is_none_or(Ordering::is_lt));
    let Some(bucket) = finite.get(found) else { return second_last.upper };
    if found == 0 && bucket.upper <= 0.0 {
        return bucket.upper;
    }
    let below = match found {
        0 => ClassicBucket { upper: 0.0, count: 0.0 },
        _ => buckets[found - 1],
    };
    let share = (rank - below.count) / (bucket.count - below.count);
    below.upper + (bucket.upper - below.upper) * share
}

/// The share of observations between two values, in a classic histogram with at least one bucket.
pub fn classic_fraction(lower: f64, upper: f64, mut buckets: Vec<ClassicBucket>) -> f64 {
    if !merge_by_bound(&mut buckets) {
        return f64::NAN;
    }
    let total = buckets.last().map_or(0.0, |last| last.count);
    if total == 0.0 || lower.is_nan() || upper.is_nan() {
        return f64::NAN;
    }
    if lower >= upper {
        return 0.0;
    }
    let rank = |value| rank_of(value, &buckets).filter(|rank| *rank <= total).unwrap_or(total);
    (rank(upper) - rank(lower)) / total
}

/// The number of observations below `value`; `None` if `value` is above all buckets.
fn rank_of(value: f64, buckets: &[ClassicBucket]) -> Option<f64> {
    let first_lower = if buckets[0].upper <= 0.0 { f64::NEG_INFINITY } else { 0.0 };
    let mut below = ClassicBucket { upper: first_lower, count: 0.0 };
    for bucket in buckets {
        if below.upper >= value {
            return Some(below.count);
        }
        if bucket.upper > value {
            if below.upper == f64::NEG_INFINITY {
                return Some(bucket.count);
            }
            let (width, part) = (bucket.upper - below.upper, value - below.upper);
            return Some(below.count + (bucket.count - below.count) * part / width);
        }
        below = *bucket;
    }
    None
}

/// Sorts buckets by bound and merges equal bounds. Returns whether there is a bucket up to +Inf.
fn merge_by_bound(buckets: &mut Vec<ClassicBucket>) -> bool {
    buckets.sort_by(|a, b| a.upper.partial_cmp(&b.upper).unwrap_or(Ordering::Equal));
    let infinite = buckets.last().is_some_and(|last| last.upper == f64::INFINITY);
    buckets.dedup_by(|next, kept| {
        let same = next.upper == kept.upper;
        if same {
            kept.count += next.count;
        }
        same
    });
    infinite
}

/// Raises each count that is lower than the highest count below it.
fn make_monotonic(buckets: &mut [ClassicBucket]) -> Option<Monotonicity> {
    let mut forced: Option<Monotonicity> = None;
    let mut highest = buckets.first()?.count;
    for bucket in &mut buckets[1..] {
        if bucket.count == highest {
            continue;
        }
        if nearly_equal(highest, bucket.count) {
            bucket.count = highest;
        } else if bucket.count < highest {
            let seen = forced.get_or_insert(Monotonicity {
                lowest: bucket.upper,
                highest: bucket.upper,
                difference: 0.0,
            });
            seen.highest = bucket.upper;
            seen.difference = seen.difference.max(highest - bucket.count);
            bucket.count = highest;
        } else {
            highest = bucket.count;
        }
    }
    forced
}

fn nearly_equal(a: f64, b: f64) -> bool {
    let (sum, difference) = (a.abs() + b.abs(), (a - b).abs());
    if a.is_nan() && b.is_nan() {
        true
    } else if a == 0.0 || b == 0.0 || sum < f64::MIN_POSITIVE {
        difference < ROUNDING * f64::MIN_POSITIVE
    } else {
        difference / sum.min(f64::MAX) < ROUNDING
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buckets(pairs: &[(f64, f64)]) -> Vec<ClassicBucket> {
        pairs.iter().map(|&(upper, count)| ClassicBucket { upper, count }).collect()
    }

    fn quantile(q: f64, pairs: &[(f64, f64)]) -> f64 {
        classic_quantile(q, buckets(pairs)).value
    }

    const INF: f64 = f64::INFINITY;

    #[test]
    fn is_linear_within_a_bucket() {
        let pairs = [(INF, 100.0), (0.1, 25.0), (0.2, 75.0)];
        assert_eq!(quantile(0.5, &pairs), 0.15000000000000002);
        assert_eq!(quantile(0.125, &pairs), 0.05);
        assert_eq!(quantile(0.9, &pairs), 0.2);
        assert_eq!(quantile(2.0, &pairs), INF);
        assert_eq!(quantile(-1.0, &pairs), -INF);
        assert_eq!(quantile(0.1, &[(-0.5, 5.0), (INF, 10.0)]), -0.5);
    }

    #[test]
    fn nothing_is_known_without_observations_or_infinity() {
        assert!(quantile(0.5, &[(1.0, 1.0), (2.0, 2.0)]).is_nan());
        assert!(quantile(0.5, &[(INF, 2.0)]).is_nan());
        assert!(quantile(0.5, &[(1.0, 0.0), (INF, 0.0)]).is_nan());
        assert!(quantile(f64::NAN, &[(1.0, 1.0), (INF, 2.0)]).is_nan());
    }

    #[test]
    fn equal_bounds_are_added_up() {
        assert_eq!(quantile(0.5, &[(1.0, 1.0), (1.0, 1.0), (INF, 1.0), (INF, 3.0)]), 1.0);
    }

    #[test]
    fn falls_beyond_rounding_are_told() {
        let forced = |pairs: &[(f64, f64)]| classic_quantile(0.5, buckets(pairs)).forced;
        let falling = [(1.0, 10.0), (2.0, 9.0), (3.0, 20.0), (4.0, 17.0), (INF, 30.0)];
        let want = Monotonicity { lowest: 2.0, highest: 4.0, difference: 3.0 };
        assert_eq!(forced(&falling), Some(want));
        assert_eq!(forced(&[(1.0, 10.0), (2.0, 10.0 - 1e-13), (INF, 10.0)]), None);
    }

    #[test]
    fn fractions_are_linear_too() {
        let pairs = [(0.1, 25.0), (0.2, 75.0), (INF, 100.0)];
        let fraction = |lower, upper| classic_fraction(lower, upper, buckets(&pairs));
        assert_eq!(fraction(0.0, 0.1), 0.25);
        assert_eq!(fraction(-INF, INF), 1.0);
        assert!((fraction(0.05, 0.15) - 0.375).abs() < 1e-15);
        assert_eq!(fraction(0.3, 0.2), 0.0);
        assert!(fraction(f64::NAN, 1.0).is_nan());
        assert_eq!(classic_fraction(-INF, -2.0, buckets(&[(-1.0, 1.0), (INF, 2.0)])), 0.5);
    }
}
