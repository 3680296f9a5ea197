//! Functions over all series of a vector: `absent`, `scalar`, `sort` and similar functions.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashSet;

use super::literal::{read_all, single};
use super::{BoxOperator, Operator, Series};
use crate::budget::{Budget, Held};
use crate::error::QueryError;
use crate::labelset::is_metadata;
use crate::points::Points;
use promkairos_model::{Labels, MatchOp, Matcher, is_stale};

/// 1 at the steps at which no series of `input` has a point, with the labels of `matchers`, which are the matchers of
/// a selector.
pub(crate) fn absent(mut input: BoxOperator, matchers: &[Matcher], steps: usize) -> BoxOperator {
    let compute = move |points: &mut Points| {
        points.clear(steps);
        points.floats_mut().fill(1.0);
        read_all(&mut input, |_, present| {
            present.iter().for_each(|(step, _)| points.remove(step));
            Ok(())
        })
    };
    single(wanted_labels(matchers), Box::new(compute))
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

/// The single float of a vector as a scalar; NaN if there is none or more than one.
pub(crate) fn scalar(mut input: BoxOperator, steps: usize) -> BoxOperator {
    let compute = move |points: &mut Points| {
        points.clear(steps);
        points.floats_mut().fill(f64::NAN);
        let mut found = vec![false; steps];
        read_all(&mut input, |_, read| {
            for (step, value) in read.floats().iter().enumerate().filter(|(_, v)| !is_stale(**v)) {
                let more = std::mem::replace(&mut found[step], true);
                points.set_float(step, if more { f64::NAN } else { *value });
            }
            Ok(())
        })
    };
    single(Labels::default(), Box::new(compute))
}

/// Orders the series of an instant query. The points stay; an order by value drops histograms.
pub(crate) struct Sort {
    input: BoxOperator,
    /// The labels to sort by, before all labels; `None`: by value.
    labels: Option<Vec<String>>,
    falling: bool,
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
        labels: Option<Vec<String>>,
        falling: bool,
        budget: &Arc<Budget>,
    ) -> Result<BoxOperator, QueryError> {
        let held = budget.hold(0, input.series().len() * SORT_BYTES)?;
        Ok(Box::new(Self { input, labels, falling, values: Vec::new(), _held: held }))
    }
}

impl Operator for Sort {
    fn series(&self) -> &[Series] {
        self.input.series()
    }

    fn next(&mut self, points: &mut Points) -> Result<(), QueryError> {
        self.input.next(points)?;
        if self.labels.is_none() {
            points.drop_histograms();
            self.values.push(points.floats().first().copied().unwrap_or(f64::NAN));
        }
        Ok(())
    }

    fn order(&self) -> Option<Vec<usize>> {
        let series = self.input.series();
        let mut order: Vec<usize> =
            self.input.order().unwrap_or_else(|| (0..series.len()).collect());
        order.sort_by(|&a, &b| match &self.labels {
            None => by_value(self.values[a], self.values[b], self.falling),
            Some(names) => {
                let order = by_labels(&series[a].labels, &series[b].labels, names);
                if self.falling { order.reverse() } else { order }
            }
        });
        Some(order)
    }
}

/// Orders by value; NaN is last in both directions.
pub(crate) fn by_value(a: f64, b: f64, falling: bool) -> Ordering {
    match (a.is_nan(), b.is_nan()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) => {
            let order = a.partial_cmp(&b).unwrap_or(Ordering::Equal);
            if falling { order.reverse() } else { order }
        }
    }
}

fn by_labels(a: &Labels, b: &Labels, names: &[String]) -> Ordering {
    let by_names = names.iter().map(|name| natural(a.get(name), b.get(name)));
    by_names.fold(Ordering::Equal, Ordering::then).then_with(|| a.cmp(b))
}

/// Compares runs of digits as numbers and everything else as text.
fn natural(a: &str, b: &str) -> Ordering {
    let alike = |a: &u8, b: &u8| a.is_ascii_digit() == b.is_ascii_digit();
    let (mut left, mut right) = (a.as_bytes().chunk_by(alike), b.as_bytes().chunk_by(alike));
    loop {
        match (left.next(), right.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some(a), Some(b)) => match compare_parts(a, b) {
                Ordering::Equal => {}
                order => return order,
            },
        }
    }
}

fn compare_parts(a: &[u8], b: &[u8]) -> Ordering {
    if a[0].is_ascii_digit() && b[0].is_ascii_digit() {
        let digits = |part: &[u8]| part.len() - part.iter().take_while(|c| **c == b'0').count();
        let (x, y) = (digits(a), digits(b));
        let value = x.cmp(&y).then_with(|| a[a.len() - x..].cmp(&b[b.len() - y..]));
        return value.then_with(|| a.len().cmp(&b.len()));
    }
    a.cmp(b)
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
