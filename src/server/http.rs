//! Connections: how many there may be, and how long one may take to ask.
//!
//! Who comes when all places are taken waits to be accepted. A connection that sends no whole head
//! of a request in time is closed, and so is an idle one; bodies are bounded by `api`. On `stop`
//! no more connections are taken and the requests under way are finished. Dropping the future ends
//! them all.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tower::Service;

use crate::limits;

/// Bounds of connections.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Connections at a time.
    pub(super) connections: usize,
    /// Longest wait for a whole head of a request.
    pub(super) head_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { connections: limits::MAX_CONNECTIONS, head_timeout: limits::HEAD_TIMEOUT }
    }
}

/// Serves until `stop` completes and the requests under way are answered.
pub(super) async fn serve(
    listener: TcpListener,
    router: Router,
    limits: Limits,
    stop: impl Future<Output = ()>,
) {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(limits.head_timeout);
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(limits.head_timeout);
    let places = Arc::new(Semaphore::new(limits.connections));
    let graceful = GracefulShutdown::new();
    let mut connections = JoinSet::new();
    let mut stop = pin!(stop);
    loop {
        let (stream, place) = tokio::select! {
            accepted = accept(&listener, &places) => accepted,
            Some(ended) = connections.join_next() => {
                if let Err(error) = ended {
                    tracing::error!("a connection broke: {error}");
                }
                continue;
            }
            () = &mut stop => break,
        };
        let service = Noting { router: router.clone(), asked: Arc::default() };
        let connection = Connection { stream, place, service, head_timeout: limits.head_timeout };
        connections.spawn(connection.run(builder.clone(), graceful.watcher()));
    }
    drop(listener);
    graceful.shutdown().await;
}

/// The next connection, once there is a place for it.
async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> (TcpStream, OwnedSemaphorePermit) {
    let place = places.clone().acquire_owned().await.expect("the semaphore is never closed");
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return (stream, place),
            // The peer went away, or there are no file handles left: both pass.
            Err(error) => {
                tracing::warn!("a connection was not accepted: {error}");
                tokio::time::sleep(limits::ACCEPT_PAUSE).await;
            }
        }
    }
}

struct Connection {
    stream: TcpStream,
    place: OwnedSemaphorePermit,
    service: Noting,
    head_timeout: Duration,
}

impl Connection {
    async fn run(self, builder: Builder<TokioExecutor>, watcher: Watcher) {
        let Self { stream, place, service, head_timeout } = self;
        // Answers are written whole: nothing is gained by waiting for more.
        let _ = stream.set_nodelay(true);
        let asked = service.asked.clone();
        let served =
            builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
        // The timeout of HTTP/1 begins only when it is known to be that.
        let silent = async {
            tokio::time::sleep(head_timeout).await;
            if asked.load(Ordering::Relaxed) {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            ended = watcher.watch(served) => {
                if let Err(error) = ended {
                    tracing::debug!("a connection ended: {error}");
                }
            }
            () = silent => tracing::debug!("a connection was closed: no request in time"),
        }
        drop(place);
    }
}

/// The router, and whether it was asked anything.
#[derive(Clone)]
struct Noting {
    router: Router,
    asked: Arc<AtomicBool>,
}

impl<R> Service<R> for Noting
where
    Router: Service<R>,
{
    type Response = <Router as Service<R>>::Response;
    type Error = <Router as Service<R>>::Error;
    type Future = <Router as Service<R>>::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.router.poll_ready(context)
    }

    fn call(&mut self, request: R) -> Self::Future {
        self.asked.store(true, Ordering::Relaxed);
        self.router.call(request)
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

    async fn start(limits: Limits, stop: impl Future<Output = ()> + Send + 'static) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let router = Router::new().route("/", get(async || "here"));
        tokio::spawn(serve(listener, router, limits, stop));
        address
    }

    async fn answer(stream: &mut TcpStream) -> String {
        let mut bytes = Vec::new();
        while !bytes.ends_with(b"here") {
            let read = stream.read_buf(&mut bytes).await.expect("it reads");
            assert!(read > 0, "it was closed after {bytes:?}");
        }
        String::from_utf8(bytes).expect("UTF-8")
    }

    #[tokio::test]
    async fn a_head_that_does_not_come_whole_closes_the_connection() {
        let limits = Limits { head_timeout: Duration::from_millis(100), ..Limits::default() };
        let address = start(limits, std::future::pending()).await;
        // Nothing; what may become HTTP/1 or 2; half a head; half a second head.
        let begun = [b"".as_slice(), b"P", b"GET / HTTP/1.1\r\nHost:", &[REQUEST, b"GET"].concat()];
        for begun in begun {
            let mut stream = TcpStream::connect(address).await.expect("it listens");
            stream.write_all(begun).await.expect("it takes that");
            let mut rest = Vec::new();
            // It ends; a reset is an end too.
            let _ = stream.read_to_end(&mut rest).await;
            assert_eq!(rest.ends_with(b"here"), begun.starts_with(REQUEST), "{begun:?}");
        }
    }

    #[tokio::test]
    async fn connections_beyond_the_limit_wait_for_a_place() {
        let limits = Limits { connections: 1, ..Limits::default() };
        let address = start(limits, std::future::pending()).await;
        let mut first = TcpStream::connect(address).await.expect("it listens");
        first.write_all(REQUEST).await.expect("it takes that");
        assert!(answer(&mut first).await.starts_with("HTTP/1.1 200"));
        let mut second = TcpStream::connect(address).await.expect("the kernel holds it");
        second.write_all(REQUEST).await.expect("the kernel holds that");
        // The first one is served as long as it stays, and the second only after it.
        for _ in 0..3 {
            first.write_all(REQUEST).await.expect("it takes that");
            answer(&mut first).await;
            let error = second.try_read(&mut [0]).expect_err("nothing yet");
            assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
        }
        drop(first);
        answer(&mut second).await;
    }

    #[tokio::test]
    async fn on_stop_idle_connections_are_closed_and_no_more_are_taken() {
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let address = start(Limits::default(), async move { drop(stopped.await) }).await;
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        stream.write_all(REQUEST).await.expect("it takes that");
        answer(&mut stream).await;
        stop.send(()).expect("it serves");
        assert_eq!(stream.read(&mut [0]).await.expect("closed cleanly"), 0);
        TcpStream::connect(address).await.expect_err("it no longer listens");
    }
}
