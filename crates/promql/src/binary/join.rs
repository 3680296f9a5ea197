//! Operators between two vectors. Series are matched by labels: one to one, or many to one.
//!
//! Groups of series that can match are found from the label sets. A group is computed as soon as
//! all its series were read; only series of incomplete groups are kept. Whether a match is allowed
//! is decided at each step: two series of one group are allowed if they never have points at the
//! same step.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use super::element::Operation;
use super::group::{Joined, Planned, Sides};
use super::matching::{Group, groups, match_labels, result_labels};
use crate::ast::{Cardinality, Comparison, Matching};
use crate::budget::Held;
use crate::context::Context;
use crate::error::QueryError;
use crate::labelset::keep;
use crate::operators::buffered::Buffered;
use crate::operators::merged::Merged;
use crate::operators::{BoxOperator, Operator, Series};
use crate::points::{KeptPoints, Points};
use crate::series_list::{SeriesList, made_bytes};
use crate::strings::quoted;
use promkairos_model::Labels;

/// Bytes of a pair of classes, and of a label set in a map.
const PAIR_BYTES: usize = 96;

/// Number of pairs in planning after which the query is checked for cancellation and limits.
const PAIRS_A_CHECK: usize = 256;

/// Joins two vectors. Several series of `many` may match one series of `one`. With one-to-one
/// matching, `many` is the left side.
pub(crate) struct Join {
    many: Buffered,
    one: Buffered,
    groups: VecDeque<Planned>,
    series: SeriesList,
    sides: Arc<Sides>,
    steps: usize,
    ready: VecDeque<KeptPoints>,
    /// The memory of `groups`.
    _planned: Held,
    /// Steps at which a group has points of two series on the side of one, and the positions of the
    /// two. It is an error if the other side has any point at such a step.
    twice: BTreeMap<usize, (usize, usize)>,
}

impl Join {
    /// Joins `left` and `right` at `steps` steps.
    pub(crate) fn boxed(
        left: BoxOperator,
        right: BoxOperator,
        operation: Operation,
        matching: &Matching,
        steps: usize,
        context: &Arc<Context>,
    ) -> Result<BoxOperator, QueryError> {
        let swapped = matching.cardinality == Cardinality::OneToMany;
        let (many, one) = if swapped { (right, left) } else { (left, right) };
        let (fill_many, fill_one) = match swapped {
            true => (matching.fill_right, matching.fill_left),
            false => (matching.fill_left, matching.fill_right),
        };
        let sides = Sides {
            operation,
            matching: matching.clone(),
            swapped,
            fill_many,
            fill_one,
            context: Arc::clone(context),
        };
        let (mut planned, mut held) = (Vec::new(), context.budget.nothing());
        let mut series = SeriesList::new(0, &context.budget)?;
        for group in groups(many.series(), one.series(), &matching.labels, &mut held)? {
            let both = (many.series(), one.series());
            planned.push(sides.plan(group, both, &mut series, &mut held)?);
        }
        let mut wanted_many = vec![false; many.series().len()];
        let mut wanted_one = vec![false; one.series().len()];
        planned.retain(|planned| planned.count > 0 || planned.group.right.len() > 1);
        for planned in &planned {
            planned.group.left.iter().for_each(|&position| wanted_many[position] = true);
            planned.group.right.iter().for_each(|&position| wanted_one[position] = true);
        }
        let mut join = Self {
            many: Buffered::new(many, wanted_many, &context.budget),
            one: Buffered::new(one, wanted_one, &context.budget),
            groups: planned.into(),
            series,
            sides: Arc::new(sides),
            steps,
            ready: VecDeque::new(),
            _planned: held,
            twice: BTreeMap::new(),
        };
        join.many.watch(steps);
        if join.series.is_empty() {
            join.finish()?;
        }
        Merged::of(Box::new(join), &context.budget)
    }

    /// Computes the next group.
    fn advance(&mut self) -> Result<(), QueryError> {
        let Some(planned) = self.groups.pop_front() else { return Ok(()) };
        let take = |side: &mut Buffered, positions: &[usize]| {
            positions.iter().map(|&position| side.take(position)).collect::<Result<Vec<_>, _>>()
        };
        let many = take(&mut self.many, &planned.group.left)?;
        let one = take(&mut self.one, &planned.group.right)?;
        let joined = self.sides.join(&planned, &many, &one, self.steps)?;
        let Joined { results, twice } = joined;
        for (step, first, second) in twice {
            let right = &planned.group.right;
            self.twice.entry(step).or_insert((right[first], right[second]));
        }
        self.ready.extend(results);
        Ok(())
    }

    /// Reads the rest of both sides, then fails if two series on the side of one were an error.
    fn finish(&mut self) -> Result<(), QueryError> {
        while !self.groups.is_empty() {
            self.advance()?;
        }
        self.many.finish()?;
        self.one.finish()?;
        let filled = self.sides.fill_many.is_some() || self.sides.fill_one.is_some();
        let present = self.many.present();
        let mut twice = self.twice.iter();
        let Some((_, &(first, second))) = twice.find(|(step, _)| filled || present[**step]) else {
            return Ok(());
        };
        let labels = |at: usize| &self.one.series()[at].labels;
        Err(QueryError::Execution(self.sides.duplicate(labels(first), labels(second))))
    }
}

impl Operator for Join {
    fn series(&self) -> &[Series] {
        &self.series
    }

    fn next(&mut self, points: &mut Points) -> Result<(), QueryError> {
        while self.ready.is_empty() {
            self.advance()?;
        }
        *points = self.ready.pop_front().map(KeptPoints::into_points).unwrap_or_default();
        if self.ready.is_empty() && self.groups.iter().all(|planned| planned.count == 0) {
            self.finish()?;
        }
        Ok(())
    }
}

impl Sides {
    /// Plans the results of a group, and adds them to `series`.
    fn plan(
        &self,
        group: Group,
        (many, one): (&[Series], &[Series]),
        series: &mut SeriesList,
        held: &mut Held,
    ) -> Result<Planned, QueryError> {
        let boolean = self.operation.comparison == Comparison::Bool;
        let at_once = boolean && !self.context.delays_names();
        let drops = self.operation.drops_name() || at_once;
        let none = Labels::default();
        let base =
            |&position: &usize| result_labels(&many[position].labels, &none, &self.matching, drops);
        let given = |&position: &usize| keep(&one[position].labels, &self.matching.include);
        let (left, of_left) = classes(&group.left, base, held)?;
        let (right, of_right) = classes(&group.right, given, held)?;
        let first = series.len();
        let mut known: HashMap<Labels, usize> = HashMap::new();
        let mut results = HashMap::new();
        let mut add = |key, many: &Labels, one: &Labels| {
            if results.len() % PAIRS_A_CHECK == 0 {
                self.context.check()?;
            }
            let labels = result_labels(many, one, &self.matching, drops);
            held.take(0, PAIR_BYTES)?;
            let at = *known.entry(labels.clone()).or_insert(series.len() - first);
            if at == series.len() - first {
                series.push_made(Series { labels, drop_name: boolean })?;
            }
            results.insert(key, at);
            Ok::<(), QueryError>(())
        };
        let alone = |labels: &Labels| match_labels(labels, &self.matching.labels);
        for (i, &at) in of_left.iter().enumerate() {
            let many = &many[group.left[at]].labels;
            for (j, &at) in of_right.iter().enumerate() {
                add((Some(i), Some(j)), many, &one[group.right[at]].labels)?;
            }
            if self.fill_one.is_some() {
                // All series of a group have the same labels of the match.
                add((Some(i), None), many, &alone(many))?;
            }
        }
        if self.fill_many.is_some() {
            for (j, &at) in of_right.iter().enumerate() {
                let one = &one[group.right[at]].labels;
                add((None, Some(j)), &alone(one), one)?;
            }
        }
        let count = series.len() - first;
        Ok(Planned { group, left, right, results, count })
    }

    /// The text of the error for two matching series on the side of one.
    fn duplicate(&self, first: &Labels, second: &Labels) -> String {
        let side = if self.swapped { "left" } else { "right" };
        let mut both = [show(first), show(second)];
        both.sort();
        let group = show(&match_labels(first, &self.matching.labels));
        format!(
            "found duplicate series for the match group {group} on the {side} hand-side of the \
             operation: [{}, {}];many-to-many matching not allowed: matching labels must be \
             unique on one side",
            both[0], both[1]
        )
    }
}

/// The class of each position, and the first position of each class.
fn classes(
    positions: &[usize],
    of: impl Fn(&usize) -> Labels,
    held: &mut Held,
) -> Result<(Vec<usize>, Vec<usize>), QueryError> {
    if positions.len() == 1 {
        return Ok((vec![0], vec![0]));
    }
    let (mut known, mut firsts) = (HashMap::new(), Vec::new());
    let (mut of_labels, mut bytes) = (held.another(), 0);
    held.take(0, positions.len() * 2 * size_of::<usize>())?;
    let mut all = Vec::with_capacity(positions.len());
    for (at, position) in positions.iter().enumerate() {
        let labels = of(position);
        let label_bytes = made_bytes(&labels);
        let class = *known.entry(labels).or_insert(firsts.len());
        if class == firsts.len() {
            firsts.push(at);
            bytes += label_bytes + PAIR_BYTES;
            of_labels.cover(bytes)?;
        }
        all.push(class);
    }
    Ok((all, firsts))
}

/// A label set as error texts print it.
fn show(labels: &Labels) -> String {
    let pairs = labels.iter().map(|(name, value)| {
        let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            && !name.starts_with(|c: char| c.is_ascii_digit());
        let name = if plain { name.to_owned() } else { quoted(name) };
        format!("{name}={}", quoted(value))
    });
    format!("{{{}}}", pairs.collect::<Vec<_>>().join(", "))
}
