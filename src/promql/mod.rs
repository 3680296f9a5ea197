//! PromQL, the query language of Prometheus 3.14: text to a checked tree, and its evaluation.
//!
//! No HTTP, no CQL and no files: what is stored comes through a trait, limits and times are
//! arguments.

pub mod ast;
mod duration;
mod operator;
mod position;
mod signature;
mod value_type;

pub use duration::{Allowed, DurationError, QueryTimes};
pub use operator::{Aggregator, BinaryOp, Sign};
pub use position::{LineColumn, Span};
pub use signature::{Function, Signature};
pub use value_type::ValueType;
