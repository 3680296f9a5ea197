//! Compressed samples: pure bytes, no I/O.
//!
//! Chunks of kinds 1 to 3 have the same bytes as in Prometheus' remote read, so that they are
//! returned as stored; kind 4 exists only in files. Two columns that Prometheus does not have are
//! stored beside a chunk: acceptance times, and start timestamps or integers ([`SideKind`]).
//!
//! A chunk keeps every bit of a float. As in Prometheus, histograms lose two things: hints about
//! resets that were not detected here, except gauge hints (see [`HistogramAppender`]), and all
//! parts of a stale marker except its time and sum.
//!
//! ```
//! use promkairos_chunk::{Appended, OpenChunk};
//!
//! // Time, start timestamp (0 = unknown), value, and the time of acceptance.
//! let mut open = OpenChunk::with_float(1_000, 0, 1.5, 5_000);
//! assert_eq!(open.append_float(2_000, 0, 2.5, 5_000), Appended::Yes);
//! let mut floats = Vec::new();
//! open.to_chunk().floats(&mut floats)?;
//! assert_eq!(floats, [(1_000, 1.5), (2_000, 2.5)]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bits;
mod chunk;
mod column;
mod error;
mod histogram;
mod integers;
mod layout;
mod long;
mod open;
mod packed;
mod points;
mod varbit;
mod xor;

pub use chunk::{Chunk, ChunkKind, SideKind};
pub use column::{ColumnBytes, ColumnValues};
pub use error::ChunkError;
pub use histogram::{Appended, HistogramAppender};
pub use open::{ChunkBuilder, OpenChunk, encode_points, encode_stamped};
pub use packed::{Floats, pack};
pub use points::{Points, StampedPoint};
pub use xor::XorAppender;
