//! Marks ranges of time without points with a null, from the start of the query to its end or now.
//!
//! The number of marks is limited, so a range of many years costs no more than the limit.

use super::stream::{Context, Input, Peeked, Stream};
use crate::error::QueryError;
use crate::plan::Range;
use crate::point::{Point, Value};
use crate::time;

pub(super) struct Gaps<'a> {
    input: Peeked<'a>,
    range: &'a Range,
    /// Where the next range begins, or an instant in it.
    next: i64,
    is_started: bool,
    /// The end of a range whose points are passed.
    passing: Option<i64>,
}

impl<'a> Gaps<'a> {
    pub(super) fn new(input: Input<'a>, range: &'a Range) -> Self {
        let next = if range.trim { range.start } else { range.query_start };
        Self { input: Peeked::new(input), range, next, is_started: false, passing: None }
    }
}

impl Stream for Gaps<'_> {
    fn next(&mut self, context: &mut Context<'_>) -> Result<Option<Point>, QueryError> {
        let range = self.range;
        loop {
            let time = self.input.peek(context)?.map(|point| point.time);
            if let Some(end) = self.passing {
                if time.is_some_and(|time| time < end) {
                    return self.input.next(context);
                }
                self.passing = None;
            }
            if time.is_none() && (range.trim || self.next > range.query_end) {
                return Ok(None);
            }
            let at = match time {
                Some(time) if range.trim && !self.is_started => time,
                _ => self.next,
            };
            self.is_started = true;
            let (start, end) = time::ranges(range.sampling, &range.zone, range.start, at);
            if end == i64::MAX && time.is_some() {
                // Nothing is beyond it.
                return self.input.next(context);
            }
            self.next = end.max(at.saturating_add(1));
            if time.is_some_and(|time| time < end) {
                self.passing = Some(end);
                continue;
            }
            context.count_gap()?;
            return Ok(Some(Point { time: start, value: Value::Null }));
        }
    }

    fn read_rest(&mut self, context: &mut Context<'_>) -> Result<(), QueryError> {
        self.input.read_rest(context)
    }
}
