//! Durations: literals, and expressions over them.
//!
//! A literal has its value at once. An expression may use the step and the range of the query, so
//! it gets its value when a query runs: [`Duration::resolve`]. Values are seconds while they are
//! computed, and whole milliseconds afterwards.

use super::named_enum::named_enum;
use super::numbers::Number;
use super::operator::Sign;
use super::position::Span;

/// A duration in the text of a query.
#[derive(Debug, Clone, PartialEq)]
pub enum Duration {
    /// `5m`, `300`
    Literal(Number),
    /// `5m + step()`
    Expr(Box<DurationExpr>),
}

/// A duration that is computed.
#[derive(Debug, Clone, PartialEq)]
pub struct DurationExpr {
    /// The operation.
    pub form: DurationForm,
    /// Whether it is in parentheses.
    pub wrapped: bool,
    /// The span in the text, without the parentheses.
    pub span: Span,
}

/// How a duration is computed.
#[derive(Debug, Clone, PartialEq)]
pub enum DurationForm {
    /// `step()`: the step of the query; 0 for an instant query.
    Step,
    /// `range()`: from the first time of the query to the last.
    Range,
    /// `min_of(a, b)`
    MinOf(Duration, Duration),
    /// `max_of(a, b)`
    MaxOf(Duration, Duration),
    /// `-a`, or `+a` for a function after `offset`. A literal in parentheses has a plus too, which
    /// is not printed.
    Signed(Sign, Duration),
    /// `a + b`
    Arithmetic(DurationOp, Duration, Duration),
}

named_enum! {
    /// An operator between durations.
    #[expect(missing_docs, reason = "the names say it")]
    pub enum DurationOp {
        Add = "+",
        Sub = "-",
        Mul = "*",
        Div = "/",
        Mod = "%",
        Pow = "^",
    }
}

impl DurationOp {
    /// The precedence; higher binds tighter. Only `^` is right-associative.
    pub const fn precedence(self) -> u8 {
        match self {
            Self::Add | Self::Sub => 1,
            Self::Mul | Self::Div | Self::Mod => 2,
            Self::Pow => 3,
        }
    }
}

/// The times of a query that duration expressions use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueryTimes {
    /// The step in milliseconds; 0 for an instant query.
    pub step: i64,
    /// Milliseconds from the first time to the last.
    pub range: i64,
}

/// Which durations are valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allowed {
    /// Ranges and steps.
    Positive,
    /// Offsets.
    Any,
}

/// An invalid duration. Texts begin with its span in bytes: the first, from 0, and the one after
/// the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// NaN or infinite.
    #[error("{}:{}: duration is NaN or infinite", .0.start, .0.end)]
    NotFinite(Span),
    /// 0 or less where a positive duration is required.
    #[error("{}:{}: duration must be greater than 0", .0.start, .0.end)]
    NotPositive(Span),
    /// More than 292 years.
    #[error("{}:{}: duration is out of range", .0.start, .0.end)]
    OutOfRange(Span),
    /// The right side is 0.
    #[error("{}:{}: division by zero", .0.start, .0.end)]
    DivisionByZero(Span),
    /// The right side is 0.
    #[error("{}:{}: modulo by zero", .0.start, .0.end)]
    ModuloByZero(Span),
}

/// The longest duration in seconds, positive or negative: 2^63 nanoseconds.
const MAX_SECONDS: f64 = (1_u64 << 63) as f64 / 1e9;

/// Whether a duration in seconds is longer than the longest one.
pub(crate) fn out_of_range(seconds: f64) -> bool {
    !(-MAX_SECONDS..=MAX_SECONDS).contains(&seconds)
}

impl Duration {
    /// The span in the text.
    pub fn span(&self) -> Span {
        match self {
            Self::Literal(number) => number.span,
            Self::Expr(expr) => expr.span,
        }
    }

    /// A literal in milliseconds, rounded to nanoseconds and then truncated. `None` for an
    /// expression.
    pub fn literal_millis(&self) -> Option<i64> {
        match self {
            Self::Literal(number) => Some((number.value * 1e9).round() as i64 / 1_000_000),
            Self::Expr(_) => None,
        }
    }

    /// Whether it is a literal that rounds to 0 nanoseconds.
    pub(crate) fn is_literal_zero(&self) -> bool {
        matches!(self, Self::Literal(number) if (number.value * 1e9).round() == 0.0)
    }

    /// The value in milliseconds, in a query with these times.
    pub fn resolve(&self, times: QueryTimes, allowed: Allowed) -> Result<i64, DurationError> {
        if let Some(millis) = self.literal_millis() {
            return Ok(millis);
        }
        let seconds = self.seconds(times)?;
        if !seconds.is_finite() {
            return Err(DurationError::NotFinite(self.span()));
        }
        if seconds <= 0.0 && allowed == Allowed::Positive {
            return Err(DurationError::NotPositive(self.span()));
        }
        if out_of_range(seconds) {
            return Err(DurationError::OutOfRange(self.span()));
        }
        Ok((seconds * 1000.0) as i64)
    }

    fn seconds(&self, times: QueryTimes) -> Result<f64, DurationError> {
        let expr = match self {
            Self::Literal(number) => return Ok(number.value),
            Self::Expr(expr) => expr,
        };
        Ok(match &expr.form {
            DurationForm::Step => times.step as f64 / 1000.0,
            DurationForm::Range => times.range as f64 / 1000.0,
            DurationForm::MinOf(a, b) => a.seconds(times)?.min(b.seconds(times)?),
            DurationForm::MaxOf(a, b) => a.seconds(times)?.max(b.seconds(times)?),
            DurationForm::Signed(Sign::Plus, a) => a.seconds(times)?,
            DurationForm::Signed(Sign::Minus, a) => -a.seconds(times)?,
            DurationForm::Arithmetic(op, a, b) => {
                let (a, b) = (a.seconds(times)?, b.seconds(times)?);
                match op {
                    DurationOp::Add => a + b,
                    DurationOp::Sub => a - b,
                    DurationOp::Mul => a * b,
                    DurationOp::Div if b == 0.0 => {
                        return Err(DurationError::DivisionByZero(expr.span));
                    }
                    DurationOp::Mod if b == 0.0 => {
                        return Err(DurationError::ModuloByZero(expr.span));
                    }
                    DurationOp::Div => a / b,
                    DurationOp::Mod => a % b,
                    DurationOp::Pow => a.powf(b),
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::ast::Expr;
    use super::super::{Features, parse};
    use super::*;

    /// Resolves the range of `a[…]` in a query with a step of 15 s over 1 h.
    fn range(text: &str) -> Result<i64, String> {
        let query = format!("a[{text}]");
        let Ok(Expr::Matrix(matrix)) = parse(&query, Features::Stable) else { panic!("{query}") };
        let times = QueryTimes { step: 15_000, range: 3_600_000 };
        matrix.range.resolve(times, Allowed::Positive).map_err(|error| error.to_string())
    }

    #[test]
    fn values() {
        let check = |text: &str, want: i64| assert_eq!(range(text), Ok(want), "{text}");
        check("5m", 300_000);
        check("1.0016", 1_001);
        check("1m + step() * 2", 90_000);
        check("range() / 7", 514_285);
        check("-(-5m)", 300_000);
        check("2 ^ 3 ^ 2", 512_000);
        check("7m % 4m - 1m", 120_000);
        check("max_of(min_of(1m, 2m), step())", 60_000);
        check("(5)", 5_000);
    }

    #[test]
    fn what_cannot_be() {
        let check = |text: &str, want: &str| assert_eq!(range(text), Err(want.into()), "{text}");
        check("5m - 10m", "2:10: duration must be greater than 0");
        check("(5m - 10m)", "3:11: duration must be greater than 0");
        check("1m / (step() - 15s)", "2:20: division by zero");
        check("1m % (0)", "2:9: modulo by zero");
        check("1e9 * 1e9", "2:11: duration is out of range");
        check("10 ^ 1e9", "2:10: duration is NaN or infinite");
    }

    #[test]
    fn an_offset_may_go_forwards() {
        let query = "a offset -(step() * 2)";
        let Ok(Expr::Selector(selector)) = parse(query, Features::Stable) else { panic!() };
        let offset = selector.when.offset.expect("an offset");
        let times = QueryTimes { step: 15_000, range: 0 };
        assert_eq!(offset.resolve(times, Allowed::Any), Ok(-30_000));
    }
}
