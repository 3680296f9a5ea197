//! Operators, signs, and what stands between them.

use super::super::ast::{Binary, Call, Expr, Notation, Number, Paren, StringLiteral, Unary};
use super::super::features::Features;
use super::super::numbers::{number, parse_duration};
use super::super::operator::{BinaryOp, Sign};
use super::super::position::Span;
use super::super::signature::Function;
use super::super::strings::{quoted_bytes, unquote};
use super::super::token::{Keyword, Kind, Token};
use super::matching::Modifiers;
use super::{Parsed, Parser};
use crate::promql::format::quoted;

impl Parser<'_> {
    /// An expression.
    pub(super) fn expr(&mut self) -> Parsed<Box<Expr>> {
        self.operators(0)
    }

    /// Operands with the operators between them that bind at least as tightly as `least` says.
    fn operators(&mut self, least: u8) -> Parsed<Box<Expr>> {
        self.enter()?;
        let mut expr = self.operand()?;
        while let Some(op) = self.operator(least)? {
            expr = self.right_side(expr, op)?;
        }
        self.depth -= 1;
        Ok(expr)
    }

    /// Takes an operator, if one is next that binds at least as tightly.
    fn operator(&mut self, least: u8) -> Parsed<Option<BinaryOp>> {
        match self.peek()?.kind {
            Kind::Operator(op) if op.precedence() >= least => {
                self.advance()?;
                Ok(Some(op))
            }
            _ => Ok(None),
        }
    }

    fn right_side(&mut self, lhs: Box<Expr>, op: BinaryOp) -> Parsed<Box<Expr>> {
        let height = self.height;
        let modifiers = self.matching()?;
        let to_the_right = op == BinaryOp::Pow;
        let rhs = self.operators(op.precedence() + u8::from(!to_the_right))?;
        self.height = self.height.max(height);
        self.binary(op, lhs, rhs, modifiers)
    }

    fn binary(
        &mut self,
        op: BinaryOp,
        lhs: Box<Expr>,
        rhs: Box<Expr>,
        modifiers: Modifiers,
    ) -> Parsed<Box<Expr>> {
        let Modifiers { matching, comparison } = modifiers;
        let span = lhs.span().to(rhs.span());
        self.grow(span)?;
        if matching.has_fill() && self.features == Features::Stable {
            let message = "binop fill modifiers are experimental and not enabled";
            return Err(self.error(span, message));
        }
        let matching = Some(matching);
        Ok(Box::new(Expr::Binary(Binary { op, lhs, rhs, matching, comparison, span })))
    }

    fn operand(&mut self) -> Parsed<Box<Expr>> {
        match self.sign()? {
            Some((sign, span)) => {
                // It binds like `*`, so only `^` binds tighter.
                let expr = self.operators(BinaryOp::Pow.precedence())?;
                self.signed(sign, span, expr)
            }
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

    fn signed(&mut self, sign: Sign, span: Span, expr: Box<Expr>) -> Parsed<Box<Expr>> {
        let span = span.to(expr.span());
        if let Expr::Number(number) = *expr {
            return Ok(Box::new(Expr::Number(number.signed(sign, span))));
        }
        self.grow(span)?;
        Ok(Box::new(Expr::Unary(Unary { sign, expr, span })))
    }

    fn primary(&mut self) -> Parsed<Box<Expr>> {
        let token = self.peek()?;
        match token.kind {
            Kind::LeftParen => {
                self.advance()?;
                let expr = self.expr()?;
                self.paren(token.span, expr)
            }
            Kind::Aggregator(op) => self.aggregation_or_metric(op),
            Kind::Identifier | Kind::QueryTime(_) => self.call_or_metric(),
            _ => self.leaf(token.kind),
        }
    }

    /// What has no expressions in it.
    fn leaf(&mut self, kind: Kind) -> Parsed<Box<Expr>> {
        self.height = 1;
        Ok(Box::new(match kind {
            Kind::Number | Kind::Duration => Expr::Number(self.number()?),
            Kind::String => Expr::String(self.string()?),
            Kind::LeftBrace => Expr::Selector(self.selector()?),
            kind if kind.can_name_metric() => Expr::Selector(self.selector()?),
            _ => return Err(self.unexpected()),
        }))
    }

    fn paren(&mut self, open: Span, expr: Box<Expr>) -> Parsed<Box<Expr>> {
        let span = open.to(self.expect(Kind::RightParen)?.span);
        self.grow(span)?;
        Ok(Box::new(Expr::Paren(Paren { expr, span })))
    }

    fn call_or_metric(&mut self) -> Parsed<Box<Expr>> {
        let name = self.advance()?;
        if self.peek()?.kind != Kind::LeftParen {
            return self.metric(name);
        }
        let args = self.arguments()?;
        self.call(name, args)
    }

    /// The selector with this name, which has been taken.
    pub(super) fn metric(&mut self, name: Token) -> Parsed<Box<Expr>> {
        self.height = 1;
        Ok(Box::new(Expr::Selector(self.selector_of(name)?)))
    }

    fn call(&mut self, name: Token, args: Vec<Expr>) -> Parsed<Box<Expr>> {
        let text = self.text(name);
        let Some(function) = Function::named(text) else {
            let message = format!("unknown function with name {}", quoted(text));
            return Err(self.error(name.span, message));
        };
        if function.signature().experimental && self.features == Features::Stable {
            let message = format!("function {} is not enabled", quoted(text));
            return Err(self.error(name.span, message));
        }
        let span = Span::new(name.span.start, self.last_end);
        self.grow(span)?;
        Ok(Box::new(Expr::Call(Call { function, args, span })))
    }

    /// Arguments in parentheses.
    pub(super) fn arguments(&mut self) -> Parsed<Vec<Expr>> {
        self.expect(Kind::LeftParen)?;
        let mut args = Vec::new();
        let mut highest = 0;
        if self.peek()?.kind != Kind::RightParen {
            loop {
                let arg = self.expr()?;
                args.push(*arg);
                highest = self.height.max(highest);
                if !self.another()? {
                    break;
                }
            }
        }
        self.height = highest;
        self.expect(Kind::RightParen)?;
        Ok(args)
    }

    /// Takes a comma between arguments, if one is next.
    fn another(&mut self) -> Parsed<bool> {
        let Some(comma) = self.take(Kind::Comma)? else { return Ok(false) };
        if self.peek()?.kind.can_begin_expr() {
            return Ok(true);
        }
        let message = "trailing commas not allowed in function call args";
        Err(self.error(comma.span, message))
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
