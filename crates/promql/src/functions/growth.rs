//! Which growth of a series is asked for, and of which kind of metric. Computed in `rate` and `extended`.

use super::interpolate::Metric;

/// Which of the three.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Growth {
    /// Of a counter, by the second.
    Rate,
    /// Of a counter.
    Increase,
    /// Of a gauge.
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
