//! A request and its answer until the last byte is written. If the client reads nothing for too long, it is aborted.
//!
//! The time runs only while there is data to read, and restarts with every write. An aborted answer is dropped with
//! all that it holds. Over HTTP/2 its stream is reset, and the connection is closed only if data that the library
//! already has is not sent. Over HTTP/1 `connection_pool` keeps the limit.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use futures::future::{AbortHandle, Abortable};
use http_body::{Body as _, Frame, SizeHint};
use hyper::rt::Executor;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task;
use tokio::time::{Instant, sleep, sleep_until};

use super::connection_pool::{Slot, UnderWay};
use super::phase::Stalled;
use crate::api::{BodyPieces, Taker};
use crate::telemetry::HttpMetrics;

/// How long data of an aborted answer may stay in the library before the connection is closed.
const LEAVING: Duration = Duration::from_secs(1);

tokio::task_local! {
    /// Aborts the task that runs one request of an HTTP/2 connection.
    static STREAM: AbortHandle;
}

/// Runs the requests of HTTP/2 connections so that each can be aborted.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Streams;

impl<F> Executor<F> for Streams
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, stream: F) {
        let (handle, registration) = AbortHandle::new_pair();
        let stream = Abortable::new(stream, registration);
        drop(tokio::spawn(STREAM.scope(handle, stream)));
    }
}

/// A request, with its answer once there is one.
pub(super) struct Exchange {
    place: Arc<Slot>,
    /// Whether requests share the connection (HTTP/2).
    is_multiplexed: bool,
    state: Mutex<AnswerState>,
    /// Aborts the task of the HTTP/2 stream.
    stream: OnceLock<AbortHandle>,
    /// The task that watches whether the client reads.
    watch: OnceLock<task::AbortHandle>,
    given_up: Arc<Notify>,
    _under_way: UnderWay,
}

#[derive(Default)]
struct AnswerState {
    /// The data not handed to the library yet; `None` = there is no answer yet, or it was aborted.
    body: Option<BodyPieces>,
    /// Why it was aborted.
    broken_off: Option<Stalled>,
    /// Pieces that were handed over but are not written yet.
    unsent: usize,
    /// All data that exists so far was handed over.
    all_handed_over: bool,
    /// Since when the client reads nothing; `None` = there is nothing to read.
    idle_since: Option<Instant>,
}

/// The body of an answer.
pub(super) struct Answer(Arc<Exchange>);

/// A piece that is not written yet.
struct Unwritten {
    bytes: Bytes,
    exchange: Arc<Exchange>,
}

impl Exchange {
    /// The exchange of a running request.
    pub(super) fn new(under_way: UnderWay, is_multiplexed: bool) -> Arc<Self> {
        Arc::new(Self {
            place: under_way.0.clone(),
            is_multiplexed,
            state: Mutex::default(),
            stream: OnceLock::new(),
            watch: OnceLock::new(),
            given_up: Arc::default(),
            _under_way: under_way,
        })
    }

    /// Marks the current task as the one that runs the request.
    pub(super) fn runs_here(&self) {
        if let Ok(stream) = STREAM.try_with(AbortHandle::clone) {
            let _ = self.stream.set(stream);
        }
    }

    /// Sets the answer.
    pub(super) fn answer(self: &Arc<Self>, body: Body, metrics: &Arc<HttpMetrics>) -> Answer {
        let is_empty = body.is_end_stream();
        {
            let mut state = self.state.lock();
            state.body = Some(BodyPieces::new(body));
            self.set_idle(&mut state, (!is_empty).then(Instant::now));
        }
        if self.is_multiplexed && !is_empty {
            let watched = watch(Arc::downgrade(self), self.place.clone(), Arc::clone(metrics));
            let _ = self.watch.set(tokio::spawn(watched).abort_handle());
        }
        Answer(Arc::clone(self))
    }

    fn set_idle(&self, state: &mut AnswerState, since: Option<Instant>) {
        match (std::mem::replace(&mut state.idle_since, since), since) {
            (None, Some(_)) => self.place.unread(),
            (Some(_), None) => self.place.read(),
            (Some(_), Some(_)) => self.place.read_some(),
            (None, None) => {}
        }
    }

    fn wrote(&self) {
        let mut state = self.state.lock();
        state.unsent -= 1;
        let is_done = state.unsent == 0
            && (state.all_handed_over || state.body.as_ref().is_none_or(BodyPieces::has_ended));
        self.set_idle(&mut state, (!is_done).then(Instant::now));
    }

    /// When to abort it, if the client may read nothing for `stall`; `None` = there is nothing to read.
    fn due(&self, stall: Duration) -> Option<Instant> {
        self.state.lock().idle_since.map(|since| since + stall)
    }

    /// Drops the data and ends the stream.
    fn break_off(&self, why: Stalled) {
        let body = {
            let mut state = self.state.lock();
            state.broken_off = Some(why);
            state.body.take()
        };
        // After the lock is released: dropping the body may take other locks.
        drop(body);
        if let Some(stream) = self.stream.get() {
            stream.abort();
        }
    }
}

impl Taker for Exchange {
    fn idle_since(&self) -> Option<Instant> {
        self.state.lock().idle_since
    }

    fn give_up(&self) {
        match self.is_multiplexed {
            true => self.given_up.notify_one(),
            false => self.place.give_up(Stalled::GIVES_WAY.setting),
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        if let Some(watch) = self.watch.get() {
            watch.abort();
        }
        let mut state = std::mem::take(self.state.get_mut());
        self.set_idle(&mut state, None);
    }
}

/// Aborts an answer when the client has read nothing for the time limit of its place, or when others need its memory.
async fn watch(exchange: Weak<Exchange>, place: Arc<Slot>, metrics: Arc<HttpMetrics>) {
    let mut levels = place.levels();
    let why = loop {
        let stall = place.stall(*levels.borrow_and_update());
        let (due, given_up) = match exchange.upgrade() {
            Some(exchange) => (exchange.due(stall.after), Arc::clone(&exchange.given_up)),
            None => return,
        };
        // New data may come at any time, and then has the whole limit.
        let due = due.unwrap_or_else(|| Instant::now() + stall.after);
        if due <= Instant::now() {
            break stall;
        }
        tokio::select! {
            () = given_up.notified() => break Stalled::GIVES_WAY,
            () = sleep_until(due) => {}
            Ok(()) = levels.changed() => {}
        }
    };
    metrics.limits.reached(why.setting);
    tracing::debug!("{why}");
    if let Some(exchange) = exchange.upgrade() {
        exchange.break_off(why);
    }
    sleep(LEAVING).await;
    if exchange.strong_count() > 0 {
        place.give_up(why.setting);
    }
}

impl AsRef<[u8]> for Unwritten {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Unwritten {
    fn drop(&mut self) {
        self.exchange.wrote();
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        let body = {
            let mut state = self.0.state.lock();
            let body = state.body.take();
            if state.unsent == 0 {
                self.0.set_idle(&mut state, None);
            }
            body
        };
        drop(body);
    }
}

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let exchange = &self.0;
        let mut state = exchange.state.lock();
        if let Some(why) = state.broken_off {
            return Poll::Ready(Some(Err(axum::Error::new(why))));
        }
        let body = state.body.as_mut().expect("an answer has a body until it is broken off");
        let next = body.poll(context);
        state.all_handed_over = matches!(&next, Poll::Pending | Poll::Ready(None));
        let has_data = matches!(&next, Poll::Ready(Some(Ok(frame))) if frame.is_data());
        state.unsent += usize::from(has_data);
        if has_data && state.idle_since.is_none() {
            exchange.set_idle(&mut state, Some(Instant::now()));
        } else if state.unsent == 0 {
            exchange.set_idle(&mut state, None);
        }
        drop(state);
        let unwritten =
            |bytes| Bytes::from_owner(Unwritten { bytes, exchange: Arc::clone(exchange) });
        next.map(|next| next.map(|frame| frame.map(|frame| frame.map_data(unwritten))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.state.lock().body.as_ref().is_some_and(BodyPieces::has_ended)
    }

    fn size_hint(&self) -> SizeHint {
        self.0.state.lock().body.as_ref().map(BodyPieces::size_hint).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::sync::mpsc;

    use super::super::connection_pool::ConnectionPool;
    use super::super::phase::Limits;
    use super::*;
    use crate::config::HttpConfig;
    use crate::limits::ANSWER_PIECE_BYTES;
    use crate::storage::Pressure;
    use crate::telemetry::Metrics;

    async fn over_http2(body: Body, answer_stall: Duration) -> Answer {
        let limits = Limits { answer_stall, ..Limits::of(&HttpConfig::default()) };
        let place = ConnectionPool::new(limits, Pressure::default().levels()).take().await;
        let (under_way, _) = Arc::new(place).begin(true);
        let metrics = Arc::new(Metrics::new().http);
        Exchange::new(under_way, true).answer(body, &metrics)
    }

    /// An answer whose pieces come from a channel.
    async fn answer(stall: Duration) -> (mpsc::UnboundedSender<Bytes>, Answer) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let pieces = futures::stream::unfold(receiver, |mut receiver| async move {
            let piece: Bytes = receiver.recv().await?;
            Some((Ok::<_, std::io::Error>(piece), receiver))
        });
        let body = Body::from_stream(pieces);
        (sender, over_http2(body, stall).await)
    }

    async fn next(answer: &mut Answer) -> Option<Result<Frame<Bytes>, axum::Error>> {
        poll_fn(|context| Pin::new(&mut *answer).poll_frame(context)).await
    }

    #[tokio::test]
    async fn who_takes_nothing_loses_the_answer_and_what_it_holds() {
        for taken in [0, 1] {
            let (pieces, mut answer) = answer(Duration::from_millis(20)).await;
            pieces.send(Bytes::from_static(b"a")).expect("it is held");
            for _ in 0..taken {
                // On a slow machine the limit may have passed already.
                drop(next(&mut answer).await);
            }
            pieces.closed().await;
            let rest = next(&mut answer).await.expect("a part must not pass for the whole");
            let why = rest.expect_err("it was given up").to_string();
            let text = "the client read nothing of the answer for 20ms; the limit is the setting http-answer-timeout";
            assert_eq!(why, text);
        }
    }

    #[tokio::test]
    async fn an_answer_whose_room_another_needs_is_broken_off_at_the_limit_of_memory() {
        let (pieces, mut answer) = answer(Duration::from_secs(100_000)).await;
        answer.0.give_up();
        pieces.closed().await;
        let rest = next(&mut answer).await.expect("a part must not pass for the whole");
        let why = rest.expect_err("it was given up").to_string();
        assert!(why.ends_with("; the limit is the setting memory-limit"), "{why}");
    }

    #[tokio::test]
    async fn time_counts_while_there_is_something_to_take() {
        let (pieces, mut answer) = answer(Duration::from_secs(100_000)).await;
        let exchange = answer.0.clone();
        let is_idle = || exchange.idle_since().is_some();
        assert!(is_idle(), "it may be taken");
        assert!(futures::poll!(Box::pin(next(&mut answer))).is_pending());
        assert!(!is_idle(), "the client waits for us");
        pieces.send(Bytes::from_static(b"a")).expect("it is held");
        let piece = next(&mut answer).await.expect("a piece").expect("no error");
        let handed_over = exchange.idle_since().expect("it is not written yet");
        assert!(futures::poll!(Box::pin(next(&mut answer))).is_pending());
        assert_eq!(exchange.idle_since(), Some(handed_over), "nothing was taken meanwhile");
        drop(piece);
        assert!(!is_idle(), "all is written, and the client waits for us");
        pieces.send(Bytes::from_static(b"b")).expect("it is held");
        let piece = next(&mut answer).await.expect("a piece").expect("no error");
        drop(answer);
        assert!(is_idle(), "the last piece is not written yet");
        drop(piece);
        assert!(!is_idle() && Arc::strong_count(&exchange) == 1);
    }

    #[tokio::test]
    async fn a_large_piece_is_handed_on_in_small_ones_without_a_copy() {
        let large = Bytes::from(vec![7; 2 * ANSWER_PIECE_BYTES + 5]);
        let mut answer = over_http2(Body::from(large.clone()), Duration::from_secs(100_000)).await;
        let mut taken = 0;
        for length in [ANSWER_PIECE_BYTES, ANSWER_PIECE_BYTES, 5] {
            let left = (large.len() - taken) as u64;
            assert!(!answer.is_end_stream());
            assert_eq!(answer.size_hint().exact(), Some(left));
            let frame = next(&mut answer).await.expect("a piece").expect("no error");
            let piece = frame.into_data().expect("data");
            assert_eq!((piece.as_ptr(), piece.len()), (large[taken..].as_ptr(), length));
            taken += length;
        }
        assert!(answer.is_end_stream() && next(&mut answer).await.is_none());
    }
}
