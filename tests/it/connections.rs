//! Limits of connections and requests on the real program: their number, bodies that do not arrive, unread answers.

use std::net::SocketAddr;
use std::path::Path;

use axum::http::Request;
use bytes::Bytes;
use h2::client::SendRequest;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::limits::reached;
use crate::support::eventually;
use crate::support::promkairos::{Backend, Promkairos};

/// The beginning of a remote write whose body does not arrive.
const BEGUN: &[u8] = b"POST /api/v1/write HTTP/1.1\r\nHost: a\r\nContent-Encoding: snappy\r\n\
    Content-Type: application/x-protobuf\r\nContent-Length: 1000\r\n\r\n\0";

/// A connection with a begun remote write whose body does not arrive.
pub(crate) async fn begin(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    stream.write_all(BEGUN).await.expect("it takes that");
    stream
}

/// Begins requests until one holds the only permit of `--max-concurrent-requests=1`, so that `ask` is refused. A
/// request that comes while the one before ends is refused itself, so there may be several.
pub(crate) async fn begin_alone(
    server: &Promkairos,
    ask: impl AsyncFn() -> (u16, String),
) -> Vec<TcpStream> {
    let why = "more than 1 requests at a time, which is the setting max-concurrent-requests\n";
    let mut begun = Vec::new();
    eventually("a slow one is under way", async || {
        begun.push(begin(server.address).await);
        match ask().await {
            (503, text) if text == why => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    begun
}

async fn ready(data: &Path, flags: &[&str]) -> Promkairos {
    Promkairos::ready(data, &Backend::Embedded, flags).await
}

#[tokio::test(flavor = "multi_thread")]
async fn one_request_too_many_gets_a_retry_after() {
    let data = tempfile::tempdir().expect("a folder");
    let flags = ["--max-concurrent-requests=1", "--http-body-timeout=1h"];
    let server = ready(data.path(), &flags).await;
    let ask = async || server.get("/api/v1/labels").await.expect("an answer");
    assert_eq!(ask().await.0, 200);
    let slow = begin_alone(&server, &ask).await;
    // Pages for operators are answered nevertheless.
    for page in ["/-/healthy", "/-/ready", "/metrics"] {
        assert_eq!(server.get(page).await.expect("an answer").0, 200, "{page}");
    }
    assert!(reached(&server, "max-concurrent-requests").await >= Some(1.0));
    drop(slow);
    eventually("there is a place again", async || match ask().await {
        (200, _) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
}

/// A client sends its whole body before it reads. If the connection is closed meanwhile it sees only that, assumes a
/// network error, and sends the same again.
#[tokio::test(flavor = "multi_thread")]
async fn who_is_refused_while_sending_a_body_reads_the_answer() {
    let data = tempfile::tempdir().expect("a folder");
    let server = ready(data.path(), &[]).await;
    let body = vec![b'x'; 4 << 20];
    for (request, status) in [
        ("POST /api/v1/write", "415 "),
        ("POST /api/v1/nothing", "404 "),
        ("PUT /api/v1/write", "405 "),
        // The answer of a Prometheus without the admin API.
        ("POST /api/v1/admin/tsdb/delete_series", "500 "),
    ] {
        for framing in ["Content-Length: 4194304", "Transfer-Encoding: chunked"] {
            let head = format!(
                "{request} HTTP/1.1\r\nHost: a\r\nContent-Type: text/plain\r\n{framing}\r\n\r\n"
            );
            let mut stream = TcpStream::connect(server.address).await.expect("it listens");
            stream.write_all(head.as_bytes()).await.expect("it takes that");
            let (chunk, end) = match framing.contains("chunked") {
                true => (&b"400000\r\n"[..], &b"\r\n0\r\n\r\n"[..]),
                false => (&b""[..], &b""[..]),
            };
            for part in [chunk, &body, end] {
                stream.write_all(part).await.unwrap_or_else(|error| panic!("{head}{error}"));
            }
            let mut answer = vec![0; 9 + status.len()];
            stream.read_exact(&mut answer).await.unwrap_or_else(|error| panic!("{head}{error}"));
            let answer = String::from_utf8_lossy(&answer).into_owned();
            assert_eq!(answer, format!("HTTP/1.1 {status}"), "{head}");
        }
    }
}

/// A client that waits for `100 Continue` before its body does not send it.
#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_leave_to_send_a_body_is_refused_at_once() {
    let data = tempfile::tempdir().expect("a folder");
    let server = ready(data.path(), &[]).await;
    let mut stream = TcpStream::connect(server.address).await.expect("it listens");
    let head = b"POST /api/v1/write HTTP/1.1\r\nHost: a\r\nContent-Type: text/plain\r\n\
        Content-Length: 4194304\r\nExpect: 100-continue\r\n\r\n";
    stream.write_all(head).await.expect("it takes that");
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await.expect("an answer");
    assert_eq!(&answer, b"HTTP/1.1 415");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_does_not_come_is_told_the_setting_and_counted() {
    let data = tempfile::tempdir().expect("a folder");
    let server = ready(data.path(), &["--http-body-timeout=50ms"]).await;
    let mut slow = begin(server.address).await;
    let why = "body did not arrive within 50ms, which is the setting http-body-timeout\n";
    let mut answer = Vec::new();
    while !answer.ends_with(why.as_bytes()) {
        let read = slow.read_buf(&mut answer).await.expect("it reads");
        assert!(read > 0, "closed after {:?}", String::from_utf8_lossy(&answer));
    }
    assert!(answer.starts_with(b"HTTP/1.1 503 "), "{:?}", String::from_utf8_lossy(&answer));
    assert_eq!(reached(&server, "http-body-timeout").await, Some(1.0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_does_not_come_is_counted() {
    let data = tempfile::tempdir().expect("a folder");
    let server = ready(data.path(), &["--http-head-timeout=50ms"]).await;
    let mut slow = TcpStream::connect(server.address).await.expect("it listens");
    slow.write_all(b"GET / HTTP/1.1\r\n").await.expect("it takes that");
    // A reset also ends the answer.
    let _ = slow.read_to_end(&mut Vec::new()).await;
    eventually("it is counted", async || match reached(&server, "http-head-timeout").await {
        Some(1.0..) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
}

/// An HTTP/2 connection with streams of which at most `window` bytes may be unread.
async fn http2(address: SocketAddr, window: u32) -> SendRequest<Bytes> {
    let stream = TcpStream::connect(address).await.expect("it listens");
    let mut builder = h2::client::Builder::new();
    builder.initial_window_size(window).initial_connection_window_size(1 << 20);
    let (client, connection) = builder.handshake(stream).await.expect("HTTP/2");
    tokio::spawn(connection);
    client
}

/// The body of the answer to a GET; its status is 200.
async fn get(client: &SendRequest<Bytes>, server: &Promkairos, path: &str) -> h2::RecvStream {
    let mut client = client.clone().ready().await.expect("the connection is there");
    let request = Request::get(server.url(path)).body(()).expect("a request");
    let (answer, _) = client.send_request(request, true).expect("it is sent");
    let answer = answer.await.expect("an answer");
    assert_eq!(answer.status(), 200, "{path}");
    answer.into_body()
}

/// If the body of a request is not read, an HTTP/1.1 answer says that the connection closes. HTTP/2 has no such
/// header: an answer with it would be malformed.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_over_http2_says_nothing_of_the_connection() {
    const OF_CONNECTIONS: [&str; 4] = ["connection", "keep-alive", "transfer-encoding", "upgrade"];
    let data = tempfile::tempdir().expect("a folder");
    let server = ready(data.path(), &[]).await;
    let mut plain = TcpStream::connect(server.address).await.expect("it listens");
    let head = b"POST /nothing HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n";
    plain.write_all(head).await.expect("it takes that");
    let mut answer = Vec::new();
    plain.read_to_end(&mut answer).await.expect("it is closed");
    let answer = String::from_utf8(answer).expect("text");
    assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
    assert!(answer.contains("\r\nconnection: close\r\n"), "{answer}");
    let client = http2(server.address, 1 << 16).await;
    for (method, path, status) in [("POST", "/nothing", 404), ("GET", "/-/healthy", 200)] {
        let mut client = client.clone().ready().await.expect("the connection is there");
        let request = Request::builder().method(method).uri(server.url(path)).body(());
        let is_whole = method == "GET";
        let sent = client.send_request(request.expect("a request"), is_whole);
        let (answer, _body) = sent.expect("it is sent");
        let answer = answer.await.expect("an answer");
        assert_eq!(answer.status(), status, "{path}");
        for name in OF_CONNECTIONS {
            assert!(!answer.headers().contains_key(name), "{path}: {name}");
        }
    }
}

/// Reads the rest of a body; an error if it breaks off.
async fn rest(mut body: h2::RecvStream) -> Result<Vec<u8>, h2::Error> {
    let mut taken = Vec::new();
    while let Some(piece) = body.data().await {
        let piece = piece?;
        body.flow_control().release_capacity(piece.len()).expect("as many as came");
        taken.extend_from_slice(&piece);
    }
    Ok(taken)
}

/// An answer of some hundred kilobytes in several pieces, without stored data.
const LARGE: &str = "/api/v1/query_range?start=0&end=10999&step=1&query=\
    label_replace(vector(1),%22n%22,%22a%22,%22n%22,%22%22)%20or%20\
    label_replace(vector(1),%22n%22,%22b%22,%22n%22,%22%22)%20or%20\
    label_replace(vector(1),%22n%22,%22c%22,%22n%22,%22%22)%20or%20vector(1)";

#[tokio::test(flavor = "multi_thread")]
async fn an_http2_client_that_takes_nothing_of_an_answer_loses_it_and_no_other() {
    let data = tempfile::tempdir().expect("a folder");
    let server = ready(data.path(), &["--http-answer-timeout=200ms"]).await;
    // One window without room for an answer, and one with room for a part of it.
    for (window, before) in [(0, 0.0), (1 << 10, 1.0)] {
        let client = http2(server.address, window).await;
        let held = get(&client, &server, LARGE).await;
        eventually("it is given up", async || {
            let times = reached(&server, "http-answer-timeout").await.unwrap_or_default();
            if times > before { Ok(()) } else { Err(times.to_string()) }
        })
        .await;
        if window > 0 {
            // The connection stays usable.
            let healthy = rest(get(&client, &server, "/-/healthy").await).await.expect("whole");
            assert_eq!(healthy, b"Prometheus Server is Healthy.\n");
            rest(held).await.expect_err("a part must not pass for the whole");
        }
    }
    // A client that reads the answer gets all of it.
    let client = http2(server.address, 1 << 16).await;
    let whole = rest(get(&client, &server, LARGE).await).await.expect("whole");
    let answer: serde_json::Value = serde_json::from_slice(&whole).expect("JSON");
    assert_eq!(answer["data"]["result"].as_array().map(Vec::len), Some(4), "{}", whole.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_requests_of_a_connection_at_a_time_are_limited() {
    let data = tempfile::tempdir().expect("a folder");
    let server = ready(data.path(), &["--max-http2-streams=7"]).await;
    let client = http2(server.address, 1 << 16).await;
    // The server sends its limit before its first answer.
    rest(get(&client, &server, "/-/healthy").await).await.expect("whole");
    let said = client.clone().ready().await.expect("the connection is there");
    assert_eq!(said.current_max_send_streams(), 7);
}
