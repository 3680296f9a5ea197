//! KairosDB's telnet protocol: `put`, `putm`, `puts` and `version` on one connection.
//!
//! The lines that have arrived are one batch of the store, which the pipeline of `ingest` limits, stores and counts.
//! Nothing is answered to a line that is refused, as in KairosDB: it is counted and logged. A batch that may be taken
//! later is tried again, and the client is not read meanwhile. The protocol has no login and no acknowledgement. A
//! request over HTTP ends its connection, since a web page may have sent it.
//!
//! Who listens, and how many connections there may be, is not decided here.

mod lines;
mod parser;

use std::io;
use std::time::Duration;

use axum::http::StatusCode;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use self::lines::{Batch, Lines, MAX_BUFFER, MAX_LINE};
use self::parser::{Found, TelnetLines};
use crate::state::{AppState, SharedState};
use crate::write_request::{LINE, WriteRequest, refused_status, shortened};
use promkairos_ingest::{Parser as _, Refusal};
use promkairos_model::WriteOutcome;
use promkairos_storage::StoreError;
use promkairos_telemetry::BODY_REFUSED;

/// Approximate bytes of a connection in memory, rounded up: what has arrived, and the batch that is being stored.
pub const TELNET_CONNECTION_BYTES: u64 = 2 * MAX_BUFFER as u64;

/// What batches are called in metrics.
const PROTOCOL: &str = "kairosdb-telnet";
/// Most lines of a batch.
const MAX_LINES: usize = 8_192;
/// How long a client may send nothing.
const IDLE: Duration = Duration::from_secs(3_600);
/// How long a client may read nothing of an answer.
const ANSWER_STALL: Duration = Duration::from_secs(10);
/// Most time between two attempts to store a batch.
const PAUSE: Duration = Duration::from_secs(1);
/// How long a connection is still read and stored after the stop began.
const STOP: Duration = Duration::from_secs(5);
const VERSION: &str = concat!("KairosDB 1.3.0 (promkairos ", env!("CARGO_PKG_VERSION"), ")\n");

/// Serves one connection until the client disconnects, or `stopped` is true. What has arrived until then is stored
/// first, as far as that is possible within [`STOP`].
pub async fn serve_telnet(
    state: SharedState,
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    stopped: watch::Receiver<bool>,
) -> io::Result<()> {
    let mut deadline = std::pin::pin!(after_stop(stopped.clone()));
    let mut lines = Lines::default();
    let mut takes_answers = true;
    loop {
        tokio::select! {
            biased;
            () = &mut deadline => {
                tell_loss("");
                return Ok(());
            }
            filled = timeout(IDLE, lines.fill(&mut stream)) => match filled {
                Ok(Ok(0)) | Err(_) => return Ok(()),
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return Err(error),
            },
            () = until_true(stopped.clone()) => return Ok(()),
        }
        let limits = || state.ingest.limits();
        let most = || MAX_LINES.min(limits().series_per_request).min(limits().samples_per_request);
        let most_bytes = || limits().body_bytes.min(limits().decoded_bytes);
        while let Some(batch) = lines.batch(most().max(1), most_bytes()) {
            let found = tokio::select! {
                biased;
                found = store(&state, &batch) => found,
                () = &mut deadline => {
                    let count = line_count(&batch);
                    tell_loss(&format!("{count} lines and "));
                    return Ok(());
                }
            };
            if found.is_http {
                refuse(
                    &state,
                    1,
                    "a request over HTTP came where telnet lines are taken".to_owned(),
                );
                return Ok(());
            }
            if takes_answers && found.versions > 0 {
                let answer = VERSION.repeat(found.versions);
                let written = timeout(ANSWER_STALL, stream.write_all(answer.as_bytes())).await;
                takes_answers = matches!(written, Ok(Ok(())));
            }
        }
    }
}

async fn until_true(mut flag: watch::Receiver<bool>) {
    // An error means that the sender was dropped together with the server.
    let _ = flag.wait_for(|stop| *stop).await;
}

/// Completes [`STOP`] after the stop began.
async fn after_stop(stopped: watch::Receiver<bool>) {
    until_true(stopped).await;
    sleep(STOP).await;
}

fn tell_loss(lines: &str) {
    tracing::warn!(
        "{lines}all that a telnet client has sent since are lost: they could not be stored within {STOP:?} of the stop"
    );
}

fn line_count(batch: &Batch) -> u64 {
    batch.lines.iter().filter(|byte| **byte == b'\n').count() as u64
}

/// Stores a batch, however long that takes. Returns what the batch has beside points.
async fn store(state: &AppState, batch: &Batch) -> Found {
    if batch.dropped > 0 {
        refuse(
            state,
            batch.dropped,
            format!("a line is longer than {MAX_LINE} bytes, or than a request may be"),
        );
    }
    let parser = TelnetLines::default();
    loop {
        let attempt = WriteRequest::begin(state);
        let written = match state.store() {
            Ok(store) => state.ingest.write_bytes(&**store, batch.lines.clone(), &parser).await,
            Err(error) => Err(StoreError::unavailable(error.to_string()).into()),
        };
        let found = parser.take_found();
        let (code, pause) = judged(state, &written, found.refused + batch.dropped);
        attempt.end(PROTOCOL, code);
        if let Some(pause) = pause {
            if let Err(Refusal::Store(
                error @ (StoreError::Backend { .. } | StoreError::Denied(_)),
            )) = &written
            {
                let why = format!("they are tried again, and the store fails: {error}");
                state.ingest.note_form(TelnetLines::REQUESTS, line_count(batch), why);
            }
            sleep(pause).await;
            continue;
        }
        if let Some(first) = &found.first {
            refuse(state, found.refused, first.clone());
        }
        match &written {
            Ok(WriteOutcome { rejections, .. }) => {
                if let Some(first) = rejections.kept().first() {
                    let why = shortened(first.to_string(), LINE);
                    state.ingest.note_form(TelnetLines::REQUESTS, rejections.len() as u64, why);
                }
            }
            Err(refusal) => refuse(state, line_count(batch), refusal.to_string()),
        }
        return found;
    }
}

/// The status that the outcome would have over HTTP, and how long to wait until the same batch may be taken; `None` =
/// it is done.
fn judged(
    state: &AppState,
    written: &Result<WriteOutcome, Refusal>,
    refused: u64,
) -> (StatusCode, Option<Duration>) {
    match written {
        Ok(WriteOutcome { rejections, .. }) if rejections.is_empty() => match refused {
            0 => (StatusCode::NO_CONTENT, None),
            _ => (StatusCode::BAD_REQUEST, None),
        },
        Ok(WriteOutcome { rejections, .. }) => {
            let status = refused_status(rejections, state.ingest.limits().series_answer);
            (status, (status == StatusCode::TOO_MANY_REQUESTS).then_some(PAUSE))
        }
        Err(Refusal::TooFast { retry_after, .. }) => {
            (StatusCode::TOO_MANY_REQUESTS, Some(*retry_after))
        }
        Err(Refusal::Store(StoreError::Unavailable { retry_after, .. })) => {
            (StatusCode::SERVICE_UNAVAILABLE, Some((*retry_after).min(PAUSE)))
        }
        Err(Refusal::Store(StoreError::Backend { .. } | StoreError::Denied(_))) => {
            (StatusCode::INTERNAL_SERVER_ERROR, Some(PAUSE))
        }
        Err(_) => (StatusCode::BAD_REQUEST, None),
    }
}

/// Counts and logs refused lines.
fn refuse(state: &AppState, lines: u64, why: String) {
    state.metrics.ingest.reject(BODY_REFUSED, lines);
    state.ingest.note_form(TelnetLines::REQUESTS, lines, shortened(why, LINE));
}
