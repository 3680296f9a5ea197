//! Set operators: `and`, `unless`, `or`. Series match by group: at each step, a series matches
//! if any series of its group has a point on the other side.

use super::matching::groups;
use crate::ast::MatchLabels;
use crate::budget::Held;
use crate::context::Context;
use crate::error::QueryError;
use crate::operator::BinaryOp;
use crate::operators::literal::{drain, read_all};
use crate::operators::merged::Merged;
use crate::operators::{BoxOperator, Operator, Series};
use crate::points::Points;
use crate::series_list::SeriesList;

/// `and` and `unless`: the points of the left side that have, or do not have, a match.
pub(crate) struct And {
    left: BoxOperator,
    right: BoxOperator,
    /// Whether the points with a match stay (`and`), or those without (`unless`).
    matched: bool,
    /// The group of each series.
    left_groups: Vec<usize>,
    right_groups: Vec<usize>,
    /// For each group, the steps at which it has a point on the right.
    present: Present,
    position: usize,
}

impl And {
    /// Applies `op` at `steps` steps.
    pub(crate) fn boxed(
        left: BoxOperator,
        right: BoxOperator,
        op: BinaryOp,
        labels: &MatchLabels,
        steps: usize,
        context: &Context,
    ) -> Result<BoxOperator, QueryError> {
        if left.series().is_empty() {
            drain(right)?;
            return Ok(left);
        }
        let (left_groups, right_groups, present) = sides(&left, &right, labels, steps, context)?;
        let matched = op == BinaryOp::And;
        let and = Self { left, right, matched, left_groups, right_groups, present, position: 0 };
        Merged::of(Box::new(and), &context.budget)
    }
}

impl Operator for And {
    fn series(&self) -> &[Series] {
        self.left.series()
    }

    fn next(&mut self, points: &mut Points) -> Result<(), QueryError> {
        if self.position == 0 {
            let groups = &self.right_groups;
            read_all(&mut self.right, |at, points| self.present.mark(groups[at], points))?;
        }
        self.left.next(points)?;
        let present = &self.present.of_groups[self.left_groups[self.position]];
        self.position += 1;
        for step in 0..points.steps() {
            let on_right = present.get(step).copied().unwrap_or(false);
            if on_right != self.matched {
                points.remove(step);
            }
        }
        Ok(())
    }

    fn order(&self) -> Option<Vec<usize>> {
        self.left.order()
    }
}

/// `or`: the left side, and the points of the right side that have no match on the left.
pub(crate) struct Or {
    left: BoxOperator,
    right: BoxOperator,
    series: SeriesList,
    left_groups: Vec<usize>,
    right_groups: Vec<usize>,
    /// For each group, the steps at which it has a point on the left.
    present: Present,
    position: usize,
}

impl Or {
    /// Applies the operator at `steps` steps.
    pub(crate) fn boxed(
        left: BoxOperator,
        right: BoxOperator,
        labels: &MatchLabels,
        steps: usize,
        context: &Context,
    ) -> Result<BoxOperator, QueryError> {
        let (left_groups, right_groups, present) = sides(&left, &right, labels, steps, context)?;
        let places = left.series().len() + right.series().len();
        let mut series = SeriesList::new(places, &context.budget)?;
        let mut both = left.series().iter().chain(right.series()).cloned();
        both.try_for_each(|one| series.push_shared(one))?;
        let or = Self { left, right, series, left_groups, right_groups, present, position: 0 };
        Merged::of(Box::new(or), &context.budget)
    }
}

impl Operator for Or {
    fn series(&self) -> &[Series] {
        &self.series
    }

    fn next(&mut self, points: &mut Points) -> Result<(), QueryError> {
        let position = self.position;
        self.position += 1;
        if let Some(&group) = self.left_groups.get(position) {
            self.left.next(points)?;
            return self.present.mark(group, points);
        }
        self.right.next(points)?;
        let group = self.right_groups[position - self.left_groups.len()];
        let on_left = self.present.of_groups[group].iter().enumerate();
        for (step, _) in on_left.filter(|(_, on_left)| **on_left) {
            points.remove(step);
        }
        Ok(())
    }
}

/// The groups of the series on the left and on the right, and an empty `Present`.
fn sides(
    left: &BoxOperator,
    right: &BoxOperator,
    labels: &MatchLabels,
    steps: usize,
    context: &Context,
) -> Result<(Vec<usize>, Vec<usize>, Present), QueryError> {
    let mut held = context.budget.nothing();
    let groups = groups(left.series(), right.series(), labels, &mut held)?;
    let mut of_left = vec![0; left.series().len()];
    let mut of_right = vec![0; right.series().len()];
    for (at, group) in groups.iter().enumerate() {
        group.left.iter().for_each(|&position| of_left[position] = at);
        group.right.iter().for_each(|&position| of_right[position] = at);
    }
    // The memory reserved for the groups now covers the vectors here.
    let of_groups = vec![Vec::new(); groups.len()];
    Ok((of_left, of_right, Present { of_groups, steps, held }))
}

/// The steps at which each group has a point.
struct Present {
    of_groups: Vec<Vec<bool>>,
    steps: usize,
    held: Held,
}

impl Present {
    fn mark(&mut self, group: usize, points: &Points) -> Result<(), QueryError> {
        let present = &mut self.of_groups[group];
        if present.is_empty() {
            self.held.take(0, self.steps)?;
            present.resize(self.steps, false);
        }
        for (step, _) in points.iter() {
            present[step] = true;
        }
        Ok(())
    }
}
