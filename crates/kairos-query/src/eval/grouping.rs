//! Groups of a metric: by type and tags while series are opened, by time, value and bin point by point.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::merge::{Merge, Source};
use super::stream::{Context, Input, Stream};
use crate::error::QueryError;
use crate::java_text::JavaText;
use crate::plan::{GroupBy, MetricQuery, Order, SaveAs};
use crate::point::{GroupType, Point, Series, Tags, Value};
use crate::time::{self, Sampling};

/// Values of the tags of a group, in Java's order.
pub(crate) type GroupTags = BTreeMap<JavaText, BTreeSet<JavaText>>;

/// Bytes of a tag or a value of a group besides its text.
const TEXT_BYTES: usize = 64;
/// Bytes of a group besides its tags and points.
const GROUP_BYTES: usize = 512;

/// Adds the tags of a series, and returns the bytes that this takes.
pub(crate) fn add_tags(all: &mut GroupTags, tags: &Tags) -> usize {
    let mut bytes = 0;
    for (name, value) in tags {
        let values = all.entry(JavaText(name.clone())).or_default();
        if values.is_empty() {
            bytes += name.len() + TEXT_BYTES;
        }
        if values.insert(JavaText(value.clone())) {
            bytes += value.len() + TEXT_BYTES;
        }
    }
    bytes
}

/// Points that are aggregated together.
pub(crate) struct Group<'a> {
    /// What the points have in common.
    pub(crate) results: Vec<GroupResult<'a>>,
    /// The tags of all series.
    pub(crate) tags: Arc<GroupTags>,
    points: Option<Input<'a>>,
}

/// What the points of a group have in common.
#[derive(Clone)]
pub(crate) enum GroupResult<'a> {
    /// The value of each tag, `""` if a series does not have it.
    Tag { tags: &'a [String], values: Vec<(&'a str, String)> },
    /// The number that another group-by gives them.
    Number(&'a GroupBy, i32),
    /// The type.
    Type(GroupType),
}

impl<'a> Group<'a> {
    /// The points, once.
    pub(super) fn take_points(&mut self) -> Input<'a> {
        self.points.take().unwrap_or_else(|| Box::new(Held::default()))
    }

    /// The type, that of numbers if there are no points.
    pub(super) fn group_type(&self) -> GroupType {
        let group_type = self.results.iter().find_map(|result| match result {
            GroupResult::Type(group_type) => Some(*group_type),
            _ => None,
        });
        group_type.unwrap_or(GroupType::Number)
    }

    /// The tags that points are saved with.
    pub(super) fn saved_tags(&self, save_as: &SaveAs, metric: &str) -> Result<Tags, QueryError> {
        let mut tags = Tags::new();
        let given = save_as.tags.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let from = save_as.add_saved_from.then_some(("saved_from", metric));
        let kept = self.tags.iter().filter_map(|(name, values)| {
            let is_kept = values.len() == 1 && save_as.kept_tags.contains(&name.0);
            values.first().filter(|_| is_kept).map(|value| (name.0.as_str(), value.0.as_str()))
        });
        for (name, value) in given.chain(from).chain(kept) {
            if let Some(other) = tags.insert(name.to_owned(), value.to_owned()) {
                return Err(QueryError::Evaluation(format!(
                    "Multiple entries with same key: {name}={other} and {name}={value}"
                )));
            }
        }
        Ok(tags)
    }
}

/// The groups of a metric, in the order of the answer.
pub(crate) fn groups<'a>(
    metric: &'a MetricQuery,
    series: impl Iterator<Item = Result<Series<'a>, QueryError>>,
    context: &mut Context<'_>,
) -> Result<Vec<Group<'a>>, QueryError> {
    let by_tag = metric.group_by.iter().find_map(|group_by| match group_by {
        GroupBy::Tag { tags } => Some(tags.as_slice()),
        _ => None,
    });
    let others: Vec<&GroupBy> = metric
        .group_by
        .iter()
        .filter(|group_by| !matches!(group_by, GroupBy::Tag { .. }))
        .collect();
    let by_tag = by_tag.map(ByTag::new);
    let mut sources: BTreeMap<Key, Vec<Source<'a>>> = BTreeMap::new();
    for series in series {
        context.pass()?;
        if let Some(source) = Source::open(series?, metric.limit)? {
            let key = Key::new(&source.series, by_tag.as_ref());
            let bytes = 2 * key.bytes();
            let before = sources.len();
            sources.entry(key).or_default().push(source);
            if sources.len() > before {
                context.count_group(bytes)?;
                context.check_groups(sources.len())?;
            }
        }
    }
    let mut groups = Vec::new();
    if sources.is_empty() && others.is_empty() {
        groups.push(Group { results: Vec::new(), tags: Arc::default(), points: None });
    }
    for (key, sources) in sources {
        let group = whole(key, by_tag.as_ref(), sources, metric.order, context)?;
        match others.is_empty() {
            true => groups.push(group),
            false => split(group, &others, &mut groups, context)?,
        }
    }
    Ok(groups)
}

/// Decides on the group of a series, and on the order of groups.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    group_type: GroupType,
    /// Names and values one after the other, by which KairosDB sorts.
    text: JavaText,
    values: Vec<String>,
}

impl Key {
    fn new(series: &Series<'_>, by_tag: Option<&ByTag<'_>>) -> Self {
        let value = |tag: &String| series.tags.get(tag).cloned().unwrap_or_default();
        let tags = by_tag.map(|by_tag| by_tag.unique.as_slice()).unwrap_or_default();
        let values: Vec<String> = tags.iter().copied().map(value).collect();
        let text = tags.iter().zip(&values).map(|(tag, value)| format!("{tag}{value}")).collect();
        Self { group_type: series.group_type, text: JavaText(text), values }
    }

    fn bytes(&self) -> usize {
        let values = self.values.iter().map(|value| value.len() + size_of::<String>());
        values.sum::<usize>() + self.text.0.len() + GROUP_BYTES
    }
}

/// The tags of a group by tag.
struct ByTag<'a> {
    tags: &'a [String],
    /// Without repetitions.
    unique: Vec<&'a String>,
}

impl<'a> ByTag<'a> {
    fn new(tags: &'a [String]) -> Self {
        let mut known = HashSet::new();
        Self { tags, unique: tags.iter().filter(|tag| known.insert(*tag)).collect() }
    }
}

/// A group of series.
fn whole<'a>(
    key: Key,
    by_tag: Option<&ByTag<'a>>,
    sources: Vec<Source<'a>>,
    order: Order,
    context: &mut Context<'_>,
) -> Result<Group<'a>, QueryError> {
    let mut tags = GroupTags::new();
    for source in &sources {
        let bytes = add_tags(&mut tags, &source.series.tags);
        context.count_group(bytes)?;
    }
    context.count_group(GROUP_BYTES)?;
    let tags = Arc::new(tags);
    let by_tag = by_tag.map(|by_tag| GroupResult::Tag {
        tags: by_tag.tags,
        values: by_tag.unique.iter().map(|tag| tag.as_str()).zip(key.values).collect(),
    });
    let results = by_tag.into_iter().chain([GroupResult::Type(key.group_type)]).collect();
    Ok(Group { results, tags, points: Some(Box::new(Merge::new(sources, order)?)) })
}

/// Splits a group by its points, in the order in which groups appear.
fn split<'a>(
    mut group: Group<'a>,
    others: &[&'a GroupBy],
    groups: &mut Vec<Group<'a>>,
    context: &mut Context<'_>,
) -> Result<(), QueryError> {
    let mut places: HashMap<Vec<i32>, usize> = HashMap::new();
    let mut parts: Vec<(Vec<i32>, Vec<Point>)> = Vec::new();
    let mut points = group.take_points();
    while let Some(point) = points.next(context)? {
        context.hold()?;
        let numbers: Vec<i32> = others.iter().map(|group_by| number(group_by, &point)).collect();
        let place = match places.get(&numbers) {
            Some(place) => *place,
            None => {
                context.count_group(GROUP_BYTES)?;
                places.insert(numbers.clone(), parts.len());
                parts.push((numbers, Vec::new()));
                context.check_groups(groups.len() + parts.len())?;
                parts.len() - 1
            }
        };
        parts[place].1.push(point);
    }
    for (numbers, points) in parts {
        let numbers = others.iter().zip(numbers);
        let numbers = numbers.map(|(group_by, number)| GroupResult::Number(group_by, number));
        groups.push(Group {
            results: numbers.chain(group.results.iter().cloned()).collect(),
            tags: Arc::clone(&group.tags),
            points: Some(Box::new(Held { points: points.into_iter() })),
        });
    }
    Ok(())
}

/// The number of the group of a point, in Java's arithmetic.
fn number(group_by: &GroupBy, point: &Point) -> i32 {
    match group_by {
        GroupBy::Tag { .. } => 0,
        GroupBy::Time { range_size, group_count, start } => {
            let ranges = ranges_since(*range_size, *start, point.time);
            (ranges % i128::from((*group_count).max(1))) as i32
        }
        GroupBy::Value { range_size } => match &point.value {
            Value::Long(value) => (*value / i64::from((*range_size).max(1))) as i32,
            Value::Double(value) => *value as i32 / (*range_size).max(1),
            Value::Text(_) | Value::Null => -1,
        },
        GroupBy::Bin { bins } => match &point.value {
            Value::Long(value) => bin(bins, *value as f64),
            Value::Double(value) => bin(bins, *value),
            Value::Text(_) | Value::Null => -1,
        },
    }
}

/// Whole ranges since the start. KairosDB's years are 52 weeks.
fn ranges_since(range_size: Sampling, start: i64, time: i64) -> i128 {
    use crate::time::TimeUnit;

    let length = match range_size.unit {
        TimeUnit::Months => {
            return i128::from(time::month_number(time)) - i128::from(time::month_number(start));
        }
        TimeUnit::Years => TimeUnit::Weeks.millis().map(|week| 52 * week),
        unit => unit.millis(),
    };
    let length = i128::from(range_size.value) * i128::from(length.unwrap_or(1));
    (i128::from(time) - i128::from(start)) / length.max(1)
}

fn bin(bins: &[f64], value: f64) -> i32 {
    if bins.first().is_none_or(|first| value < *first) {
        return 0;
    }
    let within = bins.windows(2).position(|pair| value >= pair[0] && value < pair[1]);
    within.map_or(bins.len(), |at| at + 1) as i32
}

/// Points in memory.
#[derive(Default)]
struct Held {
    points: std::vec::IntoIter<Point>,
}

impl Stream for Held {
    fn next(&mut self, context: &mut Context<'_>) -> Result<Option<Point>, QueryError> {
        let point = self.points.next();
        context.release(usize::from(point.is_some()));
        context.pass()?;
        Ok(point)
    }

    fn read_rest(&mut self, _: &mut Context<'_>) -> Result<(), QueryError> {
        Ok(())
    }
}
