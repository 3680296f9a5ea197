//! PromQL, the query language of Prometheus 3.16: parses queries to checked trees and evaluates
//! them.
//!
//! No HTTP, no CQL and no files: data comes through the trait `Store`, limits and times are
//! arguments.

mod aggregate;
pub mod annotations;
pub mod ast;
mod binary;
mod budget;
mod check;
mod collect;
mod context;
mod cost;
mod counts;
mod duration;
mod engine;
mod error;
mod estimate;
mod features;
pub mod format;
pub mod functions;
mod go_float;
mod go_math;
pub mod histogram;
mod labelset;
mod lexer;
mod names;
mod numbers;
mod operator;
mod operators;
mod parse_error;
mod parser;
mod plan;
mod points;
mod position;
mod printer;
mod query_memory;
mod queue;
mod regex_compiler;
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

pub use budget::Held;
pub use cost::CostLimits;
pub use counts::{Counting, StepCounts};
pub use duration::{Allowed, DurationError, QueryTimes};
pub use engine::{Cost, Engine, Estimating, QueryOptions};
pub use error::{Costly, LimitSource, QueryError};
pub use estimate::Estimate;
pub use features::{Features, Syntax};
pub use go_float::{NoFloat, go_float};
pub use names::Names;
pub use numbers::{format_duration, parse_duration};
pub use operator::{Aggregator, BinaryOp, Sign};
pub use parse_error::ParseError;
pub use parser::{parse, parse_selector, parse_selector_with, parse_with};
pub use points::{Value, ValueRef};
pub use position::{LineColumn, Span};
pub use query_memory::QueryMemory;
pub use regex_compiler::{CompileDeadline, PatternRoom, RegexCompiler};
pub use settings::{CounterSign, NameRemoval, Settings, StartTimestamps};
pub use signature::{Function, HistogramUse, Signature};
pub use steps::Steps;
pub use strings::{quoted, quoted_bytes};
pub use unsent::Room;
pub use value::{QueryResult, QueryValue, Sample, SeriesPoints, Stats};
pub use value_type::ValueType;
