//! One value for each range of time that has points.
//!
//! A range takes the points before its end, at least one. In descending order that is all of them, as in KairosDB.

use super::fold::State;
use super::stream::{Context, Input, Peeked, Stream};
use crate::error::QueryError;
use crate::plan::Range;
use crate::point::Point;
use crate::time;

pub(super) struct Ranges<'a> {
    input: Peeked<'a>,
    range: &'a Range,
    /// The second of two results of a range.
    pending: Option<Point>,
}

impl<'a> Ranges<'a> {
    pub(super) fn new(input: Input<'a>, range: &'a Range) -> Self {
        Self { input: Peeked::new(input), range, pending: None }
    }
}

impl Stream for Ranges<'_> {
    fn next(&mut self, context: &mut Context<'_>) -> Result<Option<Point>, QueryError> {
        if let Some(point) = self.pending.take() {
            return Ok(Some(point));
        }
        let Some(first) = self.input.next(context)? else { return Ok(None) };
        let range = self.range;
        let (start, end) = time::ranges(range.sampling, &range.zone, range.start, first.time);
        let time = match (range.align_start_time, range.align_end_time) {
            (true, _) => start,
            (false, true) => end,
            (false, false) => first.time,
        };
        let mut state = State::new(&range.fold);
        state.add(first, context)?;
        while self.input.peek(context)?.is_some_and(|point| point.time < end) {
            if let Some(point) = self.input.next(context)? {
                state.add(point, context)?;
            }
        }
        let is_aligned = range.align_start_time || range.align_end_time;
        let (result, second) = state.finish(&range.fold, time, is_aligned, context);
        self.pending = second;
        Ok(Some(result))
    }

    fn read_rest(&mut self, context: &mut Context<'_>) -> Result<(), QueryError> {
        self.input.read_rest(context)
    }
}
