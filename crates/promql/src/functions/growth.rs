//! The kinds of growth that `rate` and `extended` compute.

use super::interpolate::Metric;

/// `rate`, `increase` or `delta`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Growth {
    /// The increase of a counter per second.
    Rate,
    /// The increase of a counter.
    Increase,
    /// The difference of a gauge.
    Delta,
}

impl Growth {
    /// Whether a fall is a reset.
    pub fn is_counter(self) -> bool {
        self != Self::Delta
    }

    pub(super) fn metric(self) -> Metric {
        if self.is_counter() { Metric::Counter } else { Metric::Gauge }
    }
}
