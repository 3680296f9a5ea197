//! The tree of an expression.
//!
//! Every node knows its place in the text. A tree that the parser gives is checked: arguments have
//! the types that their functions want, selectors have a matcher that does not match everything,
//! and [`Binary::matching`] is there exactly between two instant vectors.
//! Not here: what a tree means, which is the engine's, and how it is printed.

use super::names::Names;
use super::operator::{Aggregator, BinaryOp, Sign};
use super::position::Span;
use super::signature::Function;
use super::value_type::ValueType;
use promkairos_model::Matcher;

pub use super::duration::{Duration, DurationExpr, DurationForm, DurationOp};

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

/// A number; a duration is a number of seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Number {
    /// Its value.
    pub value: f64,
    /// How it was written.
    pub notation: Notation,
    /// Its place.
    pub span: Span,
}

impl Number {
    /// The number with a sign before it; `span` is the place of both.
    pub(crate) fn signed(self, sign: Sign, span: Span) -> Self {
        let value = if sign == Sign::Minus { -self.value } else { self.value };
        Self { value, span, ..self }
    }
}

/// How a number was written, and is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notation {
    /// `300`
    Plain,
    /// `5m`
    Duration,
}

/// A string, without quotes and escapes.
#[derive(Debug, Clone, PartialEq)]
pub struct StringLiteral {
    /// The text; what is not UTF-8 stands as U+FFFD.
    pub value: String,
    /// All bytes, if they are not UTF-8: then it is no label's name.
    pub not_utf8: Option<Vec<u8>>,
    /// Its place.
    pub span: Span,
}

/// Selects the newest point of each series.
#[derive(Debug, Clone, PartialEq)]
pub struct VectorSelector {
    /// The name before the braces, if any.
    pub name: Option<String>,
    /// All conditions in the order of the text; that of [`Self::name`] comes last.
    pub matchers: Vec<Matcher>,
    /// When it looks. Of the selector inside a [`MatrixSelector`], the window's.
    pub when: When,
    /// `anchored` or `smoothed`. Of the selector inside a [`MatrixSelector`], the window's.
    pub edges: Option<Edges>,
    /// Which names are printed without quotes.
    pub names: Names,
    /// Its place.
    pub span: Span,
}

/// How a selector moves the time that it looks at: `@` first, then the offset back.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct When {
    /// `@ 1700000000`, `@ start()`, `@ end()`
    pub at: Option<At>,
    /// `offset 5m`; none when it is a literal 0.
    pub offset: Option<Duration>,
}

/// The time that `@` fixes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// Milliseconds since 1970.
    Time(i64),
    /// `start()`: the first time of the query.
    Start,
    /// `end()`: the last time of the query.
    End,
}

/// What a window holds at its edges, in place of only the points inside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edges {
    /// `anchored`: values at both edges, taken from the points before them.
    Anchored,
    /// `smoothed`: values at both edges, interpolated.
    Smoothed,
}

/// Selects the points of each series in a window.
#[derive(Debug, Clone, PartialEq)]
pub struct MatrixSelector {
    /// Which series, when, and what is done at the edges of the window.
    pub selector: VectorSelector,
    /// Length of the window.
    pub range: Duration,
    /// Its place.
    pub span: Span,
}

/// Evaluates an expression at many times.
#[derive(Debug, Clone, PartialEq)]
pub struct Subquery {
    /// What is evaluated: an instant vector.
    pub expr: Box<Expr>,
    /// Length of the window.
    pub range: Duration,
    /// Distance of the times; none for the server's default.
    pub step: Option<Duration>,
    /// When the window ends.
    pub when: When,
    /// Its place.
    pub span: Span,
}

/// Calls a function.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// Which.
    pub function: Function,
    /// As many as the function takes; the types fit.
    pub args: Vec<Expr>,
    /// Its place.
    pub span: Span,
}

/// Folds the series of a vector into groups.
#[derive(Debug, Clone, PartialEq)]
pub struct Aggregate {
    /// How.
    pub op: Aggregator,
    /// `k`, the quantile or the label; there for the aggregators that want one.
    pub param: Option<Box<Expr>>,
    /// What is folded.
    pub expr: Box<Expr>,
    /// Which series are in one group.
    pub grouping: Grouping,
    /// Which names are printed without quotes.
    pub names: Names,
    /// Its place.
    pub span: Span,
}

/// Which series of a vector are in one group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Grouping {
    /// Those that agree in these labels; without any label, all.
    By(Vec<String>),
    /// Those that agree in all other labels but the metric's name.
    Without(Vec<String>),
}

/// An operator between two expressions.
#[derive(Debug, Clone, PartialEq)]
pub struct Binary {
    /// Which.
    pub op: BinaryOp,
    /// Left of it.
    pub lhs: Box<Expr>,
    /// Right of it.
    pub rhs: Box<Expr>,
    /// Which series meet; there exactly when both sides are instant vectors.
    pub matching: Option<Matching>,
    /// What a comparison gives.
    pub comparison: Comparison,
    /// Its place.
    pub span: Span,
}

/// What a comparison gives; other operators have `Filter`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// The left side where it is true.
    Filter,
    /// `bool`: 1 where it is true and 0 elsewhere.
    Bool,
}

/// Which series of two vectors meet.
#[derive(Debug, Clone, PartialEq)]
pub struct Matching {
    /// How many of one side may meet one of the other.
    pub cardinality: Cardinality,
    /// The labels in which they must agree.
    pub labels: MatchLabels,
    /// Labels that the result takes from the side of which there is one.
    pub include: Vec<String>,
    /// What stands for a series that is not there on the left side.
    pub fill_left: Option<f64>,
    /// What stands for a series that is not there on the right side.
    pub fill_right: Option<f64>,
    /// Which names are printed without quotes.
    pub names: Names,
}

/// How many series of one side may meet one of the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cardinality {
    /// One and one.
    OneToOne,
    /// `group_left`: many on the left.
    ManyToOne,
    /// `group_right`: many on the right.
    OneToMany,
    /// `and`, `or`, `unless`
    ManyToMany,
}

/// The labels in which two series must agree to meet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MatchLabels {
    /// These.
    On(Vec<String>),
    /// All but these and the metric's name.
    Ignoring(Vec<String>),
}

/// A sign before an expression. A sign before a number belongs to the number.
#[derive(Debug, Clone, PartialEq)]
pub struct Unary {
    /// Which.
    pub sign: Sign,
    /// A scalar or an instant vector.
    pub expr: Box<Expr>,
    /// Its place.
    pub span: Span,
}

/// An expression in parentheses.
#[derive(Debug, Clone, PartialEq)]
pub struct Paren {
    /// What is inside.
    pub expr: Box<Expr>,
    /// Its place, with the parentheses.
    pub span: Span,
}

impl Edges {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Anchored => "anchored",
            Self::Smoothed => "smoothed",
        }
    }
}

impl Expr {
    /// Its place in the text.
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

    /// What it gives.
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

    /// The expressions directly inside, the parameter of an aggregation before what it folds.
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
