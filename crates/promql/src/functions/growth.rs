//! The kinds of growth that `rate` and `extended` compute, and how a metric changes.

/// How a metric changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metric {
    /// It only grows, and sometimes starts again at zero.
    Counter,
    /// It goes up and down.
    Gauge,
}

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
