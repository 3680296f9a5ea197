//! The tokens of the language, and how errors name them.
//!
//! A token has its kind and its span; its text is in the query.

use super::named_enum::named_enum;
use super::operator::{Aggregator, BinaryOp};
use super::position::Span;
use super::strings::quoted;

/// A token of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) span: Span,
}

/// The kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    End,
    /// A name without a colon that is not a keyword.
    Identifier,
    /// A name with a colon.
    MetricIdentifier,
    Number,
    Duration,
    String,
    LeftParen,
    RightParen,
    LeftBrace,
    RightBrace,
    LeftBracket,
    RightBracket,
    Comma,
    Colon,
    /// `=`
    Assign,
    /// `=~`
    RegexMatch,
    /// `!~`
    RegexMismatch,
    /// `@`
    At,
    Operator(BinaryOp),
    Aggregator(Aggregator),
    Keyword(Keyword),
    QueryTime(QueryTime),
}

named_enum! {
    /// Keywords that modify a selector, an operator or an aggregation.
    pub(crate) enum Keyword {
        Anchored = "anchored",
        Bool = "bool",
        By = "by",
        Fill = "fill",
        FillLeft = "fill_left",
        FillRight = "fill_right",
        GroupLeft = "group_left",
        GroupRight = "group_right",
        Ignoring = "ignoring",
        Offset = "offset",
        On = "on",
        Smoothed = "smoothed",
        Without = "without",
    }
}

named_enum! {
    /// Functions that are tokens of their own, because they also occur after `@` and in durations.
    pub(crate) enum QueryTime {
        Start = "start",
        End = "end",
        Step = "step",
        Range = "range",
        MaxOf = "max_of",
        MinOf = "min_of",
    }
}

impl Kind {
    /// The kind of a name in lower case, if it is a word of the language.
    pub(crate) fn of_word(word: &str) -> Option<Self> {
        let keyword = || Keyword::named(word).map(Self::Keyword);
        let operator = || BinaryOp::named(word).map(Self::Operator);
        let query_time = || QueryTime::named(word).map(Self::QueryTime);
        let number = || matches!(word, "inf" | "nan").then_some(Self::Number);
        let aggregator = Aggregator::named(word).map(Self::Aggregator);
        aggregator.or_else(keyword).or_else(operator).or_else(query_time).or_else(number)
    }

    /// Like `of_word`, but only for the words of durations.
    pub(crate) fn of_duration_word(word: &str) -> Option<Self> {
        let word = QueryTime::named(word)?;
        (!matches!(word, QueryTime::Start | QueryTime::End)).then_some(Self::QueryTime(word))
    }

    /// Whether a token of this kind can be the name of a metric.
    pub(crate) fn can_name_metric(self) -> bool {
        use Keyword::{Anchored, By, Fill, FillLeft, FillRight, Offset, Smoothed, Without};
        match self {
            Self::Identifier | Self::MetricIdentifier => true,
            Self::Aggregator(_) | Self::QueryTime(_) => true,
            Self::Operator(op) => op.is_set(),
            Self::Keyword(
                Anchored | By | Fill | FillLeft | FillRight | Offset | Smoothed | Without,
            ) => true,
            _ => false,
        }
    }

    /// Whether a token of this kind can be the name of a label in `by (…)`, `on (…)` and the like.
    pub(crate) fn can_name_label(self) -> bool {
        self.can_name_metric() || matches!(self, Self::Keyword(_) | Self::Operator(BinaryOp::Atan2))
    }

    /// Whether an expression can begin with a token of this kind.
    pub(crate) fn can_begin_expr(self) -> bool {
        self.can_name_metric()
            || matches!(self, Self::Number | Self::Duration | Self::String)
            || matches!(self, Self::LeftParen | Self::LeftBrace)
            || matches!(self, Self::Operator(BinaryOp::Add | BinaryOp::Sub))
    }
}

impl Token {
    /// Its text, given the text of the query.
    pub(crate) fn text(self, query: &str) -> &str {
        &query[self.span.start..self.span.end]
    }

    /// How an error names it.
    pub(crate) fn describe(self, query: &str) -> String {
        let text = self.text(query);
        match self.kind {
            Kind::End => "end of input".into(),
            Kind::Identifier => format!("identifier {}", quoted(text)),
            Kind::MetricIdentifier => format!("metric identifier {}", quoted(text)),
            Kind::Number => format!("number {}", shortened(text)),
            Kind::Duration => format!("duration {}", shortened(text)),
            Kind::String => format!("string {}", shortened(text)),
            Kind::Keyword(_) => format!("<{text}>"),
            Kind::Operator(_) | Kind::At | Kind::RegexMatch | Kind::RegexMismatch => {
                format!("<op:{text}>")
            }
            Kind::Aggregator(_) => format!("<aggr:{text}>"),
            _ => shortened(text),
        }
    }
}

/// The text in quotes, cut after ten characters.
fn shortened(text: &str) -> String {
    if text.len() <= 10 {
        return quoted(text);
    }
    let end = text.char_indices().nth(10).map_or(text.len(), |(at, _)| at);
    format!("{}...", quoted(&text[..end]))
}
