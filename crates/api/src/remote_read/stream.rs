//! Streams answers: STREAMED_XOR_CHUNKS, and answers that are complete already.
//!
//! A separate task reads the store and has the workers encode; a channel with one slot to the connection
//! gives back-pressure. Output is cut into small pieces, so that a slow client does not count as
//! stalled. The task holds the permit of the read. It ends when the client disconnects or accepts
//! nothing for [`ReadLimits::stall`](super::gate::ReadLimits). The body ends cleanly only after the explicit
//! end: any other outcome of the task aborts the connection, so that a client never takes a part for the
//! whole.

use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use futures::stream::{self, Stream, StreamExt};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tracing::Instrument;

use crate::slow::Watch;
use crate::workers::Caller;
use crate::{ApiError, AppState};
use promkairos_model::limits::ANSWER_PIECE_BYTES;
use promkairos_model::{Labels, TimeRange};
use promkairos_promql::PatternRoom;
use promkairos_storage::{Permit, SharedStore};

use super::frames::push_series;
use super::named::named;
use super::request::Query;
use super::runs::{Run, Runs};
use super::window::of_protocol;

/// An item of the channel; `None` is the end.
type Item = Result<Option<Bytes>, ApiError>;

/// Starts the answer. An error before the first byte is returned; a later one aborts the body.
pub(super) async fn start(
    state: Arc<AppState>,
    store: SharedStore,
    queries: Vec<Query>,
    until_sent: (Permit, Watch, PatternRoom),
) -> Result<Body, ApiError> {
    let (sender, mut receiver) = channel(1);
    let counters = state.clone();
    let task = async move {
        let _until_sent = until_sent;
        let work = produce(&counters, &store, queries, &sender);
        tokio::select! {
            result = work => {
                let end = result.map(|()| None);
                let _ = sender.send_timeout(end, counters.reads.limits.stall).await;
            }
            () = sender.closed() => {}
        }
    };
    tokio::spawn(task.in_current_span());
    match receiver.recv().await {
        Some(Ok(Some(first))) => {
            let first = stream::once(async { Ok(first) });
            Ok(Body::from_stream(first.chain(rest(receiver, state))))
        }
        Some(Ok(None)) => Ok(Body::empty()),
        Some(Err(error)) => Err(error),
        None => Err(broken()),
    }
}

/// Streams a complete answer in pieces; `permits` are released when the last piece is taken.
pub(super) fn whole(state: Arc<AppState>, block: Vec<u8>, permits: [Permit; 2]) -> Body {
    let (sender, receiver) = channel(1);
    let stall = state.reads.limits.stall;
    tokio::spawn(async move {
        let _permits = permits;
        for piece in block.chunks(ANSWER_PIECE_BYTES) {
            // Copied, so that a client that is slow with the last pieces does not keep the whole answer in memory.
            let piece = Bytes::copy_from_slice(piece);
            if sender.send_timeout(Ok(Some(piece)), stall).await.is_err() {
                return;
            }
        }
        let _ = sender.send_timeout(Ok(None), stall).await;
    });
    Body::from_stream(rest(receiver, state))
}

/// The body after the first bytes.
fn rest(
    receiver: Receiver<Item>,
    state: Arc<AppState>,
) -> impl Stream<Item = Result<Bytes, ApiError>> {
    stream::unfold(Some(receiver), move |receiver| {
        let state = state.clone();
        async move {
            let mut receiver = receiver?;
            let error = match receiver.recv().await {
                Some(Ok(Some(bytes))) => return Some((Ok(bytes), Some(receiver))),
                Some(Ok(None)) => return None,
                Some(Err(error)) => error,
                None => broken(),
            };
            tracing::error!("remote read aborted: {error}");
            state.metrics.http.read_aborted.inc();
            Some((Err(error), None))
        }
    })
}

fn broken() -> ApiError {
    ApiError::Aborted("the client took nothing for too long, or the reader broke")
}

/// Sends the frames of all queries.
async fn produce(
    state: &AppState,
    store: &SharedStore,
    queries: Vec<Query>,
    sender: &Sender<Item>,
) -> Result<(), ApiError> {
    for (index, query) in queries.into_iter().enumerate() {
        if query.matchers.is_empty() || query.range.is_empty() {
            continue;
        }
        let hints = state.read_hints(query.hints);
        let selection = store.select(&query.matchers, query.range, &hints).await.map_err(named)?;
        let mut runs = Runs::new(selection, hints.max_series_bytes);
        while let Some(run) = runs.next().await {
            let (run, range) = (run.map_err(named)?, query.range);
            let external = query.external.clone();
            let encode = move |caller: &Caller<'_>| encode(&run, range, &external, index, caller);
            let (frames, series) = state.workers.run(encode).await?;
            if frames.is_empty() {
                continue;
            }
            state.metrics.http.read_series.inc_by(series);
            state.metrics.http.read_bytes.inc_by(frames.len() as u64);
            for piece in pieces(frames) {
                if sender.send_timeout(Ok(Some(piece)), state.reads.limits.stall).await.is_err() {
                    return Err(broken());
                }
            }
        }
    }
    Ok(())
}

/// Cuts bytes into pieces without a copy.
fn pieces(mut rest: Bytes) -> impl Iterator<Item = Bytes> {
    std::iter::from_fn(move || {
        let piece = rest.split_to(rest.len().min(ANSWER_PIECE_BYTES));
        (!piece.is_empty()).then_some(piece)
    })
}

/// The frames of a run, and the number of series in them; series without a point in the range are omitted.
/// Series get the external labels that they do not have. They are sorted by their own labels, as in Prometheus.
fn encode(
    run: &Run,
    range: TimeRange,
    external: &Labels,
    index: usize,
    caller: &Caller<'_>,
) -> Result<(Bytes, u64), ApiError> {
    let mut out = Vec::new();
    let (mut sent, mut buffer) = (0, Vec::new());
    for (labels, chunks) in run.series() {
        caller.check()?;
        let damaged = |source| ApiError::Chunk { series: labels.clone(), source };
        let chunks = of_protocol(chunks, range).map_err(damaged)?;
        if !chunks.is_empty() {
            let labels = labels.as_ref().completed_in(external.as_ref(), &mut buffer);
            push_series(&mut out, labels, &chunks, index);
            sent += 1;
        }
    }
    Ok((out.into(), sent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_small_and_nothing_is_copied() {
        let whole =
            Bytes::from((0..3 * ANSWER_PIECE_BYTES + 1).map(|n| n as u8).collect::<Vec<_>>());
        let (mut next, mut lengths) = (whole.as_ptr(), Vec::new());
        let mut joined = Vec::new();
        for piece in pieces(whole.clone()) {
            assert_eq!(piece.as_ptr(), next);
            next = piece.as_ptr_range().end;
            lengths.push(piece.len());
            joined.extend_from_slice(&piece);
        }
        let full = ANSWER_PIECE_BYTES;
        assert_eq!(lengths, [full, full, full, 1]);
        assert_eq!(joined, whole);
        assert_eq!(pieces(Bytes::new()).count(), 0);
    }
}
