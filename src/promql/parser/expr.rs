//! Operators, signs, and what stands between them.

use super::super::ast::{Binary, Call, Expr, Notation, Number, Paren, StringLiteral, Unary};
use super::super::features::Features;
use super::super::numbers::{number, parse_duration};
use super::super::operator::{BinaryOp, Sign};
use super::super::position::Span;
use super::super::signature::Function;
use super::super::strings::{quoted_bytes, unquote};
use super::super::token::{Keyword, Kind, Token};
use super::{Parsed, Parser};
use crate::promql::format::quoted;

impl Parser<'_> {
    /// An expression.
    pub(super) fn expr(&mut self) -> Parsed<Expr> {
        self.operators(0)
    }

    /// Operands with the operators between them that bind at least as tightly as `least` says.
    fn operators(&mut self, least: u8) -> Parsed<Expr> {
        let mut lhs = self.nested(Self::operand)?;
        loop {
            let op = match self.peek()?.kind {
                Kind::Operator(op) if op.precedence() >= least => op,
                _ => return Ok(lhs),
            };
            self.advance()?;
            let height = self.height;
            let modifiers = self.matching()?;
            let to_the_right = op == BinaryOp::Pow;
            let rhs = self.operators(op.precedence() + u8::from(!to_the_right))?;
            let span = lhs.span().to(rhs.span());
            self.grow(height.max(self.height), span)?;
            if modifiers.matching.has_fill() && self.features == Features::Stable {
                let message = "binop fill modifiers are experimental and not enabled";
                return Err(self.error(span, message));
            }
            lhs = Expr::Binary(Binary {
                op,
                lhs: Box::new(lhs),
                rhs: Box::new(rhs),
                matching: Some(modifiers.matching),
                comparison: modifiers.comparison,
                span,
            });
        }
    }

    fn operand(&mut self) -> Parsed<Expr> {
        match self.sign()? {
            Some((sign, span)) => self.signed(sign, span),
            None => {
                let operand = self.primary()?;
                self.postfix(operand)
            }
        }
    }

    /// Takes a sign, if one is next.
    pub(super) fn sign(&mut self) -> Parsed<Option<(Sign, Span)>> {
        let token = self.peek()?;
        let sign = match token.kind {
            Kind::Operator(BinaryOp::Add) => Sign::Plus,
            Kind::Operator(BinaryOp::Sub) => Sign::Minus,
            _ => return Ok(None),
        };
        self.advance()?;
        Ok(Some((sign, token.span)))
    }

    /// What a sign stands before: it binds like `*`, so only `^` binds tighter.
    fn signed(&mut self, sign: Sign, span: Span) -> Parsed<Expr> {
        let expr = self.operators(BinaryOp::Pow.precedence())?;
        let span = span.to(expr.span());
        if let Expr::Number(number) = expr {
            return Ok(Expr::Number(number.signed(sign, span)));
        }
        self.grow(self.height, span)?;
        Ok(Expr::Unary(Unary { sign, expr: Box::new(expr), span }))
    }

    fn primary(&mut self) -> Parsed<Expr> {
        let token = self.peek()?;
        self.height = 1;
        match token.kind {
            Kind::Number | Kind::Duration => self.number().map(Expr::Number),
            Kind::String => self.string().map(Expr::String),
            Kind::LeftParen => self.paren(),
            Kind::LeftBrace => self.selector().map(Expr::Selector),
            Kind::Aggregator(op) => self.aggregation_or_metric(op),
            Kind::Identifier | Kind::QueryTime(_) => {
                self.advance()?;
                if self.peek()?.kind == Kind::LeftParen {
                    self.call(token)
                } else {
                    self.selector_of(token).map(Expr::Selector)
                }
            }
            kind if kind.can_name_metric() => self.selector().map(Expr::Selector),
            _ => Err(self.unexpected()),
        }
    }

    fn paren(&mut self) -> Parsed<Expr> {
        let open = self.advance()?;
        let expr = Box::new(self.expr()?);
        let span = open.span.to(self.expect(Kind::RightParen)?.span);
        self.grow(self.height, span)?;
        Ok(Expr::Paren(Paren { expr, span }))
    }

    /// A call of the function with this name, whose `(` has been looked at.
    fn call(&mut self, name: Token) -> Parsed<Expr> {
        let (args, end) = self.arguments()?;
        let text = self.text(name);
        let Some(function) = Function::named(text) else {
            let message = format!("unknown function with name {}", quoted(text));
            return Err(self.error(name.span, message));
        };
        if function.signature().experimental && self.features == Features::Stable {
            let message = format!("function {} is not enabled", quoted(text));
            return Err(self.error(name.span, message));
        }
        let span = name.span.to(end);
        self.grow(self.height, span)?;
        Ok(Expr::Call(Call { function, args, span }))
    }

    /// Arguments in parentheses, and the place of the closing one.
    pub(super) fn arguments(&mut self) -> Parsed<(Vec<Expr>, Span)> {
        self.expect(Kind::LeftParen)?;
        let (mut args, mut highest) = (Vec::new(), 0);
        if let Some(close) = self.take(Kind::RightParen)? {
            self.height = 0;
            return Ok((args, close.span));
        }
        loop {
            args.push(self.expr()?);
            highest = highest.max(self.height);
            let Some(comma) = self.take(Kind::Comma)? else { break };
            if !self.peek()?.kind.can_begin_expr() {
                let message = "trailing commas not allowed in function call args";
                return Err(self.error(comma.span, message));
            }
        }
        self.height = highest;
        let close = self.expect(Kind::RightParen)?;
        Ok((args, close.span))
    }

    /// A number or a duration, which has been looked at.
    pub(super) fn number(&mut self) -> Parsed<Number> {
        let token = self.peek()?;
        let text = self.text(token);
        let (value, notation) = match token.kind {
            Kind::Number => (number(text), Notation::Plain),
            Kind::Duration => (parse_duration(text).map(seconds), Notation::Duration),
            _ => return Err(self.unexpected()),
        };
        self.advance()?;
        let value = value.map_err(|message| self.error(token.span, message))?;
        Ok(Number { value, notation, span: token.span })
    }

    fn string(&mut self) -> Parsed<StringLiteral> {
        let token = self.expect(Kind::String)?;
        let span = token.span;
        Ok(match String::from_utf8(unquote(self.text(token))) {
            Ok(value) => StringLiteral { value, not_utf8: None, span },
            Err(error) => {
                let value = String::from_utf8_lossy(error.as_bytes()).into_owned();
                StringLiteral { value, not_utf8: Some(error.into_bytes()), span }
            }
        })
    }

    /// The name of a label in a list of labels.
    pub(super) fn grouping_label(&mut self) -> Parsed<String> {
        let token = self.peek()?;
        let text = self.text(token);
        let bytes = match token.kind {
            Kind::String => unquote(text),
            kind if kind.can_name_label() => text.as_bytes().to_vec(),
            _ => return Err(self.unexpected()),
        };
        self.advance()?;
        match String::from_utf8(bytes) {
            Ok(name) if !name.is_empty() => Ok(name),
            invalid => {
                let bytes = invalid.map_or_else(|error| error.into_bytes(), String::into_bytes);
                let name = quoted_bytes(&bytes);
                let message = format!("invalid label name for grouping: {name}");
                Err(self.error(token.span, message))
            }
        }
    }

    /// Whether the next word is this keyword.
    pub(super) fn keyword(&mut self, keyword: Keyword) -> Parsed<bool> {
        self.take(Kind::Keyword(keyword)).map(|taken| taken.is_some())
    }
}

/// Nanoseconds as seconds, rounded as Prometheus rounds them.
fn seconds(nanoseconds: i64) -> f64 {
    let part = nanoseconds % 1_000_000_000;
    (nanoseconds / 1_000_000_000) as f64 + part as f64 / 1e9
}
