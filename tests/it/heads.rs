//! Heads of requests on the real program, mostly over raw connections: heads that are too large, and heads for which
//! Prometheus has answers of its own.

use std::net::SocketAddr;
use std::time::Duration;

use axum::http::Request;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::limits::reached;
use crate::support::eventually;
use crate::support::promkairos::{Backend, Promkairos};

/// The text of a refusal whose limit is not a setting.
const NO_SETTING: &str = "no setting changes that";

async fn ready(data: &tempfile::TempDir) -> Promkairos {
    Promkairos::ready(data.path(), &Backend::Embedded, &[]).await
}

/// All bytes that are answered until the server closes the connection.
async fn all_of(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    stream.write_all(request).await.expect("it takes that");
    let mut answer = Vec::new();
    let read = timeout(Duration::from_secs(60), stream.read_to_end(&mut answer)).await;
    let seen = || String::from_utf8_lossy(&answer[..answer.len().min(500)]).into_owned();
    read.unwrap_or_else(|_| panic!("it stays open after {:?}", seen()))
        .unwrap_or_else(|error| panic!("{error} after {:?}", seen()));
    String::from_utf8_lossy(&answer).into_owned()
}

/// Waits until this number of heads is counted.
async fn are_counted(server: &Promkairos, count: f64) {
    eventually("the heads are counted", async || match reached(server, "http-head-size").await {
        Some(now) if now == count => Ok(()),
        other => Err(format!("{other:?}, not {count}")),
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_head_over_http1_gets_the_limit_and_is_counted() {
    let data = tempfile::tempdir().expect("a folder");
    let server = ready(&data).await;
    let head = |path: &str, headers: &str| {
        format!("GET /-/healthy{path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{headers}\r\n")
    };
    let header = |bytes: usize| format!("A: {}\r\n", "a".repeat(bytes));
    let path = |bytes: usize| format!("?{}", "a".repeat(bytes));
    let taken = all_of(server.address, head(&path(60_000), &header(60_000)).as_bytes()).await;
    assert!(taken.starts_with("HTTP/1.1 200 "), "{taken}");
    let many: String = (0..101).map(|number| format!("A{number}: a\r\n")).collect();
    let refused = [
        (head("", &header(140_000)), "431 ", "131072 bytes"),
        (head("", &many), "431 ", "over HTTP/1 100 headers"),
        // More bytes than the server reads of a head, followed by more.
        (head("", &header(5_000_000)), "431 ", "131072 bytes"),
        (head(&path(66_000), &header(66_000)), "431 ", "131072 bytes"),
        (head(&"a".repeat(66_000), ""), "414 ", "its path 65534"),
        (head(&path(140_000), ""), "414 ", "131072 bytes"),
        (head(&path(140_000), ""), "414 ", "send the parameters as a form"),
    ];
    for (count, (request, status, why)) in (1..).zip(refused) {
        let answer = all_of(server.address, request.as_bytes()).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
        let (head, text) = answer.split_once("\r\n\r\n").expect("a head");
        assert!(text.contains(why) && text.contains(NO_SETTING), "{answer}");
        let length = format!("content-length: {}", text.len());
        for header in ["connection: close", "x-content-type-options: nosniff", length.as_str()] {
            assert!(head.split("\r\n").any(|line| line == header), "{header}: {head}");
        }
        are_counted(&server, f64::from(count)).await;
    }
    // An invalid head gets a text too, and does not count as a limit.
    let answer =
        all_of(server.address, b"GET /-/healthy?a=\"b\" HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("percent-encoded"), "{answer}");
    are_counted(&server, 7.0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_query_is_taken_however_it_comes() {
    let data = tempfile::tempdir().expect("a folder");
    let server = ready(&data).await;
    let value = |length: usize| "v".repeat(length);
    let mut stream = TcpStream::connect(server.address).await.expect("it listens");
    // Several requests on one connection, whole and in pieces. Each answer repeats the request.
    for (length, piece) in
        [(10, 7), (100_000, 200_000), (70_000, 1_000), (20, 50), (120_000, 30_000)]
    {
        let query = format!("query=%22{}%22", value(length));
        let path = if piece == 1_000 { "//api/v1/query" } else { "/api/v1/query" };
        let sent = format!("GET {path}?{query} HTTP/1.1\r\nHost: a\r\n\r\n");
        for piece in sent.as_bytes().chunks(piece) {
            stream.write_all(piece).await.expect("it takes that");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let (head, body) = one_answer(&mut stream).await;
        if path.starts_with("//") {
            assert!(
                head.contains(&format!("\r\nlocation: /api/v1/query?{query}\r\n")),
                "{}",
                &head[..99]
            );
            continue;
        }
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        assert!(body.contains(&format!("\"{}\"", value(length))), "{length}");
    }
    are_counted(&server, 0.0).await;
}

/// The head and the body of an answer.
async fn one_answer(stream: &mut TcpStream) -> (String, String) {
    let mut answer = Vec::new();
    loop {
        let read = timeout(Duration::from_secs(60), stream.read_buf(&mut answer)).await;
        assert!(read.expect("it answers").expect("the connection goes on") > 0, "it is closed");
        let text = String::from_utf8_lossy(&answer).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let mut lines = head.split("\r\n");
        let length = lines.find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.expect("it has a length").parse().expect("a number");
        if body.len() >= length {
            return (head.to_owned() + "\r\n", body.to_owned());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn large_headers_over_http2_get_the_limit_and_are_counted() {
    let data = tempfile::tempdir().expect("a folder");
    let server = ready(&data).await;
    let stream = TcpStream::connect(server.address).await.expect("it listens");
    let (client, connection) = h2::client::handshake(stream).await.expect("HTTP/2");
    tokio::spawn(connection);
    for (bytes, status, count) in [(60_000, 200, 0.0), (140_000, 431, 1.0), (400_000, 431, 2.0)] {
        let mut client = client.clone().ready().await.expect("the connection goes on");
        let request = Request::get(server.url("/-/healthy")).header("a", "a".repeat(bytes));
        let sent = client.send_request(request.body(()).expect("a request"), true);
        let answer = sent.expect("it is sent").0.await.expect("an answer");
        assert_eq!(answer.status(), status, "{bytes}");
        let text = answer.into_body().data().await.expect("a text").expect("it comes");
        let text = String::from_utf8_lossy(&text).into_owned();
        let refused = text.contains("131072 bytes") && text.contains(NO_SETTING);
        assert_eq!(refused, status == 431, "{text}");
        are_counted(&server, count).await;
    }
}

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const CONTINUATION: u8 = 9;

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A GET of a path of any length; client libraries refuse the longest.
fn get(stream: u32, path: &str) -> Vec<u8> {
    // GET, http, and path and authority as literals.
    let mut block = vec![0x82, 0x86, 0x04];
    match path.len() {
        short @ ..127 => block.push(short as u8),
        long => {
            let mut rest = long - 127;
            block.push(127);
            while rest > 127 {
                block.push(rest as u8 & 127 | 128);
                rest >>= 7;
            }
            block.push(rest as u8);
        }
    }
    block.extend(path.as_bytes());
    block.extend([0x01, 1, b'a']);
    let pieces: Vec<&[u8]> = block.chunks(16_384).collect();
    let frames = pieces.iter().enumerate().map(|(number, piece)| {
        let last = if number + 1 == pieces.len() { 4 } else { 0 };
        match number {
            0 => frame(HEADERS, 1 | last, stream, piece),
            _ => frame(CONTINUATION, last, stream, piece),
        }
    });
    frames.flatten().collect()
}

/// The next frame of a stream: its type, its flags and its payload.
async fn next_of(connection: &mut TcpStream, stream: u32) -> (u8, u8, Vec<u8>) {
    loop {
        let mut header = [0; 9];
        let read = timeout(Duration::from_secs(60), connection.read_exact(&mut header)).await;
        read.expect("it answers").expect("the connection goes on");
        let length = u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize;
        let mut payload = vec![0; length];
        connection.read_exact(&mut payload).await.expect("the connection goes on");
        if header[5..] == stream.to_be_bytes() {
            return (header[3], header[4], payload);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_path_over_http2_is_refused_with_a_status_and_counted() {
    let data = tempfile::tempdir().expect("a folder");
    let server = ready(&data).await;
    let mut connection = TcpStream::connect(server.address).await.expect("it listens");
    let begun = [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &frame(4, 0, 0, &[])].concat();
    connection.write_all(&begun).await.expect("it takes that");
    let path = |bytes: usize| format!("/-/healthy?{}", "a".repeat(bytes));
    // (bytes of the path, the status as HPACK has it, heads that are counted)
    let cases: [(u32, usize, &[u8], f64); 4] = [
        (1, 60_000, &[0x88], 0.0),
        (3, 70_000, &[0x08, 3, b'4', b'1', b'4'], 1.0),
        (5, 200_000, &[0x08, 3, b'4', b'1', b'4'], 2.0),
        // The library's own 431, for heads that are not read to their end; in Huffman code.
        (7, 560_000, &[0x48, 0x83], 3.0),
    ];
    for (stream, bytes, status, count) in cases {
        connection.write_all(&get(stream, &path(bytes))).await.expect("it takes that");
        let (kind, flags, block) = next_of(&mut connection, stream).await;
        assert_eq!(kind, HEADERS, "{bytes}");
        assert!(block.starts_with(status), "{bytes}: {block:x?}");
        if status != [0x88] {
            assert_eq!(flags, 5, "{bytes}: it is all of the answer");
        }
        if status[0] == 0x08 {
            assert_eq!(next_of(&mut connection, stream).await.0, RST_STREAM, "{bytes}");
        }
        are_counted(&server, count).await;
    }
    // The connection stays usable.
    connection.write_all(&get(9, "/-/healthy")).await.expect("it takes that");
    let (kind, _, block) = next_of(&mut connection, 9).await;
    assert!(kind == HEADERS && block.starts_with(&[0x88]), "{kind} {block:x?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn heads_are_answered_as_go_answers_them() {
    let data = tempfile::tempdir().expect("a folder");
    let server = ready(&data).await;
    let get =
        |headers: &str| format!("GET /-/healthy HTTP/1.1\r\n{headers}Connection: close\r\n\r\n");
    let post = |headers: &str| {
        // Bytes after a body of unknown length are not taken for a request.
        format!(
            "POST /api/v1/query HTTP/1.1\r\nHost: a\r\n{headers}\r\n\r\n0\r\n\r\n{}",
            get("Host: a\r\n")
        )
    };
    let (healthy, coding) = ("Prometheus Server is Healthy.\n", "Unsupported transfer encoding");
    for (request, status, text) in [
        (get("Host: a\r\n"), 200, healthy),
        (get("Host:\r\n"), 200, healthy),
        (get(""), 400, "400 Bad Request: missing required Host header"),
        (get("Host: a\r\nHost: a\r\n"), 400, "400 Bad Request"),
        (get("Host: a\r\nhost: b\r\n"), 400, "400 Bad Request"),
        (get("Host: a b\r\n"), 400, "400 Bad Request: malformed Host header"),
        (get("Host: a/b\r\n"), 400, "400 Bad Request: malformed Host header"),
        // HTTP/1.0 has no such header.
        ("GET /-/healthy HTTP/1.0\r\n\r\n".to_owned(), 200, healthy),
        ("OPTIONS * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".to_owned(), 200, ""),
        (post("Transfer-Encoding: chunked, chunked"), 501, coding),
        (post("Transfer-Encoding: gzip, chunked"), 501, coding),
        (post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"), 501, coding),
        (post("Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked"), 501, coding),
        (post("Transfer-Encoding: identity, chunked\r\nContent-Length: 3"), 501, coding),
    ] {
        let answer = all_of(server.address, request.as_bytes()).await;
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        let version = if request.contains("HTTP/1.0") { "HTTP/1.0" } else { "HTTP/1.1" };
        assert!(head.starts_with(&format!("{version} {status} ")), "{request}{answer}");
        assert_eq!(body, text, "{request}{answer}");
        let closes = head.contains("\r\nconnection: close");
        assert!(closes || request.contains("HTTP/1.0"), "{request}{answer}");
    }
    // An answer without a body has a content length of 0.
    let options = b"OPTIONS * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let answer = all_of(server.address, options).await;
    assert!(answer.contains("\r\ncontent-length: 0\r\n"), "{answer}");
}

/// Like the server of Go, ours looks only for the names of compressions.
#[tokio::test(flavor = "multi_thread")]
async fn who_refuses_an_answer_that_is_not_compressed_has_it_all_the_same() {
    let data = tempfile::tempdir().expect("a folder");
    let server = ready(&data).await;
    for (accepted, is_compressed) in [
        ("identity;q=0", false),
        ("*;q=0", false),
        ("identity;q=0, *;q=0", false),
        ("gzip;q=0, identity;q=0", false),
        ("identity;q=0, gzip", true),
        ("gzip", true),
    ] {
        for path in ["/metrics", "/api/v1/query?query=1", "/api/v1/status/buildinfo"] {
            let request = format!(
                "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAccept-Encoding: {accepted}\r\n\r\n"
            );
            let answer = all_of(server.address, request.as_bytes()).await;
            assert!(answer.starts_with("HTTP/1.1 200 "), "{accepted} {path}: {answer}");
            let said = answer.contains("\r\ncontent-encoding: gzip\r\n");
            assert_eq!(said, is_compressed, "{accepted} {path}");
        }
    }
}
