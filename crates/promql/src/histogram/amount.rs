//! The count of a bucket: a float, or a float with its accumulated rounding error.
//!
//! [`Kahan`] is Kahan's summation in Neumaier's variant. Every operation on histograms is written
//! once for both kinds. If a sum overflows to infinity, its error is reset, as it would be NaN.

/// A number that counts observations.
pub trait Amount: Copy + Default + std::fmt::Debug {
    /// Exactly `value`.
    fn exactly(value: f64) -> Self;
    /// The sum of both.
    fn plus(self, other: Self) -> Self;
    /// The product with a factor.
    fn times(self, factor: f64) -> Self;
    /// The quotient by a divisor.
    fn over(self, divisor: f64) -> Self;
    /// The nearest float.
    fn value(self) -> f64;
    /// Whether the value and the error are both 0.
    fn is_zero(self) -> bool;
}

impl Amount for f64 {
    fn exactly(value: f64) -> Self {
        value
    }

    fn plus(self, other: Self) -> Self {
        self + other
    }

    fn times(self, factor: f64) -> Self {
        self * factor
    }

    fn over(self, divisor: f64) -> Self {
        self / divisor
    }

    fn value(self) -> f64 {
        self
    }

    fn is_zero(self) -> bool {
        self == 0.0
    }
}

/// A compensated sum.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Kahan {
    /// The sum as plain additions return it.
    pub sum: f64,
    /// The accumulated rounding error.
    pub error: f64,
}

impl Kahan {
    /// Adds one number.
    pub fn add(&mut self, value: f64) {
        let total = self.sum + value;
        if total.is_infinite() {
            self.error = 0.0;
        } else if self.sum.abs() >= value.abs() {
            self.error += (self.sum - total) + value;
        } else {
            self.error += (value - total) + self.sum;
        }
        self.sum = total;
    }
}

impl Amount for Kahan {
    fn exactly(value: f64) -> Self {
        Self { sum: value, error: 0.0 }
    }

    fn plus(mut self, other: Self) -> Self {
        self.add(other.sum);
        if other.error != 0.0 {
            self.add(other.error);
        }
        self
    }

    fn times(self, factor: f64) -> Self {
        Self { sum: self.sum * factor, error: self.error * factor }
    }

    fn over(self, divisor: f64) -> Self {
        Self { sum: self.sum / divisor, error: self.error / divisor }
    }

    fn value(self) -> f64 {
        self.sum + self.error
    }

    fn is_zero(self) -> bool {
        self.sum == 0.0 && self.error == 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(values: &[f64]) -> Kahan {
        let mut kahan = Kahan::default();
        values.iter().for_each(|v| kahan.add(*v));
        kahan
    }

    #[test]
    fn small_numbers_survive_large_ones() {
        assert_eq!(sum(&[1.0, 1e100, 1.0, -1e100]).value(), 2.0);
        assert_eq!(sum(&[0.1; 10]).value(), 1.0);
    }

    #[test]
    fn infinity_is_not_turned_into_nan() {
        assert_eq!(sum(&[f64::MAX, f64::MAX]).value(), f64::INFINITY);
        assert_eq!(sum(&[f64::INFINITY, 1.0]).value(), f64::INFINITY);
        assert!(sum(&[f64::INFINITY, f64::NEG_INFINITY]).value().is_nan());
    }
}
