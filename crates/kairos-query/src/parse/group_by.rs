//! The group-bys of a metric.

use super::feature::Feature;
use crate::error::QueryError;
use crate::plan::GroupBy;
use crate::time::{Sampling, TimeUnit};

/// Reads a group-by. `start` is the start of the query.
pub(super) fn read(feature: &Feature<'_>, start: i64) -> Result<GroupBy, QueryError> {
    match feature.name.as_str() {
        "tag" => read_tag(feature),
        "time" => read_time(feature, start),
        "value" => read_value(feature),
        "bin" => read_bin(feature),
        _ => Err(feature.unknown("group_by")),
    }
}

fn read_tag(feature: &Feature<'_>) -> Result<GroupBy, QueryError> {
    let mut tags = None;
    for bean in feature.properties() {
        match bean.property {
            "tags" => tags = Some(bean.required(bean.texts()?)?),
            "start_date" => drop(bean.long()?),
            other => return Err(no_setter(feature, other, "TagGroupBy")),
        }
    }
    let tags: Vec<String> = required(feature, "tags", tags)?;
    match tags.is_empty() {
        true => Err(invalid(feature, "tags may not be empty")),
        false => Ok(GroupBy::Tag { tags }),
    }
}

fn read_time(feature: &Feature<'_>, mut start: i64) -> Result<GroupBy, QueryError> {
    let (mut range_size, mut group_count): (Option<Sampling>, _) = (None, 0);
    for bean in feature.properties() {
        match bean.property {
            "range_size" => range_size = Some(bean.required(bean.sampling()?)?),
            "group_count" => group_count = bean.required(bean.int()?)?,
            "start_date" => start = bean.required(bean.long()?)?,
            other => return Err(no_setter(feature, other, "TimeGroupBy")),
        }
    }
    let mut wrong = Vec::new();
    if group_count < 1 {
        wrong.push(violation(feature, "groupCount must be greater than or equal to 1"));
    }
    let Some(range_size) = range_size.filter(|_| wrong.is_empty()) else {
        if range_size.is_none() {
            wrong.push(violation(feature, "rangeSize may not be null"));
        }
        return Err(QueryError::Invalid(wrong));
    };
    // Of months KairosDB does not use the value.
    if range_size.value == 0 && range_size.unit != TimeUnit::Months {
        return Err(invalid(feature, "range_size.value must be greater than 0"));
    }
    Ok(GroupBy::Time { range_size, group_count, start })
}

fn read_value(feature: &Feature<'_>) -> Result<GroupBy, QueryError> {
    let mut range_size = 0;
    for bean in feature.properties() {
        match bean.property {
            "range_size" => range_size = bean.required(bean.int()?)?,
            "start_date" => drop(bean.long()?),
            other => return Err(no_setter(feature, other, "ValueGroupBy")),
        }
    }
    match range_size < 1 {
        true => Err(invalid(feature, "rangeSize must be greater than or equal to 1")),
        false => Ok(GroupBy::Value { range_size }),
    }
}

fn read_bin(feature: &Feature<'_>) -> Result<GroupBy, QueryError> {
    let mut bins = None;
    for bean in feature.properties() {
        match bean.property {
            "bins" => bins = Some(bean.required(bean.doubles()?)?),
            "start_date" => drop(bean.long()?),
            other => return Err(no_setter(feature, other, "BinGroupBy")),
        }
    }
    let bins: Vec<f64> = required(feature, "bins", bins)?;
    match bins.is_empty() {
        true => Err(invalid(feature, "bins may not be empty")),
        false => Ok(GroupBy::Bin { bins }),
    }
}

fn no_setter(feature: &Feature<'_>, property: &str, class: &str) -> QueryError {
    feature.no_setter(property, &format!("class org.kairosdb.core.groupby.{class}"))
}

fn required<T>(feature: &Feature<'_>, field: &str, value: Option<T>) -> Result<T, QueryError> {
    value.ok_or_else(|| invalid(feature, &format!("{field} may not be null")))
}

fn invalid(feature: &Feature<'_>, text: &str) -> QueryError {
    QueryError::Invalid(vec![violation(feature, text)])
}

fn violation(feature: &Feature<'_>, text: &str) -> String {
    format!("{}.{text}", feature.context)
}
