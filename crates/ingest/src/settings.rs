//! The settings that limit writes. `promkairos_model::limits` has their defaults, and the maximum of some.

use promkairos_model::{LabelLimits, TimeLimits, limits};

/// Limits of writes. Changes while the server runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteLimits {
    /// Bytes of a body as received, before decompression; for other requests than writes too.
    pub body_bytes: usize,
    /// Bytes of a decoded body, of remote reads too.
    pub decoded_bytes: usize,
    /// Series in one request.
    pub series_per_request: usize,
    /// Floats and histograms in one request.
    pub samples_per_request: usize,
    /// How far the times of samples and exemplars may be from the clock.
    pub sample_times: TimeLimits,
    /// Limits of the labels of a new series.
    pub labels: LabelLimits,
    /// Series written to within the last hour; `None` = no limit.
    pub active_series: Option<u64>,
    /// The same for one metric.
    pub active_series_per_metric: Option<u64>,
    /// Bytes of the metadata of metric families, counted as `promkairos_model::limits` says.
    pub metadata_bytes: usize,
    /// The answer to the sender of a series or a family beyond these limits.
    pub series_answer: SeriesAnswer,
    /// Floats and histograms per second; `None` = no limit.
    pub samples_per_second: Option<u64>,
}

/// The answer to the sender of a series or a family beyond a limit. The rest of its request is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeriesAnswer {
    /// 400: the sender continues without the series.
    Drop,
    /// 429: the sender may be configured to retry.
    Retry,
}

impl Default for WriteLimits {
    /// The values of `promkairos_model::limits`.
    fn default() -> Self {
        Self {
            body_bytes: limits::MAX_BODY_BYTES,
            decoded_bytes: limits::MAX_DECODED_BYTES,
            series_per_request: limits::MAX_SERIES_PER_REQUEST,
            samples_per_request: limits::MAX_SAMPLES_PER_REQUEST,
            sample_times: TimeLimits {
                lead: Some(limits::MAX_SAMPLE_LEAD),
                ..TimeLimits::default()
            },
            labels: limits::LABEL_LIMITS,
            active_series: None,
            active_series_per_metric: None,
            metadata_bytes: limits::MAX_METADATA_BYTES,
            series_answer: SeriesAnswer::Drop,
            samples_per_second: None,
        }
    }
}
