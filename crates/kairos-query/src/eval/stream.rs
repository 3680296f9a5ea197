//! What aggregators are to each other: streams of points that are pulled, and what one evaluation counts.

use crate::error::QueryError;
use crate::limits::{Limits, exceeded};
use crate::meter::Meter;
use crate::plan::SaveAs;
use crate::point::{Point, Tags};

/// Points after which the caller is called.
const AT_ONCE: u32 = 64;

/// Points in the order of the query.
pub(crate) trait Stream {
    /// The next point.
    fn next(&mut self, context: &mut Context<'_>) -> Result<Option<Point>, QueryError>;

    /// Reads what is left of the stored points, so that they are counted.
    fn read_rest(&mut self, context: &mut Context<'_>) -> Result<(), QueryError>;
}

/// The points that an aggregator takes.
pub(crate) type Input<'a> = Box<dyn Stream + 'a>;

/// Points to save, of one group.
#[derive(Debug, Clone, PartialEq)]
pub struct Saved {
    /// The metric.
    pub metric_name: String,
    /// The tags.
    pub tags: Tags,
    /// Seconds until the points expire, 0 if they do not.
    pub ttl: i32,
    /// The points, which are never null.
    pub points: Vec<Point>,
}

/// What an evaluation of a metric counts and keeps.
pub(crate) struct Context<'a> {
    limits: &'a Limits,
    meter: Meter<'a>,
    gaps: u64,
    in_memory: u64,
    answer_bytes: usize,
    /// Bytes of groups.
    group_bytes: usize,
    passed: u32,
    /// Points that were read.
    pub(crate) samples: u64,
    /// Points to save.
    pub(crate) saved: Vec<Saved>,
}

impl<'a> Context<'a> {
    pub(crate) fn new(limits: &'a Limits, meter: Meter<'a>) -> Self {
        Self {
            limits,
            meter,
            gaps: 0,
            in_memory: 0,
            answer_bytes: 0,
            group_bytes: 0,
            passed: 0,
            samples: 0,
            saved: Vec::new(),
        }
    }

    /// The meter, and the points to save.
    pub(crate) fn end(self) -> (Meter<'a>, Vec<Saved>) {
        (self.meter, self.saved)
    }

    /// Counts the bytes of the whole answer.
    pub(crate) fn count_answer(&mut self, bytes: usize) -> Result<(), QueryError> {
        self.answer_bytes = bytes;
        let limit = self.limits.max_answer_bytes;
        match bytes > limit {
            true => Err(exceeded("bytes of the answer", limit as u64, "max_answer_bytes")),
            false => self.count_memory(),
        }
    }

    /// Counts more bytes of groups, until the evaluation ends.
    pub(crate) fn count_group(&mut self, bytes: usize) -> Result<(), QueryError> {
        self.group_bytes = self.group_bytes.saturating_add(bytes);
        self.count_memory()
    }

    /// A point enters the aggregators, or one of them makes it. However few points leave them, the caller is called.
    pub(crate) fn pass(&mut self) -> Result<(), QueryError> {
        self.passed = (self.passed + 1) % AT_ONCE;
        if self.passed == 0 { self.meter.check() } else { Ok(()) }
    }

    fn count_memory(&mut self) -> Result<(), QueryError> {
        let points = (self.in_memory as usize).saturating_mul(size_of::<Point>());
        self.meter.cover(self.answer_bytes.saturating_add(self.group_bytes).saturating_add(points))
    }

    /// Makes a place for points to save.
    pub(super) fn save(&mut self, save_as: &SaveAs, tags: Tags) -> usize {
        let metric_name = save_as.metric_name.clone();
        self.saved.push(Saved { metric_name, tags, ttl: save_as.ttl, points: Vec::new() });
        self.saved.len() - 1
    }

    /// Counts an empty range.
    pub(super) fn count_gap(&mut self) -> Result<(), QueryError> {
        self.gaps += 1;
        match self.gaps > self.limits.max_gaps {
            true => Err(exceeded("gaps", self.limits.max_gaps, "max_gaps")),
            false => self.pass(),
        }
    }

    /// Counts a point that stays in memory.
    pub(super) fn hold(&mut self) -> Result<(), QueryError> {
        self.in_memory += 1;
        let limit = self.limits.max_points_in_memory;
        match self.in_memory > limit {
            true => Err(exceeded("points in memory", limit, "max_points_in_memory")),
            false => self.count_memory(),
        }
    }

    /// Points left the memory.
    pub(super) fn release(&mut self, points: usize) {
        self.in_memory = self.in_memory.saturating_sub(points as u64);
    }

    /// Checks the number of groups.
    pub(super) fn check_groups(&self, groups: usize) -> Result<(), QueryError> {
        Limits::check(groups, self.limits.max_groups, "groups", "max_groups")
    }
}

/// A stream whose next point can be looked at.
pub(super) struct Peeked<'a> {
    input: Input<'a>,
    /// `None` before the first look, then the next point or the end.
    next: Option<Option<Point>>,
}

impl<'a> Peeked<'a> {
    pub(super) fn new(input: Input<'a>) -> Self {
        Self { input, next: None }
    }

    pub(super) fn peek(&mut self, context: &mut Context<'_>) -> Result<Option<&Point>, QueryError> {
        if self.next.is_none() {
            self.next = Some(self.input.next(context)?);
        }
        Ok(self.next.as_ref().and_then(Option::as_ref))
    }
}

impl Stream for Peeked<'_> {
    fn next(&mut self, context: &mut Context<'_>) -> Result<Option<Point>, QueryError> {
        match self.next.take() {
            Some(None) => {
                self.next = Some(None);
                Ok(None)
            }
            Some(point) => Ok(point),
            None => self.input.next(context),
        }
    }

    fn read_rest(&mut self, context: &mut Context<'_>) -> Result<(), QueryError> {
        self.input.read_rest(context)
    }
}
