//! The syntax tree of an expression.
//!
//! Every node has its span in the text. The parser returns only checked trees: arguments have the
//! types of the signature, a selector has a matcher that does not match the empty string (except
//! the labels of `info`), and [`Binary::matching`] is `Some` exactly between two instant vectors.
//! The engine evaluates trees and the printer writes them as text; neither is here.

use super::named_enum::named_enum;
use super::names::Names;
use super::operator::{Aggregator, BinaryOp, Sign};
use super::position::Span;
use super::signature::Function;
use super::value_type::ValueType;
use promkairos_model::Matcher;

pub use super::duration::{Duration, DurationExpr, DurationForm, DurationOp};
pub use super::numbers::{Notation, Number};

/// An expression.
#[derive(Debug, Clone, PartialEq)]
pub enum Expr {
    /// `1`, `0x1F`, `5m`
    Number(Number),
    /// `"text"`
    String(StringLiteral),
    /// `name{label="value"}`
    Selector(VectorSelector),
    /// `name[5m]`
    Matrix(MatrixSelector),
    /// `expression[5m:1m]`
    Subquery(Subquery),
    /// `function(arguments)`
    Call(Call),
    /// `sum by (label) (expression)`
    Aggregate(Aggregate),
    /// `left + right`
    Binary(Binary),
    /// `-expression`
    Unary(Unary),
    /// `(expression)`
    Paren(Paren),
}

/// A string, without quotes and escapes.
#[derive(Debug, Clone, PartialEq)]
pub struct StringLiteral {
    /// The text; bytes that are not UTF-8 are replaced by U+FFFD.
    pub value: String,
    /// All bytes, if they are not UTF-8. Such a string cannot name a label.
    pub not_utf8: Option<Vec<u8>>,
    /// The span in the text.
    pub span: Span,
}

/// Selects the newest point of each series.
#[derive(Debug, Clone, PartialEq)]
pub struct VectorSelector {
    /// The name before the braces, if any.
    pub name: Option<String>,
    /// All matchers in the order of the text; the matcher of [`Self::name`] is the last.
    pub matchers: Vec<Matcher>,
    /// `@` and `offset`. Inside a [`MatrixSelector`] they belong to the window.
    pub when: When,
    /// `anchored` or `smoothed`. Inside a [`MatrixSelector`] it belongs to the window.
    pub edges: Option<Edges>,
    /// Which names are printed without quotes.
    pub names: Names,
    /// The span in the text.
    pub span: Span,
}

/// How a selector moves its evaluation time: `@` sets it, then the offset is subtracted.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct When {
    /// `@ 1700000000`, `@ start()`, `@ end()`
    pub at: Option<At>,
    /// `offset 5m`; `None` for a literal 0.
    pub offset: Option<Duration>,
}

/// The time that `@` sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// Milliseconds since 1970.
    Time(i64),
    /// `start()`: the first time of the query.
    Start,
    /// `end()`: the last time of the query.
    End,
}

named_enum! {
    /// The values at the edges of a window, which otherwise holds only the points inside it.
    pub enum Edges {
        /// Values at both edges, taken from the points before them.
        Anchored = "anchored",
        /// Values at both edges, interpolated.
        Smoothed = "smoothed",
    }
}

/// Selects the points of each series in a window.
#[derive(Debug, Clone, PartialEq)]
pub struct MatrixSelector {
    /// The series, the time, and the values at the edges of the window.
    pub selector: VectorSelector,
    /// Length of the window.
    pub range: Duration,
    /// The span in the text.
    pub span: Span,
}

/// Evaluates an expression at many times.
#[derive(Debug, Clone, PartialEq)]
pub struct Subquery {
    /// The expression, which gives an instant vector.
    pub expr: Box<Expr>,
    /// Length of the window.
    pub range: Duration,
    /// Distance between two times; `None` for the default of the server.
    pub step: Option<Duration>,
    /// When the window ends.
    pub when: When,
    /// The span in the text.
    pub span: Span,
}

/// Calls a function.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// The function.
    pub function: Function,
    /// The arguments; their number and types fit the function.
    pub args: Vec<Expr>,
    /// The span in the text.
    pub span: Span,
}

/// Aggregates the series of a vector by group.
#[derive(Debug, Clone, PartialEq)]
pub struct Aggregate {
    /// The aggregator.
    pub op: Aggregator,
    /// `k`, the quantile or the label; `Some` for the aggregators that take a parameter.
    pub param: Option<Box<Expr>>,
    /// The vector.
    pub expr: Box<Expr>,
    /// Which series are in one group.
    pub grouping: Grouping,
    /// Which names are printed without quotes.
    pub names: Names,
    /// The span in the text.
    pub span: Span,
}

/// Which series of a vector are in one group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Grouping {
    /// Series with equal values of these labels; all series if the list is empty.
    By(Vec<String>),
    /// Series with equal values of all labels except these and the metric name.
    Without(Vec<String>),
}

/// An operator between two expressions.
#[derive(Debug, Clone, PartialEq)]
pub struct Binary {
    /// The operator.
    pub op: BinaryOp,
    /// The left side.
    pub lhs: Box<Expr>,
    /// The right side.
    pub rhs: Box<Expr>,
    /// Which series are paired; `Some` exactly if both sides are instant vectors.
    pub matching: Option<Matching>,
    /// What a comparison returns.
    pub comparison: Comparison,
    /// The span in the text.
    pub span: Span,
}

/// What a comparison returns. All other operators have `Filter`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// The left side where the comparison is true.
    Filter,
    /// `bool`: 1 where the comparison is true, 0 elsewhere.
    Bool,
}

/// How the series of two vectors are paired.
#[derive(Debug, Clone, PartialEq)]
pub struct Matching {
    /// How many series of one side may be paired with one series of the other.
    pub cardinality: Cardinality,
    /// The labels whose values must be equal.
    pub labels: MatchLabels,
    /// Labels that the result takes from the "one" side.
    pub include: Vec<String>,
    /// The value of a series that is missing on the left side.
    pub fill_left: Option<f64>,
    /// The value of a series that is missing on the right side.
    pub fill_right: Option<f64>,
    /// Which names are printed without quotes.
    pub names: Names,
}

/// How many series of one side may be paired with one series of the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cardinality {
    /// One to one.
    OneToOne,
    /// `group_left`: many on the left.
    ManyToOne,
    /// `group_right`: many on the right.
    OneToMany,
    /// `and`, `or`, `unless`
    ManyToMany,
}

/// The labels whose values must be equal in two paired series.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MatchLabels {
    /// These.
    On(Vec<String>),
    /// All except these and the metric name.
    Ignoring(Vec<String>),
}

/// A sign before an expression. A sign before a number belongs to the number.
#[derive(Debug, Clone, PartialEq)]
pub struct Unary {
    /// The sign.
    pub sign: Sign,
    /// A scalar or an instant vector.
    pub expr: Box<Expr>,
    /// The span in the text.
    pub span: Span,
}

/// An expression in parentheses.
#[derive(Debug, Clone, PartialEq)]
pub struct Paren {
    /// What is inside.
    pub expr: Box<Expr>,
    /// The span in the text, with the parentheses.
    pub span: Span,
}

impl Expr {
    /// The span in the text.
    pub fn span(&self) -> Span {
        match self {
            Self::Number(node) => node.span,
            Self::String(node) => node.span,
            Self::Selector(node) => node.span,
            Self::Matrix(node) => node.span,
            Self::Subquery(node) => node.span,
            Self::Call(node) => node.span,
            Self::Aggregate(node) => node.span,
            Self::Binary(node) => node.span,
            Self::Unary(node) => node.span,
            Self::Paren(node) => node.span,
        }
    }

    /// The type of its value.
    pub fn value_type(&self) -> ValueType {
        match self {
            Self::Number(_) => ValueType::Scalar,
            Self::String(_) => ValueType::String,
            Self::Selector(_) | Self::Aggregate(_) => ValueType::Vector,
            Self::Matrix(_) | Self::Subquery(_) => ValueType::Matrix,
            Self::Call(call) => call.function.signature().returns,
            Self::Binary(binary) => {
                let sides = (binary.lhs.value_type(), binary.rhs.value_type());
                let scalars = sides == (ValueType::Scalar, ValueType::Scalar);
                if scalars { ValueType::Scalar } else { ValueType::Vector }
            }
            Self::Unary(unary) => unary.expr.value_type(),
            Self::Paren(paren) => paren.expr.value_type(),
        }
    }

    /// The child expressions; the parameter of an aggregation comes before its vector.
    pub fn children(&self) -> Vec<&Self> {
        match self {
            Self::Number(_) | Self::String(_) | Self::Selector(_) | Self::Matrix(_) => Vec::new(),
            Self::Subquery(node) => vec![&*node.expr],
            Self::Call(node) => node.args.iter().collect(),
            Self::Aggregate(node) => node.param.iter().chain([&node.expr]).map(|e| &**e).collect(),
            Self::Binary(node) => vec![&*node.lhs, &*node.rhs],
            Self::Unary(node) => vec![&*node.expr],
            Self::Paren(node) => vec![&*node.expr],
        }
    }

    /// The expression itself, without parentheses around it.
    pub fn without_parens(&self) -> &Self {
        let mut expr = self;
        while let Self::Paren(paren) = expr {
            expr = &paren.expr;
        }
        expr
    }
}
