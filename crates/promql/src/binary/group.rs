//! One group of a join, computed step by step.

use std::collections::HashMap;
use std::sync::Arc;

use super::element::{Operation, outcome};
use super::matching::Group;
use crate::ast::{Cardinality, Matching};
use crate::context::Context;
use crate::error::QueryError;
use crate::points::{KeptPoints, Points, Value, ValueRef};

/// Number of steps of a join after which the query is checked for cancellation and limits.
const STEPS_A_CHECK: usize = 64;

/// The settings of a join, the same for all its groups.
pub(super) struct Sides {
    pub(super) operation: Operation,
    pub(super) matching: Matching,
    /// Whether the side of many is the right side.
    pub(super) swapped: bool,
    /// The value of a missing series of the side of many.
    pub(super) fill_many: Option<f64>,
    /// The value of a missing series of the side of one.
    pub(super) fill_one: Option<f64>,
    pub(super) context: Arc<Context>,
}

/// A group of a join and its results. `left` is the side of many, `right` the side of one.
pub(super) struct Planned {
    pub(super) group: Group,
    /// The class of each series of `group.left` and `group.right`. Series of one class give the same
    /// result labels with any partner.
    pub(super) left: Vec<usize>,
    pub(super) right: Vec<usize>,
    /// For each pair of a class of `left` and a class of `right`, the position of its result among the
    /// results of the group. `None` is a filled side.
    pub(super) results: HashMap<(Option<usize>, Option<usize>), usize>,
    pub(super) count: usize,
}

/// The results of a group.
pub(super) struct Joined {
    pub(super) results: Vec<KeptPoints>,
    /// The steps at which two series of the side of one have points, with the positions of the two.
    pub(super) twice: Vec<(usize, usize, usize)>,
}

impl Sides {
    /// Joins the points of a group.
    pub(super) fn join(
        &self,
        planned: &Planned,
        many: &[KeptPoints],
        one: &[KeptPoints],
        steps: usize,
    ) -> Result<Joined, QueryError> {
        let absent = |_| KeptPoints::absent(steps, &self.context.budget);
        let results: Result<_, QueryError> = (0..planned.count).map(absent).collect();
        let mut joined = Joined { results: results?, twice: Vec::new() };
        if let ([left], [right]) = (many, one)
            && self.is_plain(left, right)
        {
            self.join_floats(left, right, &mut joined.results[0]);
            return Ok(joined);
        }
        for step in 0..steps {
            if step % STEPS_A_CHECK == 0 {
                self.context.check()?;
            }
            self.join_step(planned, many, one, step, &mut joined)?;
        }
        Ok(joined)
    }

    /// Whether the join is one series of floats with one series of floats, without filling or trims.
    fn is_plain(&self, many: &Points, one: &Points) -> bool {
        let filled = self.fill_many.is_some() || self.fill_one.is_some();
        !filled && !many.has_histograms() && !one.has_histograms() && !self.operation.op.is_trim()
    }

    fn join_floats(&self, many: &Points, one: &Points, result: &mut Points) {
        let (left, right) = if self.swapped { (one, many) } else { (many, one) };
        let pairs = left.floats().iter().zip(right.floats());
        for (result, (left, right)) in result.floats_mut().iter_mut().zip(pairs) {
            if promkairos_model::is_stale(*left) || promkairos_model::is_stale(*right) {
                continue;
            }
            let (value, kept) = super::element::float_operation(self.operation.op, *left, *right);
            if let Some(Value::Float(value)) = outcome(&self.operation, Value::Float(value), kept) {
                *result = value;
            }
        }
    }

    fn join_step(
        &self,
        planned: &Planned,
        many: &[KeptPoints],
        one: &[KeptPoints],
        step: usize,
        joined: &mut Joined,
    ) -> Result<(), QueryError> {
        let mut partner: Option<(usize, ValueRef<'_>)> = None;
        for (at, points) in one.iter().enumerate() {
            let Some(value) = points.get(step) else { continue };
            if let Some((first, _)) = partner {
                joined.twice.push((step, at, first));
                return Ok(());
            }
            partner = Some((at, value));
        }
        let one_value = partner.map(|(_, value)| value.to_owned());
        let mut matched: Vec<usize> = Vec::new();
        for (at, points) in many.iter().enumerate() {
            let Some(value) = points.get(step) else { continue };
            let other = match (&one_value, self.fill_one) {
                (Some(value), _) => value.clone(),
                (None, Some(fill)) => Value::Float(fill),
                (None, None) => continue,
            };
            let key = (Some(planned.left[at]), partner.map(|(at, _)| planned.right[at]));
            let result = planned.results[&key];
            self.meet(&value.to_owned(), &other, result, step, &mut matched, joined)?;
        }
        if let (Some((at, _)), Some(value), Some(fill)) = (partner, &one_value, self.fill_many)
            && matched.is_empty()
        {
            let result = planned.results[&(None, Some(planned.right[at]))];
            self.meet(&Value::Float(fill), value, result, step, &mut matched, joined)?;
        }
        Ok(())
    }

    fn meet(
        &self,
        many: &Value,
        one: &Value,
        result: usize,
        step: usize,
        matched: &mut Vec<usize>,
        joined: &mut Joined,
    ) -> Result<(), QueryError> {
        let (lhs, rhs) = if self.swapped { (one, many) } else { (many, one) };
        let Some((value, kept)) = self.operation.apply(lhs, rhs, &self.context) else {
            return Ok(());
        };
        if self.matching.cardinality == Cardinality::OneToOne {
            if !matched.is_empty() {
                return Err(QueryError::execution(
                    "multiple matches for labels: many-to-one matching must be explicit \
                     (group_left/group_right)",
                ));
            }
        } else if matched.contains(&result) {
            return Err(QueryError::execution(
                "multiple matches for labels: grouping labels must ensure unique matches",
            ));
        }
        matched.push(result);
        if let Some(value) = outcome(&self.operation, value, kept) {
            joined.results[result].set(step, value, &self.context.budget)?;
        }
        Ok(())
    }
}
