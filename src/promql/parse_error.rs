//! Why a text is not an expression, and where.
//!
//! The texts are those of Prometheus 3.14, as clients compare them.

use super::position::{LineColumn, Span};

/// Why a text is not an expression. `Display` begins with `line:column`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: parse error: {message}", shown(*.place))]
pub struct ParseError {
    /// Where, in bytes from 0.
    pub span: Span,
    /// Where it starts, as people count; none in a text that is empty.
    pub place: Option<LineColumn>,
    /// What is wrong.
    pub message: String,
}

impl ParseError {
    pub(super) fn new(query: &str, span: Span, message: impl Into<String>) -> Self {
        let place = (!query.is_empty()).then(|| span.line_column(query));
        Self { span, place, message: message.into() }
    }
}

fn shown(place: Option<LineColumn>) -> String {
    place.map_or_else(|| "unknown position".into(), |place| place.to_string())
}
