//! Functions over all series of a vector: `absent`, `scalar`, `sort` and similar functions.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashSet;

use super::{BoxOperator, Operator, Series};
use crate::budget::{Budget, Held};
use crate::error::QueryError;
use crate::labelset::is_metadata;
use crate::points::Points;
use promkairos_model::{Labels, MatchOp, Matcher, is_stale};

/// 1 at the steps at which no series has a point.
pub(crate) struct Absent {
    input: BoxOperator,
    series: [Series; 1],
    steps: usize,
}

impl Absent {
    /// `absent` with the labels of `matchers`, which are the matchers of a selector.
    pub(crate) fn new(input: BoxOperator, matchers: &[Matcher], steps: usize) -> Self {
        Self { input, series: [Series::new(wanted_labels(matchers))], steps }
    }
}

/// The labels that equality matchers set. A label is set only if the last matcher on it is the
/// first equality matcher on it.
fn wanted_labels(matchers: &[Matcher]) -> Labels {
    let (mut fixed, mut seen) = (BTreeMap::new(), HashSet::new());
    for matcher in matchers.iter().filter(|matcher| !is_metadata(matcher.name().as_bytes())) {
        let name = matcher.name();
        if matcher.op() == MatchOp::Equal && seen.insert(name) {
            fixed.insert(name, matcher.value());
        } else {
            fixed.remove(name);
        }
    }
    Labels::from_pairs(fixed).unwrap_or_default()
}

impl Operator for Absent {
    fn series(&self) -> &[Series] {
        &self.series
    }

    fn next(&mut self, points: &mut Points) -> Result<(), QueryError> {
        points.clear(self.steps);
        points.floats_mut().fill(1.0);
        let mut input = Points::default();
        for _ in 0..self.input.series().len() {
            self.input.next(&mut input)?;
            for (step, _) in input.iter() {
                points.remove(step);
            }
        }
        Ok(())
    }
}

/// The single float of a vector as a scalar; NaN if there is none or more than one.
pub(crate) struct Scalar {
    input: BoxOperator,
    series: [Series; 1],
    steps: usize,
}

impl Scalar {
    /// The scalar of `input` at `steps` steps.
    pub(crate) fn new(input: BoxOperator, steps: usize) -> Self {
        Self { input, series: [Series::new(Labels::default())], steps }
    }
}

impl Operator for Scalar {
    fn series(&self) -> &[Series] {
        &self.series
    }

    fn next(&mut self, points: &mut Points) -> Result<(), QueryError> {
        points.clear(self.steps);
        points.floats_mut().fill(f64::NAN);
        let mut found = vec![0_u8; self.steps];
        let mut input = Points::default();
        for _ in 0..self.input.series().len() {
            self.input.next(&mut input)?;
            for (step, value) in input.floats().iter().enumerate().filter(|(_, v)| !is_stale(**v)) {
                let one = found[step] == 0;
                found[step] = found[step].saturating_add(1);
                points.set_float(step, if one { *value } else { f64::NAN });
            }
        }
        Ok(())
    }
}

/// How `sort` and similar functions order the result of an instant query.
pub(crate) enum SortBy {
    /// By value.
    Value(Direction),
    /// By these labels, then by all labels.
    Labels(Vec<String>, Direction),
}

/// The direction of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// The least first.
    Rising,
    /// The greatest first.
    Falling,
}

/// Orders the series of an instant query. The points stay; an order by value drops histograms.
pub(crate) struct Sort {
    input: BoxOperator,
    by: SortBy,
    values: Vec<f64>,
    /// The memory of the values and the order.
    _held: Held,
}

/// Bytes of a value and of its position while values are sorted.
const SORT_BYTES: usize = 4 * size_of::<usize>();

impl Sort {
    /// Sorts `input`.
    pub(crate) fn boxed(
        input: BoxOperator,
        by: SortBy,
        budget: &Arc<Budget>,
    ) -> Result<BoxOperator, QueryError> {
        let mut held = budget.nothing();
        held.take(0, input.series().len() * SORT_BYTES)?;
        Ok(Box::new(Self { input, by, values: Vec::new(), _held: held }))
    }
}

impl Operator for Sort {
    fn series(&self) -> &[Series] {
        self.input.series()
    }

    fn next(&mut self, points: &mut Points) -> Result<(), QueryError> {
        self.input.next(points)?;
        if let SortBy::Value(_) = self.by {
            points.drop_histograms();
            self.values.push(points.floats().first().copied().unwrap_or(f64::NAN));
        }
        Ok(())
    }

    fn order(&self) -> Option<Vec<usize>> {
        let series = self.input.series();
        let mut order: Vec<usize> =
            self.input.order().unwrap_or_else(|| (0..series.len()).collect());
        match &self.by {
            SortBy::Value(direction) => {
                order.sort_by(|&a, &b| by_value(self.values[a], self.values[b], *direction));
            }
            SortBy::Labels(names, direction) => order.sort_by(|&a, &b| {
                let order = by_labels(&series[a].labels, &series[b].labels, names);
                if *direction == Direction::Rising { order } else { order.reverse() }
            }),
        }
        Some(order)
    }
}

/// Orders by value; NaN is last in both directions.
fn by_value(a: f64, b: f64, direction: Direction) -> Ordering {
    match (a.is_nan(), b.is_nan()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) => {
            let order = a.partial_cmp(&b).unwrap_or(Ordering::Equal);
            if direction == Direction::Rising { order } else { order.reverse() }
        }
    }
}

fn by_labels(a: &Labels, b: &Labels, names: &[String]) -> Ordering {
    let by_names = names.iter().map(|name| natural(a.get(name), b.get(name)));
    by_names.fold(Ordering::Equal, Ordering::then).then_with(|| a.cmp(b))
}

/// Compares runs of digits as numbers and everything else as text.
fn natural(a: &str, b: &str) -> Ordering {
    let (mut left, mut right) = (Parts(a), Parts(b));
    loop {
        match (left.next(), right.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some(a), Some(b)) => {
                let order = compare_parts(a, b);
                if order != Ordering::Equal {
                    return order;
                }
            }
        }
    }
}

fn compare_parts(a: &str, b: &str) -> Ordering {
    let is_number = |part: &str| part.starts_with(|c: char| c.is_ascii_digit());
    if is_number(a) && is_number(b) {
        let (x, y) = (a.trim_start_matches('0'), b.trim_start_matches('0'));
        let value = x.len().cmp(&y.len()).then_with(|| x.cmp(y));
        return value.then_with(|| a.len().cmp(&b.len()));
    }
    a.cmp(b)
}

/// Splits a text into runs of digits and runs of other characters.
struct Parts<'a>(&'a str);

impl<'a> Iterator for Parts<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let first = self.0.chars().next()?;
        let kind = first.is_ascii_digit();
        let end = self.0.find(|c: char| c.is_ascii_digit() != kind).unwrap_or(self.0.len());
        let (part, rest) = self.0.split_at(end);
        self.0 = rest;
        Some(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_labels_are_compared_as_numbers() {
        let mut names = ["cpu10", "cpu2", "cpu", "cpu02", "b", "cpu2a"];
        names.sort_by(|a, b| natural(a, b));
        assert_eq!(names, ["b", "cpu", "cpu2", "cpu2a", "cpu02", "cpu10"]);
    }

    #[test]
    fn absent_takes_labels_that_are_fixed_once() {
        let matchers = [
            Matcher::equal("__name__", "m"),
            Matcher::equal("a", "1"),
            Matcher::equal("b", "1"),
            Matcher::equal("b", "2"),
            Matcher::new(MatchOp::NotEqual, "c", "1").expect("valid"),
            Matcher::equal("__type__", "counter"),
        ];
        let want = Labels::from_pairs([("a", "1")]).expect("valid");
        assert_eq!(wanted_labels(&matchers), want);
    }

    #[test]
    fn the_last_matcher_of_a_label_decides() {
        let differs = |name: &str| Matcher::new(MatchOp::NotEqual, name, "").expect("valid");
        let one_of = |name: &str| Matcher::new(MatchOp::Regex, name, "1|2").expect("valid");
        let equal = |name: &str| Matcher::equal(name, "1");
        for (matchers, want) in [
            (vec![differs("a"), equal("a")], &["a"][..]),
            (vec![equal("a"), differs("a")], &[]),
            (vec![one_of("a"), equal("a")], &["a"]),
            (vec![equal("a"), one_of("a")], &[]),
            (vec![equal("a"), equal("a")], &[]),
            (vec![equal("a"), differs("a"), equal("a")], &[]),
            (vec![differs("b"), equal("c"), differs("a"), equal("a")], &["a", "c"]),
            (vec![differs("a"), Matcher::equal("a", "")], &[]),
        ] {
            let want = Labels::from_pairs(want.iter().map(|name| (*name, "1"))).expect("valid");
            assert_eq!(wanted_labels(&matchers), want, "{matchers:?}");
        }
    }
}
