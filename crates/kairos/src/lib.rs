//! Encodes and decodes the bytes of the KairosDB Cassandra schema.
//!
//! Reads what a real KairosDB writes, and writes what a real KairosDB reads; `docs/FORMAT.md`
//! specifies our own layouts. Every function maps plain values to bytes or back. Bytes from a
//! database are not trusted: decoding never panics, and allocates at most a small multiple of their
//! length. No I/O, no CQL, no clock, no configuration.
//!
//! ```
//! use promkairos_kairos::{DEFAULT_ROW_WIDTH, DataType, RowKey, RowSpec, Tags, TimeUnit};
//!
//! let spec = RowSpec::new(TimeUnit::Milliseconds, DEFAULT_ROW_WIDTH)?;
//! let (row_time, offset) = spec.split(1_700_000_000_000);
//! let tags = Tags::from_pairs([("host", "a")])?;
//! let key = RowKey { metric: "up".into(), row_time, data_type: DataType::Double, tags };
//! assert_eq!(RowKey::decode(&key.encode()?)?, key);
//! assert_eq!(spec.timestamp(row_time, offset), 1_700_000_000_000);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod cell;
mod data_type;
mod error;
mod histogram;
pub mod index;
mod metadata;
mod murmur3;
mod reader;
mod row_key;
mod row_spec;
mod tags;

pub use cell::Cell;
pub use data_type::{DataType, TableName};
pub use error::{DecodeError, EncodeError};
pub use row_key::{MAX_KEY_BYTES, RowKey};
pub use row_spec::{
    ColumnRange, DEFAULT_ROW_WIDTH, LegacyKind, Offset, RowSpec, RowTime, RowTimeBounds, SpecError,
    TimeUnit,
};
pub use tags::Tags;
