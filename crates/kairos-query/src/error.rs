//! Why a query is refused. The variant decides the status, and texts are KairosDB's wherever KairosDB has one.

use std::error::Error;

/// Why a query is refused or fails.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// The text is no JSON, or a value has another type of JSON.
    #[error("{0}")]
    Json(String),
    /// The query says something that is not valid.
    #[error("{}", .0.join("; "))]
    Invalid(Vec<String>),
    /// The query cannot be evaluated over these points.
    #[error("{0}")]
    Evaluation(String),
    /// A limit was exceeded.
    #[error("{what}, which is the limit {limit}")]
    Limit {
        /// What there is too much of, with the value of the limit.
        what: String,
        /// The field of [`Limits`](crate::Limits).
        limit: &'static str,
    },
    /// The points could not be read.
    #[error("{0}")]
    Source(Box<dyn Error + Send + Sync>),
}

impl QueryError {
    /// The status of the answer. What is refused for good is 400, even where KairosDB answers 500.
    pub fn status(&self) -> u16 {
        match self {
            Self::Source(_) => 500,
            Self::Json(_) | Self::Invalid(_) | Self::Evaluation(_) | Self::Limit { .. } => 400,
        }
    }

    /// The texts of the answer, for [`render_errors`](crate::render_errors).
    pub fn messages(&self) -> Vec<String> {
        match self {
            Self::Invalid(messages) => messages.clone(),
            other => vec![other.to_string()],
        }
    }

    /// One violation: `context.path message`.
    pub(crate) fn invalid(context: &str, path: &str, message: &str) -> Self {
        let dot = if context.is_empty() { "" } else { "." };
        Self::Invalid(vec![format!("{context}{dot}{path} {message}")])
    }
}
