//! Exemplars: a traced observation beside a series.

use super::Labels;

/// One exemplar. Its label set may be empty.
#[derive(Debug, Clone)]
pub struct Exemplar {
    /// Labels that identify the observation, usually a trace id.
    pub labels: Labels,
    /// The observed value; its bits are kept.
    pub value: f64,
    /// Milliseconds since 1970.
    pub timestamp: i64,
}

impl PartialEq for Exemplar {
    fn eq(&self, other: &Self) -> bool {
        self.labels == other.labels
            && self.value.to_bits() == other.value.to_bits()
            && self.timestamp == other.timestamp
    }
}
