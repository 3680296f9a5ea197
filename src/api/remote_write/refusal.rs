//! Why a whole request is refused, as a response.

use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::api::error::ApiError;
use crate::model::ShownSize;
use crate::storage::StoreError;
use crate::telemetry::BODY_REFUSED;
use crate::wire::WireError;

/// The setting that limits the bytes of a body.
const BODY_SIZE: &str = "max-request-body-size";
/// The setting that limits samples per second.
pub(super) const SAMPLES_PER_SECOND: &str = "max-samples-per-second";

/// Why a whole request is refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("{0}")]
    UnsupportedType(String),
    #[error("body has more than {}, which is the setting {name}", ShownSize::of(*.0), name = BODY_SIZE)]
    BodyTooLarge(usize),
    #[error("{what} in one request, and the setting {setting} is {most}")]
    Limit { what: String, setting: &'static str, most: String },
    #[error("more samples than the {most} a second of the setting max-samples-per-second")]
    TooFast { most: u64, retry_after: Duration },
    #[error("body did not arrive within {0:?}, which is the setting http-body-timeout")]
    BodyTooSlow(Duration),
    #[error("body broke off: {0}")]
    BodyBroken(axum::Error),
    #[error(transparent)]
    Wire(#[from] WireError),
    #[error(transparent)]
    Api(#[from] ApiError),
}

impl Refusal {
    /// The setting whose limit is exceeded.
    pub(super) fn setting(&self) -> Option<&'static str> {
        match self {
            Self::BodyTooLarge(_) => Some(BODY_SIZE),
            Self::Limit { setting, .. } => Some(*setting),
            Self::TooFast { .. } => Some(SAMPLES_PER_SECOND),
            Self::UnsupportedType(_)
            | Self::BodyTooSlow(_)
            | Self::BodyBroken(_)
            | Self::Wire(_)
            | Self::Api(_) => None,
        }
    }

    /// The metric label of a refusal that is the sender's fault. A body that did not arrive completely has none,
    /// because it is sent again. An unsupported type or compression has none either, because it says nothing of the
    /// samples: some senders probe in this way, and for the others there is the status.
    pub(super) fn reason(&self) -> Option<&'static str> {
        match self {
            Self::UnsupportedType(_) | Self::Wire(WireError::Zstd) => None,
            Self::Wire(_) => Some(BODY_REFUSED),
            refusal => refusal.setting(),
        }
    }

    /// The key of the throttled log; `None` = no line: a body that did not arrive completely, a start that is still
    /// running, or a failure that is logged by itself.
    pub(super) fn kind(&self) -> Option<&'static str> {
        match self {
            Self::Api(ApiError::Store(StoreError::Unavailable { .. } | StoreError::Denied(_))) => {
                Some("unavailable")
            }
            Self::UnsupportedType(_) | Self::Wire(WireError::Zstd) => Some("form"),
            refusal => refusal.reason(),
        }
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Self::Api(error.into())
    }
}

/// `text` cut to about `limit` bytes.
pub(super) fn shortened(mut text: String, limit: usize) -> String {
    if text.len() > limit {
        let cut = (0..=limit).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(cut);
        text.push('…');
    }
    text
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = match &self {
            Self::UnsupportedType(_) => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::BodyTooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            // Not 408: senders drop a batch on 4xx, and a slow network is temporary.
            Self::BodyTooSlow(_) => StatusCode::SERVICE_UNAVAILABLE,
            // Malformed chunks, a body cut short, a client that went away.
            Self::BodyBroken(_) | Self::Wire(_) | Self::Limit { .. } => StatusCode::BAD_REQUEST,
            Self::TooFast { .. } => StatusCode::TOO_MANY_REQUESTS,
            Self::Api(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        match self {
            Self::Api(error) => error.into_response(),
            Self::TooFast { retry_after, .. } => {
                let after = HeaderValue::from(retry_after.as_secs_f64().ceil() as u64);
                (status, [(header::RETRY_AFTER, after)], format!("{self}\n")).into_response()
            }
            refusal => (status, format!("{refusal}\n")).into_response(),
        }
    }
}
