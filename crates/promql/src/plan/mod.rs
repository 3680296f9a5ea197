//! The plan of a query: a checked tree made ready for evaluation.
//!
//! Lengths of time are numbers here, `@ start()` and its kin are times, functions of the query's
//! own times are constants, and parts whose value is the same at all steps stand under
//! [`Node::Once`]. What is read from the store is a list of selections; equal ones are one.
//! A plan reads nothing and knows no data.

mod invariance;
mod planner;
mod selection;
mod shared_lookup;

use super::ast::{Comparison, Edges, Grouping, Matching, StringLiteral};
use super::histogram::FloatHistogram;
use super::operator::{Aggregator, BinaryOp};
use super::position::Span;
use super::signature::Function;
use super::steps::Steps;
use promkairos_model::{Matcher, TimeRange};

pub(crate) use planner::{Query, plan};
pub(crate) use selection::{Requested, SelectionId, Selections};

/// What is evaluated, and what has to be selected for it.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The expression.
    pub root: Node,
    /// Its selections.
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
    /// A function of one step.
    Call(Call),
    /// Groups of series folded.
    Aggregate(Aggregate),
    /// An operator between two operands.
    Binary(Binary),
    /// The sign changed.
    Negate(Box<Node>),
    /// Evaluated at the first step alone; the points hold at all steps.
    Once(Box<Node>),
}

/// When a selector or a subquery looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lookup {
    /// The time for all steps, when it is fixed.
    pub at: Option<i64>,
    /// Milliseconds that it looks back from there.
    pub offset: i64,
}

impl Lookup {
    /// Where it looks at the step with this time.
    pub(crate) fn time(&self, step: i64) -> i64 {
        self.at.unwrap_or(step).saturating_sub(self.offset)
    }

    /// The steps moved to where it looks; one when the time is fixed.
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
    /// What it reads.
    pub selection: SelectionId,
    /// The times that it reads of it.
    pub reach: TimeRange,
    /// The conditions, for functions that ask for them.
    pub matchers: Vec<Matcher>,
    /// When it looks.
    pub lookup: Lookup,
    /// Interpolates between the points around the time.
    pub smoothed: bool,
    /// What its histograms say of resets.
    pub hints: ResetHints,
    /// Its place.
    pub span: Span,
}

/// The points of each series in a window that ends where it looks.
#[derive(Debug)]
pub(crate) struct Range {
    /// Where the points come from.
    pub source: Source,
    /// When it looks.
    pub lookup: Lookup,
    /// Length of the window in milliseconds.
    pub range: i64,
    /// What the window holds at its edges.
    pub edges: Option<Edges>,
    /// What its histograms say of resets.
    pub hints: ResetHints,
}

/// What histograms say of counter resets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResetHints {
    /// What was stored.
    AsStored,
    /// What is found on reading, of which only counts and sums are asked for.
    Found,
}

impl ResetHints {
    /// How many samples a histogram counts for: Prometheus does not read buckets that nobody asks for.
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
        /// What is read.
        selection: SelectionId,
        /// The times that are read of it.
        reach: TimeRange,
        /// The conditions, for functions that ask for them.
        matchers: Vec<Matcher>,
    },
    /// An expression evaluated at steps of its own.
    Subquery {
        /// The expression.
        node: Box<Node>,
        /// Its steps.
        steps: Steps,
    },
}

/// A function and its arguments.
#[derive(Debug)]
pub(crate) struct Call {
    /// Which.
    pub function: Function,
    /// The arguments.
    pub args: Vec<Argument>,
    /// The place of the call.
    pub span: Span,
}

/// An argument.
#[derive(Debug)]
pub(crate) struct Argument {
    /// What it is.
    pub node: Node,
    /// Its place.
    pub span: Span,
}

/// Groups of series folded.
#[derive(Debug)]
pub(crate) struct Aggregate {
    /// How.
    pub op: Aggregator,
    /// `k`, the quantile or the label.
    pub param: Option<Box<Argument>>,
    /// What is folded.
    pub input: Box<Argument>,
    /// Which series are one group; the labels are sorted.
    pub grouping: Grouping,
    /// Its place.
    pub span: Span,
}

/// An operator between two operands.
#[derive(Debug)]
pub(crate) struct Binary {
    /// Which.
    pub op: BinaryOp,
    /// Left of it.
    pub lhs: Operand,
    /// Right of it.
    pub rhs: Operand,
    /// Which series meet; there exactly when both are vectors.
    pub matching: Option<Matching>,
    /// What a comparison gives.
    pub comparison: Comparison,
    /// Its place.
    pub span: Span,
}

/// A side of an operator.
#[derive(Debug)]
pub(crate) struct Operand {
    /// What it is.
    pub node: Box<Node>,
    /// Whether it is one number a step, without series.
    pub scalar: bool,
}
