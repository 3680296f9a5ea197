//! Queries from JSON, with the checks that KairosDB makes, in its order, and its texts.
//!
//! The order of checks counts, as the first that fails is the answer: the types of the query, its own rules, then
//! metric by metric its types, times, groups, aggregators, plugins and order.

mod aggregators;
mod bean;
mod feature;
mod group_by;
mod head;
mod metric;

use self::feature::{not_an_object, refuse_plugins};
use self::head::Head;
use crate::error::QueryError;
use crate::json::{self, Json};
use crate::limits::Limits;
use crate::plan::Query;

/// Reads a query. `now` is the time in milliseconds: relative times start from it, and ranges without points end with
/// it.
pub fn parse(text: &str, now: i64, limits: &Limits) -> Result<Query, QueryError> {
    let query = json::read(text, limits.max_nesting)?;
    let Json::Object(members) = &query else {
        return Err(QueryError::Json(not_an_object(&query)));
    };
    let head = Head::read(members)?;
    head.check()?;
    if let Some(plugins) = query.get("plugins") {
        refuse_plugins("", plugins)?;
    }
    let metrics = match query.get("metrics") {
        Some(Json::List(metrics)) => metrics,
        Some(_) => return Err(QueryError::invalid("query", "metric[]", "must be a list")),
        None => {
            return Err(QueryError::invalid("query", "metric[]", "must have a size of at least 1"));
        }
    };
    Limits::check(metrics.len(), limits.max_metrics, "metrics", "max_metrics")?;
    let read = |(at, json): (usize, &Json)| {
        let context = format!("query.metric[{at}]");
        metric::read(json, &context, &head, now, limits)
    };
    let metrics = metrics.iter().enumerate().map(read).collect::<Result<_, _>>()?;
    Ok(Query { cache_time: head.cache_time, metrics })
}
