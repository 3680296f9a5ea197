//! Addition, subtraction and scaling of histograms.
//!
//! Two histograms of different layouts are converted to their common layout: the lower resolution,
//! the wider zero bucket, the custom bounds that both have. Exponential and custom buckets cannot
//! be combined. The other histogram is never changed.

use std::sync::Arc;

use super::amount::Amount;
use super::bounds;
use super::buckets::Buckets;
use super::float::FloatHistogram;
use promkairos_model::ResetHint;

/// One histogram has exponential buckets, the other has custom buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IncompatibleSchemas;

/// Events of a combination that the user should know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Combined {
    /// One histogram says that its counter was reset, the other that its counter was not.
    pub hints_collided: bool,
    /// The custom bounds differed; the result has the bounds that both had.
    pub bounds_reconciled: bool,
}

impl<N: Amount> FloatHistogram<N> {
    /// Adds `other`. The result may have empty buckets.
    pub fn add(&mut self, other: &FloatHistogram) -> Result<Combined, IncompatibleSchemas> {
        self.combine(other, 1.0)
    }

    /// Subtracts `other`. The result may have empty buckets, and has the hint of a sum.
    pub fn sub(&mut self, other: &FloatHistogram) -> Result<Combined, IncompatibleSchemas> {
        self.combine(other, -1.0)
    }

    fn combine(
        &mut self,
        other: &FloatHistogram,
        sign: f64,
    ) -> Result<Combined, IncompatibleSchemas> {
        if self.has_custom_buckets() != other.has_custom_buckets() {
            return Err(IncompatibleSchemas);
        }
        let (hint, hints_collided) = combined_hint(self.reset_hint, other.reset_hint);
        self.reset_hint = hint;
        let signed = |value: f64| N::exactly(sign * value);
        self.count = self.count.plus(signed(other.count));
        self.sum = self.sum.plus(signed(other.sum));
        let bounds_reconciled = self.has_custom_buckets() && !same_bounds(self, other);
        if bounds_reconciled {
            self.combine_reconciled(other, sign);
        } else if self.has_custom_buckets() {
            self.positive.add(&other.positive, 0, sign);
        } else {
            let zero_count = self.reconcile_zero(other);
            self.zero_count = self.zero_count.plus(signed(zero_count));
            self.combine_exponential(other, sign);
        }
        Ok(Combined { hints_collided, bounds_reconciled })
    }

    /// Combines the buckets outside of the zero bucket, which is already wide enough.
    fn combine_exponential(&mut self, other: &FloatHistogram, sign: f64) {
        self.reduce_resolution(other.schema);
        let (shift, threshold) = (other.schema - self.schema, self.zero_threshold);
        // Whether the zero bucket took a bucket is decided at the resolution of `other`.
        let inside = |index: i32| bounds::exponential(index, other.schema) <= threshold;
        let side = |own: &mut Buckets<N>, others: &Buckets| {
            let first = others.iter().take_while(|(index, _)| inside(*index)).count();
            if shift > 0 {
                own.add(&others.reduced(first, shift), 0, sign);
            } else {
                own.add(others, first, sign);
            }
        };
        side(&mut self.positive, &other.positive);
        side(&mut self.negative, &other.negative);
    }

    /// Combines custom buckets of different bounds: each bucket is added to the bucket of common
    /// bounds that contains it.
    fn combine_reconciled(&mut self, other: &FloatHistogram, sign: f64) {
        let common: Arc<[f64]> = common_bounds(self.custom_bounds(), other.custom_bounds());
        self.positive = self.positive.moved(containing(self.custom_bounds(), &common));
        let others = other.positive.moved(containing(other.custom_bounds(), &common));
        self.positive.add(&others, 0, sign);
        self.positive.compact();
        self.custom_values = Some(common);
    }

    /// Multiplies everything. A negative factor makes a gauge.
    pub fn mul(&mut self, factor: f64) {
        self.update(|amount| amount.times(factor));
        if factor < 0.0 {
            self.reset_hint = ResetHint::Gauge;
        }
    }

    /// Divides everything. A negative divisor makes a gauge; 0 leaves no buckets.
    pub fn div(&mut self, divisor: f64) {
        self.update(|amount| amount.over(divisor));
        if divisor == 0.0 {
            self.positive.clear();
            self.negative.clear();
        } else if divisor < 0.0 {
            self.reset_hint = ResetHint::Gauge;
        }
    }

    fn update(&mut self, change: impl Fn(N) -> N + Copy) {
        self.zero_count = change(self.zero_count);
        self.count = change(self.count);
        self.sum = change(self.sum);
        self.positive.update(change);
        self.negative.update(change);
    }
}

/// The hint of a sum, and whether the hints contradict each other.
fn combined_hint(a: ResetHint, b: ResetHint) -> (ResetHint, bool) {
    use ResetHint::{Gauge, Unknown};
    match (a, b) {
        _ if a == b => (a, false),
        (Gauge, _) | (_, Gauge) => (Gauge, false),
        (Unknown, _) | (_, Unknown) => (Unknown, false),
        _ => (Unknown, true),
    }
}

/// Whether both have the same custom bounds.
pub(super) fn same_bounds<N: Amount>(a: &FloatHistogram<N>, b: &FloatHistogram) -> bool {
    match (&a.custom_values, &b.custom_values) {
        (Some(a), Some(b)) => Arc::ptr_eq(a, b) || a == b,
        _ => a.custom_bounds() == b.custom_bounds(),
    }
}

/// The bounds that both lists have.
pub(super) fn common_bounds(a: &[f64], b: &[f64]) -> Arc<[f64]> {
    let mut rest = b;
    let common = a.iter().copied().filter(|bound| {
        rest = &rest[rest.partition_point(|other| other < bound)..];
        rest.first() == Some(bound)
    });
    common.collect::<Vec<_>>().into()
}

/// Maps the index of a bucket of `bounds` to the index of the bucket of `common` that contains it.
pub(super) fn containing(bounds: &[f64], common: &[f64]) -> impl Fn(i32) -> i32 {
    move |index| {
        let upper = bounds::custom(index, bounds);
        common.partition_point(|bound| *bound < upper) as i32
    }
}

#[cfg(test)]
mod tests {
    use super::super::Kahan;
    use super::super::cases::{custom, positive};
    use super::*;

    fn pairs(buckets: &Buckets) -> Vec<(i32, f64)> {
        buckets.iter().collect()
    }

    #[test]
    fn the_lower_resolution_wins() {
        let mut a = positive(1, 1, &[1.0, 2.0, 3.0], 10.0);
        let b = positive(0, 1, &[4.0, 5.0], 20.0);
        let mut c = b.clone();
        assert_eq!(a.add(&b), Ok(Combined::default()));
        assert_eq!((a.schema, a.count, a.sum), (0, 15.0, 30.0));
        assert_eq!(pairs(&a.positive), [(1, 7.0), (2, 8.0)]);
        assert_eq!(c.add(&positive(1, 1, &[1.0, 2.0, 3.0], 10.0)), Ok(Combined::default()));
        assert_eq!(pairs(&c.positive), pairs(&a.positive));
    }

    #[test]
    fn a_wider_zero_bucket_takes_what_it_covers() {
        let mut a = positive(0, 0, &[1.0, 2.0, 3.0], 0.0);
        let mut b = positive(0, 2, &[7.0], 0.0);
        (b.zero_threshold, b.zero_count) = (1.0, 5.0);
        let mut reverse = b.clone();
        a.add(&b).expect("both are exponential");
        assert_eq!((a.zero_threshold, a.zero_count), (1.0, 6.0));
        assert_eq!(pairs(&a.positive), [(1, 2.0), (2, 10.0)]);
        reverse.add(&positive(0, 0, &[1.0, 2.0, 3.0], 0.0)).expect("both are exponential");
        assert_eq!((reverse.zero_threshold, reverse.zero_count), (1.0, 6.0));
        assert_eq!(pairs(&reverse.positive), pairs(&a.positive));
    }

    #[test]
    fn custom_bounds_are_intersected() {
        let mut a = custom(&[1.0, 2.0, 3.0], &[1.0, 2.0, 4.0, 8.0], 0.0);
        let b = custom(&[1.0, 3.0, 5.0], &[10.0, 20.0, 40.0, 80.0], 0.0);
        let reconciled = Combined { bounds_reconciled: true, ..Combined::default() };
        assert_eq!(a.add(&b), Ok(reconciled));
        assert_eq!(a.custom_bounds(), [1.0, 3.0]);
        assert_eq!(pairs(&a.positive), [(0, 11.0), (1, 26.0), (2, 128.0)]);
        let mut none = custom(&[1.0], &[1.0, 2.0], 0.0);
        assert_eq!(none.sub(&custom(&[2.0], &[4.0, 8.0], 0.0)), Ok(reconciled));
        assert_eq!(none.custom_bounds(), [0.0; 0]);
        assert_eq!(pairs(&none.positive), [(0, -9.0)]);
    }

    #[test]
    fn custom_and_exponential_do_not_mix() {
        let mut a = custom(&[1.0], &[1.0], 0.0);
        assert_eq!(a.add(&positive(0, 0, &[1.0], 0.0)), Err(IncompatibleSchemas));
    }

    #[test]
    fn hints_combine() {
        use ResetHint::{Gauge, NotReset, Reset, Unknown};
        for (a, b, want) in [
            (Reset, Reset, (Reset, false)),
            (Reset, NotReset, (Unknown, true)),
            (NotReset, Reset, (Unknown, true)),
            (Unknown, Reset, (Unknown, false)),
            (NotReset, Unknown, (Unknown, false)),
            (Gauge, Reset, (Gauge, false)),
            (Unknown, Gauge, (Gauge, false)),
        ] {
            assert_eq!(combined_hint(a, b), want, "{a:?} {b:?}");
        }
    }

    #[test]
    fn scaling_by_a_negative_makes_a_gauge_and_by_zero_no_buckets() {
        let mut h = positive(0, 0, &[1.0, 2.0], 6.0);
        h.mul(-2.0);
        assert_eq!((h.count, h.sum, h.reset_hint), (-6.0, -12.0, ResetHint::Gauge));
        assert_eq!(pairs(&h.positive), [(0, -2.0), (1, -4.0)]);
        h.div(0.0);
        assert_eq!((h.count, h.zero_count.is_nan()), (f64::NEG_INFINITY, true));
        assert!(h.positive.is_empty());
    }

    #[test]
    fn compensated_sums_keep_small_counts() {
        let mut sum = positive(0, 0, &[1e16], 1e16).map(Kahan::exactly);
        for _ in 0..4 {
            sum.add(&positive(0, 0, &[1.0], 1.0)).expect("both are exponential");
        }
        sum.add(&positive(0, 0, &[-1e16], -1e16)).expect("both are exponential");
        let total = sum.map(Kahan::value);
        assert_eq!((total.count, total.sum), (4.0, 4.0));
        assert_eq!(pairs(&total.positive), [(0, 4.0)]);
    }
}
