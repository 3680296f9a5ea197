//! Times of queries: units, zones, and the arithmetic that Joda-Time and `java.util.Calendar` do for KairosDB.
//!
//! All functions are total. Where Java would overflow they stop at the ends of 64 bits.

mod civil;
mod field;
mod zone;

pub use field::{Sampling, TimeUnit};
pub(crate) use field::{add_duration, align, before, month_number, ranges};
pub use zone::Zone;
