//! Room for answers that wait for their clients: who reads slowly keeps an answer in memory long after it was made.
//!
//! Every answer is counted from its head until its body was sent or given up, unless it is so small that no number
//! of connections matters. Where a kind of answers has no room left, another one of it is 503 and what it held is
//! gone. One that was made in a turn ([`super::turns`]) keeps the turn and waits a little for room, so that only so
//! many wait. The points of large results of queries have room of their own, which their engine gives.
//!
//! How fast a client has to read is not known here.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http_body::{Body as _, Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::pieces::Pieces;
use super::turns::Turn;
use super::{ApiError, AppState};
use crate::limits::RETRY_AFTER;
use crate::storage::{MEMORY_LIMIT, Refused, StoreError};

/// Bytes of an answer that needs no room.
pub(super) const LITTLE: usize = 8 << 10;
/// Bytes that are counted of a body that is made while it is sent: a piece or two of it, what they are made of
/// where that is small, and what compresses them.
const STREAM: usize = 256 << 10;
/// Bytes by which room is given.
const UNIT: usize = 1 << 10;
const PATIENCE: Duration = Duration::from_secs(5);
/// What tells an operator why others are refused.
const METRICS: &str = "/metrics";

/// The room that there is.
pub(super) struct Unsent {
    /// For answers that were made in a turn.
    lists: Pool,
    metrics: Pool,
    others: Pool,
    /// How long an answer that was made in a turn waits for room: meanwhile no other one has its turn.
    patience: Duration,
}

struct Pool {
    free: Arc<Semaphore>,
    units: u32,
}

/// What an answer holds beside its body, as who made it says.
#[derive(Clone)]
struct Holds {
    bytes: usize,
    _turn: Turn,
}

/// An answer that was made in this turn and holds so many bytes beside its body, until that was sent.
pub(super) fn holding(mut response: Response, turn: Turn, bytes: usize) -> Response {
    response.extensions_mut().insert(Holds { bytes, _turn: turn });
    response
}

/// Gives an answer its room.
pub(super) async fn keep(
    State(state): State<Arc<AppState>>,
    request: Request,
    next: Next,
) -> Response {
    let is_metrics = request.uri().path() == METRICS;
    let mut response = next.run(request).await;
    let holds = response.extensions_mut().remove::<Holds>();
    let body = response.body().size_hint().exact();
    let body = body.map_or(STREAM, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    let bytes = body.saturating_add(holds.as_ref().map_or(0, |holds| holds.bytes));
    if bytes <= LITTLE {
        return response;
    }
    let unsent = &state.unsent;
    let room = match &holds {
        Some(_) => timeout(unsent.patience, unsent.lists.room(bytes)).await.ok(),
        None if is_metrics => unsent.metrics.room_at_once(bytes),
        None => unsent.others.room_at_once(bytes),
    };
    match room {
        Some(room) => response.map(|body| Body::new(Kept { body: Pieces::new(body), _room: room })),
        None => refused(&state, bytes),
    }
}

fn refused(state: &AppState, bytes: usize) -> Response {
    state.pressure.count(Refused::Read);
    let what = format!(
        "answers that are being sent to other clients leave no room for this one of {bytes} bytes; together they may \
         take a part of the setting {MEMORY_LIMIT}"
    );
    ApiError::from(StoreError::Unavailable { what, retry_after: RETRY_AFTER }).into_response()
}

impl Default for Unsent {
    /// As much as there is.
    fn default() -> Self {
        Self::new(u64::MAX)
    }
}

impl Unsent {
    /// Room in a process that may have so many bytes: an eighth for lists, another for all others.
    pub(super) fn new(limit: u64) -> Self {
        let share = limit / 8;
        let [lists, metrics, others] = [share, share / 8, share].map(Pool::new);
        Self { lists, metrics, others, patience: PATIENCE }
    }
}

impl Pool {
    fn new(bytes: u64) -> Self {
        let most = Semaphore::MAX_PERMITS.min(u32::MAX as usize) as u32;
        let units = u32::try_from(bytes / UNIT as u64).unwrap_or(most).clamp(1, most);
        Self { free: Arc::new(Semaphore::new(units as usize)), units }
    }

    /// One that is larger than all of it gets all.
    fn units(&self, bytes: usize) -> u32 {
        u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX).min(self.units)
    }

    async fn room(&self, bytes: usize) -> OwnedSemaphorePermit {
        let room = Arc::clone(&self.free).acquire_many_owned(self.units(bytes)).await;
        room.expect("never closed")
    }

    fn room_at_once(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.free).try_acquire_many_owned(self.units(bytes)).ok()
    }
}

/// A body on its way, and its room. What is given of it waits in a buffer of the connection, which has a bound, where
/// nobody knows of this any more.
struct Kept {
    body: Pieces,
    _room: OwnedSemaphorePermit,
}

impl http_body::Body for Kept {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        // Copies, as a part of the whole would keep all of it.
        let copied = |frame: Frame<Bytes>| frame.map_data(|piece| Bytes::copy_from_slice(&piece));
        self.body.poll(context).map(|next| next.map(|frame| frame.map(copied)))
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
    use axum::http::header;
    use tower::Service;

    use super::super::router;
    use super::*;
    use crate::limits::ANSWER_PIECE_BYTES;
    use crate::model::{Labels, METRIC_NAME};
    use crate::storage::memory::MemoryStore;

    /// A state whose lists have room for so many bytes, for which they wait so long, over a store with a label of 1,000
    /// values of 64 bytes.
    async fn state(bytes: u64, patience: Duration) -> Arc<AppState> {
        let labels = (0..1_000)
            .map(|n| Labels::from_pairs([(METRIC_NAME, "m".to_owned()), ("n", format!("{n:064}"))]))
            .map(|labels| labels.expect("valid"));
        let store = MemoryStore::of_series(labels).await;
        let state = AppState::new(Arc::default());
        let unsent = Unsent { patience, ..Unsent::new(bytes * 8) };
        let state = AppState { unsent, ..state };
        state.open(Arc::new(store));
        Arc::new(state)
    }

    async fn ask(state: &Arc<AppState>, path: &str) -> Response {
        // What is compressed is made while it is sent.
        let request = Request::get(path).header(header::ACCEPT_ENCODING, "gzip");
        let request = request.body(Body::empty()).expect("a request");
        router(state.clone()).call(request).await.expect("infallible")
    }

    const VALUES: &str = "/api/v1/label/n/values";

    #[tokio::test]
    async fn a_list_waits_for_room_and_others_have_theirs() {
        // It takes all of it.
        let state = state(150_000, Duration::from_secs(3_600)).await;
        let first = ask(&state, VALUES).await;
        assert_eq!(first.status().as_u16(), 200);
        let mut second = std::pin::pin!(ask(&state, VALUES));
        for _ in 0..100 {
            assert!(futures::poll!(second.as_mut()).is_pending());
            tokio::task::yield_now().await;
        }
        assert_eq!(ask(&state, "/metrics").await.status().as_u16(), 200);
        assert_eq!(ask(&state, "/api/v1/status/runtimeinfo").await.status().as_u16(), 200);
        drop(first);
        assert_eq!(second.await.status().as_u16(), 200);
        assert_eq!(state.unsent.lists.free.available_permits(), 150_000 >> 10);
    }

    #[tokio::test]
    async fn a_list_that_finds_no_room_in_time_is_refused() {
        let state = state(150_000, Duration::from_millis(1)).await;
        let first = ask(&state, VALUES).await;
        let refused = ask(&state, VALUES).await;
        assert_eq!(refused.status().as_u16(), 503);
        assert_eq!(refused.headers().get(header::RETRY_AFTER).expect("told"), "5");
        let text = axum::body::to_bytes(refused.into_body(), 1 << 20).await.expect("a text");
        let text = String::from_utf8_lossy(&text);
        assert!(text.contains("leave no room for this one of ") && text.contains(MEMORY_LIMIT));
        assert_eq!(state.pressure.take_refused(Refused::Read), 1);
        drop(first);
        assert_eq!(ask(&state, VALUES).await.status().as_u16(), 200);
    }

    #[tokio::test]
    async fn a_large_body_comes_in_pieces_and_says_how_long_it_is() {
        let room = Pool::new(1 << 20).room_at_once(1).expect("there is some");
        let whole: Vec<u8> = (0..3 * ANSWER_PIECE_BYTES + 5).map(|at| at as u8).collect();
        let mut kept = Kept { body: Pieces::new(Body::from(whole.clone())), _room: room };
        let mut taken = Vec::new();
        while !kept.is_end_stream() {
            assert_eq!(kept.size_hint().exact(), Some((whole.len() - taken.len()) as u64));
            let frame = std::future::poll_fn(|context| Pin::new(&mut kept).poll_frame(context));
            let data = frame.await.expect("more").expect("whole").into_data().expect("data");
            assert!(data.len() <= ANSWER_PIECE_BYTES);
            taken.extend_from_slice(&data);
        }
        assert_eq!(taken, whole);
    }

    #[tokio::test]
    async fn what_is_little_needs_no_room_and_what_is_more_is_refused_at_once() {
        let state = state(1, PATIENCE).await;
        let held = state.unsent.others.room_at_once(1).expect("there is some");
        assert_eq!(ask(&state, "/-/healthy").await.status().as_u16(), 200);
        assert_eq!(ask(&state, "/api/v1/status/runtimeinfo").await.status().as_u16(), 503);
        drop(held);
        let kept = ask(&state, "/api/v1/status/runtimeinfo").await;
        assert_eq!(kept.status().as_u16(), 200);
        assert!(state.unsent.others.room_at_once(1).is_none(), "until it was sent");
        drop(kept);
        assert!(state.unsent.others.room_at_once(1).is_some(), "there is room again");
    }
}
