//! KairosDB's telnet protocol: the same lines to a real KairosDB and to promkairos over both stores, and then the same
//! queries. Also what hostile clients send, a store that refuses for a while, and a stop.
//!
//! Each line has a metric of its own, whose name is in place of `NAME`.

use std::time::Duration;

use promkairos::kairos::TimeUnit;
use serde_json::{Value as Json, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::both_ways::unique;
use super::listener::logged_address;
use crate::support::kairosdb::KairosDb;
use crate::support::promkairos::{Backend, Promkairos};
use crate::support::{DEADLINE, eventually};

pub(super) const FLAG: &str = "--kairosdb-telnet-listen=127.0.0.1:0";

/// Lines that store the same on both sides, or nothing.
const SAME: &[&str] = &[
    "put NAME 1700000000 5 host=a",
    "put NAME 1700000000 5 host=a\r",
    "put NAME 1700000001 5.5 host=a other=b",
    "putm NAME 1700000002000 6 host=a",
    "put NAME 1700000000 1",
    "put NAME 1700000000 1 a=b=c",
    "put NAME 1700000000 1 \"a=b c\"",
    "put \"NAME\" 1700000000 1 a=b",
    "put NAME 1700000000 1.0e3 a=b",
    "put NAME 2999999999 1 a=b",
    "put NAME 3000000000 1 a=b",
    "put NAME 0 1 a=b",
    "putm NAME 1 -9223372036854775808 a=b",
    "putm NAME 2 9007199254740993 a=b",
    "put  NAME\t1700000000   1  a=b ",
    "put NAME 1700000000 1 a=b.c-d/e_f",
    "put NAME 1700000000 -0.0 a=b",
    "put NAME 1700000000 .5 a=b",
    "put NAME 1700000000 5. a=b",
    // Refused by both.
    "put NAME 1700000000 1e5 a=b",
    "put NAME 1700000000 NaN a=b",
    "put NAME 1700000000 1 a:b",
    "put NAME 1700000000 1 a=",
    "put NAME 1700000000 1 =b",
    "put NAME 1700000000 x a=b",
    "put NAME x 1 a=b",
    "put NAME 1700000000",
    "put NAME",
    "PUT NAME 1700000000 1 a=b",
    "put NAME 9223372036854775808 1 a=b",
    "put NAME 1700000000 9223372036854775808 a=b",
    "bogus NAME",
    "",
];

/// Lines that promkairos takes or refuses otherwise, with the reason.
const DIFFERENT: &[(&str, &str)] = &[
    ("puts NAME 1700000000000 text host=a", "points of type string are not supported yet"),
    ("put NAME 1700000000 1 host=a kairos_opt.ttl=600", "a ttl of points is not supported yet"),
    ("put NAME 1700000000 1 a=\u{fc}", "KairosDB takes the bytes of a line for ISO 8859-1"),
    ("put NAME 1700000000 0x1.8p1 a=b", "doubles are decimal"),
    ("put NAME 1700000000 1 long=LONG", "KairosDB drops a line of more than 1,024 bytes"),
];

/// Where a server takes telnet lines, by its log.
pub(super) async fn telnet(server: &Promkairos) -> String {
    logged_address(server, "telnet lines are taken on ").await
}

/// Sends lines at once, and reads the answer to `version`, which comes when promkairos has stored the lines before it.
async fn send(address: &str, lines: &[u8]) -> String {
    let stream = TcpStream::connect(address).await.expect("it listens");
    let mut stream = BufReader::new(stream);
    stream.write_all(lines).await.expect("it takes them");
    stream.write_all(b"version\n").await.expect("it takes them");
    let mut answer = String::new();
    let read = stream.read_line(&mut answer);
    tokio::time::timeout(DEADLINE, read).await.expect("in time").expect("an answer");
    answer
}

pub(super) async fn query(url: &str, metric: &str) -> String {
    let (start, end) = (-1_000_000, 3_500_000_000_000_i64);
    let metrics = json!([{"name": metric}]);
    let body = json!({"start_absolute": start, "end_absolute": end, "metrics": metrics});
    let request = reqwest::Client::new().post(url).timeout(DEADLINE).body(body.to_string());
    let answer = request.header("Content-Type", "application/json").send().await;
    answer.expect("it answers").text().await.expect("a body")
}

pub(super) fn our_query(server: &Promkairos) -> String {
    server.url("/api/v1/datapoints/query")
}

/// The points in an answer.
pub(super) fn points(text: &str) -> usize {
    let answer: Json = serde_json::from_str(text).unwrap_or_default();
    let results = answer["queries"][0]["results"].as_array().cloned().unwrap_or_default();
    results.iter().filter_map(|result| result["values"].as_array()).map(Vec::len).sum()
}

async fn metric(server: &Promkairos, name: &str) -> f64 {
    let (status, page) = server.get("/metrics").await.expect("an answer");
    assert_eq!(status, 200, "{page}");
    let line = page.lines().find_map(|line| line.strip_prefix(name));
    line.map_or(0.0, |value| value.trim().parse().expect("a number"))
}

#[tokio::test]
async fn lines_are_stored_as_kairosdb_stores_them() {
    let kairosdb = KairosDb::shared(TimeUnit::Milliseconds).await;
    let folders = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    let flags = [FLAG, "--max-sample-lead=3000y", "--cassandra-request-timeout=100s"];
    let embedded = Promkairos::ready(folders[0].path(), &Backend::Embedded, &flags[..2]).await;
    let backend = Backend::cassandra_store();
    let cassandra = Promkairos::ready(folders[1].path(), &backend, &flags).await;

    let begin = unique("telnet");
    let name = |at: usize| format!("{begin}.{at}");
    let different = DIFFERENT.iter().map(|(line, _)| line);
    let long = "x".repeat(2_000);
    let fill = |(at, line): (usize, &&str)| line.replace("NAME", &name(at)).replace("LONG", &long);
    let mut lines: Vec<String> = SAME.iter().chain(different).enumerate().map(fill).collect();
    let last = name(lines.len());
    lines.push(format!("put {last} 1 1 a=b"));
    let lines = lines.join("\n") + "\n";
    for address in [kairosdb.telnet(), telnet(&embedded).await, telnet(&cassandra).await] {
        let version = send(&address, lines.as_bytes()).await;
        assert!(version.starts_with("KairosDB 1.3.0"), "{version}");
    }
    let urls = [kairosdb.url("/datapoints/query"), our_query(&embedded), our_query(&cassandra)];
    let ask = async |metric: &str| {
        let [theirs, embedded, cassandra] = &urls;
        tokio::join!(query(theirs, metric), query(embedded, metric), query(cassandra, metric))
    };
    // KairosDB shows points a little later.
    eventually("KairosDB has the last line", async || {
        let (theirs, embedded, cassandra) = ask(&last).await;
        assert_eq!(embedded, cassandra);
        if theirs == embedded && points(&theirs) == 1 { Ok(()) } else { Err(theirs) }
    })
    .await;
    let mut stored = 0;
    for (at, line) in SAME.iter().enumerate() {
        let (theirs, embedded, cassandra) = ask(&name(at)).await;
        assert_eq!((&theirs, &theirs), (&embedded, &cassandra), "{line:?}");
        stored += points(&theirs);
    }
    assert_eq!(stored, 19, "of the lines that both take");
    for (at, (line, reason)) in (SAME.len()..).zip(DIFFERENT) {
        let (theirs, embedded, cassandra) = ask(&name(at)).await;
        assert_eq!(embedded, cassandra, "{line:?}");
        assert_ne!(theirs, embedded, "{line:?} is the same in spite of: {reason}");
    }
    // Nothing is said to a client, but the log and the metrics say it.
    let log = embedded.process.log();
    assert!(log.contains("telnet lines are refused: "), "{log}");
    let refused = metric(&embedded, "promkairos_write_rejected_total{reason=\"body\"} ").await;
    assert_eq!(refused, 14.0, "{log}");
}

#[tokio::test]
async fn what_is_no_line_is_bounded_and_hinders_no_other() {
    let data = tempfile::tempdir().expect("a folder");
    let mut server = Promkairos::ready(data.path(), &Backend::Embedded, &[FLAG]).await;
    let address = telnet(&server).await;
    // A client whose line has no end, and one that sends bytes of any kind.
    let mut endless = TcpStream::connect(&address).await.expect("it listens");
    endless.write_all(&vec![b'x'; 4 << 20]).await.expect("it is read");
    let bytes: Vec<u8> =
        (0..1_000_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    send(&address, &[bytes.as_slice(), b"\n"].concat()).await;
    endless.write_all(b"\nput m 1 1 a=endless\nput m 1 1 a=half").await.expect("it is read");
    // A web page cannot write.
    let client = reqwest::Client::new();
    let long = "x".repeat(100_000);
    for path in ["/", &format!("/{long}")] {
        let page = client.post(format!("http://{address}{path}")).body("\nput m 1 1 a=page\n");
        page.send().await.expect_err("the connection is closed");
    }
    // Many small pieces, many lines at once.
    let mut slow = TcpStream::connect(&address).await.expect("it listens");
    for piece in "put m 1 2 a=slow\n".as_bytes().chunks(3) {
        slow.write_all(piece).await.expect("it is read");
        slow.flush().await.expect("sent");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let many: String = (0..20_000).map(|at| format!("put many {at} {at} a=b\n")).collect();
    send(&address, many.as_bytes()).await;
    assert_eq!(points(&query(&our_query(&server), "many").await), 20_000);
    for stream in [&mut endless, &mut slow] {
        stream.shutdown().await.expect("the end");
        // The server closes when it has read everything.
        stream.read_to_end(&mut Vec::new()).await.expect("closed");
    }
    let found = query(&our_query(&server), "m").await;
    assert!(found.contains("endless") && found.contains("slow"), "{found}");
    assert!(!found.contains("half") && !found.contains("page"), "{found}");
    assert_eq!(points(&found), 2);
    // A stop ends the connections, and stores what has arrived.
    let mut open = TcpStream::connect(&address).await.expect("it listens");
    let last: String = (20_000..40_000).map(|at| format!("put many {at} {at} a=b\n")).collect();
    open.write_all(last.as_bytes()).await.expect("it takes them");
    assert!(server.process.terminate().success());
    open.read_to_end(&mut Vec::new()).await.expect("closed");
    let server = Promkairos::ready(data.path(), &Backend::Embedded, &[FLAG]).await;
    assert_eq!(points(&query(&our_query(&server), "many").await), 40_000);
}

#[tokio::test]
async fn a_client_waits_while_the_store_takes_nothing() {
    let data = tempfile::tempdir().expect("a folder");
    let flags = [FLAG, "--max-samples-per-second=400"];
    let server = Promkairos::ready(data.path(), &Backend::Embedded, &flags).await;
    let address = telnet(&server).await;
    // Each is a request of its own, and all but the first one are refused at first.
    let lines =
        |at: usize| (0..500).map(move |n| format!("put m {n} 1 a={at}\n")).collect::<String>();
    for at in 0..3 {
        send(&address, lines(at).as_bytes()).await;
    }
    assert_eq!(points(&query(&our_query(&server), "m").await), 1_500);
    let waited = "promkairos_write_requests_total{protocol=\"kairosdb-telnet\",code=\"429\"} ";
    assert!(metric(&server, waited).await > 0.0);
}
