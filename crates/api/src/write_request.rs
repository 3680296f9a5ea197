//! What the handlers of all write protocols share: the metrics of a request, the log of a refusal, and the status for
//! refused parts.
//!
//! Every answered attempt to write is counted once, with its status. How a protocol words its answer is not
//! decided here.

use std::time::Instant;

use axum::http::StatusCode;

use super::request_error::RequestError;
use super::state::AppState;
use promkairos_ingest::{SeriesAnswer, is_series_limit};
use promkairos_model::Rejections;
use promkairos_storage::MEMORY_LIMIT;
use promkairos_telemetry::{InFlight, IngestMetrics, WriteLabels};

/// Most bytes of one reason in an answer or in the log.
pub(crate) const LINE: usize = 480;

/// A write request from its arrival to its answer.
pub(crate) struct WriteRequest<'a> {
    metrics: &'a IngestMetrics,
    start: Instant,
    _in_flight: InFlight,
}

impl<'a> WriteRequest<'a> {
    /// Counts one more request in flight.
    pub(crate) fn begin(state: &'a AppState) -> Self {
        let metrics = &state.metrics.ingest;
        let _in_flight = InFlight::enter(&metrics.in_flight);
        Self { metrics, start: Instant::now(), _in_flight }
    }

    /// Counts the answer, with the name of the protocol in metrics.
    pub(crate) fn end(self, protocol: &'static str, status: StatusCode) {
        let labels = WriteLabels { protocol, code: status.as_u16() };
        self.metrics.requests.get_or_create(&labels).inc();
        self.metrics.duration.observe(self.start.elapsed().as_secs_f64());
    }
}

/// Counts and logs a request that is refused before the pipeline has its body. An unsupported type or compression is
/// not counted, because it says nothing of the samples: some senders probe in this way, and for the others there is
/// the status. A body that did not arrive completely is sent again, and a start that is still running is temporary.
pub(crate) fn note(state: &AppState, requests: &'static str, error: &RequestError) {
    match error {
        RequestError::Refused(refusal) => state.ingest.note(requests, refusal),
        RequestError::UnsupportedType(_) | RequestError::Zstd => {
            state.ingest.note_form(requests, 1, error.to_string());
        }
        RequestError::BodyTooSlow(_) | RequestError::BodyBroken(_) | RequestError::Api(_) => {}
    }
}

/// The status for refused parts: 429 only if all of them may be accepted later. Metadata beyond its limit is not
/// accepted later, because metadata is never deleted.
pub(crate) fn refused_status(rejections: &Rejections, beyond_series: SeriesAnswer) -> StatusCode {
    let only = |passes: fn(&str) -> bool| rejections.counts().iter().all(|(why, _)| passes(why));
    let may_pass = match beyond_series {
        SeriesAnswer::Retry => only(|why| why == MEMORY_LIMIT || is_series_limit(why)),
        SeriesAnswer::Drop => only(|why| why == MEMORY_LIMIT),
    };
    if may_pass { StatusCode::TOO_MANY_REQUESTS } else { StatusCode::BAD_REQUEST }
}

/// `text` cut to about `limit` bytes.
pub(crate) fn shortened(mut text: String, limit: usize) -> String {
    if text.len() > limit {
        let cut = (0..=limit).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(cut);
        text.push('…');
    }
    text
}
