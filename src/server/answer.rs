//! The body of an answer on its way: whoever takes nothing of it for too long loses it.
//!
//! Over HTTP/2 a client can hold one answer up while its connection is as busy as ever, so the answer itself
//! is watched: time counts from when a piece was handed over, or the answer was ready, until more is
//! asked for, and not while more is being made. Pieces are small, however they were made, so that who
//! reads slowly asks for more in time. What is given up is dropped with all that it holds; the client finds
//! its answer broken off, and the others of its connection go on.
//!
//! Not here: pieces that were handed over and not written yet, which `places` looks after; over HTTP/1,
//! where a connection has one answer at a time, that is all.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use http_body::{Body as _, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until};

use super::places::{Multiplexed, UnderWay};
use crate::api::Pieces;
use crate::telemetry::HttpMetrics;

/// The body of an answer.
pub(super) struct Answer {
    held: Arc<Mutex<Option<Held>>>,
    /// `None` = there is nothing to take, or `places` sees whether it is taken.
    watch: Option<AbortHandle>,
}

/// What is dropped when the answer is given up.
struct Held {
    body: Pieces,
    /// Since when the client takes nothing; `None` = it waits for us.
    idle_since: Option<Instant>,
    _under_way: UnderWay,
}

/// Why an answer is broken off.
#[derive(Debug, thiserror::Error)]
#[error("nothing was taken of the answer for as long as http-answer-timeout says")]
struct Stalled;

impl Answer {
    /// The request is under way until the body has ended, or the client has taken nothing of it for
    /// `stall`.
    pub(super) fn new(
        body: Body,
        under_way: UnderWay,
        multiplexed: Multiplexed,
        stall: Duration,
        metrics: &Arc<HttpMetrics>,
    ) -> Self {
        let is_watched = multiplexed == Multiplexed::Yes && !body.is_end_stream();
        let (body, idle_since) = (Pieces::new(body), Some(Instant::now()));
        let held = Held { body, idle_since, _under_way: under_way };
        let held = Arc::new(Mutex::new(Some(held)));
        let watch = is_watched.then(|| {
            let (held, metrics) = (Arc::clone(&held), Arc::clone(metrics));
            tokio::spawn(async move { watch(&held, stall, &metrics).await }).abort_handle()
        });
        Self { held, watch }
    }
}

/// Gives the answer up once nothing was taken of it for so long.
async fn watch(held: &Mutex<Option<Held>>, stall: Duration, metrics: &HttpMetrics) {
    loop {
        let now = Instant::now();
        let given_up = {
            let mut held = held.lock();
            let Some(answer) = held.as_ref() else { return };
            let due = answer.idle_since.unwrap_or(now) + stall;
            if due <= now { Ok(held.take()) } else { Err(due) }
        };
        match given_up {
            Ok(answer) => {
                metrics.limits.reached("http-answer-timeout");
                tracing::debug!("{Stalled}");
                return drop(answer);
            }
            Err(due) => sleep_until(due).await,
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if let Some(watch) = &self.watch {
            watch.abort();
        }
        drop(self.held.lock().take());
    }
}

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let mut held = self.held.lock();
        let Some(answer) = held.as_mut() else {
            return Poll::Ready(Some(Err(axum::Error::new(Stalled))));
        };
        let piece = answer.body.poll(context);
        answer.idle_since = piece.is_ready().then(Instant::now);
        piece
    }

    fn is_end_stream(&self) -> bool {
        self.held.lock().as_ref().is_some_and(|held| held.body.has_ended())
    }

    fn size_hint(&self) -> SizeHint {
        self.held.lock().as_ref().map(|held| held.body.size_hint()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::sync::mpsc;

    use super::super::places::{Limits, Places};
    use super::*;
    use crate::config::HttpConfig;
    use crate::limits::ANSWER_PIECE_BYTES;
    use crate::telemetry::Metrics;

    async fn over_http2(body: Body, stall: Duration) -> Answer {
        let place = Places::new(Limits::of(&HttpConfig::default())).take().await;
        let (under_way, _) = Arc::new(place).begin(Multiplexed::Yes);
        let metrics = Arc::new(Metrics::new().http);
        Answer::new(body, under_way, Multiplexed::Yes, stall, &metrics)
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
                // It may be too late for it on a slow machine.
                drop(next(&mut answer).await);
            }
            pieces.closed().await;
            let rest = next(&mut answer).await.expect("a part must not pass for the whole");
            let why = rest.expect_err("it was given up").to_string();
            assert!(why.contains("http-answer-timeout"), "{why}");
        }
    }

    #[tokio::test]
    async fn time_counts_while_there_is_something_to_take() {
        let (pieces, mut answer) = answer(Duration::from_secs(100_000)).await;
        let is_idle = |answer: &Answer| {
            answer.held.lock().as_ref().is_some_and(|held| held.idle_since.is_some())
        };
        assert!(is_idle(&answer), "it may be taken");
        assert!(futures::poll!(Box::pin(next(&mut answer))).is_pending());
        assert!(!is_idle(&answer), "the client waits for us");
        pieces.send(Bytes::from_static(b"a")).expect("it is held");
        next(&mut answer).await.expect("a piece").expect("no error");
        assert!(is_idle(&answer), "it may go on");
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
