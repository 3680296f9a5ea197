//! Durations: any expression over durations in a window, one operand after `offset`.
//!
//! The bounds of a literal are checked here. An expression gets its value when the query runs.

use super::super::ast::{Duration, DurationExpr, DurationForm, DurationOp, Number};
use super::super::duration::out_of_range;
use super::super::operator::Sign;
use super::super::position::Span;
use super::super::token::{Kind, QueryTime};
use super::{Context, Parsed, Parser};

impl Parser<'_> {
    /// Reads a duration after an expression, and keeps the height of the higher one.
    pub(super) fn duration_within(
        &mut self,
        context: Context,
        read: impl FnOnce(&mut Self) -> Parsed<Duration>,
    ) -> Parsed<Duration> {
        let height = self.height;
        let duration = self.within(context, read)?;
        self.height = self.height.max(height);
        Ok(duration)
    }

    /// The range or the step of a window.
    pub(super) fn positive_duration(&mut self) -> Parsed<Duration> {
        let duration = self.durations(0)?;
        match duration {
            Duration::Literal(number) if number.value <= 0.0 => {
                Err(self.error(number.span, "duration must be greater than 0"))
            }
            _ => Ok(duration),
        }
    }

    /// The duration after `offset`. An operator after it, as in `name offset 5m * 2`, belongs to
    /// the selector, unless the duration begins with a parenthesis or with two signs.
    pub(super) fn offset_duration(&mut self) -> Parsed<Duration> {
        self.height = 1;
        let Some((sign, span)) = self.sign()? else {
            return match self.peek()?.kind {
                Kind::LeftParen => self.durations(0),
                _ => self.duration_operand(),
            };
        };
        match self.peek()?.kind {
            Kind::Number | Kind::Duration => {
                let number = self.number()?;
                self.signed_literal(sign, span, number)
            }
            Kind::QueryTime(_) => {
                let operand = self.duration_operand()?;
                Ok(signed(sign, span, operand))
            }
            Kind::LeftParen => {
                let operand = self.duration_operand()?;
                self.signed_duration(sign, span, operand)
            }
            _ => {
                let operand = self.durations(DurationOp::Pow.precedence())?;
                let operand = self.signed_duration(sign, span, operand)?;
                self.more_durations(operand, 0)
            }
        }
    }

    /// Operands and the operators between them whose precedence is at least `least`.
    fn durations(&mut self, least: u8) -> Parsed<Duration> {
        self.enter()?;
        let first = self.signed_operand()?;
        let duration = self.more_durations(first, least)?;
        self.depth -= 1;
        Ok(duration)
    }

    fn more_durations(&mut self, first: Duration, least: u8) -> Parsed<Duration> {
        let mut lhs = first;
        while let Some(op) = duration_op(self.peek()?.kind).filter(|op| op.precedence() >= least) {
            let token = self.advance()?;
            let height = self.height;
            let to_the_right = op == DurationOp::Pow;
            let rhs = self.durations(op.precedence() + u8::from(!to_the_right))?;
            let span = lhs.span().to(rhs.span());
            self.height = self.height.max(height);
            self.grow(span)?;
            if matches!(rhs, Duration::Literal(number) if number.value == 0.0) {
                match op {
                    DurationOp::Div => return Err(self.error(token.span, "division by zero")),
                    DurationOp::Mod => return Err(self.error(token.span, "modulo by zero")),
                    _ => {}
                }
            }
            lhs = computed(DurationForm::Arithmetic(op, lhs, rhs), span);
        }
        Ok(lhs)
    }

    fn signed_operand(&mut self) -> Parsed<Duration> {
        self.height = 1;
        match self.sign()? {
            Some((sign, span)) => {
                let operand = self.durations(DurationOp::Pow.precedence())?;
                self.signed_duration(sign, span, operand)
            }
            None => self.duration_operand(),
        }
    }

    fn duration_operand(&mut self) -> Parsed<Duration> {
        let token = self.peek()?;
        match token.kind {
            Kind::LeftParen => self.duration_in_parens(),
            Kind::QueryTime(QueryTime::Step) => self.query_time(DurationForm::Step),
            Kind::QueryTime(QueryTime::Range) => self.query_time(DurationForm::Range),
            Kind::QueryTime(QueryTime::MinOf) => self.extreme(DurationForm::MinOf),
            Kind::QueryTime(QueryTime::MaxOf) => self.extreme(DurationForm::MaxOf),
            Kind::Number | Kind::Duration => {
                let number = self.number()?;
                self.checked(number, number.span)
            }
            _ => Err(self.unexpected()),
        }
    }

    fn duration_in_parens(&mut self) -> Parsed<Duration> {
        let open = self.expect(Kind::LeftParen)?;
        let mut expr = match self.durations(0)? {
            Duration::Expr(expr) => expr,
            // A literal has no field for parentheses, so it becomes an expression with a plus.
            literal => {
                let span = open.span.to(literal.span());
                let form = DurationForm::Signed(Sign::Plus, literal);
                Box::new(DurationExpr { form, wrapped: true, span })
            }
        };
        self.expect(Kind::RightParen)?;
        expr.wrapped = true;
        Ok(Duration::Expr(expr))
    }

    fn query_time(&mut self, form: DurationForm) -> Parsed<Duration> {
        let name = self.advance()?;
        self.expect(Kind::LeftParen)?;
        let close = self.expect(Kind::RightParen)?;
        Ok(computed(form, name.span.to(close.span)))
    }

    fn extreme(&mut self, form: fn(Duration, Duration) -> DurationForm) -> Parsed<Duration> {
        let name = self.advance()?;
        self.expect(Kind::LeftParen)?;
        let lhs = self.durations(0)?;
        let height = self.height;
        self.expect(Kind::Comma)?;
        let rhs = self.durations(0)?;
        let close = self.expect(Kind::RightParen)?;
        let span = name.span.to(close.span);
        self.height = self.height.max(height);
        self.grow(span)?;
        Ok(computed(form(lhs, rhs), span))
    }

    /// Applies a sign to an operand; a plus before an expression is dropped.
    fn signed_duration(&mut self, sign: Sign, span: Span, operand: Duration) -> Parsed<Duration> {
        match operand {
            Duration::Literal(number) => self.signed_literal(sign, span, number),
            operand if sign == Sign::Plus => Ok(operand),
            operand => {
                self.grow(span)?;
                Ok(signed(sign, span, operand))
            }
        }
    }

    fn signed_literal(&mut self, sign: Sign, span: Span, number: Number) -> Parsed<Duration> {
        self.checked(number.signed(sign, span.to(number.span)), span)
    }

    fn checked(&mut self, number: Number, span: Span) -> Parsed<Duration> {
        if out_of_range(number.value) {
            return Err(self.error(span, "duration out of range"));
        }
        Ok(Duration::Literal(number))
    }
}

fn signed(sign: Sign, span: Span, operand: Duration) -> Duration {
    let span = span.to(operand.span());
    computed(DurationForm::Signed(sign, operand), span)
}

fn computed(form: DurationForm, span: Span) -> Duration {
    Duration::Expr(Box::new(DurationExpr { form, wrapped: false, span }))
}

fn duration_op(kind: Kind) -> Option<DurationOp> {
    let Kind::Operator(op) = kind else { return None };
    DurationOp::named(op.name())
}
