//! One metric of a query.

use super::bean::Bean;
use super::feature::{feature, list, not_an_object, refuse_plugins};
use super::head::Head;
use super::{aggregators, group_by};
use crate::error::QueryError;
use crate::java_text;
use crate::json::Json;
use crate::limits::Limits;
use crate::plan::{Aggregator, GroupBy, MetricQuery, Order};
use crate::tag_filter::{TagFilter, TagPattern};
use crate::time::Zone;

/// Reads a metric.
pub(super) fn read(
    json: &Json,
    context: &str,
    head: &Head,
    now: i64,
    limits: &Limits,
) -> Result<MetricQuery, QueryError> {
    let mut metric = read_own(json, context)?;
    let start = head.start.resolve(now).ok_or_else(|| {
        QueryError::invalid(context, "start_time", "relative or absolute time must be set")
    })?;
    let end = head.end.resolve(now).unwrap_or(i64::MAX);
    if end < start {
        let message = "must be greater than the start time";
        return Err(QueryError::invalid(context, "end_time", message));
    }
    (metric.start, metric.end) = (start, end);
    let group_by = list(json, "group_by", limits.max_group_by, "max_group_by")?;
    for (at, json) in group_by.iter().enumerate() {
        let feature = feature(json, "group_by", at, context)?;
        let group_by = group_by::read(&feature, start)?;
        let items = match &group_by {
            GroupBy::Tag { tags } => tags.len(),
            GroupBy::Bin { bins } => bins.len(),
            GroupBy::Time { .. } | GroupBy::Value { .. } => 0,
        };
        Limits::check(items, limits.max_list, "items of a group_by", "max_list")?;
        metric.group_by.push(group_by);
    }
    let around = aggregators::Around {
        start,
        end: end.min(now),
        now,
        zone: head.zone.clone().unwrap_or(Zone::UTC),
        max_sma_size: limits.max_sma_size,
    };
    let aggregators = list(json, "aggregators", limits.max_aggregators, "max_aggregators")?;
    for (at, json) in aggregators.iter().enumerate() {
        let feature = feature(json, "aggregators", at, context)?;
        let mut aggregator = aggregators::read(&feature, &around)?;
        match &mut aggregator {
            Aggregator::Score(score) => {
                Limits::check(score.thresholds.len(), limits.max_list, "thresholds", "max_list")?;
            }
            Aggregator::SaveAs(save_as) => save_as.kept_tags = kept_tags(&metric.group_by),
            _ => {}
        }
        metric.aggregators.push(aggregator);
    }
    if let Some(plugins) = json.get("plugins") {
        refuse_plugins(context, plugins)?;
    }
    if let Some(order) = json.get("order") {
        let order = order.as_text().unwrap_or_default().to_ascii_lowercase();
        metric.order = match order.as_str() {
            "asc" => Order::Ascending,
            "desc" => Order::Descending,
            _ => {
                return Err(QueryError::invalid(
                    context,
                    "order",
                    "must be either 'asc' or 'desc'",
                ));
            }
        };
    }
    Ok(metric)
}

/// What needs nothing of the query.
fn read_own(json: &Json, context: &str) -> Result<MetricQuery, QueryError> {
    let Json::Object(_) = json else {
        let text = not_an_object(json);
        return Err(QueryError::Json(format!("java.lang.IllegalStateException: {text}")));
    };
    let member = |name| json.get(name).map(|value| Bean { context, property: name, value });
    let name = member("name").and_then(|bean| bean.value.as_text());
    let exclude_tags = match member("exclude_tags") {
        Some(bean) => bean.value.as_text().ok_or_else(|| bean.invalid("must be true or false"))?,
        None => String::new(),
    };
    let tags = json.get("tags").map(|tags| read_tags(tags, context)).transpose()?;
    let limit = match member("limit") {
        Some(bean) => bean.required(bean.int().map_err(QueryError::without_class)?)?,
        None => 0,
    };
    let name = match name {
        None => return Err(QueryError::invalid(context, "name", "may not be null")),
        Some(name) if name.is_empty() => {
            return Err(QueryError::invalid(context, "name", "may not be empty"));
        }
        Some(name) => name,
    };
    Ok(MetricQuery {
        name,
        start: 0,
        end: 0,
        tags: tags.unwrap_or_default(),
        exclude_tags: exclude_tags.eq_ignore_ascii_case("true"),
        // A negative limit is none.
        limit: u64::try_from(limit).ok().filter(|limit| *limit > 0),
        order: Order::Ascending,
        group_by: Vec::new(),
        aggregators: Vec::new(),
    })
}

fn read_tags(json: &Json, context: &str) -> Result<Vec<TagFilter>, QueryError> {
    let Json::Object(members) = json else {
        let text = not_an_object(json);
        return Err(QueryError::Json(format!("java.lang.IllegalStateException: {text}")));
    };
    let mut tags = Vec::new();
    for (at, (name, value)) in members.iter().enumerate() {
        if name.is_empty() {
            let path = format!("tags[{at}]");
            return Err(QueryError::invalid(context, &path, "name must not be empty"));
        }
        let pattern = |value: &Json| {
            let text = value.as_text().filter(|text| !text.is_empty());
            let path = format!("tags[{at}].{name}");
            let error = || QueryError::invalid(context, &path, "value must not be null or empty");
            text.map(TagPattern::new).ok_or_else(error)
        };
        let patterns = match value {
            Json::List(list) => list.iter().map(pattern).collect::<Result<Vec<_>, _>>()?,
            value => vec![pattern(value)?],
        };
        // An empty list is no filter.
        if !patterns.is_empty() {
            tags.push(TagFilter { name: name.clone(), patterns });
        }
    }
    tags.sort_by(|a, b| java_text::compare(&a.name, &b.name));
    Ok(tags)
}

/// Tags that `save_as` keeps.
fn kept_tags(group_by: &[GroupBy]) -> Vec<String> {
    let tags = group_by.iter().filter_map(|group_by| match group_by {
        GroupBy::Tag { tags } => Some(tags.iter().cloned()),
        _ => None,
    });
    tags.flatten().collect()
}
