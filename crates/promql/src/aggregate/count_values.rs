//! `count_values`: one group for each distinct value.
//!
//! The values are known only from the points, so this operator reads its whole input before its
//! label sets are known.

use std::collections::HashMap;

use super::grouping::group_labels;
use crate::ast::{Grouping, StringLiteral};
use crate::context::Context;
use crate::error::QueryError;
use crate::format::fixed;
use crate::labelset::with;
use crate::operators::{BoxOperator, Operator, Series};
use crate::points::{Points, ValueRef};
use crate::series_list::made_bytes;
use crate::strings::quoted_bytes;
use promkairos_model::Labels;

/// Bytes of a value in addition to its labels and counts.
const VALUE_BYTES: usize = 192;

/// Counts the values of `input`. In a result, the label `label` has the value as text.
pub(crate) fn count_values(
    mut input: BoxOperator,
    label: &StringLiteral,
    grouping: &Grouping,
    steps: usize,
    context: &Context,
) -> Result<BoxOperator, QueryError> {
    let name = label.value.as_str();
    if name.is_empty() || label.not_utf8.is_some() {
        let bytes = label.not_utf8.as_deref().unwrap_or_default();
        let text = format!("invalid label name {}", quoted_bytes(bytes));
        return Err(QueryError::Execution(text));
    }
    let grouping = with_label(grouping, name);
    let choice = group_labels(&grouping, false);
    let mut buffer = Vec::new();
    let mut counted: HashMap<Labels, usize> = HashMap::new();
    let mut results: Vec<(Series, Vec<u32>)> = Vec::new();
    let mut held = context.budget.nothing();
    let mut points = Points::default();
    for position in 0..input.series().len() {
        input.next(&mut points)?;
        let labels = input.series()[position].labels.clone();
        // A value often stays the same from step to step.
        let mut last: Option<(u64, usize)> = None;
        for (step, value) in points.iter() {
            let bits =
                if let ValueRef::Float(value) = value { Some(value.to_bits()) } else { None };
            let at = match last {
                Some((same, at)) if bits == Some(same) => at,
                _ => {
                    let text = text(value);
                    let key = with(&labels, name, &text)?;
                    let group = choice.of(&key, &mut buffer).to_owned();
                    match counted.get(&group) {
                        Some(at) => *at,
                        None => {
                            // Memory is reserved for this label set before another one is made.
                            held.take(steps, steps * 4 + made_bytes(&group) + VALUE_BYTES)?;
                            counted.insert(group.clone(), results.len());
                            results.push((Series::new(group), vec![0; steps]));
                            results.len() - 1
                        }
                    }
                }
            };
            last = bits.map(|bits| (bits, at));
            results[at].1[step] += 1;
        }
    }
    let (series, counts): (Vec<_>, Vec<_>) = results.into_iter().unzip();
    Ok(Box::new(Counted { series, counts: counts.into_iter(), _held: held }))
}

fn with_label(grouping: &Grouping, name: &str) -> Grouping {
    match grouping {
        Grouping::By(names) => {
            let mut names = names.clone();
            names.push(name.to_owned());
            Grouping::By(names)
        }
        Grouping::Without(_) => grouping.clone(),
    }
}

fn text(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Float(value) => fixed(value),
        ValueRef::Histogram(histogram) => histogram.to_string(),
    }
}

struct Counted {
    series: Vec<Series>,
    counts: std::vec::IntoIter<Vec<u32>>,
    _held: crate::budget::Held,
}

impl Operator for Counted {
    fn series(&self) -> &[Series] {
        &self.series
    }

    fn next(&mut self, points: &mut Points) -> Result<(), QueryError> {
        let counts = self.counts.next().unwrap_or_default();
        points.clear(counts.len());
        for (step, count) in counts.into_iter().enumerate().filter(|(_, count)| *count > 0) {
            points.set_float(step, f64::from(count));
        }
        Ok(())
    }
}
