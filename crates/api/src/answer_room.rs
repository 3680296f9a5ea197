//! Reserves room in the response budget for every answer of more than 8 KiB, until its last byte is written.
//!
//! An answer without room becomes 503. Pieces that are not written yet keep the room too.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http_body::{Body as _, Frame, SizeHint};

use super::admission::ListPermit;
use super::error::ApiError;
use super::pieces::BodyPieces;
use super::response_budget::{AnswerTo, LITTLE, Room};
use super::state::{AppState, SharedState};
use promkairos_storage::{MEMORY_LIMIT, Refused, StoreError};

/// Bytes that are counted for a body that is built while it is sent: one or two pieces, their source if it is
/// small, and the compressor.
const STREAM: usize = 256 << 10;
/// The path that shows an operator why others are refused.
const METRICS: &str = "/metrics";

/// What an answer holds beside its body, set by its handler.
#[derive(Clone)]
struct Holds {
    bytes: usize,
    _turn: ListPermit,
}

/// Marks an answer that was made with this permit and holds `bytes` bytes beside its body, until it is sent.
pub(super) fn holding(mut response: Response, turn: ListPermit, bytes: usize) -> Response {
    response.extensions_mut().insert(Holds { bytes, _turn: turn });
    response
}

/// Reserves room for an answer.
pub(super) async fn keep(
    State(state): State<SharedState>,
    request: Request,
    next: Next,
) -> Response {
    let is_metrics = request.uri().path() == METRICS;
    let taker = request.extensions().get::<AnswerTo>().cloned();
    let mut response = next.run(request).await;
    let holds = response.extensions_mut().remove::<Holds>();
    let body = response.body().size_hint().exact();
    let body = body.map_or(STREAM, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    let bytes = body.saturating_add(holds.as_ref().map_or(0, |holds| holds.bytes));
    if bytes <= LITTLE {
        return response;
    }
    let unsent = &state.unsent;
    let (pool, patience) = match &holds {
        Some(_) => (&unsent.lists, unsent.patience),
        None if is_metrics => (&unsent.metrics, Duration::ZERO),
        None => (&unsent.others, Duration::ZERO),
    };
    match pool.room(bytes, taker, patience).await {
        Some(room) => {
            let room = Arc::new(room);
            response.map(|body| Body::new(Kept { body: BodyPieces::new(body), room }))
        }
        None => refused(&state, bytes),
    }
}

fn refused(state: &AppState, bytes: usize) -> Response {
    state.pressure.count(Refused::Read);
    let what = format!(
        "answers that are being sent to other clients leave no room for this one of {bytes} bytes; together they may \
         take a part of the setting {MEMORY_LIMIT}"
    );
    ApiError::from(StoreError::unavailable(what)).into_response()
}

/// A body being sent, and its room.
struct Kept {
    body: BodyPieces,
    room: Arc<Room>,
}

/// A piece that is not written yet. It is a part of the answer's memory, so it keeps the room.
struct UnwrittenPiece {
    bytes: Bytes,
    _room: Arc<Room>,
}

impl AsRef<[u8]> for UnwrittenPiece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl http_body::Body for Kept {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let next = self.body.poll(context);
        let room = &self.room;
        let in_room = |frame: Frame<Bytes>| {
            frame.map_data(|bytes| {
                Bytes::from_owner(UnwrittenPiece { bytes, _room: Arc::clone(room) })
            })
        };
        next.map(|next| next.map(|frame| frame.map(in_room)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.has_ended()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::response_budget::Pool;
    use promkairos_model::limits::ANSWER_PIECE_BYTES;

    #[tokio::test]
    async fn a_large_body_comes_in_pieces_and_says_how_long_it_is() {
        let pool = Pool::new(1 << 20, Arc::default());
        let room = pool.room(1, None, Duration::ZERO).await.expect("there is some");
        let whole: Vec<u8> = (0..3 * ANSWER_PIECE_BYTES + 5).map(|at| at as u8).collect();
        let mut kept =
            Kept { body: BodyPieces::new(Body::from(whole.clone())), room: Arc::new(room) };
        let mut pieces = Vec::new();
        let mut taken = Vec::new();
        while !kept.is_end_stream() {
            assert_eq!(kept.size_hint().exact(), Some((whole.len() - taken.len()) as u64));
            let frame = std::future::poll_fn(|context| Pin::new(&mut kept).poll_frame(context));
            let data = frame.await.expect("more").expect("whole").into_data().expect("data");
            assert!(data.len() <= ANSWER_PIECE_BYTES);
            taken.extend_from_slice(&data);
            pieces.push(data);
        }
        assert_eq!(taken, whole);
        drop(kept);
        let free = || pool.free.available_permits();
        assert_eq!(free(), (1 << 10) - 1, "pieces of it are not written yet");
        drop(pieces);
        assert_eq!(free(), 1 << 10);
    }
}
