//! Elementary functions whose results in the C library differ from Go's in the last digit or in range.
//!
//! Answers are compared with Prometheus digit by digit, so these functions round as Go does.

/// 2^28: from here on, adding 1 to the square does not change it.
const LARGE: f64 = (1_u64 << 28) as f64;

/// The mantissa, from 0.5 up to 1, and the exponent of a positive number.
fn parts(x: f64) -> (f64, i32) {
    const MANTISSA: u64 = (1 << 52) - 1;
    /// The exponent of 0.5.
    const HALF: u64 = 1022;
    let (x, shift) = if x < f64::MIN_POSITIVE { (x * (1_u64 << 53) as f64, 53) } else { (x, 0) };
    let exponent = (x.to_bits() >> 52) as i32 - HALF as i32 - shift;
    (f64::from_bits(x.to_bits() & MANTISSA | HALF << 52), exponent)
}

/// ln 2 as the sum of two floats; the low bits of the first are 0.
const LN_2_HIGH: f64 = 6.931_471_803_691_238e-1;
const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;

/// The natural logarithm: ln 2 times the exponent, plus a polynomial for the mantissa (from e_log.c in FreeBSD's
/// msun, as in Go).
pub(crate) fn ln(x: f64) -> f64 {
    if !(x > 0.0 && x.is_finite()) {
        return x.ln();
    }
    let (mut mantissa, mut exponent) = parts(x);
    if mantissa < std::f64::consts::FRAC_1_SQRT_2 {
        (mantissa, exponent) = (mantissa * 2.0, exponent - 1);
    }
    let (f, k) = (mantissa - 1.0, f64::from(exponent));
    let s = f / (2.0 + f);
    let square = s * s;
    let fourth = square * square;
    let odd = [
        1.479_819_860_511_658_6e-1,
        1.818_357_216_161_805e-1,
        2.857_142_874_366_239e-1,
        6.666_666_666_666_735e-1,
    ];
    let even = [1.531_383_769_920_937_3e-1, 2.222_219_843_214_978_4e-1, 3.999_999_999_940_942e-1];
    let sum = |all: &[f64]| all.iter().fold(0.0, |sum, l| l + fourth * sum);
    let r = square * sum(&odd) + fourth * sum(&even);
    let half = 0.5 * f * f;
    k * LN_2_HIGH - ((half - (s * (half + r) + k * LN_2_LOW)) - f)
}

/// The logarithm to base 2: the exponent plus the logarithm of the mantissa.
pub(crate) fn log2(x: f64) -> f64 {
    if !(x > 0.0 && x.is_finite()) {
        return x.log2();
    }
    let (mantissa, exponent) = parts(x);
    match mantissa {
        0.5 => f64::from(exponent - 1),
        _ => ln(mantissa) * (1.0 / std::f64::consts::LN_2) + f64::from(exponent),
    }
}

/// 2 to the power of `x`. `x` is split into a whole number and a rest; the power of the rest is a quotient of
/// polynomials.
pub(crate) fn exp2(x: f64) -> f64 {
    // NaN is outside the range too.
    if !(-1_074.0..=1_023.999_999_999_999_9).contains(&x) {
        return x.exp2();
    }
    // The nearest whole number; halves are rounded away from 0.
    let whole = (x + 0.5_f64.copysign(x)) as i32;
    let part = x - f64::from(whole);
    let (high, low) = (part * LN_2_HIGH, -part * LN_2_LOW);
    let r = high - low;
    let square = r * r;
    let polynomial = [
        4.138_136_797_057_238_5e-8,
        -1.653_390_220_546_525_2e-6,
        6.613_756_321_437_934e-5,
        -2.777_777_777_701_559_3e-3,
        1.666_666_666_666_666_6e-1,
    ];
    let correction = r - square * polynomial.into_iter().fold(0.0, |sum, p| p + square * sum);
    let power = 1.0 - ((low - (r * correction) / (2.0 - correction)) - high);
    // In two steps, so that no factor leaves the range of floats.
    power * two_to(whole / 2) * two_to(whole - whole / 2)
}

/// 2 to the power of a whole number above −1023 and below 1024.
fn two_to(exponent: i32) -> f64 {
    f64::from_bits(((1023 + exponent) as u64) << 52)
}

/// The inverse hyperbolic sine.
pub(crate) fn asinh(x: f64) -> f64 {
    match x.abs() {
        large if large > LARGE => (large.ln() + std::f64::consts::LN_2).copysign(x),
        _ => x.asinh(),
    }
}

/// The inverse hyperbolic cosine, by the formulas of e_acosh.c in FreeBSD's msun, as in Go. The formula of the
/// definition loses digits near 1.
pub(crate) fn acosh(x: f64) -> f64 {
    let beyond = x - 1.0;
    match x {
        _ if x >= LARGE => x.ln() + std::f64::consts::LN_2,
        _ if x > 2.0 => ln(2.0 * x - 1.0 / (x + (x * x - 1.0).sqrt())),
        _ if x >= 1.0 => (beyond + (2.0 * beyond + beyond * beyond).sqrt()).ln_1p(),
        _ => f64::NAN,
    }
}

/// The inverse hyperbolic tangent, by the formulas of e_atanh.c in FreeBSD's msun, as in Go.
pub(crate) fn atanh(x: f64) -> f64 {
    let size = x.abs();
    let twice = size + size;
    let value = match size {
        _ if size < 1.0 / LARGE => size,
        _ if size < 0.5 => 0.5 * (twice + twice * size / (1.0 - size)).ln_1p(),
        _ if size < 1.0 => 0.5 * (twice / (1.0 - size)).ln_1p(),
        1.0 => f64::INFINITY,
        _ => f64::NAN,
    };
    value.copysign(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    // The values on the right are printed by Go 1.26.
    #[test]
    fn the_last_digit_is_that_of_go() {
        for (x, want) in EXP2 {
            assert_eq!(exp2(*x), *want, "{x}");
        }
        for (x, want) in LOG2 {
            assert_eq!(log2(*x), *want, "{x}");
        }
        for (x, want) in LN {
            assert_eq!(ln(*x), *want, "{x}");
        }
    }

    #[test]
    fn nothing_overflows_on_the_way() {
        assert_eq!(asinh(f64::MAX), 710.475_860_073_943_9);
        assert_eq!(asinh(-f64::MAX), -710.475_860_073_943_9);
        assert_eq!(acosh(f64::MAX), 710.475_860_073_943_9);
        assert_eq!((asinh(f64::INFINITY), acosh(f64::INFINITY)), (f64::INFINITY, f64::INFINITY));
        assert!(acosh(0.5).is_nan() && asinh(f64::NAN).is_nan());
        assert_eq!((exp2(1e9), exp2(-1e9)), (f64::INFINITY, 0.0));
        assert_eq!((log2(0.0), log2(f64::INFINITY)), (f64::NEG_INFINITY, f64::INFINITY));
        assert!(log2(-1.0).is_nan() && exp2(f64::NAN).is_nan());
    }

    // The values on the right come from the GNU C library.
    #[test]
    fn area_functions_are_right_to_the_last_digit_but_one() {
        let of = |function: fn(f64) -> f64, x: f64, want: f64| {
            let found = function(x);
            assert!(found.to_bits().abs_diff(want.to_bits()) <= 1, "{x}: {found}, not {want}");
        };
        for (x, want) in [
            (1.0, 0.0),
            (1.0000000088562027, 0.00013308796074055978),
            (1.0000001, 0.0004472135919037347),
            (1.25, std::f64::consts::LN_2),
            (1.5, 0.9624236501192069),
            (2.0, 1.3169578969248166),
            (3.75, 1.9966315184985717),
            (1e6, 14.50865773852397),
        ] {
            of(acosh, x, want);
        }
        for (x, want) in [
            (0.0, 0.0),
            (-0.0, -0.0),
            (1e-10, 1e-10),
            (0.25, 0.25541281188299536),
            (0.5, 0.5493061443340548),
            (0.75, 0.9729550745276566),
            (-0.9871298918377533, -2.5197695927284074),
            (0.999999, 7.254328619247669),
            (-1.0, f64::NEG_INFINITY),
        ] {
            of(atanh, x, want);
        }
        assert!(atanh(1.5).is_nan() && atanh(f64::NAN).is_nan() && acosh(f64::NAN).is_nan());
    }

    const EXP2: &[(f64, f64)] = &[
        (4.5375, 23.223282507192557),
        (0.1, 1.0717734625362931),
        (-3.3, 0.10153154954452945),
        (1023.9, 1.6773070034857416e+308),
        (-1073.5, 5e-324),
        (-1040.25, 7.137514615e-314),
        (10.01, 1031.12248325808),
    ];
    const LN: &[(f64, f64)] = &[
        (3.0, 1.0986122886681096),
        (8.0, 2.0794415416798357),
        (100.0, 4.605170185988092),
        (1000.0, 6.907755278982137),
        (10000.0, 9.210340371976184),
        (100000.0, 11.512925464970229),
        (1000000.0, 13.815510557964274),
        (1000000000.0, 20.72326583694641),
        (1000000000000.0, 27.631021115928547),
        (1000000000000000.0, 34.538776394910684),
        (1e+18, 41.44653167389282),
        (1e+21, 48.35428695287496),
    ];
    const LOG2: &[(f64, f64)] = &[
        (1e+300, 996.5784284662087),
        (4096.0, 12.0),
        (0.01, -6.643856189774724),
        (0.001, -9.965784284662087),
        (1e-06, -19.931568569324174),
        (0.125, -3.0),
        (10.0, std::f64::consts::LOG2_10),
        (100.0, 6.643856189774724),
        (1000.0, 9.965784284662087),
        (100000.0, 16.609640474436812),
        (7.3, 2.867896463992655),
        (123456.789, 16.913646648198387),
        (5e-324, -1074.0),
        (1e-310, -1029.7977094150824),
        (2.5, 1.3219280948873622),
    ];
}
