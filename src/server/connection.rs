//! One connection: reports its bytes and requests to its place.
//!
//! A request lasts from its head until the last piece of its answer is written or aborted (`answer`). The unread
//! rest of a request body is read and discarded before the answer, within bounds, so that the client reads the
//! answer. No policy is decided here: requests are marked if their place is a spare one, and `api` answers
//! accordingly. An HTTP/1 answer carries `Connection: close` on a spare place, if the body of its request was not
//! read completely, if the request is malformed, and after very many refused logins.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::extract::ConnectInfo;
use axum::http::{HeaderValue, Request, Version, header};
use axum::response::Response;
use axum::{BoxError, Router};
use futures::future::BoxFuture;
use http_body::{Body as _, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tower::Service;

use super::answer::Exchange;
use super::connection_pool::{BodyOwed, Slot};
use super::long_queries::KeptQuery;
use super::rejected_heads::Lingers;
use crate::api::{AnswerTo, LongQuery, RefusedHead, SharedConnection, SpareConnection};
use crate::limits::{DRAINED_BODY_BYTES, DRAINED_BODY_TIME};
use crate::telemetry::HttpMetrics;

/// The byte stream of a connection.
pub(super) struct Watched {
    pub(super) stream: TcpStream,
    pub(super) place: Arc<Slot>,
}

impl Watched {
    /// The first byte of the client, left in the socket; `None` = the client closed.
    pub(super) async fn first_byte(&self) -> io::Result<Option<u8>> {
        let mut byte = [0];
        let there = self.stream.peek(&mut byte).await?;
        Ok((there > 0).then_some(byte[0]))
    }

    fn wrote(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match &written {
            Poll::Pending => self.place.blocked(),
            Poll::Ready(_) => self.place.took(),
        }
        written
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.place.received();
        }
        read
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.wrote(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.wrote(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// The requests of a connection.
#[derive(Clone)]
pub(super) struct Requests {
    pub(super) router: Router,
    pub(super) place: Arc<Slot>,
    pub(super) metrics: Arc<HttpMetrics>,
    /// The address of the client, passed to the handlers; `None` = it has disconnected.
    pub(super) peer: Option<SocketAddr>,
    pub(super) lingers: Lingers,
    /// The query that is too long for the HTTP library.
    pub(super) query: KeptQuery,
}

impl<B> Service<Request<B>> for Requests
where
    B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response, Infallible>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        <Router as Service<Request<Body>>>::poll_ready(&mut self.router, context)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let is_multiplexed = request.version() == Version::HTTP_2;
        let is_shared = is_multiplexed && self.place.has_requests();
        let (under_way, owed) = self.place.begin(is_multiplexed);
        let exchange = Exchange::new(under_way, is_multiplexed);
        let spare_beyond = self.place.spare_beyond();
        let is_read = Arc::new(AtomicBool::new(request.body().is_end_stream()));
        // A client that waits for `100 Continue` sends no body after a final answer.
        let waits = request.headers().contains_key(header::EXPECT);
        let left = Left::<B>::default();
        let refused = RefusedHead::of(&request);
        let query = self.query.take(&mut request).map(LongQuery);
        let is_malformed = refused.is_some_and(RefusedHead::ends_connection);
        if is_malformed {
            self.lingers.store(true, Ordering::Relaxed);
        }
        let mut request = request.map(|body| {
            let owed = (!body.is_end_stream()).then_some(owed);
            let (is_read, left) = (Arc::clone(&is_read), Arc::clone(&left));
            Body::new(Question { body: Some(body), owed, is_read, left: Some(left) })
        });
        if let Some(peer) = self.peer {
            request.extensions_mut().insert(ConnectInfo(peer));
        }
        request.extensions_mut().insert(AnswerTo(exchange.clone()));
        if let Some(query) = query {
            request.extensions_mut().insert(query);
        }
        if let Some(refused) = refused {
            request.extensions_mut().insert(refused);
        }
        if let Some(beyond) = spare_beyond {
            request.extensions_mut().insert(SpareConnection { beyond });
        }
        if is_shared {
            request.extensions_mut().insert(SharedConnection);
        }
        let answer = self.router.call(request);
        let (place, metrics) = (self.place.clone(), self.metrics.clone());
        Box::pin(async move {
            exchange.runs_here();
            let mut response = answer.await?;
            if let Some(login) = response.extensions().get() {
                place.judged(*login);
            }
            let rest = left.lock().take();
            // The end of a malformed request is unknown.
            let is_drained = !waits && spare_beyond.is_none() && !is_malformed;
            if let Some(rest) = rest.filter(|_| is_drained) {
                drain(rest).await;
            }
            // A spare place has to become free soon, and bytes after an unread body are not parsed as a request. HTTP/2
            // has no such header.
            let ends = spare_beyond.is_some()
                || is_malformed
                || !is_read.load(Ordering::Relaxed)
                || place.is_refused_for_good();
            if ends && !is_multiplexed {
                let close = HeaderValue::from_static("close");
                response.headers_mut().insert(header::CONNECTION, close);
            }
            Ok(response.map(|body| Body::new(exchange.answer(body, &metrics))))
        })
    }
}

/// The body of a request; its place waits for it until it is complete or dropped.
struct Question<B: http_body::Body<Data = Bytes> + Unpin> {
    /// `None` = it failed, or was moved to `left`.
    body: Option<B>,
    owed: Option<BodyOwed>,
    /// Set when the body is complete.
    is_read: Arc<AtomicBool>,
    /// Where the rest goes when the handler drops the body; `None` = nowhere.
    left: Option<Left<B>>,
}

/// A body that was dropped before it was complete.
type Left<B> = Arc<Mutex<Option<Question<B>>>>;

impl<B: http_body::Body<Data = Bytes> + Unpin> Drop for Question<B> {
    fn drop(&mut self) {
        let Some(left) = self.left.take() else { return };
        let (is_read, owed) = (Arc::clone(&self.is_read), self.owed.take());
        let body = self.body.take().filter(|body| !body.is_end_stream());
        *left.lock() = body.map(|body| Self { body: Some(body), owed, is_read, left: None });
    }
}

/// Reads and discards a body, within bounds.
async fn drain<B: http_body::Body<Data = Bytes> + Unpin>(mut body: Question<B>) {
    let mut bytes = 0;
    let all = async {
        let mut next = async || poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await;
        while let Some(Ok(frame)) = next().await {
            bytes += frame.data_ref().map_or(0, Bytes::len);
            if bytes > DRAINED_BODY_BYTES {
                break;
            }
        }
    };
    let _ = timeout(DRAINED_BODY_TIME, all).await;
}

impl<B: http_body::Body<Data = Bytes> + Unpin> http_body::Body for Question<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let frame = Pin::new(&mut *body).poll_frame(context);
        if frame.is_ready() && body.is_end_stream() || matches!(frame, Poll::Ready(None)) {
            self.owed = None;
            self.is_read.store(true, Ordering::Relaxed);
        } else if matches!(frame, Poll::Ready(Some(Err(_)))) {
            self.body = None;
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(http_body::Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map(http_body::Body::size_hint).unwrap_or_default()
    }
}
