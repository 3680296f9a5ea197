//! Selectors: `name{label="value", "a label"=~"re.*"}`.
//!
//! Regular expressions come from a pattern set, within the limit of one query. Whether a selector
//! selects everything is checked later.

use super::super::ast::{VectorSelector, When};
use super::super::operator::BinaryOp;
use super::super::position::Span;
use super::super::strings::unquote;
use super::super::token::{Kind, Token};
use super::{Context, Parsed, Parser};
use promkairos_model::{METRIC_NAME, MatchOp, Matcher};

const MATCHER: Context = Context::new("label matching", "identifier or \"}\"");
const OPERATOR: Context = Context::new("label matching", "label matching operator");
const VALUE: Context = Context::new("label matching", "string");
const NEXT: Context = Context::new("label matching", "\",\" or \"}\"");

impl Parser<'_> {
    /// A selector, whose name or `{` is the next token.
    pub(super) fn selector(&mut self) -> Parsed<VectorSelector> {
        if self.peek()?.kind == Kind::LeftBrace {
            let (matchers, span) = self.braces()?;
            return Ok(self.selected(None, matchers, span));
        }
        let name = self.advance()?;
        self.selector_of(name)
    }

    /// The selector with this name; the name token has been taken.
    pub(super) fn selector_of(&mut self, name: Token) -> Parsed<VectorSelector> {
        let (mut matchers, end) = match self.peek()?.kind {
            Kind::LeftBrace => self.braces()?,
            _ => (Vec::new(), name.span),
        };
        let span = name.span.to(end);
        let name = self.text(name);
        matchers.push(Matcher::equal(METRIC_NAME, name));
        Ok(self.selected(Some(name.into()), matchers, span))
    }

    fn selected(&self, name: Option<String>, matchers: Vec<Matcher>, span: Span) -> VectorSelector {
        let (when, names) = (When::default(), self.syntax.names);
        VectorSelector { name, matchers, when, edges: None, names, span }
    }

    fn braces(&mut self) -> Parsed<(Vec<Matcher>, Span)> {
        let open = self.expect(Kind::LeftBrace)?.span;
        let matcher = |parser: &mut Self| parser.within(MATCHER, Self::matcher);
        let (matchers, close) = self.list(Kind::RightBrace, NEXT, matcher)?;
        Ok((matchers, open.to(close.span)))
    }

    fn matcher(&mut self) -> Parsed<Matcher> {
        let token = self.peek()?;
        let name = match token.kind {
            Kind::Identifier => self.text(token).to_owned(),
            Kind::String => self.unquoted(token),
            _ => return Err(self.unexpected()),
        };
        self.advance()?;
        let op = match self.peek()?.kind {
            Kind::Assign => MatchOp::Equal,
            Kind::Operator(BinaryOp::NotEqual) => MatchOp::NotEqual,
            Kind::RegexMatch => MatchOp::Regex,
            Kind::RegexMismatch => MatchOp::NotRegex,
            // A string alone is the name of the metric.
            _ if token.kind == Kind::String => return Ok(Matcher::equal(METRIC_NAME, &name)),
            _ => return self.within(OPERATOR, |parser| Err(parser.unexpected())),
        };
        self.advance()?;
        let value = self.within(VALUE, |parser| parser.expect(Kind::String))?;
        let text = self.unquoted(value);
        let matcher = self.patterns.matcher(self.regex_bytes, op, &name, &text);
        matcher.map_err(|error| self.error(token.span.to(value.span), error.to_string()))
    }

    /// The value of a string; bytes that are not UTF-8 become U+FFFD.
    fn unquoted(&self, token: Token) -> String {
        String::from_utf8_lossy(&unquote(self.text(token))).into_owned()
    }
}
