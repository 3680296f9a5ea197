//! The bounds of buckets.
//!
//! Bounds are compared and printed, so they must be the same floats as in Prometheus: a power of two
//! times a fraction. The fraction is a product of roots of two, multiplied from the largest root
//! down, after 1/√2. It is not always the float that is nearest to the true bound.

/// 2^(1/2^n) for n = 2 to 8, rounded as repeated square roots give them.
const ROOTS: [f64; 7] = [
    1.189_207_115_002_721,
    1.090_507_732_665_257_7,
    1.044_273_782_427_413_8,
    1.021_897_148_654_116_6,
    1.010_889_286_051_700_5,
    1.005_429_901_112_802_7,
    1.002_711_275_050_202_6,
];

/// The 256 bounds in [0.5, 1) of schema 8; coarser schemas use every 2^k-th.
const FRACTIONS: [f64; 256] = {
    let mut fractions = [0.5; 256];
    let mut i = 0;
    while i < 256 {
        if i & 128 != 0 {
            fractions[i] = std::f64::consts::FRAC_1_SQRT_2 - f64::EPSILON / 2.0;
        }
        let mut root = 0;
        while root < 7 {
            if i & (64 >> root) != 0 {
                fractions[i] *= ROOTS[root];
            }
            root += 1;
        }
        i += 1;
    }
    fractions
};

/// The upper bound of exponential bucket `index` on the positive side.
pub(super) fn exponential(index: i32, schema: i32) -> f64 {
    let index = i64::from(index);
    let bound = if schema < 0 {
        power_of_two(index << -schema)
    } else {
        let fraction = FRACTIONS[((index & ((1 << schema) - 1)) << (8 - schema)) as usize & 255];
        scale(fraction, (index >> schema) + 1)
    };
    // The bucket of the largest floats ends at the largest float; the next bucket is for infinity.
    let last = if schema < 0 { index << -schema == 1024 } else { index == 1024 << schema };
    if last { f64::MAX } else { bound }
}

/// The upper bound of custom bucket `index`. The last bucket ends at +Inf; the first bucket begins
/// at −Inf, which is the bound of index −1.
pub(super) fn custom(index: i32, bounds: &[f64]) -> f64 {
    match usize::try_from(index) {
        Ok(i) => bounds.get(i).copied().unwrap_or(f64::INFINITY),
        Err(_) => f64::NEG_INFINITY,
    }
}

fn power_of_two(exponent: i64) -> f64 {
    scale(0.5, exponent + 1)
}

/// `fraction`·2^`exponent` with one rounding, for a fraction in [0.5, 1).
fn scale(fraction: f64, exponent: i64) -> f64 {
    if exponent > 1024 {
        return f64::INFINITY;
    }
    // Two factors, each within the range of normal floats.
    let exponent = exponent.max(-1100) as i32;
    let (coarse, fine) =
        if exponent < -1000 { (-1000, exponent + 1000) } else { (exponent - 1, 1) };
    fraction * 2f64.powi(fine) * 2f64.powi(coarse)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_the_floats_of_prometheus() {
        // From responses of Prometheus 3.16 and its table.
        assert_eq!(exponential(0, 0), 1.0);
        assert_eq!(exponential(1, 0), 2.0);
        assert_eq!(exponential(-1, 1), 0.707_106_781_186_547_5);
        assert_eq!(exponential(1, 1), std::f64::consts::SQRT_2 - f64::EPSILON);
        assert_eq!(exponential(-3, 2), 0.594_603_557_501_360_5);
        assert_eq!(exponential(-1, 2), 0.840_896_415_253_714_4);
        assert_eq!(exponential(255, 8), 2.0 * 0.997_296_056_085_469_8);
        assert_eq!(exponential(77, 8), 2.0 * 0.6159056423670379);
        assert_eq!(exponential(2, -2), 256.0);
        assert_eq!(exponential(-2, -1), 0.062_5);
    }

    #[test]
    fn the_ends_of_the_range_of_floats() {
        assert_eq!(exponential(1024, 0), f64::MAX);
        assert_eq!(exponential(1025, 0), f64::INFINITY);
        assert_eq!(exponential(1024 << 8, 8), f64::MAX);
        assert_eq!(exponential(64, -4), f64::MAX);
        assert_eq!(exponential(65, -4), f64::INFINITY);
        assert_eq!(exponential(-1074, 0), 5e-324);
        assert_eq!(exponential(-1023, 0), f64::MIN_POSITIVE / 2.0);
        assert_eq!(exponential(-1100, 0), 0.0);
        assert_eq!(exponential(i32::MIN, 8), 0.0);
        assert_eq!(exponential(i32::MAX, 0), f64::INFINITY);
    }

    #[test]
    fn custom_bounds_are_open_at_both_ends() {
        let bounds = [1.0, 5.0];
        assert_eq!(custom(-1, &bounds), f64::NEG_INFINITY);
        assert_eq!(custom(0, &bounds), 1.0);
        assert_eq!(custom(2, &bounds), f64::INFINITY);
    }
}
