//! Where answers differ from those of KairosDB 1.3.0-1 on purpose. There is no code here.
//!
//! - Without `time_zone` the zone is UTC, as KairosDB's documentation says, not the zone of its JVM.
//! - Where KairosDB answers 500 the client is at fault, so the status is 400, and a text names the cause if KairosDB
//!   has none. So for a sampling of 0 (`/ by zero`), NaN in an answer, null for a property, a list for an object, an
//!   enum that it does not know, and without `filter_op`, `size` or `bins`.
//! - `percentile` is exact, not of a random choice of 1,028 points.
//! - Quantities of relative times and of `rate` do not wrap around at 2³¹, and times stop at the ends of 64 bits.
//! - A day that begins in a gap of its zone begins after the gap (500), and a range has at least one point (an endless
//!   answer after some changes of an offset).
//! - `gaps` with `trim` trims before the points of every group, not of the first alone.
//! - Groups by tag are two where names and values, written one after the other, are the same text.
//! - Tags of groups by time, value or bin are sorted, as all others, not in the order of a hash table.
//! - `save_as` needs `metric_name`.
//! - Dates before 15 October 1582 are Gregorian in relative times and in groups by month.
//!
//! Beyond [`Limits`](crate::Limits) a query is refused with 400, and the text names the limit.
