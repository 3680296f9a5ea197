//! Why a request with a body fails, as a response.

use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::error::ApiError;
use promkairos_ingest::Refusal;
use promkairos_storage::StoreError;

/// Why a request with a body fails.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestError {
    /// A type or an encoding that is not accepted.
    #[error("{0}")]
    UnsupportedType(String),
    /// Not a zstd frame, or a frame that does not declare its content size.
    #[error("body is not a zstd frame that says how large its content is")]
    Zstd,
    /// The body did not arrive in time.
    #[error("body did not arrive within {0:?}, which is the setting http-body-timeout")]
    BodyTooSlow(Duration),
    /// The body did not arrive completely.
    #[error("body broke off: {0}")]
    BodyBroken(axum::Error),
    /// The body, or what is in it, is refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Any other failure.
    #[error(transparent)]
    Api(#[from] ApiError),
}

impl From<StoreError> for RequestError {
    fn from(error: StoreError) -> Self {
        Self::Api(error.into())
    }
}

impl IntoResponse for RequestError {
    fn into_response(self) -> Response {
        let status = match self {
            Self::Api(error) => return error.into_response(),
            Self::Refused(Refusal::Store(error)) => return ApiError::from(error).into_response(),
            Self::Refused(Refusal::TooFast { retry_after, .. }) => {
                let after = HeaderValue::from(retry_after.as_secs_f64().ceil() as u64);
                let status = StatusCode::TOO_MANY_REQUESTS;
                return (status, [(header::RETRY_AFTER, after)], format!("{self}\n"))
                    .into_response();
            }
            Self::UnsupportedType(_) => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Refused(Refusal::BodyTooLarge(_)) => StatusCode::PAYLOAD_TOO_LARGE,
            // Not 408: senders drop a batch on 4xx, and a slow network is temporary.
            Self::BodyTooSlow(_) => StatusCode::SERVICE_UNAVAILABLE,
            // Malformed chunks, a body cut short, a client that went away.
            Self::BodyBroken(_)
            | Self::Zstd
            | Self::Refused(Refusal::Malformed(_) | Refusal::Limit { .. }) => {
                StatusCode::BAD_REQUEST
            }
        };
        (status, format!("{self}\n")).into_response()
    }
}
