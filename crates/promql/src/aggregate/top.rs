//! `topk` and `bottomk`: for each group and step, the series with the greatest or least floats.
//!
//! A heap for each group and step keeps the candidates. Among equal values it chooses as
//! Prometheus does.

use std::collections::VecDeque;
use std::sync::Arc;

use super::fold::tell_ignored;
use super::grouping::Groups;
use crate::budget::Held;
use crate::context::Context;
use crate::error::QueryError;
use crate::operator::Aggregator;
use crate::operators::vector::by_value;
use crate::operators::{BoxOperator, Operator, Series};
use crate::plan::Aggregate;
use crate::points::Points;
use crate::position::Span;
use crate::series_list::SeriesList;
use crate::steps::Steps;
use promkairos_model::is_stale;

/// A float and the position of its series.
type Candidate = (f64, usize);

/// Selects the series with the greatest or least floats.
pub(super) struct Top {
    input: BoxOperator,
    groups: Groups,
    op: Aggregator,
    span: Span,
    /// The number of series to select, by step.
    most: Vec<usize>,
    steps: Steps,
    /// The candidates by group and step.
    heaps: Vec<Vec<Vec<Candidate>>>,
    held: Vec<Held>,
    /// The series of each group.
    members: Vec<Vec<usize>>,
    series: SeriesList,
    read: usize,
    given: usize,
    /// The points of the series of the last group, by step.
    ready: VecDeque<Vec<(usize, f64)>>,
    /// For each group of an instant query its candidates in order, as positions in `series`.
    ordered: Vec<Vec<usize>>,
    context: Arc<Context>,
    /// The memory of `members`, `ready` and `ordered`; the memory of candidates is in `held`.
    _held: Held,
}

/// Bytes of a series in a group: its position as a member, in the order, and its list of points.
const MEMBER_BYTES: usize = 4 * size_of::<usize>() + size_of::<Vec<(usize, f64)>>();
/// Bytes of a group.
const GROUP_BYTES: usize = 4 * size_of::<Vec<usize>>();
/// Bytes of a candidate, and of the point that is made of it.
const CANDIDATE_BYTES: usize = 2 * size_of::<Candidate>();

impl Top {
    pub(super) fn new(
        node: &Aggregate,
        input: BoxOperator,
        groups: Groups,
        most: Vec<usize>,
        steps: Steps,
        context: &Arc<Context>,
    ) -> Result<Self, QueryError> {
        let mut series = SeriesList::new(input.series().len(), &context.budget)?;
        let of_members = context
            .budget
            .hold(0, input.series().len() * MEMBER_BYTES + groups.len() * GROUP_BYTES)?;
        let mut members = vec![Vec::new(); groups.len()];
        for (position, &group) in groups.of_series.iter().enumerate() {
            members[group].push(position);
        }
        for &position in members.iter().flatten() {
            series.push_shared(input.series()[position].clone())?;
        }
        let heaps = vec![Vec::new(); groups.len()];
        let held = (0..groups.len()).map(|_| context.budget.nothing()).collect();
        Ok(Self {
            input,
            op: node.op,
            span: node.span,
            most,
            steps,
            heaps,
            held,
            members,
            series,
            read: 0,
            given: 0,
            ready: VecDeque::new(),
            ordered: vec![Vec::new(); groups.len()],
            groups,
            context: Arc::clone(context),
            _held: of_members,
        })
    }

    fn read_one(&mut self) -> Result<(), QueryError> {
        let mut points = Points::default();
        self.input.next(&mut points)?;
        let (position, group) = (self.read, self.groups.of_series[self.read]);
        self.read += 1;
        tell_ignored(&points, self.op, self.span, &self.context);
        let heaps = &mut self.heaps[group];
        if heaps.is_empty() {
            let steps = self.most.len();
            self.held[group].take(0, steps * size_of::<Vec<Candidate>>())?;
            heaps.resize(steps, Vec::new());
        }
        let mut grown = 0;
        for (step, value) in points.floats().iter().enumerate().filter(|(_, v)| !is_stale(**v)) {
            let heap = &mut heaps[step];
            if heap.len() < self.most[step] {
                heap.push((*value, position));
                up(heap, self.op);
                grown += 1;
            } else if let Some(worst) = heap.first_mut()
                && (worse(self.op, worst.0, *value) || worst.0.is_nan() && !value.is_nan())
            {
                *worst = (*value, position);
                down(heap, self.op);
            }
        }
        self.held[group].take(grown, grown * CANDIDATE_BYTES)
    }

    /// Turns the heaps of a group into the points of its series.
    fn finish_group(&mut self, group: usize) {
        let members = &self.members[group];
        let first = self.series_before(group);
        let mut results = vec![Vec::new(); members.len()];
        for (step, heap) in std::mem::take(&mut self.heaps[group]).into_iter().enumerate() {
            let mut heap = heap;
            if self.steps.is_instant() {
                heap.sort_by(|a, b| by_value(a.0, b.0, self.op == Aggregator::TopK));
            }
            for (value, position) in heap {
                // Members are sorted by position.
                let at = members.partition_point(|&member| member < position);
                results[at].push((step, value));
                if self.steps.is_instant() {
                    self.ordered[group].push(first + at);
                }
            }
        }
        self.ready.extend(results);
    }

    fn series_before(&self, group: usize) -> usize {
        self.members[..group].iter().map(Vec::len).sum()
    }
}

impl Operator for Top {
    fn series(&self) -> &[Series] {
        &self.series
    }

    fn next(&mut self, points: &mut Points) -> Result<(), QueryError> {
        while self.ready.is_empty() {
            if let Some(last) = self.given.checked_sub(1) {
                self.held[last].release();
            }
            while self.read <= self.groups.last[self.given] {
                self.read_one()?;
            }
            self.finish_group(self.given);
            self.given += 1;
        }
        points.clear(self.most.len());
        for (step, value) in self.ready.pop_front().unwrap_or_default() {
            points.set_float(step, value);
        }
        Ok(())
    }

    fn order(&self) -> Option<Vec<usize>> {
        if !self.steps.is_instant() {
            return None;
        }
        let mut groups: Vec<usize> = (0..self.members.len()).collect();
        groups.sort_by_key(|&group| self.members[group].first().copied());
        Some(groups.into_iter().flat_map(|group| self.ordered[group].iter().copied()).collect())
    }
}

/// Whether `b` replaces `a`.
fn worse(op: Aggregator, a: f64, b: f64) -> bool {
    if op == Aggregator::TopK { a < b } else { a > b }
}

/// Whether `a` is nearer to the top of the heap than `b`; the worst candidate is at the top.
fn less(op: Aggregator, a: f64, b: f64) -> bool {
    a.is_nan() || worse(op, a, b)
}

/// Moves the last candidate up to its place.
fn up(heap: &mut [Candidate], op: Aggregator) {
    let mut at = heap.len() - 1;
    while at > 0 {
        let parent = (at - 1) / 2;
        if !less(op, heap[at].0, heap[parent].0) {
            break;
        }
        heap.swap(at, parent);
        at = parent;
    }
}

/// Moves the first candidate down to its place.
fn down(heap: &mut [Candidate], op: Aggregator) {
    let mut at = 0;
    loop {
        let left = 2 * at + 1;
        if left >= heap.len() {
            return;
        }
        let right = left + 1;
        let child =
            if right < heap.len() && less(op, heap[right].0, heap[left].0) { right } else { left };
        if !less(op, heap[child].0, heap[at].0) {
            return;
        }
        heap.swap(at, child);
        at = child;
    }
}
