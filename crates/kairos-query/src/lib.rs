//! KairosDB's query language, as KairosDB 1.3.0-1 has it: JSON to a plan, points to the JSON of the answer.
//!
//! [`parse()`] checks a query and answers with KairosDB's texts of errors. [`Answer`] evaluates its metrics one by
//! one, over series that the caller reads for [`MetricQuery::start`] to [`MetricQuery::end`], and writes what KairosDB
//! would write, byte for byte. `docs/kairosdb-api.md` lists the differences, all intended.
//!
//! Every function maps plain values to plain values. Work is bounded by the number of points and by [`Limits`], never
//! by the length of a range of time. No I/O, no clock, no waiting, no storage: the caller gives the time and the
//! points.
//!
//! ```
//! use promkairos_kairos_query::{Answer, GroupType, Limits, Point, Series, Tags, Value, parse};
//!
//! let limits = Limits::default();
//! let query = r#"{"start_absolute": 0, "metrics": [{"name": "up", "aggregators": [{"name": "sum"}]}]}"#;
//! let query = parse(query, 1_700_000_000_000, &limits)?;
//! let point = Point { time: 5, value: Value::Long(7) };
//! let tags = Tags::from([("host".to_owned(), "a".to_owned())]);
//! let points = Box::new([Ok(point)].into_iter());
//! let series = Series { tags, group_type: GroupType::Number, points };
//! let mut answer = Answer::new(&limits);
//! answer.metric(&query.metrics[0], [Ok(series)])?;
//! let text = String::from_utf8(answer.finish())?;
//! assert!(text.ends_with(r#""tags":{"host":["a"]},"values":[[5,7]]}]}]}"#));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod answer;
#[cfg(test)]
mod cases;
#[cfg(test)]
mod counted;
mod error;
mod eval;
mod java_text;
mod json;
mod limits;
mod meter;
mod parse;
mod plan;
mod point;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod replay;
mod tag_filter;
mod time;

pub use answer::{Answer, render_errors, render_names};
pub use error::QueryError;
pub use eval::Saved;
pub use limits::Limits;
pub use parse::parse;
pub use plan::{
    Aggregator, Boundary, Deviation, Filter, FilterOperation, Fold, GroupBy, MetricQuery, Order,
    Query, Range, SaveAs, Score, ScoreOrder, Threshold, ThresholdValue, Trim,
};
pub use point::{GroupType, Point, Series, Tags, Value};
pub use tag_filter::{TagFilter, TagMatcher, TagPattern};
pub use time::{Sampling, TimeUnit, Zone};
