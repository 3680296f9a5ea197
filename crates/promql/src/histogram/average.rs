//! The sum and the mean of many histograms.
//!
//! The mean is the compensated sum, divided once at the end. If the sum would overflow, it becomes
//! a running mean from there on.

use super::amount::{Amount, Kahan};
use super::arithmetic::{Combined, IncompatibleSchemas};
use super::float::FloatHistogram;

/// A running result of many histograms.
pub trait Accumulator: Sized + Send + Sync + 'static {
    /// The result of one histogram.
    fn new(first: &FloatHistogram) -> Self;
    /// Adds a histogram.
    fn add(&mut self, next: &FloatHistogram) -> Result<Combined, IncompatibleSchemas>;
    /// The result of all.
    fn result(self) -> FloatHistogram;
    /// Bytes of memory that it takes.
    fn heap_bytes(&self) -> usize;
}

/// The compensated sum.
impl Accumulator for FloatHistogram<Kahan> {
    fn new(first: &FloatHistogram) -> Self {
        first.map(Kahan::exactly)
    }

    fn add(&mut self, next: &FloatHistogram) -> Result<Combined, IncompatibleSchemas> {
        Self::add(self, next)
    }

    fn result(self) -> FloatHistogram {
        self.map(Kahan::value)
    }

    fn heap_bytes(&self) -> usize {
        Self::heap_bytes(self)
    }
}

/// The mean of the histograms added so far.
#[derive(Debug, Clone)]
pub struct HistogramAverage {
    /// The sum; the mean once `incremental` is set.
    held: FloatHistogram<Kahan>,
    count: f64,
    incremental: bool,
}

impl Accumulator for HistogramAverage {
    fn new(first: &FloatHistogram) -> Self {
        Self { held: first.map(Kahan::exactly), count: 1.0, incremental: false }
    }

    fn add(&mut self, next: &FloatHistogram) -> Result<Combined, IncompatibleSchemas> {
        self.count += 1.0;
        if !self.incremental {
            if (magnitude(&self.held) + magnitude(next)).is_finite() {
                return self.held.add(next);
            }
            let mut sum = self.held.clone();
            let combined = sum.add(next)?;
            if !has_infinity(&sum) {
                self.held = sum;
                return Ok(combined);
            }
            self.incremental = true;
            self.held.div(self.count - 1.0);
        }
        self.held.mul((self.count - 1.0) / self.count);
        let mut share = next.clone();
        share.div(self.count);
        self.held.add(&share)
    }

    fn result(mut self) -> FloatHistogram {
        if !self.incremental {
            self.held.div(self.count);
        }
        self.held.map(Kahan::value)
    }

    fn heap_bytes(&self) -> usize {
        self.held.heap_bytes()
    }
}

fn values<N: Amount>(h: &FloatHistogram<N>) -> impl Iterator<Item = f64> {
    let sides = h.positive.iter().chain(h.negative.iter()).map(|(_, count)| count);
    [h.zero_count, h.count, h.sum].into_iter().chain(sides).map(N::value)
}

/// The sum of magnitudes. No number in a sum with this histogram exceeds the sum of magnitudes.
fn magnitude<N: Amount>(h: &FloatHistogram<N>) -> f64 {
    values(h).map(f64::abs).sum()
}

fn has_infinity<N: Amount>(h: &FloatHistogram<N>) -> bool {
    values(h).any(f64::is_infinite)
}

#[cfg(test)]
mod tests {
    use super::super::cases::positive;
    use super::*;

    fn mean(sums: &[f64]) -> f64 {
        let histogram = |sum: &f64| positive(0, 0, &[1.0], *sum);
        let mut average = HistogramAverage::new(&histogram(&sums[0]));
        for sum in &sums[1..] {
            average.add(&histogram(sum)).expect("all are exponential");
        }
        average.result().sum
    }

    #[test]
    fn is_the_sum_divided() {
        assert_eq!(mean(&[1.0, 2.0, 6.0]), 3.0);
        assert_eq!(mean(&[1.0, 1e100, 1.0, -1e100]), 0.5);
    }

    #[test]
    fn does_not_overflow() {
        let max = f64::MAX;
        assert!((mean(&[max, max, max, max]) / max - 1.0).abs() < 1e-15);
        assert!(mean(&[max, max, -max, -max]).abs() < max * 1e-15);
        assert_eq!(mean(&[f64::INFINITY, 1.0]), f64::INFINITY);
    }
}
