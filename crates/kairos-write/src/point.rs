//! The points that both parsers find: a metric with its tags, and values at times.
//!
//! Texts are slices of the input, unless it has escapes or is not UTF-8. Names of tags are unique in a metric. What
//! a store requires beyond that, such as texts that are not empty, is not checked here.

use std::borrow::Cow;
use std::ops::ControlFlow;

/// Tags of one metric. KairosDB has no limit.
pub const MAX_TAGS: usize = 256;

/// What the points of a metric share.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Metric<'a> {
    /// The name.
    pub name: Cow<'a, str>,
    /// In the order of the input.
    pub tags: Vec<Tag<'a>>,
    /// Seconds that the points are kept; 0: as long as the default says. KairosDB passes negative numbers on too.
    pub ttl: i32,
}

impl Metric<'_> {
    /// Names and values of the tags.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.tags.iter().map(|tag| (&*tag.name, &*tag.value))
    }
}

/// A tag of a metric.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tag<'a> {
    /// The name.
    pub name: Cow<'a, str>,
    /// The value.
    pub value: Cow<'a, str>,
}

/// The value of a point, of one of the types that a stock KairosDB registers.
#[derive(Debug, Clone, PartialEq)]
pub enum Value<'a> {
    /// Type `long`.
    Long(i64),
    /// Type `double`. It may be infinite, or NaN if a client asks for the type.
    Double(f64),
    /// Type `string`.
    String(Cow<'a, str>),
}

/// Takes the points of a body. `Break` ends the parsing.
pub trait Visitor<'a> {
    /// The metric of the points that follow, which are at least one.
    fn metric(&mut self, metric: &Metric<'a>) -> ControlFlow<()>;
    /// A point of the last metric, at a time in milliseconds.
    fn point(&mut self, time: i64, value: Value<'a>) -> ControlFlow<()>;
}
