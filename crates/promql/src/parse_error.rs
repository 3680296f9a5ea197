//! Why a text is not an expression, and where.
//!
//! The texts are as in Prometheus 3.16, because clients compare them.

use super::position::{LineColumn, Span};

/// Why a text is not an expression. `Display` begins with `line:column`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: parse error: {message}", line_column(*.place))]
pub struct ParseError {
    /// Where, in bytes from 0.
    pub span: Span,
    /// Line and column of the start; `None` for an empty text.
    pub place: Option<LineColumn>,
    /// What is wrong.
    pub message: String,
}

impl ParseError {
    /// An error about this part of a query; boxed, so that results stay small.
    pub(crate) fn at(query: &str, span: Span, message: impl Into<String>) -> Box<Self> {
        let place = (!query.is_empty()).then(|| span.line_column(query));
        Box::new(Self { span, place, message: message.into() })
    }
}

/// For functions that return an error that is not boxed.
impl From<Box<Self>> for ParseError {
    fn from(error: Box<Self>) -> Self {
        *error
    }
}

fn line_column(place: Option<LineColumn>) -> String {
    place.map_or_else(|| "unknown position".into(), |place| place.to_string())
}
