//! What follows an operand: `[5m]`, `[5m:1m]`, `anchored`, `smoothed`, `@` and `offset`.
//!
//! A range is allowed only after a selector, and only once. The type of the expression before a
//! subquery is checked later.

use super::super::ast::{Duration, Edges, Expr, MatrixSelector, Subquery, When};
use super::super::token::{Keyword, Kind};
use super::{Context, Parsed, Parser};

const RANGE: Context =
    Context::new("subquery or range selector", "number, duration, step(), or range()");
const AFTER_RANGE: Context = Context::new("subquery or range", "\":\" or \"]\"");
const STEP: Context =
    Context::new("subquery selector", "number, duration, step(), range(), or \"]\"");
const AFTER_STEP: Context = Context::new("subquery selector", "\"]\"");

impl Parser<'_> {
    /// An operand with all that follows it.
    pub(super) fn postfix(&mut self, operand: Box<Expr>) -> Parsed<Box<Expr>> {
        let mut expr = operand;
        loop {
            expr = match self.peek()?.kind {
                Kind::LeftBracket => self.window(expr)?,
                Kind::At => self.at(expr)?,
                Kind::Keyword(Keyword::Offset) => self.offset(expr)?,
                Kind::Keyword(Keyword::Anchored) => self.edges(expr, Edges::Anchored)?,
                Kind::Keyword(Keyword::Smoothed) => self.edges(expr, Edges::Smoothed)?,
                _ => return Ok(expr),
            };
        }
    }

    fn window(&mut self, expr: Box<Expr>) -> Parsed<Box<Expr>> {
        let open = self.advance()?;
        let range = self.duration_within(RANGE, Self::positive_duration)?;
        if self.take(Kind::Colon)?.is_some() {
            return self.subquery(expr, range);
        }
        let close = self.within(AFTER_RANGE, |parser| parser.expect(Kind::RightBracket))?;
        let refused = |message| Err(self.error(open.span.to(close.span), message));
        let Expr::Selector(selector) = *expr else {
            return refused("ranges only allowed for vector selectors");
        };
        match selector.when {
            When { offset: Some(_), .. } => refused("no offset modifiers allowed before range"),
            When { at: Some(_), .. } => refused("no @ modifiers allowed before range"),
            When { at: None, offset: None } => {
                let span = selector.span.to(close.span);
                Ok(Box::new(Expr::Matrix(MatrixSelector { selector, range, span })))
            }
        }
    }

    fn subquery(&mut self, expr: Box<Expr>, range: Duration) -> Parsed<Box<Expr>> {
        let (step, close) = match self.take(Kind::RightBracket)? {
            Some(close) => (None, close),
            None => {
                let step = self.duration_within(STEP, Self::positive_duration)?;
                let close = self.within(AFTER_STEP, |parser| parser.expect(Kind::RightBracket))?;
                (Some(step), close)
            }
        };
        let span = expr.span().to(close.span);
        self.grow(span)?;
        let when = When::default();
        Ok(Box::new(Expr::Subquery(Subquery { expr, range, step, when, span })))
    }

    /// `anchored` or `smoothed`. The span of the expression does not change, as upstream.
    fn edges(&mut self, mut expr: Box<Expr>, edges: Edges) -> Parsed<Box<Expr>> {
        self.advance()?;
        let name = edges.name();
        let span = expr.span();
        let selector = match &mut *expr {
            Expr::Selector(selector) => selector,
            Expr::Matrix(matrix) => &mut matrix.selector,
            Expr::Subquery(_) => {
                let message = format!("{name} modifier is not supported for subqueries");
                return Err(self.error(span, message));
            }
            // The text of Prometheus for an expression that has no edges.
            _ => return Err(self.error(span, format!("{name} modifier not implemented"))),
        };
        if selector.edges.is_some_and(|other| other != edges) {
            let message = "anchored and smoothed modifiers cannot be used together";
            return Err(self.error(span, message));
        }
        selector.edges = Some(edges);
        Ok(expr)
    }
}
