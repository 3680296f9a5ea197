//! Native histograms, integer and float, exponential and with custom bounds.
//!
//! One layout for all: spans list the buckets that exist. Integer counts are stored as deltas from
//! bucket to bucket, float counts as absolute values, as on the wire (see the Prometheus
//! remote-write 2.0 specification). `Histogram::validate` is the only check; a validated histogram
//! is trusted everywhere else. Arithmetic is part of PromQL, not of this module.

mod native;
mod reduce;
mod validate;

pub use native::{CUSTOM_BUCKETS_SCHEMA, Counts, Histogram, ResetHint, Span, counts_of};
pub use validate::HistogramError;
