//! Remote write 1.0 and 2.0: decodes bodies into batches and encodes batches; remote read for clients.
//!
//! Decoding is written by hand over the slice. The labels of a version 1 series are a slice of the body; labels of
//! version 2 are put together in an arena. A known series therefore costs no allocation. The batch depends only on
//! the body, the [`Policy`] and the limits, so the log can keep bodies and decode them again.
//!
//! Label sets of series are not validated here: a store checks each set that is new to it.
//!
//! ```
//! use promkairos_model::{Body, Labels, Protocol, RawLabels, Sample, SeriesEntry, WriteBatch};
//! use promkairos_wire::{Policy, Scratch, decode, encode_v1, snappy};
//!
//! let labels = Labels::from_pairs([("__name__", "up")])?;
//! let (raw, none) = (RawLabels(labels.as_bytes()), 0..0);
//! let series = SeriesEntry {
//!     labels: raw, index: 0, samples: 0..1, histograms: none.clone(), exemplars: none,
//! };
//! let sample = Sample { timestamp: 1_000, start_timestamp: 0, value: 1.0 };
//! let sent = WriteBatch { series: vec![series], samples: vec![sample], ..WriteBatch::default() };
//!
//! let compressed = snappy::compress(&encode_v1(&sent))?;
//! let (body, mut scratch) = (Body { protocol: Protocol::V1, compressed: &compressed }, Scratch::default());
//! let came = decode(body, &mut scratch, Policy::Accept)?;
//! assert_eq!(came.samples, sent.samples);
//! assert_eq!(came.series[0].labels, raw);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod collect;
mod encode;
mod histogram;
mod proto;
pub mod read;
pub mod snappy;
mod symbols;
pub mod v1;
pub mod v2;

use promkairos_model::limits::NO_SETTING;
use promkairos_model::{Body, Protocol, SampleTimes, ShownSize, Target, WriteBatch};

pub use encode::{encode_v1, encode_v2};

/// Reusable buffers for decoding.
#[derive(Debug, Default)]
pub struct Scratch {
    /// The decompressed message.
    raw: Vec<u8>,
    /// Label sets that are not a slice of the message.
    arena: Vec<u8>,
}

impl Scratch {
    /// Bytes that the buffers keep allocated.
    pub fn capacity(&self) -> usize {
        self.raw.capacity() + self.arena.capacity()
    }
}

/// What to leave out of a batch.
#[derive(Debug, Clone, Copy)]
pub enum Policy<'p> {
    /// A new request: parts that can never be accepted go to [`WriteBatch::rejections`].
    Accept,
    /// Like `Accept`. Samples, histograms and exemplars of other times are rejected too, and a batch that takes more
    /// than about `bytes` fails with [`WireError::Expands`].
    AcceptWithin {
        /// The times that are accepted.
        times: SampleTimes,
        /// The most bytes of the batch.
        bytes: usize,
    },
    /// A body that was accepted before: no policy and no limit is applied; exactly these targets are left out.
    Replay(&'p [Target]),
}

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
    /// Not a zstd frame, or a frame that does not declare its content size.
    #[error("body is not a zstd frame that says how large its content is")]
    Zstd,
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
    /// The decoded batch takes more memory than it may: see [`Policy::AcceptWithin`].
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

/// Decodes a body. The batch borrows from it and from `scratch`.
pub fn decode<'a>(
    body: Body<'a>,
    scratch: &'a mut Scratch,
    policy: Policy<'_>,
) -> Result<WriteBatch<'a>, WireError> {
    let message = snappy::decompress(body.compressed, &mut scratch.raw)?;
    let is_new = !matches!(policy, Policy::Replay(_));
    let mut batch = decode_message(body.protocol, message, &mut scratch.arena, policy)?;
    // The other version has other field numbers: its fields would be skipped as unknown, and the body acknowledged.
    if is_new && batch.series.is_empty() && batch.metadata.is_empty() {
        let (others, other) = match body.protocol {
            Protocol::V1 => ([4, 5], "2.0"),
            Protocol::V2 | Protocol::V2Typed => ([1, 3], "1.0"),
        };
        if has_any(message, others)? {
            return Err(WireError::Version(other));
        }
    }
    batch.body = Some(body);
    Ok(batch)
}

/// Whether a message has one of these length-delimited fields.
fn has_any(message: &[u8], fields: [u32; 2]) -> Result<bool, WireError> {
    let mut reader = proto::Reader::new(message);
    while let Some(key) = reader.key()? {
        if fields.iter().any(|field| key == proto::key(*field, proto::BYTES)) {
            return Ok(true);
        }
        reader.skip(key, &[])?;
    }
    Ok(false)
}

/// Decodes a message, which is a decompressed body. The batch has no body, and borrows from the message and
/// from `arena`.
pub fn decode_message<'a>(
    protocol: Protocol,
    message: &'a [u8],
    arena: &'a mut Vec<u8>,
    policy: Policy<'_>,
) -> Result<WriteBatch<'a>, WireError> {
    match protocol {
        Protocol::V1 => v1::decode(message, arena, policy),
        Protocol::V2 => v2::decode(message, arena, policy),
        Protocol::V2Typed => v2::decode_typed(message, arena, policy),
    }
}
