//! PromQL, the query language of Prometheus 3.14: text to a checked tree, and its evaluation.
//!
//! No HTTP, no CQL and no files: what is stored comes through a trait, limits and times are
//! arguments.

pub mod ast;
mod check;
mod duration;
mod features;
pub mod format;
mod lexer;
mod numbers;
mod operator;
mod parse_error;
mod parser;
mod position;
mod printer;
mod signature;
mod strings;
mod token;
mod value_type;

pub use duration::{Allowed, DurationError, QueryTimes};
pub use features::Features;
pub use numbers::{format_duration, parse_duration};
pub use operator::{Aggregator, BinaryOp, Sign};
pub use parse_error::ParseError;
pub use parser::{parse, parse_selector};
pub use position::{LineColumn, Span};
pub use signature::{Function, Signature};
pub use strings::quoted_bytes;
pub use value_type::ValueType;
