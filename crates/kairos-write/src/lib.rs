//! What KairosDB 1.3.0-1 takes for writing: the JSON of `POST /api/v1/datapoints`, and telnet lines.
//!
//! The parsers read slices and give each valid point to their caller. They accept and refuse what KairosDB does, and
//! say it in KairosDB's words; its differences are listed in [`datapoints`] and [`telnet`]. No input panics, and
//! memory beyond the slice is a small constant, the tags of one metric, and texts with escapes.
//! No I/O, no HTTP, no limits of stores: a store checks names, tags and values itself.
//!
//! ```
//! use promkairos_kairos_write::{Command, Metric, Value, parse_line};
//!
//! let mut metric = Metric::default();
//! let command = parse_line(b"put temperature 1700000000 5.5 host=a kairos_opt.ttl=600", &mut metric)?;
//! assert_eq!(command, Command::Put { time: 1_700_000_000_000, value: Value::Double(5.5) });
//! assert_eq!((&*metric.name, metric.ttl), ("temperature", 600));
//! assert_eq!(metric.pairs().collect::<Vec<_>>(), [("host", "a")]);
//! # Ok::<(), promkairos_kairos_write::LineError>(())
//! ```

pub mod datapoints;
mod element;
mod errors;
mod point;
pub mod telnet;

pub use datapoints::{Answer, MAX_DEPTH, Status, parse_datapoints};
pub use errors::{Errors, MAX_ERROR_BYTES, MAX_ERRORS};
pub use point::{MAX_TAGS, Metric, Tag, Value, Visitor};
pub use promkairos_kairos_json::error_answer;
pub use telnet::{Command, LineError, parse_line};
