//! Calls of functions, and arguments in parentheses, which aggregations have too.
//!
//! A name is a function only before a parenthesis. Whether the arguments fit is checked later.

use super::super::ast::{Call, Expr};
use super::super::features::Features;
use super::super::position::Span;
use super::super::signature::Function;
use super::super::token::{Kind, Token};
use super::{Parsed, Parser};
use crate::strings::quoted;

impl Parser<'_> {
    /// A call, or a metric of that name; the name is the next token.
    pub(super) fn call_or_metric(&mut self) -> Parsed<Box<Expr>> {
        let name = self.advance()?;
        if self.peek()?.kind != Kind::LeftParen {
            return self.metric(name);
        }
        let args = self.arguments()?;
        self.call(name, args)
    }

    /// The selector with this name; the name token has been taken.
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
        if function.signature().experimental && self.syntax.features == Features::Stable {
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
}
