//! Series of a group in one order: by time, then by value, then as they came.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use super::stream::{Context, Stream};
use crate::error::QueryError;
use crate::java_text::compare_doubles;
use crate::plan::Order;
use crate::point::{Point, Series};

/// A series that has points.
pub(super) struct Source<'a> {
    pub(super) series: Series<'a>,
    first: Point,
    /// How many points may follow the first.
    left: u64,
}

impl<'a> Source<'a> {
    /// `None` if the series is empty.
    pub(super) fn open(
        mut series: Series<'a>,
        limit: Option<u64>,
    ) -> Result<Option<Self>, QueryError> {
        let first = series.points.next().transpose()?;
        let left = limit.map_or(u64::MAX, |limit| limit.saturating_sub(1));
        Ok(first.map(|first| Self { series, first, left }))
    }
}

/// Points of several series.
pub(super) struct Merge<'a> {
    heads: BinaryHeap<Head<'a>>,
}

/// A series, and its next point.
struct Head<'a> {
    point: Point,
    /// The value, for the order of points of one time.
    double: f64,
    place: usize,
    order: Order,
    source: Source<'a>,
}

impl<'a> Merge<'a> {
    pub(super) fn new(sources: Vec<Source<'a>>, order: Order) -> Result<Self, QueryError> {
        let head = |(place, source): (usize, Source<'a>)| {
            let point = source.first.clone();
            Ok(Head { double: point.value.double()?, point, place, order, source })
        };
        Ok(Self { heads: sources.into_iter().enumerate().map(head).collect::<Result<_, _>>()? })
    }
}

impl Stream for Merge<'_> {
    fn next(&mut self, context: &mut Context<'_>) -> Result<Option<Point>, QueryError> {
        let Some(mut head) = self.heads.peek_mut() else { return Ok(None) };
        context.samples += 1;
        context.pass()?;
        let next = match head.source.left {
            0 => None,
            _ => head.source.series.points.next().transpose()?,
        };
        let Some(next) = next else { return Ok(Some(PeekMut::pop(head).point)) };
        head.source.left -= 1;
        head.double = next.value.double()?;
        Ok(Some(std::mem::replace(&mut head.point, next)))
    }

    fn read_rest(&mut self, context: &mut Context<'_>) -> Result<(), QueryError> {
        for mut head in std::mem::take(&mut self.heads) {
            context.samples += 1;
            let left = usize::try_from(head.source.left).unwrap_or(usize::MAX);
            for point in head.source.series.points.by_ref().take(left) {
                point?;
                context.samples += 1;
            }
        }
        Ok(())
    }
}

impl Ord for Head<'_> {
    /// The greatest is next.
    fn cmp(&self, other: &Self) -> Ordering {
        let by_time = self.point.time.cmp(&other.point.time);
        let order = by_time
            .then_with(|| compare_doubles(self.double, other.double))
            .then_with(|| self.place.cmp(&other.place));
        match self.order {
            Order::Ascending => order.reverse(),
            Order::Descending => order,
        }
    }
}

impl PartialOrd for Head<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Head<'_> {}
