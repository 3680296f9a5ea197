//! Operators and aggregators: their names, and what kind each is.

use super::named_enum::named_enum;

named_enum! {
    /// An operator between two expressions.
    #[expect(missing_docs, reason = "the names say it")]
    pub enum BinaryOp {
        Add = "+",
        Sub = "-",
        Mul = "*",
        Div = "/",
        Mod = "%",
        Pow = "^",
        Atan2 = "atan2",
        Equal = "==",
        NotEqual = "!=",
        Less = "<",
        LessOrEqual = "<=",
        Greater = ">",
        GreaterOrEqual = ">=",
        /// Keeps the observations of a histogram that are below a number.
        TrimUpper = "</",
        /// Keeps the observations of a histogram that are above a number.
        TrimLower = ">/",
        And = "and",
        Or = "or",
        Unless = "unless",
    }
}

impl BinaryOp {
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

named_enum! {
    /// `+` or `-` before an expression.
    #[expect(missing_docs, reason = "the names say it")]
    pub enum Sign {
        Plus = "+",
        Minus = "-",
    }
}

named_enum! {
    /// An aggregation operator.
    #[expect(missing_docs, reason = "named as in PromQL")]
    pub enum Aggregator {
        Avg = "avg",
        BottomK = "bottomk",
        Count = "count",
        CountValues = "count_values",
        Group = "group",
        LimitK = "limitk",
        LimitRatio = "limit_ratio",
        Max = "max",
        Min = "min",
        Quantile = "quantile",
        Stddev = "stddev",
        Stdvar = "stdvar",
        Sum = "sum",
        TopK = "topk",
    }
}

impl Aggregator {
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
