//! The nodes of a plan.

use super::selection::{SelectionId, Selections};
use crate::ast::{Comparison, Edges, Grouping, Matching, StringLiteral};
use crate::histogram::FloatHistogram;
use crate::operator::{Aggregator, BinaryOp};
use crate::position::Span;
use crate::signature::Function;
use crate::steps::Steps;
use promkairos_model::{Matcher, TimeRange};

/// An expression, and what has to be selected for it.
#[derive(Debug)]
pub(crate) struct Plan {
    pub root: Node,
    pub selections: Selections,
}

/// One operation.
#[derive(Debug)]
pub(crate) enum Node {
    /// A number at every step.
    Number(f64),
    /// A string: an argument of a function, or a whole query.
    String(StringLiteral),
    /// The newest point of each series.
    Selector(Selector),
    /// The points of each series in a window: a whole query, or the argument of a function.
    Range(Range),
    /// Conditions on labels: the second argument of `info`.
    Matchers(Vec<Matcher>),
    /// A call of a function.
    Call(Call),
    /// An aggregation.
    Aggregate(Aggregate),
    /// An operator between two operands.
    Binary(Binary),
    /// The negated value.
    Negate(Box<Node>),
    /// Evaluated at the first step only; the points are used at all steps.
    Once(Box<Node>),
}

/// The evaluation time of a selector or a subquery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lookup {
    /// The time that `@` sets for all steps.
    pub at: Option<i64>,
    /// Milliseconds that are subtracted from the time.
    pub offset: i64,
}

impl Lookup {
    /// The evaluation time for the step at this time.
    pub(crate) fn time(&self, step: i64) -> i64 {
        self.at.unwrap_or(step).saturating_sub(self.offset)
    }

    /// The evaluation times for these steps; one time if `@` sets it.
    pub(crate) fn steps(&self, steps: Steps) -> Steps {
        match self.at {
            Some(_) => Steps::instant(self.time(0)),
            None => {
                let start = steps.start.saturating_sub(self.offset);
                Steps { start, end: steps.end.saturating_sub(self.offset), ..steps }
            }
        }
    }
}

/// Selects the newest point of each series.
#[derive(Debug)]
pub(crate) struct Selector {
    /// The selection that it reads.
    pub selection: SelectionId,
    /// The times that it reads from the selection.
    pub reach: TimeRange,
    /// The matchers, for functions that need them.
    pub matchers: Vec<Matcher>,
    /// The evaluation time.
    pub lookup: Lookup,
    /// Whether it interpolates between the points around the time.
    pub smoothed: bool,
    /// The reset hints of its histograms.
    pub hints: ResetHints,
    pub span: Span,
}

/// The points of each series in a window that ends at the evaluation time.
#[derive(Debug)]
pub(crate) struct Range {
    /// Where the points come from.
    pub source: Source,
    /// The evaluation time.
    pub lookup: Lookup,
    /// Length of the window in milliseconds.
    pub range: i64,
    /// The values at the edges of the window.
    pub edges: Option<Edges>,
    /// The reset hints of its histograms.
    pub hints: ResetHints,
}

/// Where the counter reset hints of histograms come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResetHints {
    /// They are stored.
    AsStored,
    /// They are found on reading; only counts and sums of the histograms are used.
    Found,
}

impl ResetHints {
    /// How many samples a histogram counts for. Prometheus does not read buckets that are not used.
    pub(crate) fn samples(self, histogram: &FloatHistogram) -> usize {
        match self {
            Self::AsStored => histogram.samples(),
            Self::Found => FloatHistogram::samples_of_totals(),
        }
    }
}

/// Where the points of a window come from.
#[derive(Debug)]
pub(crate) enum Source {
    /// The store.
    Selection {
        /// The selection that is read.
        selection: SelectionId,
        /// The times that are read from the selection.
        reach: TimeRange,
        /// The matchers, for functions that need them.
        matchers: Vec<Matcher>,
    },
    /// An expression evaluated at steps of its own.
    Subquery { node: Box<Node>, steps: Steps },
}

/// A function and its arguments.
#[derive(Debug)]
pub(crate) struct Call {
    pub function: Function,
    pub args: Vec<Argument>,
    pub span: Span,
}

/// An argument.
#[derive(Debug)]
pub(crate) struct Argument {
    pub node: Node,
    pub span: Span,
}

/// An aggregation.
#[derive(Debug)]
pub(crate) struct Aggregate {
    pub op: Aggregator,
    /// `k`, the quantile or the label.
    pub param: Option<Box<Argument>>,
    pub input: Box<Argument>,
    /// Which series are one group; the labels are sorted.
    pub grouping: Grouping,
    pub span: Span,
}

/// An operator between two operands.
#[derive(Debug)]
pub(crate) struct Binary {
    pub op: BinaryOp,
    pub lhs: Operand,
    pub rhs: Operand,
    /// Which series are paired; `Some` exactly if both sides are vectors.
    pub matching: Option<Matching>,
    pub comparison: Comparison,
    pub span: Span,
}

/// A side of an operator.
#[derive(Debug)]
pub(crate) struct Operand {
    pub node: Box<Node>,
    /// Whether it is one number per step, without series.
    pub scalar: bool,
}
