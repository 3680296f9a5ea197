//! The one error of the HTTP surface, and how it becomes a response.
//!
//! Bodies are one line of plain text, the reason first. A status is chosen by the variant.

use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::chunk::ChunkError;
use crate::limits::RETRY_AFTER;
use crate::model::Labels;
use crate::storage::StoreError;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The request can never be answered.
    #[error("{0}")]
    BadRequest(String),
    /// The store is not open yet.
    #[error("Service Unavailable: {0}")]
    NotReady(String),
    /// The store failed.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// A chunk that came out of the store does not decode.
    #[error("damaged chunk of series {series}: {source}")]
    Chunk {
        /// The series.
        series: Labels,
        /// What is wrong.
        source: ChunkError,
    },
    /// The work broke off; only the log will see it when bytes were sent already.
    #[error("{0}")]
    Aborted(&'static str),
}

impl ApiError {
    /// The status of the answer.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::BadRequest(_) => StatusCode::BAD_REQUEST,
            Self::NotReady(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Chunk { .. } | Self::Aborted(_) => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Store(error) => match error {
                StoreError::Unavailable { .. } | StoreError::Denied(_) => {
                    StatusCode::SERVICE_UNAVAILABLE
                }
                StoreError::Limit(_) | StoreError::Invalid(_) => StatusCode::BAD_REQUEST,
                StoreError::Corrupt { .. } | StoreError::Io { .. } | StoreError::Backend { .. } => {
                    StatusCode::INTERNAL_SERVER_ERROR
                }
            },
        }
    }

    /// When the client may try again.
    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::NotReady(_) => Some(Duration::from_secs(1)),
            Self::Store(StoreError::Unavailable { retry_after, .. }) => Some(*retry_after),
            Self::Store(StoreError::Denied(_)) => Some(RETRY_AFTER),
            _ => None,
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = self.status();
        if status.is_server_error() && status != StatusCode::SERVICE_UNAVAILABLE {
            tracing::error!("request failed: {self}");
        }
        let mut response = (status, format!("{self}\n")).into_response();
        if let Some(wait) = self.retry_after() {
            // Whole seconds, rounded up, and never "at once".
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            let value = HeaderValue::from(seconds.max(1));
            response.headers_mut().insert(header::RETRY_AFTER, value);
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_and_retry_after() {
        let check = |error: ApiError, status: u16, retry_after: Option<&str>| {
            let response = error.into_response();
            assert_eq!(response.status().as_u16(), status);
            let header = response.headers().get(header::RETRY_AFTER);
            assert_eq!(header.map(|value| value.to_str().expect("ascii")), retry_after);
        };
        let away = |retry_after| StoreError::Unavailable { what: "x".into(), retry_after };
        let io = || std::io::Error::other("x");
        check(ApiError::BadRequest("x".into()), 400, None);
        check(ApiError::NotReady("x".into()), 503, Some("1"));
        check(away(Duration::ZERO).into(), 503, Some("1"));
        check(away(Duration::from_millis(5001)).into(), 503, Some("6"));
        check(StoreError::Denied("x".into()).into(), 503, Some("5"));
        check(StoreError::Limit("x".into()).into(), 400, None);
        check(StoreError::Invalid("x".into()).into(), 400, None);
        check(StoreError::Io { path: "p".into(), source: io() }.into(), 500, None);
        check(StoreError::Backend { what: "x".into(), source: io().into() }.into(), 500, None);
        let corrupt = StoreError::Corrupt { path: "p".into(), offset: 1, what: "x".into() };
        check(corrupt.into(), 500, None);
    }
}
