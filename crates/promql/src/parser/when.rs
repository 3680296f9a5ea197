//! `offset 5m` and `@ 1700000000`: the evaluation time of a selector or a subquery.
//!
//! Each occurs at most once, and only after a selector or a subquery. An offset that is an
//! expression gets its value when the query runs.

use super::super::ast::{At, Expr, When};
use super::super::operator::Sign;
use super::super::token::{Kind, QueryTime};
use super::{Context, Parsed, Parser};
use crate::format::fixed;

const OFFSET: Context = Context::new("offset", "number, duration, step(), or range()");
const AT: Context = Context::new("@", "timestamp");

impl Parser<'_> {
    pub(super) fn offset(&mut self, mut expr: Box<Expr>) -> Parsed<Box<Expr>> {
        self.advance()?;
        let offset = self.duration_within(OFFSET, Self::offset_duration)?;
        let span = expr.span();
        let (when, end) = self.when_of(&mut expr, "offset")?;
        if when.offset.is_some() {
            return Err(self.error(span, "offset may not be set multiple times"));
        }
        *end = self.last_end;
        when.offset = Some(offset).filter(|offset| !offset.is_literal_zero());
        Ok(expr)
    }

    pub(super) fn at(&mut self, mut expr: Box<Expr>) -> Parsed<Box<Expr>> {
        self.advance()?;
        let span = expr.span();
        let at = match self.within(AT, Self::fixed_time)? {
            Ok(at) => at,
            Err(seconds) => {
                let seconds =
                    if seconds.is_finite() { format!("{seconds:.6}") } else { fixed(seconds) };
                let message = format!("timestamp out of bounds for @ modifier: {seconds}");
                return Err(self.error(span, message));
            }
        };
        let (when, end) = self.when_of(&mut expr, "@")?;
        if when.at.is_some() {
            return Err(self.error(span, "@ <timestamp> may not be set multiple times"));
        }
        *end = self.last_end;
        when.at = Some(at);
        Ok(expr)
    }

    /// The `@` and `offset` of an expression, and its end in the text. Fails if it cannot have the modifier.
    fn when_of<'e>(
        &self,
        expr: &'e mut Expr,
        modifier: &str,
    ) -> Parsed<(&'e mut When, &'e mut usize)> {
        let span = expr.span();
        match expr {
            Expr::Selector(node) => Ok((&mut node.when, &mut node.span.end)),
            Expr::Matrix(node) => Ok((&mut node.selector.when, &mut node.span.end)),
            Expr::Subquery(node) => Ok((&mut node.when, &mut node.span.end)),
            _ => {
                let message = format!(
                    "{modifier} modifier must be preceded by an instant vector selector \
                     or range vector selector or a subquery"
                );
                Err(self.error(span, message))
            }
        }
    }

    /// The time after `@`; the inner error is a number of seconds out of bounds.
    fn fixed_time(&mut self) -> Parsed<Result<At, f64>> {
        let fixed = match self.peek()?.kind {
            Kind::QueryTime(QueryTime::Start) => At::Start,
            Kind::QueryTime(QueryTime::End) => At::End,
            _ => {
                let sign = self.sign()?;
                let seconds = self.number()?.value;
                let minus = matches!(sign, Some((Sign::Minus, _)));
                return Ok(time_of(if minus { -seconds } else { seconds }));
            }
        };
        self.advance()?;
        self.expect(Kind::LeftParen)?;
        self.expect(Kind::RightParen)?;
        Ok(Ok(fixed))
    }
}

/// Seconds since 1970 as a time; an error with the seconds if they are out of bounds.
fn time_of(seconds: f64) -> Result<At, f64> {
    const BOUND: f64 = i64::MAX as f64;
    if seconds > -BOUND && seconds < BOUND {
        Ok(At::Time((seconds * 1000.0).round() as i64))
    } else {
        Err(seconds)
    }
}
