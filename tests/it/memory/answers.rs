//! Memory that readers can make the process hold: answers that they do not take, and points that queries read from
//! part files. Both stay near the limit, whatever the number of clients, and the process keeps working.

use std::time::Duration;

use futures::future::join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use super::{TIME, peak, send, series};
use crate::support::eventually;
use crate::support::load::compress;
use crate::support::promkairos::{Backend, Message, Promkairos};
use crate::support::proto;

const LIMIT: u64 = 256 << 20;
const LIMIT_FLAG: &str = "--memory-limit=256MiB";

/// Resets the peak.
fn forget_peak(server: &Promkairos) {
    let process = server.process.id();
    std::fs::write(format!("/proc/{process}/clear_refs"), "5").expect("it is ours");
}

/// Memory freed on many threads counts for a second more: unbounded, each test would take several times the limit.
fn check_peak(server: &Promkairos) {
    let peak = peak(server);
    println!("at most {} MiB", peak >> 20);
    assert!(peak < LIMIT / 100 * 125, "{} of {} MiB", peak >> 20, LIMIT >> 20);
}

/// Requests a page and reads nothing of the answer.
async fn ask_and_leave(server: &Promkairos, path: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(4096).expect("set");
    let mut client = socket.connect(server.address).await.expect("connected");
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
    client.write_all(request.as_bytes()).await.expect("sent");
    client
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_nobody_takes_stay_within_the_limit() {
    const FAMILIES: usize = 12_000;
    let data = tempfile::tempdir().expect("a folder");
    let flags = [LIMIT_FLAG, "--label-max-wait=1s"];
    let server = Promkairos::ready(data.path(), &Backend::Embedded, &flags).await;
    for part in 0..12 {
        let one = |at: usize| {
            let name = format!("family_{part}_{at}");
            let help = "h".repeat(1_000);
            proto::Message::default().varint(1, 1).bytes(2, &name).bytes(4, &help)
        };
        let families = (0..FAMILIES / 12).map(one);
        let body = compress(&proto::Message::default().messages(3, families));
        let answer = server.write(Message::V1, body).await.expect("an answer");
        assert_eq!(answer.status, 204, "{}", answer.body);
    }
    let (status, text) = server.get("/api/v1/metadata").await.expect("an answer");
    assert_eq!((status, text.matches("\"help\"").count()), (200, FAMILIES));
    forget_peak(&server);
    // Fewer clients than may wait to be accepted.
    let mut clients = Vec::new();
    for _ in 0..100 {
        clients.push(ask_and_leave(&server, "/api/v1/metadata").await);
    }
    // Requests without room get a 503, though the other clients read nothing.
    eventually("some are refused", async || {
        let mut refused = 0;
        for client in &mut clients {
            let mut head = [0; 12];
            let read = client.peek(&mut head);
            let read = tokio::time::timeout(Duration::from_millis(5), read).await;
            refused += usize::from(matches!(read, Ok(Ok(12))) && &head == b"HTTP/1.1 503");
        }
        if refused > 90 { Ok(()) } else { Err(format!("{refused} of them")) }
    })
    .await;
    let point = vec![series(&[("__name__", "m")], &[(TIME, 1.0)])];
    assert_eq!(send(&server, point).await.status, 204);
    assert_eq!(server.get("/-/ready").await.expect("an answer").0, 200);
    check_peak(&server);
    // A client that reads its answer gets it whole, once the others are gone.
    let mut last = clients.remove(0);
    drop(clients);
    eventually("it is answered again", async || {
        let (status, text) = server.get("/api/v1/metadata").await.expect("an answer");
        if status == 200 { Ok(()) } else { Err(text) }
    })
    .await;
    let mut taken = [0; 12];
    last.read_exact(&mut taken).await.expect("a head");
}

#[tokio::test(flavor = "multi_thread")]
async fn points_that_queries_read_from_part_files_stay_within_the_limit() {
    const LARGE: usize = 40;
    const POINTS: i64 = 40_000;
    let data = tempfile::tempdir().expect("a folder");
    let mut server = Promkairos::ready(data.path(), &Backend::Embedded, &[LIMIT_FLAG]).await;
    for at in 0..LARGE {
        // Values that take eight bytes each.
        let value =
            |n: i64| f64::from_bits((n as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 2);
        let points: Vec<(i64, f64)> = (0..POINTS).map(|n| (n * 1_000, value(n))).collect();
        let labels = [("__name__", "large"), ("at", &*at.to_string())];
        let answer = send(&server, vec![series(&labels, &points)]).await;
        assert_eq!(answer.status, 204, "{}", answer.body);
    }
    // The log is flushed to part files.
    assert!(server.process.terminate().success());
    server = Promkairos::ready(data.path(), &Backend::Embedded, &[LIMIT_FLAG]).await;
    forget_peak(&server);
    let path = format!("/api/v1/query?time={POINTS}&query=sum(count_over_time(large[1d]))");
    let ask = async || server.get(&path).await.expect("an answer");
    let want = format!("\"{}\"", LARGE as i64 * POINTS);
    for (status, text) in join_all((0..20).map(|_| ask())).await {
        assert!(status == 200 && text.contains(&want) || status == 422, "{status}: {text:.200}");
    }
    check_peak(&server);
    eventually("it is answered alone", async || match ask().await {
        (200, text) if text.contains(&want) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
}

/// A point in each of 12,000 windows, most of them before 1970, where several rows may hold one window.
#[tokio::test(flavor = "multi_thread")]
async fn rows_that_a_remote_read_finds_in_cassandra_stay_within_the_limit() {
    const WINDOWS: i64 = 12_000;
    const WIDTH: i64 = 1_814_400_000;
    const SERIES: usize = 4;
    let data = tempfile::tempdir().expect("a folder");
    let backend = Backend::cassandra_store();
    let server = Promkairos::ready(data.path(), &backend, &[LIMIT_FLAG]).await;
    let first = 1_000 * WIDTH - WINDOWS * WIDTH + 7;
    let times: Vec<i64> = (0..WINDOWS).map(|window| first + window * WIDTH).collect();
    let long = "x".repeat(200);
    for times in times.chunks(1_000) {
        let points: Vec<(i64, f64)> = times.iter().map(|time| (*time, *time as f64)).collect();
        let one = |at: usize| {
            series(&[("__name__", "m"), ("at", &at.to_string()), ("long", &long)], &points)
        };
        // A busy Cassandra may answer late.
        eventually("it is written", async || {
            match send(&server, (0..SERIES).map(one).collect()).await {
                answer if answer.status == 204 => Ok(()),
                answer => Err(answer.body),
            }
        })
        .await;
    }
    forget_peak(&server);
    let read = server.read_range("__name__", "m", first..=*times.last().expect("one")).await;
    let read = read.expect("an answer");
    assert_eq!(read.len(), SERIES);
    for series in read {
        assert!(series.points.keys().eq(&times), "{} points", series.points.len());
    }
    check_peak(&server);
}
