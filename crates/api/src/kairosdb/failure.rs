//! A request that failed, as an answer of KairosDB: `{"errors": [...]}`.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::error::ApiError;
use crate::request_error::RequestError;
use promkairos_kairos_query::{self as kairos_query, render_errors};
use promkairos_model::limits::NO_SETTING;
use promkairos_storage::StoreError;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The query is refused, or fails over these points.
    #[error("{0}")]
    Query(#[from] kairos_query::QueryError),
    /// A feature that is not implemented.
    #[error("{0}")]
    NotSupported(&'static str),
    /// A setting does not allow it.
    #[error("{0}")]
    Forbidden(&'static str),
    /// Any other failure, with or without a body.
    #[error("{0}")]
    Request(#[from] RequestError),
}

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        Self::Request(error.into())
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Request(error.into())
    }
}

impl Failure {
    fn messages(&self) -> Vec<String> {
        match self {
            Self::Query(kairos_query::QueryError::Limit { what, .. }) => {
                vec![format!("{what}; {NO_SETTING}")]
            }
            Self::Query(error) => error.messages(),
            Self::NotSupported(_) | Self::Forbidden(_) | Self::Request(_) => vec![self.to_string()],
        }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let body = render_errors(&self.messages());
        let json = [(header::CONTENT_TYPE, "application/json")];
        match self {
            Self::Query(error) => {
                let status = StatusCode::from_u16(error.status());
                (status.unwrap_or(StatusCode::BAD_REQUEST), json, body).into_response()
            }
            Self::NotSupported(_) => (StatusCode::NOT_IMPLEMENTED, json, body).into_response(),
            Self::Forbidden(_) => (StatusCode::FORBIDDEN, json, body).into_response(),
            Self::Request(error) => {
                let answer = error.into_response();
                let after = answer.headers().get(header::RETRY_AFTER).cloned();
                let after = after.map(|after| [(header::RETRY_AFTER, after)]);
                (answer.status(), json, after, body).into_response()
            }
        }
    }
}
