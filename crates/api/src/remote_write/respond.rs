//! Outcomes and refusals in the words of remote write.
//!
//! Parts that can never be accepted are answered 400 (or 413, 415); failures of the server are answered 503 or 500,
//! which senders retry. Answers to version 2 contain the numbers of stored samples, also on failure; answers to
//! version 1 never do, because senders take these headers as the sign of version 2.

use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};

use crate::request_error::RequestError;
use crate::response_budget::LITTLE;
use crate::write_request::{LINE, refused_status, shortened};
use promkairos_ingest::SeriesAnswer;
use promkairos_model::{Protocol, Rejections, WriteOutcome};

/// The answer to a request of this protocol; `None` = it has none that is known.
pub(super) fn respond(
    protocol: Option<Protocol>,
    result: Result<WriteOutcome, RequestError>,
    beyond_series: SeriesAnswer,
) -> Response {
    let mut written = WriteOutcome::default();
    let mut response = match result {
        Ok(outcome) => {
            written = outcome;
            if written.rejections.is_empty() {
                StatusCode::NO_CONTENT.into_response()
            } else {
                let reasons = reasons(&written.rejections);
                let line = reasons.trim_end().replace('\n', "; ");
                tracing::debug!("parts of a remote write were refused: {line}");
                (refused_status(&written.rejections, beyond_series), reasons).into_response()
            }
        }
        Err(error) => {
            tracing::debug!("a remote write was refused: {error}");
            error.into_response()
        }
    };
    if protocol == Some(Protocol::V2) {
        const SAMPLES: &str = "x-prometheus-remote-write-samples-written";
        const HISTOGRAMS: &str = "x-prometheus-remote-write-histograms-written";
        const EXEMPLARS: &str = "x-prometheus-remote-write-exemplars-written";
        let headers = response.headers_mut();
        let counts = [
            (SAMPLES, written.samples),
            (HISTOGRAMS, written.histograms),
            (EXEMPLARS, written.exemplars),
        ];
        for (name, count) in counts {
            headers.insert(HeaderName::from_static(name), HeaderValue::from(count));
        }
    }
    response
}

/// The answer for stored data needs no reservation: all lines with their ends, and the last one, fit.
const _: () = assert!(Rejections::KEPT * (LINE + "…\n".len()) + 64 <= LITTLE);

/// The reasons, one a line, the first one first: senders log the first 256 or 1,024 bytes.
fn reasons(rejections: &Rejections) -> String {
    let mut text = String::new();
    for reject in rejections.kept() {
        // Label names may contain line breaks.
        let line = reject.to_string().replace(['\n', '\r'], " ");
        text.push_str(&shortened(line, LINE));
        text.push('\n');
    }
    let more = rejections.len() - rejections.kept().len();
    if more > 0 {
        text.push_str(&format!("and {more} more\n"));
    }
    text
}
