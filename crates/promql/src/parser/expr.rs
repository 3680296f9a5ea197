//! Operators, signs and operands.
//!
//! The functions here recurse with the nesting of the text. Each is short and passes boxes, so
//! that a level takes little of the stack.

use super::super::ast::{Binary, Comparison, Expr, Matching, Paren, Unary};
use super::super::features::Features;
use super::super::operator::{BinaryOp, Sign};
use super::super::position::Span;
use super::super::token::Kind;
use super::{Parsed, Parser};

impl Parser<'_> {
    /// An expression.
    pub(super) fn expr(&mut self) -> Parsed<Box<Expr>> {
        self.operators(0)
    }

    /// Operands and the operators between them whose precedence is at least `least`.
    fn operators(&mut self, least: u8) -> Parsed<Box<Expr>> {
        self.enter()?;
        let mut expr = self.operand()?;
        while let Some(op) = self.operator(least)? {
            expr = self.right_side(expr, op)?;
        }
        self.depth -= 1;
        Ok(expr)
    }

    /// Takes the next token if it is an operator with at least this precedence.
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
        (matching, comparison): (Matching, Comparison),
    ) -> Parsed<Box<Expr>> {
        let span = lhs.span().to(rhs.span());
        self.grow(span)?;
        if matching.has_fill() && self.syntax.features == Features::Stable {
            let message = "binop fill modifiers are experimental and not enabled";
            return Err(self.error(span, message));
        }
        let matching = Some(matching);
        Ok(Box::new(Expr::Binary(Binary { op, lhs, rhs, matching, comparison, span })))
    }

    fn operand(&mut self) -> Parsed<Box<Expr>> {
        match self.sign()? {
            Some((sign, span)) => {
                // A sign binds like `*`, so only `^` binds tighter.
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

    /// An expression without children.
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
}
