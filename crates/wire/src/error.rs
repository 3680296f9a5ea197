//! Why a body of remote write is refused.

use promkairos_model::ShownSize;
use promkairos_model::limits::NO_SETTING;

use super::proto;

/// Names what exceeds a limit that equals the maximum of a setting.
pub const SERIES: &str = "series";
/// See [`SERIES`].
pub const SAMPLES: &str = "samples";

/// Why a whole body is refused. Sending it again cannot succeed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// Not a snappy block.
    #[error("body is not a valid snappy block")]
    Snappy(#[from] snap::Error),
    /// The decoded body would be larger than a body may be.
    #[error("decoded size of {} exceeds the limit of {}", ShownSize::of(*declared), ShownSize::of(*limit))]
    TooLarge {
        /// The length the block declares.
        declared: usize,
        /// The limit.
        limit: usize,
    },
    /// The message ends within a field.
    #[error("malformed protobuf: unexpected end")]
    Truncated,
    /// Not a protobuf message of the type it should be.
    #[error("malformed protobuf: {0}")]
    Malformed(&'static str),
    /// The body has no field of the declared version, but a field of the other version.
    #[error("body is encoded as remote write {0}, but its Content-Type declares the other version")]
    Version(&'static str),
    /// The decoded batch takes more memory than it may: see [`Policy::AcceptWithin`](super::Policy::AcceptWithin).
    #[error("the body takes more than {} of memory when it is decoded", ShownSize::of(*.0))]
    Expands(usize),
    /// Too much of something in one request.
    #[error("more than {limit} {what} in one request; {NO_SETTING}")]
    Limit {
        /// What there is too much of.
        what: &'static str,
        /// How many there may be.
        limit: usize,
    },
}

impl From<proto::Broken> for WireError {
    fn from(broken: proto::Broken) -> Self {
        match broken {
            proto::Broken::Truncated => Self::Truncated,
            proto::Broken::LongVarint => Self::Malformed("varint of more than 64 bits"),
            proto::Broken::FieldNumber => Self::Malformed("field number out of range"),
            proto::Broken::WireType => Self::Malformed("field with a wrong wire type"),
            proto::Broken::Group => Self::Malformed("groups are not supported"),
        }
    }
}
