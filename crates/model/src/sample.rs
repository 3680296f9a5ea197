//! Samples: a float at a timestamp, and a point that may be a float or a histogram.
//!
//! Floats are compared and kept by their bits: a stale marker is one particular NaN.

use std::sync::Arc;

use super::Histogram;

/// A float at a timestamp.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// Milliseconds since 1970.
    pub timestamp: i64,
    /// Start time of the counter, in milliseconds since 1970; 0 = unknown.
    pub start_timestamp: i64,
    /// The value; its bits are kept.
    pub value: f64,
}

impl PartialEq for Sample {
    fn eq(&self, other: &Self) -> bool {
        self.timestamp == other.timestamp
            && self.start_timestamp == other.start_timestamp
            && self.value.to_bits() == other.value.to_bits()
    }
}

/// The value of a point.
#[derive(Debug, Clone)]
pub enum Value {
    /// A float.
    Float(f64),
    /// A native histogram.
    Histogram(Arc<Histogram>),
}

/// Equality by bits: NaNs with the same bits are equal, `0.0` and `-0.0` are not.
impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Float(a), Self::Float(b)) => a.to_bits() == b.to_bits(),
            (Self::Histogram(a), Self::Histogram(b)) => a == b,
            _ => false,
        }
    }
}

/// A value at a timestamp. A series has one point per timestamp, whatever its kind.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Milliseconds since 1970.
    pub timestamp: i64,
    /// Start time of the counter, in milliseconds since 1970; 0 = unknown.
    pub start_timestamp: i64,
    /// Float or histogram.
    pub value: Value,
}

impl From<Sample> for Point {
    fn from(sample: Sample) -> Self {
        Self {
            timestamp: sample.timestamp,
            start_timestamp: sample.start_timestamp,
            value: Value::Float(sample.value),
        }
    }
}
