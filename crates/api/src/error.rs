//! The error type of the HTTP API, and its conversion to a response.
//!
//! Bodies are one line of plain text that begins with the reason; JSON endpoints put the text into
//! their envelope. The variant determines the status.

use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use promkairos_chunk::ChunkError;
use promkairos_model::Labels;
use promkairos_model::limits::RETRY_AFTER;
use promkairos_promql::QueryError;
use promkairos_storage::StoreError;
use promkairos_telemetry::LimitMetrics;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The request is invalid.
    #[error("{0}")]
    BadRequest(String),
    /// The store is not open yet.
    #[error("Service Unavailable: {0}")]
    NotReady(String),
    /// A query failed.
    #[error("{0}")]
    Query(QueryError),
    /// The request took too long.
    #[error("{0}")]
    TimedOut(String),
    /// The requested object does not exist.
    #[error("{0}")]
    NotFound(String),
    /// The store failed.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// A chunk of the store does not decode.
    #[error("damaged chunk of series {series}: {source}")]
    Chunk {
        /// The series.
        series: Labels,
        /// The decoding error.
        source: ChunkError,
    },
    /// The work was aborted; if bytes were already sent, only the log shows the error.
    #[error("{0}")]
    Aborted(&'static str),
}

const BAD_DATA: (StatusCode, &str) = (StatusCode::BAD_REQUEST, "bad_data");
const EXECUTION: (StatusCode, &str) = (StatusCode::UNPROCESSABLE_ENTITY, "execution");
const COST_LIMIT: (StatusCode, &str) = (StatusCode::UNPROCESSABLE_ENTITY, "cost_limit");
const TIMEOUT: (StatusCode, &str) = (StatusCode::SERVICE_UNAVAILABLE, "timeout");
const UNAVAILABLE: (StatusCode, &str) = (StatusCode::SERVICE_UNAVAILABLE, "unavailable");
const INTERNAL: (StatusCode, &str) = (StatusCode::INTERNAL_SERVER_ERROR, "internal");
/// The client disconnected before its answer. No client receives this status.
const CLIENT_CLOSED_REQUEST: u16 = 499;

impl ApiError {
    /// A request is beyond the limit of this setting, which is counted; the client may retry.
    pub(super) fn busy(limits: &LimitMetrics, setting: &'static str, what: String) -> Self {
        limits.reached(setting);
        StoreError::unavailable(what).into()
    }

    /// The status of the answer.
    pub(super) fn status(&self) -> StatusCode {
        self.meaning().0
    }

    /// The type of the error in a JSON envelope.
    pub(super) fn kind(&self) -> &'static str {
        self.meaning().1
    }

    fn meaning(&self) -> (StatusCode, &'static str) {
        match self {
            Self::BadRequest(_) => BAD_DATA,
            Self::NotFound(_) => (StatusCode::NOT_FOUND, "not_found"),
            Self::NotReady(_) => UNAVAILABLE,
            Self::TimedOut(_) => TIMEOUT,
            Self::Chunk { .. } | Self::Aborted(_) => INTERNAL,
            Self::Store(StoreError::Limit(_) | StoreError::Invalid(_)) => BAD_DATA,
            Self::Store(error) => store_failure(error),
            Self::Query(error) => match error {
                QueryError::Invalid(_) => BAD_DATA,
                QueryError::Execution(_)
                | QueryError::TooManySamples { .. }
                | QueryError::Limit { .. }
                | QueryError::Store(StoreError::Limit(_) | StoreError::Invalid(_)) => EXECUTION,
                QueryError::TooCostly { .. } => COST_LIMIT,
                QueryError::Busy { .. } => UNAVAILABLE,
                QueryError::TimedOut { .. } => TIMEOUT,
                QueryError::Canceled => {
                    let status = StatusCode::from_u16(CLIENT_CLOSED_REQUEST);
                    (status.unwrap_or(StatusCode::BAD_REQUEST), "canceled")
                }
                QueryError::Store(error) => store_failure(error),
            },
        }
    }

    /// When the client may retry.
    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::NotReady(_) => Some(Duration::from_secs(1)),
            Self::Query(QueryError::Busy { .. }) => Some(RETRY_AFTER),
            Self::Store(error) | Self::Query(QueryError::Store(error)) => match error {
                StoreError::Unavailable { retry_after, .. } => Some(*retry_after),
                StoreError::Denied(_) => Some(RETRY_AFTER),
                _ => None,
            },
            _ => None,
        }
    }
}

/// The status and the kind of a store's failure.
fn store_failure(error: &StoreError) -> (StatusCode, &'static str) {
    match error {
        StoreError::Unavailable { .. } | StoreError::Denied(_) => UNAVAILABLE,
        _ => INTERNAL,
    }
}

impl From<QueryError> for ApiError {
    fn from(error: QueryError) -> Self {
        match error {
            QueryError::Invalid(why) => {
                Self::BadRequest(format!("invalid parameter \"query\": {why}"))
            }
            error => Self::Query(error),
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
            // Whole seconds, rounded up, and never 0.
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
        check(QueryError::Busy { what: "x".into(), setting: "y" }.into(), 503, Some("5"));
        check(QueryError::Limit { what: "x".into(), setting: "y" }.into(), 422, None);
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
