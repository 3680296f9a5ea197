//! Quantiles of a set of floats.

use std::cmp::Ordering;

use crate::histogram::beyond;

/// The `q`-quantile of `values`, which it sorts: linear between the two nearest ranks. NaN is
/// smaller than all other values.
pub fn quantile(q: f64, values: &mut [f64]) -> f64 {
    if values.is_empty() {
        return f64::NAN;
    }
    if let Some(value) = beyond(q) {
        return value;
    }
    values.sort_unstable_by(nan_first);
    let rank = q * (values.len() - 1) as f64;
    let weight = rank - rank.floor();
    let lower = rank.floor() as usize;
    if weight == 0.0 {
        // The next value may be infinite, and 0 times infinity is NaN.
        return values[lower];
    }
    let upper = (lower + 1).min(values.len() - 1);
    values[lower] * (1.0 - weight) + values[upper] * weight
}

/// Orders by value, NaN before all others.
pub fn nan_first(a: &f64, b: &f64) -> Ordering {
    a.partial_cmp(b).unwrap_or_else(|| b.is_nan().cmp(&a.is_nan()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_linear_between_ranks() {
        let of = |q: f64| quantile(q, &mut [3.0, 1.0, 2.0, 10.0]);
        assert_eq!((of(0.0), of(0.5), of(1.0)), (1.0, 2.5, 10.0));
        assert_eq!(of(0.9), 3.0 * (1.0 - 0.7000000000000002) + 10.0 * 0.7000000000000002);
        let infinite = |q: f64| quantile(q, &mut [1.0, f64::INFINITY, f64::NEG_INFINITY]);
        assert_eq!(infinite(0.5), 1.0);
        assert_eq!((infinite(0.0), infinite(1.0)), (f64::NEG_INFINITY, f64::INFINITY));
        assert_eq!((of(-0.1), of(1.1)), (f64::NEG_INFINITY, f64::INFINITY));
        assert!(of(f64::NAN).is_nan() && quantile(0.5, &mut []).is_nan());
    }

    #[test]
    fn nan_is_the_smallest() {
        assert_eq!(quantile(1.0, &mut [f64::NAN, 1.0, f64::NAN, 0.0]), 1.0);
        assert!(quantile(0.1, &mut [1.0, f64::NAN, 0.0]).is_nan());
    }
}
