//! Accepts connections while there are places, serves them, and closes them when they are overdue.
//!
//! `connection_pool` decides how long a connection may wait for its client, TLS handshake included, and which
//! connection gives way when all places are taken; `api` limits bodies. On `stop` no more connections are
//! accepted and running requests are finished. Dropping the future ends all of them.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::task::coop::unconstrained;

use super::answer::Streams;
use super::connection::{Requests, Watched};
use super::connection_pool::{ConnectionPool, Slot};
use super::long_queries::{KeptQuery, LongQueries};
use super::phase::Overdue;
use super::rejected_heads::{Heads, Lingers};
use super::tls::Tls;
use crate::limits::{ACCEPT_PAUSE, MAX_READ_HEAD_BYTES};
use crate::telemetry::{HttpMetrics, InFlight, Throttle};

/// What all connections share.
#[derive(Clone)]
pub(super) struct Front {
    /// Answers requests.
    pub(super) router: Router,
    /// `None` = plain text.
    pub(super) tls: Option<Tls>,
    /// Counts connections that reach a limit.
    pub(super) metrics: Arc<HttpMetrics>,
}

/// The state of one connection.
#[derive(Clone)]
struct Serving {
    front: Front,
    builder: Builder<Streams>,
    /// Closed when no more requests are accepted.
    open: watch::Receiver<()>,
    /// The address of the client; `None` before a connection, and after the client has disconnected.
    peer: Option<SocketAddr>,
}

/// Serves connections that have a place until `stop` completes and the running requests are answered.
pub(super) async fn serve(
    listener: TcpListener,
    front: Front,
    places: Arc<ConnectionPool>,
    stop: impl Future<Output = ()>,
) {
    let limits = places.limits;
    let mut builder = Builder::new(Streams);
    // `connection_pool` limits the time for a head.
    builder.http1().header_read_timeout(None);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(limits.idle_timeout)
        .max_header_list_size(MAX_READ_HEAD_BYTES)
        .max_concurrent_streams(limits.streams);
    let (stays_open, open) = watch::channel(());
    let serving = Serving { front, builder, open, peer: None };
    let graceful = GracefulShutdown::new();
    let mut connections = JoinSet::new();
    let mut stop = pin!(stop);
    let mut failures = Throttle::default();
    loop {
        let stream = tokio::select! {
            stream = accept(&listener, &mut failures) => stream,
            Some(ended) = connections.join_next() => {
                if let Err(error) = ended {
                    tracing::error!("a connection broke: {error}");
                }
                continue;
            }
            () = &mut stop => break,
        };
        let place = tokio::select! {
            place = places.take() => Arc::new(place),
            () = &mut stop => break,
        };
        connections.spawn(run(stream, place, serving.clone(), graceful.watcher()));
    }
    drop((listener, stays_open));
    graceful.shutdown().await;
}

/// Accepts the next connection.
async fn accept(listener: &TcpListener, failures: &mut Throttle) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            // The client disconnected, or no descriptors are left: both are temporary.
            Err(error) => {
                if let Some(times) = failures.count(1, Instant::now()) {
                    tracing::warn!(times, "a connection was not accepted: {error}");
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Serves a connection until it ends or is overdue.
async fn run(stream: TcpStream, place: Arc<Slot>, mut serving: Serving, watcher: Watcher) {
    serving.peer = stream.peer_addr().ok();
    // Answers are written whole, so there is nothing to coalesce.
    let _ = stream.set_nodelay(true);
    let stream = Watched { stream, place: place.clone() };
    let metrics = serving.front.metrics.clone();
    let _open = InFlight::enter(&metrics.connections);
    place.served();
    tokio::select! {
        // Received bytes are read before the connection is judged late.
        biased;
        () = greet(stream, place.clone(), serving, watcher) => {}
        // Without tokio's task budget, which reading may have used up.
        why = unconstrained(place.overdue()) => {
            // Closing a connection that is idle for long is normal: no request is refused.
            if why != Overdue::Idle {
                metrics.limits.reached(why.setting());
            }
            tracing::debug!("a connection was closed at the limit {}", why.setting());
        }
    }
}

/// The TLS handshake, if any, then the requests. A connection without a request yet is closed on `stop`.
async fn greet(stream: Watched, place: Arc<Slot>, mut serving: Serving, watcher: Watcher) {
    let Some(tls) = serving.front.tls.clone() else {
        return answer(stream, place, serving, watcher).await;
    };
    let accepted = tokio::select! {
        accepted = tls.accept(stream) => accepted,
        // No value is ever sent: the sender was dropped.
        _ = serving.open.changed() => return,
    };
    match accepted {
        Ok(stream) => answer(stream, place, serving, watcher).await,
        Err(error) => tracing::debug!("a TLS handshake failed: {error}"),
    }
}

/// Serves the requests of a connection.
async fn answer<S>(stream: S, place: Arc<Slot>, serving: Serving, watcher: Watcher)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (Front { router, metrics, .. }, peer) = (serving.front, serving.peer);
    let lingers = Lingers::default();
    let query = KeptQuery::default();
    let queries = LongQueries::new(query.clone());
    let stream = Heads::new(stream, place.clone(), metrics.clone(), lingers.clone(), queries);
    let requests = Requests { router, place, metrics, peer, lingers, query };
    let requests = TowerToHyperService::new(requests);
    let served = serving.builder.serve_connection(TokioIo::new(stream), requests);
    if let Err(error) = watcher.watch(served).await {
        tracing::debug!("a connection ended: {error}");
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::time::Duration;

    use axum::Extension;
    use axum::body::Body;
    use axum::http::{Request, StatusCode};
    use axum::routing::{get, post};
    use bytes::Bytes;
    use futures::StreamExt;
    use h2::client::SendRequest;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::sync::{Semaphore, mpsc};

    use super::super::phase::Limits;
    use super::*;
    use crate::api::{self, AppState};
    use crate::config::WebConfig;
    use crate::storage::Pressure;
    use crate::telemetry::{Metrics, WebMetrics};

    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    const HALF: &[u8] = b"GET / HTTP/1.1\r\nHost:";

    /// Longer than any test.
    const NEVER: Duration = Duration::from_secs(100_000);

    fn patient(connections: usize) -> Limits {
        let [head_timeout, idle_timeout, body_grace, answer_stall] = [NEVER; 4];
        let [answer_grace, stranger_grace] = [NEVER; 2];
        let (streams, spare) = (200, 0);
        Limits {
            connections,
            spare,
            streams,
            head_timeout,
            idle_timeout,
            body_grace,
            answer_stall,
            answer_grace,
            stranger_grace,
        }
    }

    /// Serves on connections of its own, of a process that is not short of memory.
    async fn serve(
        listener: TcpListener,
        front: Front,
        limits: Limits,
        stop: impl Future<Output = ()>,
    ) {
        let places = ConnectionPool::new(limits, Pressure::default().levels());
        super::serve(listener, front, places, stop).await;
    }

    fn plain(router: Router) -> Front {
        Front { router, tls: None, metrics: Arc::new(Metrics::new().http) }
    }

    async fn serve_on_free_port(
        router: Router,
        limits: Limits,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        tokio::spawn(serve(listener, plain(router), limits, stop));
        address
    }

    /// The beginning of a TLS ClientHello.
    const HALF_HELLO: &[u8] = &[0x16, 3, 1, 2, 0, 1, 0];

    fn with_tls() -> Front {
        let folder = tempfile::tempdir().expect("a folder");
        let made = rcgen::generate_simple_self_signed(["a.example".to_owned()]).expect("made");
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).expect("written");
            path
        };
        file("a.crt", &made.cert.pem());
        file("a.key", &made.signing_key.serialize_pem());
        let yaml = "tls_server_config: {cert_file: a.crt, key_file: a.key}\n";
        let config = WebConfig::read(&file("web.yml", yaml)).expect("valid");
        let (_, web) = watch::channel(Arc::new(config));
        let tls = Tls::of(web, WebMetrics::default());
        assert!(tls.is_some(), "it has TLS");
        Front { tls, ..plain(Router::new().route("/", get(async || "here"))) }
    }

    #[tokio::test]
    async fn a_handshake_that_does_not_come_whole_closes_the_connection() {
        let limits = Limits { head_timeout: Duration::from_millis(100), ..patient(9) };
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        tokio::spawn(serve(listener, with_tls(), limits, pending()));
        for begun in [b"".as_slice(), HALF_HELLO, REQUEST] {
            is_closed(&mut connect(address, begun).await).await;
        }
    }

    #[tokio::test]
    async fn half_a_handshake_gives_way_and_does_not_hold_up_the_end() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let stopped = async move { drop(stopped.await) };
        let server = tokio::spawn(serve(listener, with_tls(), patient(1), stopped));
        let mut first = connect(address, HALF_HELLO).await;
        let mut second = connect(address, HALF_HELLO).await;
        is_closed(&mut first).await;
        stop.send(()).expect("it serves");
        is_closed(&mut second).await;
        server.await.expect("no panic");
    }

    async fn start(limits: Limits, stop: impl Future<Output = ()> + Send + 'static) -> SocketAddr {
        let router = Router::new().route("/", get(async || "here"));
        serve_on_free_port(router, limits, stop).await
    }

    async fn connect(address: SocketAddr, begun: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        stream.write_all(begun).await.expect("it takes that");
        stream
    }

    async fn answer(stream: &mut TcpStream) -> String {
        answer_with(stream, &["here"]).await
    }

    /// Reads an answer that ends with one of `ends`.
    async fn answer_with(stream: &mut TcpStream, ends: &[&str]) -> String {
        let mut bytes = Vec::new();
        while !ends.iter().any(|end| bytes.ends_with(end.as_bytes())) {
            let read = stream.read_buf(&mut bytes).await.expect("it reads");
            assert!(read > 0, "it was closed after {bytes:?}");
        }
        String::from_utf8(bytes).expect("UTF-8")
    }

    async fn is_closed(stream: &mut TcpStream) {
        // A reset also ends the connection.
        let _ = stream.read_to_end(&mut Vec::new()).await;
    }

    #[tokio::test]
    async fn a_head_that_does_not_come_whole_closes_the_connection() {
        let limits = Limits { head_timeout: Duration::from_millis(100), ..patient(9) };
        let address = start(limits, pending()).await;
        // Nothing; a prefix of HTTP/1 or HTTP/2; half a head.
        for begun in [b"".as_slice(), b"P", HALF] {
            is_closed(&mut connect(address, begun).await).await;
        }
        // Half of a second head.
        let mut stream = connect(address, REQUEST).await;
        answer(&mut stream).await;
        stream.write_all(HALF).await.expect("it takes that");
        is_closed(&mut stream).await;
    }

    #[tokio::test]
    async fn a_head_that_is_too_large_is_refused_and_counted() {
        let metrics = Metrics::new();
        let router = Router::new().route("/", get(async || "here"));
        let front = Front { metrics: Arc::new(metrics.http.clone()), ..plain(router) };
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        tokio::spawn(serve(listener, front, patient(9), pending()));
        let headers = (0..150).map(|n| format!("X-{n}: a\r\n")).collect::<String>();
        let heads = [
            (format!("GET / HTTP/1.1\r\nHost: a\r\n{headers}\r\n"), "HTTP/1.1 431 "),
            (format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(70_000)), "HTTP/1.1 414 "),
        ];
        for (count, (head, status)) in (1..).zip(heads) {
            let answer = last_answer(address, head.as_bytes()).await;
            let why = "; no setting changes that";
            assert!(answer.starts_with(status) && answer.contains(why), "{answer}");
            let counted =
                format!("promkairos_limits_reached_total{{limit=\"http-head-size\"}} {count}\n");
            // The connection ends after its answer.
            let seen = async {
                while !metrics.encode().contains(&counted) {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            tokio::time::timeout(Duration::from_secs(120), seen).await.expect("it is counted");
        }
    }

    #[tokio::test]
    async fn an_idle_connection_is_closed_later() {
        let limits = Limits { idle_timeout: Duration::from_millis(100), ..patient(9) };
        let address = start(limits, pending()).await;
        let mut stream = connect(address, REQUEST).await;
        answer(&mut stream).await;
        is_closed(&mut stream).await;
    }

    #[tokio::test]
    async fn a_request_that_has_come_is_answered_though_the_process_was_held_up() {
        let idle_timeout = Duration::from_secs(1_000);
        let address = start(Limits { idle_timeout, ..patient(99) }, pending()).await;
        let mut streams = Vec::new();
        for _ in 0..16 {
            let mut stream = connect(address, REQUEST).await;
            answer(&mut stream).await;
            streams.push(stream);
        }
        // The server does not run between the two.
        for stream in &streams {
            assert_eq!(stream.try_write(REQUEST).expect("it takes that"), REQUEST.len());
        }
        tokio::time::pause();
        tokio::time::advance(2 * idle_timeout).await;
        tokio::time::resume();
        for stream in &mut streams {
            answer(stream).await;
        }
    }

    #[tokio::test]
    async fn who_waits_longest_for_a_request_gives_way_when_all_places_are_taken() {
        let address = start(patient(3), pending()).await;
        let mut half = [connect(address, HALF).await, connect(address, HALF).await];
        let mut idle = connect(address, REQUEST).await;
        answer(&mut idle).await;
        let mut newer = Vec::new();
        for stream in &mut half {
            newer.push(connect(address, REQUEST).await);
            answer(newer.last_mut().expect("pushed")).await;
            is_closed(stream).await;
        }
        idle.write_all(REQUEST).await.expect("it has its place");
        answer(&mut idle).await;
    }

    #[tokio::test]
    async fn many_half_heads_keep_nobody_out() {
        let address = start(patient(8), pending()).await;
        let mut held = Vec::new();
        for _ in 0..50 {
            held.push(connect(address, HALF).await);
            answer(&mut connect(address, REQUEST).await).await;
        }
    }

    /// A handler that reports the begin of each request, and answers when the gate has a permit.
    fn gated(path: &str) -> (Router, Arc<Semaphore>, mpsc::UnboundedReceiver<()>) {
        let gate = Arc::new(Semaphore::new(0));
        let (begin, begun) = mpsc::unbounded_channel();
        let held = gate.clone();
        let handler = async move || {
            begin.send(()).expect("the test waits");
            held.acquire().await.expect("never closed").forget();
            "here"
        };
        (Router::new().route(path, get(handler)), gate, begun)
    }

    #[tokio::test]
    async fn a_request_under_way_gives_way_to_nobody() {
        let (router, gate, mut begun) = gated("/");
        let address = serve_on_free_port(router, patient(1), pending()).await;
        let mut first = connect(address, REQUEST).await;
        begun.recv().await.expect("it has begun");
        let mut second = connect(address, REQUEST).await;
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        begun.try_recv().expect_err("there is no place for it");
        gate.add_permits(1);
        answer(&mut first).await;
        // The connection is idle now, so it gives way.
        begun.recv().await.expect("it has begun");
        is_closed(&mut first).await;
        gate.add_permits(1);
        answer(&mut second).await;
    }

    const PROBE: &[u8] = b"GET /-/healthy HTTP/1.1\r\nHost: a\r\n\r\n";

    /// The answer on a connection that is closed after it.
    async fn last_answer(address: SocketAddr, request: &[u8]) -> String {
        let mut text = String::new();
        let mut stream = connect(address, request).await;
        stream.read_to_string(&mut text).await.expect("closed cleanly");
        text
    }

    #[tokio::test]
    async fn while_all_are_busy_health_is_answered_and_others_are_told_the_setting() {
        let metrics = Arc::new(Metrics::new());
        let (slow, gate, mut begun) = gated("/slow");
        let router = api::router(Arc::new(AppState::new(metrics.clone()))).merge(slow);
        let limits = Limits { spare: 1, ..patient(1) };
        let address = serve_on_free_port(router, limits, pending()).await;
        let mut first = connect(address, b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n").await;
        begun.recv().await.expect("it has begun");
        for _ in 0..3 {
            let text = last_answer(address, PROBE).await;
            assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
            let text = last_answer(address, REQUEST).await;
            let why = "more than 1 connections, which is the setting max-connections\n";
            assert!(text.starts_with("HTTP/1.1 503 ") && text.ends_with(why), "{text}");
            // Like every answer.
            for header in ["retry-after: 5\r\n", "x-content-type-options: nosniff\r\n"] {
                assert!(text.contains(header), "{text}");
            }
        }
        let page = metrics.encode();
        for line in [
            "promkairos_limits_reached_total{limit=\"max-connections\"} 3\n",
            "promkairos_http_requests_total{handler=\"/\",code=\"503\"} 3\n",
        ] {
            assert!(page.contains(line), "{line}{page}");
        }
        // A connection that only holds a spare place gives way too.
        let mut half = connect(address, HALF).await;
        last_answer(address, PROBE).await;
        is_closed(&mut half).await;
        begun.try_recv().expect_err("nothing else has come to it");
        gate.add_permits(2);
        answer(&mut first).await;
        // The connection is idle soon, so it gives way.
        let mut status = [0; 12];
        while status != *b"HTTP/1.1 200" {
            let mut other = connect(address, REQUEST).await;
            other.read_exact(&mut status).await.expect("an answer");
        }
    }

    /// A POST whose body never completes.
    const SLOW: &[u8] = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\na";

    fn reads_bodies() -> Router {
        Router::new().route("/", get(async || "here").post(async |_: Bytes| "here"))
    }

    #[tokio::test]
    async fn many_slow_bodies_keep_nobody_out() {
        let limits = Limits { body_grace: Duration::from_millis(20), ..patient(8) };
        let address = serve_on_free_port(reads_bodies(), limits, pending()).await;
        let mut held = Vec::new();
        for _ in 0..20 {
            for _ in 0..8 {
                held.push(connect(address, SLOW).await);
            }
            answer(&mut connect(address, REQUEST).await).await;
        }
    }

    #[tokio::test]
    async fn who_is_answered_and_does_not_send_its_body_is_told_that_the_connection_ends() {
        let read = async |_: Bytes| "read";
        let router = Router::new().route("/", post(async || "refused")).route("/read", post(read));
        let address = serve_on_free_port(router, patient(9), pending()).await;
        for (path, body, is_last) in [
            ("/", "Content-Length: 9\r\n\r\na", true),
            // The rest has arrived and is read.
            ("/", "Content-Length: 1\r\n\r\na", false),
            ("/", "Transfer-Encoding: chunked\r\n\r\n1\r\n", true),
            ("/", "Content-Length: 0\r\n\r\n", false),
            ("/read", "Content-Length: 1\r\n\r\na", false),
            ("/read", "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n", false),
        ] {
            let request = format!("POST {path} HTTP/1.1\r\nHost: a\r\n{body}");
            let text = match is_last {
                true => last_answer(address, request.as_bytes()).await,
                false => {
                    let mut stream = connect(address, request.as_bytes()).await;
                    let text = answer_with(&mut stream, &["read", "refused"]).await;
                    // Another request is answered on the connection.
                    let next = b"POST /read HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
                    stream.write_all(next).await.expect("it takes that");
                    answer_with(&mut stream, &["read"]).await;
                    text
                }
            };
            assert_eq!(text.contains("connection: close\r\n"), is_last, "{path} {body:?}: {text}");
        }
    }

    #[tokio::test]
    async fn a_body_has_its_grace_and_who_is_idle_gives_way_before_it() {
        let address = serve_on_free_port(reads_bodies(), patient(2), pending()).await;
        let mut slow = connect(address, SLOW).await;
        let mut idle = connect(address, REQUEST).await;
        answer(&mut idle).await;
        let mut newer = connect(address, REQUEST).await;
        answer(&mut newer).await;
        is_closed(&mut idle).await;
        slow.write_all(b"bcdefghi").await.expect("it has its place");
        answer(&mut slow).await;
    }

    #[tokio::test]
    async fn a_whole_request_gives_way_to_nobody_after_its_grace() {
        let gate = Arc::new(Semaphore::new(0));
        let (begin, mut begun) = mpsc::unbounded_channel();
        let held = gate.clone();
        let handler = async move |_: Bytes| {
            begin.send(()).expect("the test waits");
            held.acquire().await.expect("never closed").forget();
            "here"
        };
        let limits = Limits { body_grace: Duration::ZERO, ..patient(1) };
        let router = Router::new().route("/", get(async || "here").post(handler));
        let address = serve_on_free_port(router, limits, pending()).await;
        let mut first = connect(address, SLOW).await;
        first.write_all(b"bcdefghi").await.expect("it takes that");
        begun.recv().await.expect("it has begun");
        let mut second = connect(address, REQUEST).await;
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        gate.add_permits(1);
        answer(&mut first).await;
        answer(&mut second).await;
    }

    #[tokio::test]
    async fn a_client_that_takes_nothing_of_its_answer_loses_its_connection() {
        let (ended, mut end) = mpsc::unbounded_channel::<()>();
        let handler = async move || {
            let ended = ended.clone();
            let pieces = futures::stream::repeat_with(move || {
                let _held = &ended;
                Ok::<_, std::io::Error>(Bytes::from_static(&[0; 1 << 16]))
            });
            Body::from_stream(pieces.boxed())
        };
        let limits = Limits { answer_stall: Duration::from_millis(100), ..patient(9) };
        let router = Router::new().route("/", get(handler));
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let stopped = async move { drop(stopped.await) };
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let server = tokio::spawn(serve(listener, plain(router), limits, stopped));
        let clients = [connect(address, REQUEST).await, connect(address, REQUEST).await];
        // The server ends only when both connections end: their answers never do.
        for client in &clients {
            client.readable().await.expect("the answer begins");
        }
        stop.send(()).expect("it serves");
        server.await.expect("no panic");
        assert!(end.recv().await.is_none(), "both answers were given up");
    }

    /// An HTTP/2 connection whose client opens no window for data, and the body of the answer to one request.
    async fn unread_over_http2(address: SocketAddr) -> (SendRequest<Bytes>, h2::RecvStream) {
        let stream = TcpStream::connect(address).await.expect("it listens");
        let mut builder = h2::client::Builder::new();
        let (client, connection) =
            builder.initial_window_size(0).handshake(stream).await.expect("HTTP/2");
        tokio::spawn(connection);
        let mut client = client.ready().await.expect("it may ask");
        let request = Request::get("http://a/").body(()).expect("a request");
        let (answer, _) = client.send_request(request, true).expect("it asks");
        let body = answer.await.expect("a head").into_body();
        (client, body)
    }

    /// An HTTP/1.1 connection with more answers than fit into the buffers, none of them read.
    async fn unread_over_http1(address: SocketAddr) -> TcpStream {
        let mut stream = connect(address, b"").await;
        // Until the server reads no more requests, because their answers are not read.
        let send = async { while stream.write_all(REQUEST).await.is_ok() {} };
        let _ = tokio::time::timeout(Duration::from_millis(300), send).await;
        stream
    }

    fn large() -> Router {
        Router::new().route("/", get(async || "here".repeat(1 << 20)))
    }

    /// Answers every path except one as a refused login.
    fn strange() -> Router {
        let refused = async || {
            let text = "who are you? ".repeat(1 << 10);
            (StatusCode::UNAUTHORIZED, Extension(api::Login::Refused), text)
        };
        let let_in = async || (Extension(api::Login::LetIn), "here");
        Router::new().route("/", get(refused)).route("/in", get(let_in))
    }

    #[tokio::test]
    async fn a_small_answer_over_http2_that_nobody_takes_is_given_up() {
        let limits = Limits { answer_stall: Duration::from_millis(50), ..patient(9) };
        let (_client, mut body) = unread_over_http2(start(limits, pending()).await).await;
        let rest = body.data().await.expect("it does not end").expect_err("it is broken off");
        assert_eq!(rest.reason(), Some(h2::Reason::CANCEL));
    }

    #[tokio::test]
    async fn where_memory_is_short_it_is_given_up_sooner() {
        let pressure = Pressure::new(1_000);
        let router = Router::new().route("/", get(async || "here"));
        let places = ConnectionPool::new(patient(9), pressure.levels());
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        tokio::spawn(super::serve(listener, plain(router), places, pending()));
        let (_client, mut body) = unread_over_http2(address).await;
        let mut rest = pin!(body.data());
        assert!(futures::poll!(rest.as_mut()).is_pending());
        pressure.note(950);
        rest.await.expect("it does not end").expect_err("it is broken off");
    }

    #[tokio::test]
    async fn who_takes_nothing_of_its_answers_gives_way() {
        let limits = Limits { answer_grace: Duration::from_millis(50), ..patient(1) };
        let address = serve_on_free_port(large(), limits, pending()).await;
        let (_client, mut body) = unread_over_http2(address).await;
        let first = unread_over_http1(address).await;
        body.data().await.expect("it does not end").expect_err("its connection is closed");
        answer(&mut connect(address, REQUEST).await).await;
        drop(first);
    }

    #[tokio::test]
    async fn a_stranger_that_takes_no_refusal_is_sent_away() {
        let limits = Limits { stranger_grace: Duration::from_millis(50), ..patient(1) };
        let address = serve_on_free_port(strange(), limits, pending()).await;
        let (_client, mut body) = unread_over_http2(address).await;
        body.data().await.expect("it does not end").expect_err("its connection is closed");
        let mut flooding = unread_over_http1(address).await;
        is_closed(&mut flooding).await;
        // A client that sends very many requests at once gets only some of the refusals.
        let many = REQUEST.repeat(300);
        let mut sends = connect(address, &many).await;
        let mut refusals = Vec::new();
        let _ = sends.read_to_end(&mut refusals).await;
        let count = String::from_utf8_lossy(&refusals).matches("HTTP/1.1 401 ").count();
        assert!((1..=100).contains(&count), "{count}");
        // A client that reads its refusals may continue, and may log in.
        let mut asks = connect(address, b"").await;
        for _ in 0..3 {
            asks.write_all(REQUEST).await.expect("it has its place");
            answer_with(&mut asks, &["who are you? "]).await;
            tokio::time::sleep(2 * limits.stranger_grace).await;
        }
        asks.write_all(b"GET /in HTTP/1.1\r\nHost: a\r\n\r\n").await.expect("it has its place");
        answer(&mut asks).await;
    }

    #[tokio::test]
    async fn on_stop_idle_connections_are_closed_and_no_more_are_taken() {
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let address = start(patient(9), async move { drop(stopped.await) }).await;
        let mut stream = connect(address, REQUEST).await;
        answer(&mut stream).await;
        stop.send(()).expect("it serves");
        assert_eq!(stream.read(&mut [0]).await.expect("closed cleanly"), 0);
        TcpStream::connect(address).await.expect_err("it no longer listens");
    }
}
