//! `POST /api/v1/datapoints`: points as KairosDB takes them.
//!
//! One request is one batch of the store: the pipeline of `ingest` limits, stores and counts it. Refused parts do not
//! hinder the rest of a request. The answer lists them as `{"errors": [...]}`: 400, or 429 if all of them may be
//! accepted later.

mod gzip;
mod parser;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use tracing::{Instrument, info_span};

use super::failure::Failure;
use crate::body::receive;
use crate::request_error::RequestError;
use crate::state::{AppState, SharedState};
use crate::write_request::{LINE, WriteRequest, note, refused_status, shortened};
use parser::Datapoints;
use promkairos_ingest::{ParseError, Parser, ReceivedBody, Refusal, SeriesAnswer};
use promkairos_kairos_write::Answer;
use promkairos_model::{Rejections, WriteOutcome};

/// What requests are called in metrics.
const PROTOCOL: &str = "kairosdb";

/// The handler.
pub(super) async fn data_points(State(state): State<SharedState>, request: Request) -> Response {
    let attempt = WriteRequest::begin(&state);
    let response = match write(&state, request).await {
        Ok((answer, outcome)) => {
            respond(answer, &outcome.rejections, state.ingest.limits().series_answer)
        }
        Err(error) => Failure::from(error).into_response(),
    };
    attempt.end(PROTOCOL, response.status());
    response
}

async fn write(state: &AppState, request: Request) -> Result<(Answer, WriteOutcome), RequestError> {
    let received = receive_json(state, request).await;
    let body = received.inspect_err(|error| note(state, Datapoints::REQUESTS, error))?;
    let parser = Datapoints::default();
    let outcome = state.ingest.write(&**state.store()?, body, &parser).await?;
    let answer = parser.into_answer();
    if let Some(first) = answer.errors.texts().first() {
        let why = shortened(first.clone(), LINE);
        let refusal = Refusal::from(ParseError::Malformed(why));
        state.ingest.note(Datapoints::REQUESTS, &refusal);
    }
    Ok((answer, outcome))
}

async fn receive_json(state: &AppState, request: Request) -> Result<ReceivedBody, RequestError> {
    let (parts, body) = request.into_parts();
    let is_gzip = is_gzip(&parts.headers)?;
    state.ingest.admit()?;
    state.store()?;
    let (intake, limits) = (state.ingest.intake(), state.ingest.limits());
    let body = receive(intake, &parts.headers, body, limits.body_bytes, &state.metrics.http);
    let body = body.instrument(info_span!("body")).await?;
    if is_gzip { gzip::unpacked(intake, body, limits.decoded_bytes).await } else { Ok(body) }
}

/// Whether the body is compressed. As in KairosDB, the type `application/gzip` says so too; other types are ignored.
fn is_gzip(headers: &HeaderMap) -> Result<bool, RequestError> {
    if headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind == "application/gzip") {
        return Ok(true);
    }
    match headers.get(header::CONTENT_ENCODING) {
        None => Ok(false),
        Some(encoding) if encoding == "identity" => Ok(false),
        Some(encoding) if encoding == "gzip" => Ok(true),
        Some(encoding) => {
            let why = format!("points are not taken with the Content-Encoding {encoding:?}");
            Err(RequestError::UnsupportedType(why))
        }
    }
}

/// The answer after the store has taken the request, with what was refused. Where KairosDB answers 500 to a wrong body,
/// the status is 400.
fn respond(answer: Answer, rejections: &Rejections, beyond_series: SeriesAnswer) -> Response {
    let Answer { mut errors, .. } = answer;
    let status = match errors.count() {
        0 if rejections.is_empty() => return StatusCode::NO_CONTENT.into_response(),
        0 => refused_status(rejections, beyond_series),
        _ => StatusCode::BAD_REQUEST,
    };
    for reject in rejections.kept() {
        errors.add(format_args!("{reject}"));
    }
    errors.leave_out((rejections.len() - rejections.kept().len()) as u64);
    (status, [(header::CONTENT_TYPE, "application/json")], errors.answer()).into_response()
}
