//! `POST /api/v1/write`: remote write 1.0 and 2.0.
//!
//! Parts that can never be accepted are answered 400 (or 413, 415) and the rest of the request is
//! stored; failures of the server are answered 503 or 500, which senders retry. Type and encoding
//! are checked before the body is read, and the rate limit before anything is stored. Answers to
//! version 2 contain the numbers of stored samples, also on failure; answers to version 1 never do,
//! because senders take these headers as the sign of version 2.

mod active;
mod families;
pub(super) mod ingest_limits;
pub(super) mod intake;
mod limiter_warmup;
mod negotiate;
mod rate;
mod refusal;
mod series_limiter;
mod throttled_log;
mod zstd_body;

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use tracing::{Instrument, info_span};

use super::{AppState, response_budget};
use crate::config::{SeriesAnswer, TypeAndUnitLabels, WriteLimits};
use crate::model::{self, Protocol, Rejections, SampleTimes, WriteOutcome};
use crate::storage::MEMORY_LIMIT;
use crate::telemetry::{InFlight, IngestMetrics, WriteLabels};
use crate::wire::{self, Policy, WireError, snappy};

use negotiate::Encoding;

pub(crate) use intake::{DECODED_SIZE, Intake, check_decoded};
pub use limiter_warmup::{learn_metadata, learn_series};
pub(crate) use refusal::Refusal;
use refusal::shortened;

/// Approximate least memory of a new series. Without room for it the store refuses new series.
const NEW_SERIES_BYTES: u64 = 1 << 10;

/// The handler. One request is one batch of the store.
pub(crate) async fn remote_write(State(state): State<Arc<AppState>>, request: Request) -> Response {
    let start = Instant::now();
    let _in_flight = InFlight::enter(&state.metrics.ingest.in_flight);
    let (parts, body) = request.into_parts();
    let (protocol, result) = match negotiate::protocol(&parts.headers) {
        Ok(protocol) => (Some(protocol), accept(&state, protocol, &parts.headers, body).await),
        Err(refusal) => (None, Err(refusal)),
    };
    let metrics = &state.metrics.ingest;
    let beyond_series = state.writes.limits().series_answer;
    match &result {
        Ok(outcome) => state.writes.tell_of_memory(&outcome.rejections),
        Err(refusal) => note(&state, refusal),
    }
    let response = respond(protocol, result, beyond_series, metrics);
    let protocol = match protocol {
        Some(Protocol::V1) => "1",
        Some(Protocol::V2 | Protocol::V2Typed) => "2",
        None => "unknown",
    };
    let labels = WriteLabels { protocol, code: response.status().as_u16() };
    metrics.requests.get_or_create(&labels).inc();
    metrics.duration.observe(start.elapsed().as_secs_f64());
    response
}

/// Counts and logs that a whole request is refused.
fn note(state: &AppState, refusal: &Refusal) {
    if let Some(reason) = refusal.reason() {
        state.metrics.ingest.reject(reason, 1);
    }
    // The reader of a body already counts bodies that are too large.
    if let Some(setting) = refusal.setting()
        && !matches!(refusal, Refusal::BodyTooLarge(_))
    {
        state.metrics.http.limits.reached(setting);
    }
    if let Some(kind) = refusal.kind() {
        state.writes.tell(kind, refusal);
    }
}

/// Reads, decodes and stores the body.
async fn accept(
    state: &AppState,
    protocol: Protocol,
    headers: &HeaderMap,
    body: Body,
) -> Result<WriteOutcome, Refusal> {
    let encoding = negotiate::encoding(headers, protocol)?;
    state.pressure.check_write()?;
    let store = state.store()?;
    let limits = state.writes.limits();
    let body = state.intake.read(headers, body, limits.body_bytes, &state.metrics.http);
    let mut body = body.instrument(info_span!("body")).await?;
    if encoding == Encoding::Zstd {
        body = state.intake.as_snappy(body, limits.decoded_bytes).await?;
    }
    check_decoded(&body.bytes, limits.decoded_bytes)?;
    let decoded = snappy::declared_len(&body.bytes)?;
    let protocol = match (protocol, state.type_and_unit_labels) {
        (Protocol::V2, TypeAndUnitLabels::Enabled) => Protocol::V2Typed,
        (protocol, _) => protocol,
    };
    let room = state.intake.room_to_decode(protocol, decoded);
    let mut room = room.instrument(info_span!("wait")).await?;
    let compressed = model::Body { protocol, compressed: &body.bytes };
    let times = SampleTimes::at(state.clock.now_ms(), limits.sample_times);
    let within = Policy::AcceptWithin { times, bytes: room.bytes() };
    let scratch = room.scratch();
    let batch = info_span!("decode")
        .in_scope(|| intake::run_long(decoded, || wire::decode(compressed, scratch, within)));
    let batch = match batch {
        Err(WireError::Expands(_)) => {
            // The room is released before the wait for all of it, so that the wait can end.
            drop(room);
            let all = state.intake.all_room_to_decode();
            room = all.instrument(info_span!("wait")).await?;
            state.pressure.check_large_write()?;
            let within = Policy::AcceptWithin { times, bytes: usize::MAX };
            let scratch = room.scratch();
            info_span!("decode").in_scope(|| {
                intake::run_long(decoded, || wire::decode(compressed, scratch, within))
            })
        }
        batch => batch,
    };
    let mut batch = batch.map_err(|error| undecoded(error, &limits))?;
    let refuses_new = state.has_log && !state.pressure.has_room_for_series(NEW_SERIES_BYTES);
    intake::run_long(decoded, || {
        state.writes.judge(&limits, refuses_new, &mut batch, &state.metrics)
    })?;
    if batch.series.is_empty() && batch.metadata.is_empty() {
        return Ok(WriteOutcome { rejections: batch.rejections, ..WriteOutcome::default() });
    }
    let (series, samples) = (batch.series.len() as i64, batch.samples.len() as i64);
    let without_metadata = batch.without_metadata;
    let outcome = store.write(batch).instrument(info_span!("store", series, samples)).await?;
    // For samples that were refused after decoding it is unknown whether they have metadata.
    let without_metadata = without_metadata.min(outcome.samples + outcome.histograms);
    state.metrics.ingest.without_metadata.inc_by(without_metadata);
    Ok(outcome)
}

/// The refusal of a body that does not decode. A value beyond the largest value of a setting is beyond the setting too.
fn undecoded(error: WireError, limits: &WriteLimits) -> Refusal {
    let WireError::Limit { what, limit } = error else { return error.into() };
    let (setting, most) = match what {
        wire::SERIES => (ingest_limits::SERIES_PER_REQUEST, limits.series_per_request),
        wire::SAMPLES => (ingest_limits::SAMPLES_PER_REQUEST, limits.samples_per_request),
        _ => return error.into(),
    };
    Refusal::Limit { what: format!("more than {limit} {what}"), setting, most: most.to_string() }
}

fn respond(
    protocol: Option<Protocol>,
    result: Result<WriteOutcome, Refusal>,
    beyond_series: SeriesAnswer,
    metrics: &IngestMetrics,
) -> Response {
    let mut written = WriteOutcome::default();
    let mut response = match result {
        Ok(outcome) => {
            count(&outcome, metrics);
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
        Err(refusal) => {
            tracing::debug!("a remote write was refused: {refusal}");
            refusal.into_response()
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

/// The status for refused parts: 429 only if all of them may be accepted later. Metadata beyond its limit is not
/// accepted later, because metadata is never deleted.
fn refused_status(rejections: &Rejections, beyond_series: SeriesAnswer) -> StatusCode {
    let only = |passes: fn(&str) -> bool| rejections.counts().iter().all(|(why, _)| passes(why));
    let may_pass = match beyond_series {
        SeriesAnswer::Retry => {
            only(|why| why == MEMORY_LIMIT || series_limiter::SETTINGS.contains(&why))
        }
        SeriesAnswer::Drop => only(|why| why == MEMORY_LIMIT),
    };
    if may_pass { StatusCode::TOO_MANY_REQUESTS } else { StatusCode::BAD_REQUEST }
}

fn count(outcome: &WriteOutcome, metrics: &IngestMetrics) {
    metrics.samples.inc_by(outcome.samples);
    metrics.histograms.inc_by(outcome.histograms);
    metrics.exemplars.inc_by(outcome.exemplars);
    metrics.metadata.inc_by(outcome.metadata);
    for &(reason, count) in outcome.rejections.counts() {
        metrics.reject(reason, count);
    }
    for &(reason, points) in outcome.rejections.points() {
        metrics.refuse(reason, points);
    }
}

/// Most bytes of a reason in the answer.
const LINE: usize = 480;
/// The answer for stored data needs no reservation: all lines with their ends, and the last one, fit.
const _: () = assert!(Rejections::KEPT * (LINE + "…\n".len()) + 64 <= response_budget::LITTLE);

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
