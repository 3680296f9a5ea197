//! Why a whole request is refused, whatever its protocol. Each protocol renders it in its own words.

use std::time::Duration;

use promkairos_model::ShownSize;
use promkairos_storage::StoreError;
use promkairos_telemetry::BODY_REFUSED;

use super::parser::ParseError;

/// The setting that limits the bytes of a body.
pub const BODY_SIZE: &str = "max-request-body-size";
/// The setting that limits the bytes of a decoded body.
pub const DECODED_SIZE: &str = "max-decoded-body-size";
/// The settings that limit one request.
pub(crate) const SERIES_PER_REQUEST: &str = "max-series-per-request";
pub(crate) const SAMPLES_PER_REQUEST: &str = "max-samples-per-request";
/// The setting that limits samples per second.
pub(crate) const SAMPLES_PER_SECOND: &str = "max-samples-per-second";

/// Why a whole request is refused.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// The body has more bytes than this.
    #[error("body has more than {}, which is the setting {BODY_SIZE}", ShownSize::of(*.0))]
    BodyTooLarge(usize),
    /// The request is beyond a limit that is a setting.
    #[error("{what} in one request, and the setting {setting} is {most}")]
    Limit {
        /// The number, and of what.
        what: String,
        /// The setting.
        setting: &'static str,
        /// The value of the setting, formatted for display.
        most: String,
    },
    /// Too many samples per second.
    #[error("more samples than the {most} a second of the setting {SAMPLES_PER_SECOND}")]
    TooFast {
        /// The value of the setting.
        most: u64,
        /// When samples are accepted again.
        retry_after: Duration,
    },
    /// The body is not a request of the protocol.
    #[error(transparent)]
    Malformed(#[from] ParseError),
    /// The store failed, or there is no memory for the request now.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Refusal {
    /// A body of `declared` decoded bytes, where at most `most` are accepted.
    pub fn decoded(declared: u64, most: usize) -> Self {
        let what = format!("{} decoded", ShownSize::of(declared));
        Self::Limit { what, setting: DECODED_SIZE, most: ShownSize::of(most).to_string() }
    }

    /// The setting whose limit is exceeded.
    pub fn setting(&self) -> Option<&'static str> {
        match self {
            Self::BodyTooLarge(_) => Some(BODY_SIZE),
            Self::Limit { setting, .. } => Some(*setting),
            Self::TooFast { .. } => Some(SAMPLES_PER_SECOND),
            Self::Malformed(_) | Self::Store(_) => None,
        }
    }

    /// The metric label of a refusal that is the sender's fault.
    pub(crate) fn reason(&self) -> Option<&'static str> {
        match self {
            Self::Malformed(_) => Some(BODY_REFUSED),
            refusal => refusal.setting(),
        }
    }

    /// The key of the throttled log; `None` = no line, because the failure is logged by itself.
    pub(crate) fn kind(&self) -> Option<&'static str> {
        match self {
            Self::Store(StoreError::Unavailable { .. } | StoreError::Denied(_)) => {
                Some("unavailable")
            }
            refusal => refusal.reason(),
        }
    }
}
