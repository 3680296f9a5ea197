//! Properties of all histograms, tested on random ones.

use proptest::prelude::*;

use super::cases::{custom, positive};
use super::float::FloatHistogram;
use super::trim::Keep;

/// A histogram of a counter. Its counts are whole numbers, so that sums are exact.
fn any_exponential() -> impl Strategy<Value = FloatHistogram> {
    let side = || proptest::collection::btree_map(-12i32..12, 0u32..100, 0..8);
    (-2i32..4, 0usize..3, 0u32..9, side(), side()).prop_map(
        |(schema, threshold, zero_count, above, below)| {
            let mut h = positive(schema, 0, &[], 0.0);
            let bucket = |(index, count): (i32, u32)| (index, f64::from(count));
            h.positive = above.into_iter().map(bucket).collect();
            h.negative = below.into_iter().map(bucket).collect();
            h.zero_threshold = [0.0, 0.01, 1.0][threshold];
            h.zero_count = f64::from(zero_count);
            // A bucket inside of the zero bucket would be counted in the zero bucket.
            let inside =
                |index: &i32| super::bounds::exponential(*index, schema) <= h.zero_threshold;
            h.positive = h.positive.iter().filter(|(index, _)| !inside(index)).collect();
            h.negative = h.negative.iter().filter(|(index, _)| !inside(index)).collect();
            h.count = held(&h);
            h.sum = h.count / 2.0;
            h
        },
    )
}

/// A histogram with some of five custom bounds.
fn any_custom() -> impl Strategy<Value = FloatHistogram> {
    let bounds = proptest::sample::subsequence(vec![-1.0, 0.0, 0.5, 1.0, 4.0], 0..=5);
    (bounds, proptest::collection::vec(0u32..100, 6)).prop_map(|(bounds, counts)| {
        let counts: Vec<f64> =
            counts.iter().take(bounds.len() + 1).copied().map(f64::from).collect();
        custom(&bounds, &counts, 3.0)
    })
}

fn any_pair() -> impl Strategy<Value = (FloatHistogram, FloatHistogram)> {
    prop_oneof![(any_exponential(), any_exponential()), (any_custom(), any_custom())]
}

/// The number of observations in buckets.
fn held(h: &FloatHistogram) -> f64 {
    h.buckets().map(|bucket| bucket.count).sum()
}

fn sum(a: &FloatHistogram, b: &FloatHistogram) -> FloatHistogram {
    let mut sum = a.clone();
    sum.add(b).expect("one kind of buckets");
    sum.compact();
    sum
}

proptest! {
    #[test]
    fn sums_do_not_depend_on_the_order((a, b) in any_pair()) {
        let (ab, ba) = (sum(&a, &b), sum(&b, &a));
        prop_assert!(ab.same_data(&ba), "{ab} and {ba}");
        prop_assert_eq!(held(&ab), a.count + b.count);
    }

    #[test]
    fn what_was_added_can_be_taken_away((a, b) in any_pair()) {
        let mut rest = sum(&a, &b);
        rest.sub(&b).expect("one kind of buckets");
        rest.compact();
        prop_assert_eq!(rest.count, a.count);
        prop_assert_eq!(held(&rest), a.count);
    }

    #[test]
    fn a_counter_that_grew_was_not_reset((a, b) in any_pair()) {
        let grown = sum(&a, &b);
        prop_assert!(!grown.is_reset_after(&a), "{grown} after {a}");
        prop_assert!(b.count == 0.0 || a.is_reset_after(&grown), "{a} after {grown}");
    }

    #[test]
    fn quantiles_and_fractions_undo_each_other(h in any_exponential(), q in 0.0..1.0f64) {
        // Several observations of exactly 0 have one value and no share of their own.
        prop_assume!(h.count > 0.0 && (h.zero_count == 0.0 || h.zero_threshold > 0.0));
        let value = h.quantile(q).value;
        let below = h.fraction(f64::NEG_INFINITY, value).value;
        prop_assert!((below - q).abs() < 1e-6, "{q} is {value} of {h}, which has {below} below");
    }

    #[test]
    fn a_cut_leaves_two_parts((h, _) in any_pair(), cut in -5.0..5.0f64) {
        let (mut below, mut above) = (h.clone(), h.clone());
        below.trim(cut, Keep::Below);
        above.trim(cut, Keep::Above);
        prop_assert!(below.count <= h.count && above.count <= h.count);
        if !h.has_custom_buckets() {
            prop_assert!((below.count + above.count - h.count).abs() < 1e-9, "{below} and {above}");
        }
    }
}
