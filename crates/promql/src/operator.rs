//! Operators and aggregators: their names, and what kind each is.

use std::fmt;

/// An operator between two expressions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BinaryOp {
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `*`
    Mul,
    /// `/`
    Div,
    /// `%`
    Mod,
    /// `^`
    Pow,
    /// `atan2`
    Atan2,
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `</`: keeps the observations of a histogram that are below a number.
    TrimUpper,
    /// `>/`: keeps the observations of a histogram that are above a number.
    TrimLower,
    /// `and`
    And,
    /// `or`
    Or,
    /// `unless`
    Unless,
}

impl BinaryOp {
    /// All operators.
    pub const ALL: [Self; 18] = [
        Self::Add,
        Self::Sub,
        Self::Mul,
        Self::Div,
        Self::Mod,
        Self::Pow,
        Self::Atan2,
        Self::Equal,
        Self::NotEqual,
        Self::Less,
        Self::LessOrEqual,
        Self::Greater,
        Self::GreaterOrEqual,
        Self::TrimUpper,
        Self::TrimLower,
        Self::And,
        Self::Or,
        Self::Unless,
    ];

    /// The text of the operator.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Sub => "-",
            Self::Mul => "*",
            Self::Div => "/",
            Self::Mod => "%",
            Self::Pow => "^",
            Self::Atan2 => "atan2",
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::TrimUpper => "</",
            Self::TrimLower => ">/",
            Self::And => "and",
            Self::Or => "or",
            Self::Unless => "unless",
        }
    }

    /// The precedence; higher binds tighter. Only `^` is right-associative.
    pub const fn precedence(self) -> u8 {
        match self {
            Self::Or => 1,
            Self::And | Self::Unless => 2,
            Self::Equal
            | Self::NotEqual
            | Self::Less
            | Self::LessOrEqual
            | Self::Greater
            | Self::GreaterOrEqual
            | Self::TrimUpper
            | Self::TrimLower => 3,
            Self::Add | Self::Sub => 4,
            Self::Mul | Self::Div | Self::Mod | Self::Atan2 => 5,
            Self::Pow => 6,
        }
    }

    /// `==`, `!=`, `<`, `<=`, `>`, `>=`
    pub const fn is_comparison(self) -> bool {
        use BinaryOp::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
        matches!(self, Equal | NotEqual | Less | LessOrEqual | Greater | GreaterOrEqual)
    }

    /// `and`, `or`, `unless`
    pub const fn is_set(self) -> bool {
        matches!(self, Self::And | Self::Or | Self::Unless)
    }

    /// `</`, `>/`
    pub const fn is_trim(self) -> bool {
        matches!(self, Self::TrimUpper | Self::TrimLower)
    }
}

impl fmt::Display for BinaryOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// `+` or `-` before an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sign {
    /// `+`
    Plus,
    /// `-`
    Minus,
}

impl fmt::Display for Sign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plus => "+",
            Self::Minus => "-",
        })
    }
}

/// An aggregation operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "named as in PromQL")]
pub enum Aggregator {
    Avg,
    BottomK,
    Count,
    CountValues,
    Group,
    LimitK,
    LimitRatio,
    Max,
    Min,
    Quantile,
    Stddev,
    Stdvar,
    Sum,
    TopK,
}

impl Aggregator {
    /// All aggregators.
    pub const ALL: [Self; 14] = [
        Self::Avg,
        Self::BottomK,
        Self::Count,
        Self::CountValues,
        Self::Group,
        Self::LimitK,
        Self::LimitRatio,
        Self::Max,
        Self::Min,
        Self::Quantile,
        Self::Stddev,
        Self::Stdvar,
        Self::Sum,
        Self::TopK,
    ];

    /// Its name in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Avg => "avg",
            Self::BottomK => "bottomk",
            Self::Count => "count",
            Self::CountValues => "count_values",
            Self::Group => "group",
            Self::LimitK => "limitk",
            Self::LimitRatio => "limit_ratio",
            Self::Max => "max",
            Self::Min => "min",
            Self::Quantile => "quantile",
            Self::Stddev => "stddev",
            Self::Stdvar => "stdvar",
            Self::Sum => "sum",
            Self::TopK => "topk",
        }
    }

    /// Whether it takes a parameter before the vector.
    pub const fn has_param(self) -> bool {
        use Aggregator::{BottomK, CountValues, LimitK, LimitRatio, Quantile, TopK};
        matches!(self, TopK | BottomK | CountValues | Quantile | LimitK | LimitRatio)
    }

    /// Whether it needs the experimental features.
    pub const fn is_experimental(self) -> bool {
        matches!(self, Self::LimitK | Self::LimitRatio)
    }
}

impl fmt::Display for Aggregator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
