//! Points of a metric through groups and aggregators. Points are pulled one at a time; only groups by time, value and
//! bin, a range of `percentile` and the points of `save_as` are held in memory.

mod elementwise;
mod fold;
mod gaps;
mod grouping;
mod merge;
mod pairs;
mod ranges;
mod stream;

pub(crate) use self::grouping::{Group, GroupResult, GroupTags, add_tags, groups};
pub(crate) use self::stream::Context;
use self::stream::Input;
pub use self::stream::Saved;
use crate::error::QueryError;
use crate::plan::{Aggregator, Fold, MetricQuery};
use crate::point::GroupType;

/// Puts the aggregators of a metric over the points of a group.
pub(crate) fn aggregate<'a>(
    metric: &'a MetricQuery,
    group: &mut Group<'a>,
    context: &mut Context<'_>,
) -> Result<Input<'a>, QueryError> {
    let mut points: Input<'a> = group.take_points();
    if let Some(limit) = metric.limit {
        points = Box::new(elementwise::Limited::new(points, limit));
    }
    let mut group_type = group.group_type();
    for aggregator in &metric.aggregators {
        if group_type == GroupType::Text && needs_numbers(aggregator) {
            continue;
        }
        points = match aggregator {
            Aggregator::Range(range) if range.fold == Fold::Gaps => {
                Box::new(gaps::Gaps::new(points, range))
            }
            Aggregator::Range(range) => Box::new(ranges::Ranges::new(points, range)),
            Aggregator::Diff => Box::new(pairs::Pairs::new(points, pairs::Change::Difference)),
            Aggregator::Rate(sampling, zone) => {
                Box::new(pairs::Pairs::new(points, pairs::Change::Rate(*sampling, zone)))
            }
            Aggregator::Sampler(sampling, zone) => {
                Box::new(pairs::Pairs::new(points, pairs::Change::Sampler(*sampling, zone)))
            }
            Aggregator::Divide(divisor) => {
                Box::new(elementwise::Mapped::new(points, elementwise::Change::Divide(*divisor)))
            }
            Aggregator::Scale(factor) => {
                Box::new(elementwise::Mapped::new(points, elementwise::Change::Scale(*factor)))
            }
            Aggregator::Score(score) => {
                Box::new(elementwise::Mapped::new(points, elementwise::Change::Score(score)))
            }
            Aggregator::Filter(filter) => Box::new(elementwise::Filtered::new(points, filter)),
            Aggregator::Sma(size) => Box::new(elementwise::Sma::new(points, *size)),
            Aggregator::Trim(None) => points,
            Aggregator::Trim(Some(trim)) => Box::new(elementwise::Trimmed::new(points, *trim)),
            Aggregator::SaveAs(save_as) => {
                let tags = group.saved_tags(save_as, &metric.name)?;
                let place = context.save(save_as, tags);
                Box::new(elementwise::Saving::new(points, place))
            }
        };
        if matches!(aggregator, Aggregator::Range(range) if range.fold == Fold::Count) {
            group_type = GroupType::Number;
        }
    }
    Ok(points)
}

/// Whether an aggregator leaves groups of texts as they are.
fn needs_numbers(aggregator: &Aggregator) -> bool {
    match aggregator {
        Aggregator::Range(range) => {
            !matches!(range.fold, Fold::Count | Fold::First | Fold::Last | Fold::Gaps)
        }
        Aggregator::Filter(_) | Aggregator::SaveAs(_) | Aggregator::Trim(_) => false,
        _ => true,
    }
}
