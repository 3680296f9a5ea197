//! JSON as gson 2.2.4 reads it for KairosDB 1.3.0-1, over a slice; numbers as Java reads them; and the JSON
//! of an answer with errors.
//!
//! The tokens, the places of errors and the texts are those of gson, since KairosDB's answers have them. The caller
//! limits the nesting. Memory is used only for texts with escapes, and a byte for each level that is open.
//! It knows nothing of metrics and queries, and keeps no value: what becomes of one is up to the caller.
//!
//! ```
//! use promkairos_kairos_json::{Leniency, Reader};
//!
//! let mut reader = Reader::new(b"{name: m, 'ttl' = \"6e1\"; tags: {host: a}}", 64);
//! reader.set_leniency(Leniency::Lenient);
//! reader.begin_object()?;
//! assert_eq!(reader.name()?, "name");
//! assert_eq!(reader.text_field()?.as_deref(), Some("m"));
//! assert_eq!(reader.name()?, "ttl");
//! assert_eq!(reader.int_field()?, Some(60));
//! assert_eq!(reader.name()?, "tags");
//! reader.skip_value()?;
//! reader.end_object()?;
//! # Ok::<(), promkairos_kairos_json::Fault>(())
//! ```

mod error_answer;
mod fault;
pub mod java;
mod reader;
mod text;
mod typed;

pub use error_answer::error_answer;
pub use fault::{Fault, Kind};
pub use reader::{Leniency, Reader, Token};
pub use typed::Scalar;
