//! Native histograms as queries calculate with them: every count is a float.
//!
//! A side is a list of bucket indexes and counts, sorted by index, whatever spans or arithmetic it
//! came from. So adding two histograms merges two sorted lists, or adds in place if both have the
//! same buckets. A histogram is the value of one sample. This module knows no series, times or
//! annotations: an operation returns what the user should know. Unlike
//! [`promkairos_model::Histogram`], these histograms are never stored.

mod amount;
mod arithmetic;
mod average;
mod bounds;
mod buckets;
#[cfg(test)]
pub(crate) mod cases;
mod classic;
mod float;
mod fraction;
mod iterate;
mod moments;
#[cfg(test)]
mod properties;
mod quantile;
mod reset;
mod text;
mod trim;
mod zero;

pub use amount::{Amount, Kahan};
pub use arithmetic::{Combined, IncompatibleSchemas};
pub use average::{Accumulator, HistogramAverage};
pub use buckets::Buckets;
pub use classic::{
    ClassicBucket, ClassicQuantile, Monotonicity, classic_fraction, classic_quantile,
};
pub use float::FloatHistogram;
pub use fraction::Fraction;
pub use iterate::{Bucket, BucketRule};
pub(crate) use quantile::beyond;
pub use quantile::{NanObservations, Quantile};
pub use trim::Keep;
