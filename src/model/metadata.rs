//! What a metric family is: type, help and unit.

/// The type of a metric family, with the numbers of both remote-write protocols.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum MetricType {
    /// Not said.
    #[default]
    Unknown = 0,
    /// Only rises, but for resets.
    Counter = 1,
    /// Goes up and down.
    Gauge = 2,
    /// Counts in buckets.
    Histogram = 3,
    /// Buckets that may fall.
    GaugeHistogram = 4,
    /// Quantiles made by the client.
    Summary = 5,
    /// Constant 1 with labels.
    Info = 6,
    /// One series a state.
    StateSet = 7,
}

impl MetricType {
    /// The type with this wire number; unknown numbers are [`MetricType::Unknown`].
    pub const fn from_number(number: u64) -> Self {
        match number {
            1 => Self::Counter,
            2 => Self::Gauge,
            3 => Self::Histogram,
            4 => Self::GaugeHistogram,
            5 => Self::Summary,
            6 => Self::Info,
            7 => Self::StateSet,
            _ => Self::Unknown,
        }
    }

    /// The name in the Prometheus HTTP API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::GaugeHistogram => "gaugehistogram",
            Self::Summary => "summary",
            Self::Info => "info",
            Self::StateSet => "stateset",
        }
    }
}

/// Type, help and unit of a metric family. The last one written counts.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Metadata {
    /// Its type.
    pub kind: MetricType,
    /// Help text; empty = none.
    pub help: String,
    /// Unit; empty = none.
    pub unit: String,
}
