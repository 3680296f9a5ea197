//! Parses the tokens of a query into a tree.
//!
//! A parser by recursive descent with one token of lookahead; operators are parsed by precedence. The first error
//! ends it. Errors are as from the generated parser of Prometheus, which names the innermost open construct; so each
//! construct here names itself: see [`Parser::within`]. It also reads the next token before it finishes a construct
//! that could go on, so an error in that token comes first; [`Parser::peek`] is called at the same places.
//! Trees are no higher than [`MAX_QUERY_DEPTH`], so code that walks them may recurse. Types are checked elsewhere,
//! see [`check`](super::check).

mod aggregate;
mod call;
mod duration;
mod expr;
mod literal;
mod matching;
mod postfix;
mod selector;
mod when;

use super::ast::Expr;
use super::check::check;
use super::features::{Features, Syntax};
use super::lexer::Lexer;
use super::parse_error::ParseError;
use super::position::Span;
use super::token::{Keyword, Kind, Token};
use promkairos_model::limits::{MAX_QUERY_BYTES, MAX_QUERY_DEPTH, NO_SETTING};
use promkairos_model::{Matcher, PatternSet};

type Parsed<T> = Result<T, Box<ParseError>>;

/// Parses and checks an expression.
pub fn parse(query: &str, syntax: impl Into<Syntax>) -> Result<Expr, ParseError> {
    parse_with(query, syntax, &mut PatternSet::immediate())
}

/// Like [`parse`], with compiled patterns of this set. A pattern that is missing there matches nothing in the
/// returned tree.
pub fn parse_with(
    query: &str,
    syntax: impl Into<Syntax>,
    patterns: &mut PatternSet,
) -> Result<Expr, ParseError> {
    let mut parser = Parser::new(query, syntax.into(), patterns)?;
    if parser.peek()?.kind == Kind::End {
        return Err(*parser.error(Span::default(), "no expression found in input"));
    }
    let mut expr = parser.expr()?;
    parser.end()?;
    check(query, &mut expr)?;
    Ok(*expr)
}

/// Parses a selector without time: `name{label="value"}`. It may select everything.
pub fn parse_selector(query: &str) -> Result<Vec<Matcher>, ParseError> {
    parse_selector_with(query, 1, Features::Stable, &mut PatternSet::immediate())
}

/// Like [`parse_selector`], with compiled patterns of this set, for one of `sharers` selectors that share the limits
/// of one request on regular expressions.
pub fn parse_selector_with(
    query: &str,
    sharers: usize,
    syntax: impl Into<Syntax>,
    patterns: &mut PatternSet,
) -> Result<Vec<Matcher>, ParseError> {
    let mut parser = Parser::new(query, syntax.into(), patterns)?;
    parser.regex_bytes /= sharers.max(1);
    let token = parser.peek()?;
    if token.kind != Kind::LeftBrace && !token.kind.can_name_metric() {
        return Err(*parser.unexpected());
    }
    let selector = parser.selector()?;
    parser.end()?;
    Ok(selector.matchers)
}

/// Builds a tree from the tokens of a query.
struct Parser<'a> {
    query: &'a str,
    lexer: Lexer<'a>,
    /// The next token, if it was peeked.
    ahead: Option<Token>,
    syntax: Syntax,
    /// What an error about an unexpected token names: the construct, and what was expected.
    context: Context,
    /// The end of the last token taken.
    last_end: usize,
    /// The number of expressions around the one that is read.
    depth: usize,
    /// The height of the tree that was read last.
    height: usize,
    /// Most bytes of a compiled regular expression.
    regex_bytes: usize,
    patterns: &'a mut PatternSet,
}

/// What an error says about an unexpected token.
#[derive(Debug, Clone, Copy)]
struct Context {
    inside: &'static str,
    expected: &'static str,
}

impl Context {
    const NONE: Self = Self::new("", "");

    const fn new(inside: &'static str, expected: &'static str) -> Self {
        Self { inside, expected }
    }
}

impl<'a> Parser<'a> {
    fn new(query: &'a str, syntax: Syntax, patterns: &'a mut PatternSet) -> Parsed<Self> {
        if query.len() > MAX_QUERY_BYTES {
            let message = format!(
                "{} bytes, and a query may have {MAX_QUERY_BYTES}; {NO_SETTING}",
                query.len()
            );
            return Err(ParseError::at(query, Span::default(), message));
        }
        // An upper bound of the regular expressions: in a string these characters are no operator.
        let regexes = query.matches("=~").count() + query.matches("!~").count();
        Ok(Self {
            query,
            lexer: Lexer::new(query, syntax.names),
            ahead: None,
            syntax,
            context: Context::NONE,
            last_end: 0,
            depth: 0,
            height: 0,
            regex_bytes: patterns.share(regexes),
            patterns,
        })
    }

    /// Returns the next token without taking it.
    fn peek(&mut self) -> Parsed<Token> {
        match self.ahead {
            Some(token) => Ok(token),
            None => Ok(*self.ahead.insert(self.lexer.token()?)),
        }
    }

    /// Takes the next token.
    fn advance(&mut self) -> Parsed<Token> {
        let token = self.peek()?;
        self.ahead = None;
        self.last_end = token.span.end;
        Ok(token)
    }

    /// Takes the next token if it is of this kind.
    fn take(&mut self, kind: Kind) -> Parsed<Option<Token>> {
        if self.peek()?.kind == kind { self.advance().map(Some) } else { Ok(None) }
    }

    /// Takes the next token if it is this keyword.
    pub(super) fn keyword(&mut self, keyword: Keyword) -> Parsed<bool> {
        self.take(Kind::Keyword(keyword)).map(|taken| taken.is_some())
    }

    /// Takes the next token, which has to be of this kind.
    fn expect(&mut self, kind: Kind) -> Parsed<Token> {
        match self.take(kind)? {
            Some(token) => Ok(token),
            None => Err(self.unexpected()),
        }
    }

    fn end(&mut self) -> Parsed<()> {
        self.expect(Kind::End).map(drop)
    }

    /// Calls `read`; errors about unexpected tokens in it name `context`.
    fn within<T>(
        &mut self,
        context: Context,
        read: impl FnOnce(&mut Self) -> Parsed<T>,
    ) -> Parsed<T> {
        let outer = std::mem::replace(&mut self.context, context);
        let result = read(self);
        self.context = outer;
        result
    }

    /// The items up to `close`, with commas between them and maybe one at the end, and the token `close`. `next` is
    /// what an error after an item names.
    fn list<T>(
        &mut self,
        close: Kind,
        next: Context,
        mut item: impl FnMut(&mut Self) -> Parsed<T>,
    ) -> Parsed<(Vec<T>, Token)> {
        let mut items = Vec::new();
        loop {
            if let Some(close) = self.take(close)? {
                return Ok((items, close));
            }
            items.push(item(self)?);
            if let Some(close) = self.take(close)? {
                return Ok((items, close));
            }
            self.within(next, |parser| parser.expect(Kind::Comma))?;
        }
    }

    /// Enters an expression. The caller decrements the depth when it leaves.
    fn enter(&mut self) -> Parsed<()> {
        self.depth += 1;
        if self.depth <= MAX_QUERY_DEPTH {
            return Ok(());
        }
        let span = self.peek()?.span;
        Err(self.too_deep(span))
    }

    /// Notes that a node was put on top of the tree that was read last.
    fn grow(&mut self, span: Span) -> Parsed<()> {
        self.height += 1;
        if self.height <= MAX_QUERY_DEPTH { Ok(()) } else { Err(self.too_deep(span)) }
    }

    /// An error about the next token, which has been peeked.
    fn unexpected(&self) -> Box<ParseError> {
        let Some(token) = self.ahead else {
            return self.error(Span::default(), "unexpected end of input");
        };
        let mut message = format!("unexpected {}", token.describe(self.query));
        let Context { inside, expected } = self.context;
        if !inside.is_empty() {
            message += &format!(" in {inside}");
        }
        if !expected.is_empty() {
            message += &format!(", expected {expected}");
        }
        self.error(token.span, message)
    }

    fn too_deep(&self, span: Span) -> Box<ParseError> {
        let message = format!("expressions are nested deeper than {MAX_QUERY_DEPTH}; {NO_SETTING}");
        self.error(span, message)
    }

    fn error(&self, span: Span, message: impl Into<String>) -> Box<ParseError> {
        ParseError::at(self.query, span, message)
    }

    fn text(&self, token: Token) -> &'a str {
        token.text(self.query)
    }
}
