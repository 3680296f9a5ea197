//! PromQL, the query language of Prometheus 3.14: text to a checked tree, and its evaluation.
//!
//! No HTTP, no CQL and no files: what is stored comes through a trait, limits and times are
//! arguments.

mod aggregate;
pub mod annotations;
pub mod ast;
mod binary;
mod budget;
mod check;
mod collect;
mod context;
mod counts;
mod duration;
mod engine;
mod error;
mod features;
pub mod format;
pub mod functions;
pub mod histogram;
mod labelset;
mod lexer;
mod numbers;
mod operator;
mod operators;
mod parse_error;
mod parser;
mod patterns;
mod plan;
mod points;
mod position;
mod printer;
mod query_memory;
mod series_list;
mod settings;
mod shared_reader;
mod signature;
mod source;
mod steps;
mod strings;
mod token;
mod unsent;
mod value;
mod value_type;

pub(crate) use budget::Held;
pub use counts::{Counting, StepCounts};
pub use duration::{Allowed, DurationError, QueryTimes};
pub use engine::{Cost, Engine, QueryOptions};
pub use error::{QueryError, TimeLimit};
pub use features::Features;
pub use numbers::{format_duration, parse_duration};
pub use operator::{Aggregator, BinaryOp, Sign};
pub use parse_error::ParseError;
pub use parser::{parse, parse_selector, parse_selector_with, parse_with};
pub use patterns::{Patience, PatternRoom, Patterns};
pub use points::{Value, ValueRef};
pub use position::{LineColumn, Span};
pub use query_memory::QueryMemory;
pub use settings::{CounterSign, NameRemoval, Settings, StartTimestamps};
pub use signature::{Function, Signature};
pub use steps::Steps;
pub use strings::{quoted, quoted_bytes};
pub use unsent::Room;
pub use value::{QueryResult, QueryValue, Sample, SeriesPoints, Stats};
pub use value_type::ValueType;
