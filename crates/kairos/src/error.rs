//! Why bytes or values are refused, in decoding and encoding.

use promkairos_model::{HistogramError, LabelError};

/// Bytes that contradict their table and data type.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes end too early.
    #[error("{0} ends too early")]
    Truncated(&'static str),
    /// Bytes are left at the end.
    #[error("{what} has {bytes} bytes too many")]
    TrailingBytes {
        /// The object that was read.
        what: &'static str,
        /// Number of bytes left.
        bytes: usize,
    },
    /// Invalid UTF-8, or invalid modified UTF-8 of Java.
    #[error("{0} is not valid text")]
    Text(&'static str),
    /// A variable-length number of more than 64 bits, or a value too large for its field.
    #[error("{0} is out of range")]
    OutOfRange(&'static str),
    /// A layout that is newer than this program.
    #[error("{what} has the unknown version {version}")]
    Version {
        /// The object that was read.
        what: &'static str,
        /// Its first byte.
        version: u8,
    },
    /// Bits that must be zero are set.
    #[error("{what} has the unknown flags {flags:#04x}")]
    Flags {
        /// The object that was read.
        what: &'static str,
        /// The flags.
        flags: u8,
    },
    /// A row key without the NUL after its metric, or with an empty metric.
    #[error("row key has no metric name")]
    NoMetric,
    /// A tag string that KairosDB would not have written.
    #[error("tag string is malformed at byte {0}")]
    TagString(usize),
    /// Tags that do not strictly rise in UTF-16 order.
    #[error("tag {0:?} is out of order or occurs twice")]
    TagOrder(String),
    /// A label set that breaks the rules for labels.
    #[error("{0}")]
    Labels(#[from] LabelError),
    /// A histogram that contradicts itself.
    #[error("{0}")]
    Histogram(#[from] HistogramError),
}

/// A value that the schema cannot hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// A row key must have a metric name.
    #[error("the metric name is empty")]
    EmptyMetric,
    /// A NUL ends the metric name in a row key.
    #[error("the metric name has a NUL character")]
    NulInMetric,
    /// More than 255 bytes.
    #[error("the data type's name has {0} bytes, the limit is 255")]
    DataTypeTooLong(usize),
    /// In a row key of `kairos_legacy`, a NUL after the row time would mean that a data type follows.
    #[error("tag name {0:?} of a kairos_legacy row starts with NUL")]
    LegacyTagName(String),
    /// The key is longer than Cassandra allows.
    #[error("the row key has {bytes} bytes, Cassandra takes {limit}")]
    KeyTooLong {
        /// Its length.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The same tag more than once.
    #[error("tag {0:?} occurs twice")]
    DuplicateTag(String),
    /// Spans that contradict the number of buckets.
    #[error("histogram spans and buckets do not agree")]
    HistogramShape,
    /// More than 65,535 bytes of modified UTF-8.
    #[error("the string has {0} bytes, the limit is 65535")]
    StringTooLong(usize),
}
