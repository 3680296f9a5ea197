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
mod error;
mod histogram;
mod policy;
mod proto;
pub mod read;
pub mod snappy;
mod symbols;
mod v1;
mod v2;

use promkairos_model::{Body, Protocol, WriteBatch};

pub use encode::{encode_v1, encode_v2};
pub use error::{SAMPLES, SERIES, WireError};
pub use policy::Policy;

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
            Protocol::V2 | Protocol::V2Typed | Protocol::V2Longs => ([1, 3], "1.0"),
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
        Protocol::V2 | Protocol::V2Typed | Protocol::V2Longs => {
            v2::decode(protocol, message, arena, policy)
        }
    }
}
