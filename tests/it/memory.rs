//! Little memory under heavy load, on the real program: ever new series, queries of everything, lists of all labels.
//! The process stays within its limit but for a few per cent, keeps answering, keeps acknowledged data, and recovers.

mod answers;

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use futures::future::join_all;

use crate::limits::logged;
use crate::support::capped::Group;
use crate::support::eventually;
use crate::support::load::compress;
use crate::support::promkairos::{Answer, Backend, Message, Promkairos};
use crate::support::proto;

/// The memory of the machine, in bytes.
const MACHINE: u64 = 1 << 30;
/// Three fifths of it, which is the default.
const LIMIT: u64 = MACHINE / 100 * 60;
/// Series in one request of the storm.
const SERIES: usize = 100;
/// Bytes of a label of these series, the longest allowed: a few hundred requests fill the memory.
const LABEL_BYTES: usize = 16 << 10;
/// The time of the data and the queries, in milliseconds since 1970.
const TIME: i64 = 3_600_000;
/// Requests of the storm after the first one that was refused.
const GO_ON: usize = 20;
/// Exemplars of each series in one request with exemplars.
const EXEMPLARS: usize = 1_000;
/// Far more requests than fit into the memory.
const MOST_REQUESTS: usize = 5_000;

/// Each query needs more than all the memory, or nearly.
const QUERIES: [&str; 8] = [
    "max_over_time(m[1y:1s])",
    "count_over_time(vector(1)[100y:1ms])",
    "quantile_over_time(0.5, (m + 1)[30d:1s])",
    "count by (__name__, hash) ({__name__=~\".+\"})",
    "sort(label_replace({__name__=~\".*\"}, \"x\", \"$1$1\", \"hash\", \"(.*)\"))",
    "m * on(job) group_left(n) label_replace(m, \"n\", \"$1\", \"i\", \"(.*)\")",
    "{__name__=~\".+\"} or {__name__=~\".*\"} or {__name__!=\"\"}",
    "topk by (hash) (1, {__name__=~\"storm_.*\"})",
];

/// Lists of all series and labels.
const LISTS: [&str; 4] = [
    "/api/v1/series?match[]={__name__=~%22.%2B%22}&limit=5000",
    "/api/v1/label/hash/values",
    "/api/v1/label/hash/values?match[]={__name__=~%22storm_.*%22}",
    "/api/v1/label/__name__/values",
];

/// A series of labels and points.
fn series(labels: &[(&str, &str)], points: &[(i64, f64)]) -> proto::Message {
    let label =
        |(name, value): &(&str, &str)| proto::Message::default().bytes(1, name).bytes(2, value);
    let point = |(time, value): &(i64, f64)| {
        proto::Message::default().double(1, *value).varint(2, time.cast_unsigned())
    };
    proto::Message::default()
        .messages(1, labels.iter().map(label))
        .messages(2, points.iter().map(point))
}

async fn send(server: &Promkairos, series: Vec<proto::Message>) -> Answer {
    let body = compress(&proto::Message::default().messages(1, series));
    server.write(Message::V1, body).await.expect("an answer")
}

/// Whether a write was refused for lack of memory; panics on any other refusal.
fn is_short(answer: &Answer) -> bool {
    let named = answer.body.contains("the setting memory-limit is");
    match answer.status {
        204 => false,
        429 => {
            assert!(named, "{}", answer.body);
            true
        }
        503 => {
            assert!(answer.retry_after.is_some(), "{}", answer.body);
            named
        }
        status => panic!("{status}: {}", answer.body),
    }
}

/// The state that the tasks share.
#[derive(Default)]
struct Books {
    /// Answered requests: hostile ones, and those for health.
    questions: AtomicUsize,
    lists: AtomicUsize,
    health: AtomicUsize,
    /// Answers that were aborted: memory was short, and the client stood still for some seconds.
    aborted: AtomicUsize,
    /// Times of the acknowledged points of the series that is written all the time.
    known: Mutex<BTreeSet<i64>>,
}

impl Books {
    fn note_aborted(&self, error: &reqwest::Error) {
        assert!(!error.is_connect(), "it listens: {error:?}");
        self.aborted.fetch_add(1, Relaxed);
    }
}

/// Sends new series until memory is short, and some more. Returns the requests stored whole.
async fn storm(server: &Promkairos, books: &Books) -> Vec<usize> {
    let (mut stored, mut since) = (Vec::new(), None);
    for request in 0..MOST_REQUESTS {
        let name = format!("storm_{request}");
        let one = |at: usize| {
            let hash = format!("{request:08}-{at:08} ").repeat(LABEL_BYTES / 18);
            series(&[("__name__", &name), ("hash", &hash)], &[(TIME, at as f64)])
        };
        let answer = send(server, (0..SERIES).map(one).collect()).await;
        if answer.status == 204 {
            stored.push(request);
        }
        if is_short(&answer) {
            since = since.or(Some(request));
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let others = books.questions.load(Relaxed) >= 2 * QUERIES.len()
            && books.lists.load(Relaxed) >= LISTS.len()
            && books.health.load(Relaxed) > 0;
        if since.is_some_and(|since| request >= since + GO_ON) && others {
            return stored;
        }
    }
    panic!("{MOST_REQUESTS} requests were not enough: {} were stored", stored.len());
}

/// Writes to one series again and again.
async fn go_on(server: &Promkairos, books: &Books) {
    let mut was_over = false;
    for time in TIME.. {
        let point = (time, time as f64);
        let answer = send(server, vec![series(&[("__name__", "known")], &[point])]).await;
        // The series may only count as new after a time in which it could not be written.
        was_over |= answer.status == 503;
        assert!(answer.status != 429 || was_over, "a known series: {}", answer.body);
        is_short(&answer);
        if answer.status == 204 {
            books.known.lock().expect("nobody panics").insert(time);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Asks the hostile queries, from the query at `first` on.
async fn ask(server: &Promkairos, books: &Books, first: usize) {
    for query in QUERIES.iter().cycle().skip(first) {
        match status_of(server, query).await {
            Ok(status) => assert!([200, 400, 422, 503].contains(&status), "{query}: {status}"),
            Err(error) => books.note_aborted(&error),
        }
        books.questions.fetch_add(1, Relaxed);
    }
}

/// The status of a query, without reading the body of the answer.
async fn status_of(server: &Promkairos, query: &str) -> reqwest::Result<u16> {
    let form = form_urlencoded::Serializer::new(String::new())
        .extend_pairs([("query", query), ("time", "3600")])
        .finish();
    let request = reqwest::Client::new()
        .post(server.url("/api/v1/query"))
        .header("Content-Type", "application/x-www-form-urlencoded")
        .body(form);
    Ok(request.send().await?.status().as_u16())
}

async fn list(server: &Promkairos, books: &Books) {
    for path in LISTS.iter().cycle() {
        // The whole answer, read by a client that takes all of it.
        let whole = async {
            let answer = reqwest::get(server.url(path)).await?;
            let status = answer.status().as_u16();
            assert!([200, 503].contains(&status), "{path}: {status}");
            answer.bytes().await
        };
        if let Err(error) = whole.await {
            books.note_aborted(&error);
        }
        books.lists.fetch_add(1, Relaxed);
    }
}

async fn see_health(server: &Promkairos, books: &Books) {
    loop {
        let answer = server.get("/-/healthy").await.expect("an answer");
        assert_eq!(answer, (200, "Prometheus Server is Healthy.\n".to_owned()));
        books.health.fetch_add(1, Relaxed);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The peak of the process's resident memory, as the system counts it.
pub(crate) fn peak(server: &Promkairos) -> u64 {
    let path = format!("/proc/{}/status", server.process.id());
    let status = std::fs::read_to_string(path).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kib << 10
}

/// The sum of all series of a metric of the server.
async fn metric(server: &Promkairos, name: &str) -> f64 {
    let (status, page) = server.get("/metrics").await.expect("an answer");
    assert_eq!(status, 200, "{page}");
    let lines = page.lines().filter_map(|line| line.strip_prefix(name));
    let lines = lines.filter(|rest| rest.starts_with([' ', '{']));
    lines.filter_map(|rest| rest.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

/// The single number that a query returns.
async fn number(server: &Promkairos, query: &str) -> Result<f64, String> {
    let query: String = form_urlencoded::byte_serialize(query.as_bytes()).collect();
    let path = format!("/api/v1/query?time=3600&query={query}");
    let (status, text) = server.get(&path).await.map_err(|error| error.to_string())?;
    let answer: serde_json::Value = serde_json::from_str(&text).map_err(|e| e.to_string())?;
    let value = answer["data"]["result"][0]["value"][1].as_str();
    let value = value.and_then(|value| value.parse().ok());
    value.ok_or_else(|| format!("{query}: {status} {text}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hostile_mix_stays_within_the_memory_of_the_machine() {
    let data = tempfile::tempdir().expect("a folder");
    // If the system can bound the memory, the limit is the default's share of that bound.
    let group = Group::with_memory(MACHINE);
    println!("a control group: {}", group.is_some());
    let (limit, joining) = match &group {
        Some(group) => ("--memory-limit=60%".to_owned(), group.joining()),
        None => (format!("--memory-limit={LIMIT}"), "exec \"$0\" \"$@\"".to_owned()),
    };
    let wrapper = ["bash", "-c", &joining];
    let flags = [limit.as_str(), "--query-timeout=10s"];
    let mut server = Promkairos::start_under(&wrapper, data.path(), &Backend::Embedded, &flags);
    server.wait_ready().await;
    let points: Vec<(i64, f64)> = (0..240).map(|at| (at * 15_000, at as f64)).collect();
    let one =
        |i: usize| series(&[("__name__", "m"), ("i", &i.to_string()), ("job", "all")], &points);
    let mut first: Vec<proto::Message> = (0..200).map(one).collect();
    first.push(series(&[("__name__", "known")], &[(0, 0.0)]));
    let answer = send(&server, first).await;
    assert_eq!(answer.status, 204, "{}", answer.body);

    let books = Books::default();
    let stored = {
        let (server, books) = (&server, &books);
        let askers = join_all((0..6).map(|at| ask(server, books, at)));
        let listers = join_all((0..2).map(|_| list(server, books)));
        // The other tasks never end.
        tokio::select! {
            stored = storm(server, books) => stored,
            _ = askers => unreachable!(),
            _ = listers => unreachable!(),
            () = go_on(server, books) => unreachable!(),
            () = see_health(server, books) => unreachable!(),
        }
    };
    assert!(server.process.ended().is_none(), "it lives");
    let peak = peak(&server);
    // The promised limit, and the growth between two checks of it.
    assert!(peak <= LIMIT / 100 * 105, "{} of {} MiB", peak >> 20, LIMIT >> 20);
    assert_eq!(metric(&server, "promkairos_memory_limit_bytes").await, LIMIT as f64);
    let aborted = books.aborted.load(Relaxed);
    let limits = metric(&server, "promkairos_limits_reached_total").await;
    assert!(aborted as f64 <= limits, "{aborted} aborted answers, and {limits} reached limits");
    logged(&server, "are refused: ").await;
    eventually("refusals are counted", async || {
        let refused = metric(&server, "promkairos_memory_refused_total").await;
        if refused > 0.0 { Ok(()) } else { Err("none".to_owned()) }
    })
    .await;

    // The server keeps working: a write to a known series, and a cheap query.
    eventually("a write is taken", async || {
        let answer =
            send(&server, vec![series(&[("__name__", "known")], &[(TIME - 1, 7.0)])]).await;
        if answer.status == 204 { Ok(()) } else { Err(answer.body) }
    })
    .await;
    let last = async || number(&server, "known offset 1ms").await;
    assert_eq!(eventually("a query is answered", last).await, 7.0);

    // Acknowledged data is stored.
    assert!(!stored.is_empty());
    for request in stored {
        let query = format!("count(storm_{request})");
        let count = eventually(&query, async || number(&server, &query).await).await;
        assert_eq!(count, SERIES as f64, "{query}");
    }
    check_known(&server, &books).await;

    // Also after a stop; then there is room for new series again.
    assert!(server.process.terminate().success());
    let mut server = Promkairos::start_under(&wrapper, data.path(), &Backend::Embedded, &flags);
    server.wait_ready().await;
    check_known(&server, &books).await;
    eventually("a new series is taken", async || {
        let answer = send(&server, vec![series(&[("__name__", "new")], &[(TIME, 1.0)])]).await;
        if answer.status == 204 { Ok(()) } else { Err(answer.body) }
    })
    .await;
    assert_eq!(number(&server, "new").await, Ok(1.0));
}

/// Exemplars of the series of one request, each at a time of its own.
fn with_exemplars(request: usize) -> Vec<proto::Message> {
    let exemplar = |at: usize| {
        let id = format!("{request:08x}{at:08x}");
        let label = proto::Message::default().bytes(1, "trace_id").bytes(2, id);
        let time = TIME.cast_unsigned() + at as u64;
        proto::Message::default().messages(1, [label]).double(2, at as f64).varint(3, time)
    };
    let one = |i: usize| {
        let labels = [("__name__", "m"), ("i", &*i.to_string())];
        series(&labels, &[(TIME, 1.0)]).messages(3, (0..EXEMPLARS).map(exemplar))
    };
    (0..50).map(one).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_for_very_many_exemplars_stay_within_the_limit() {
    const LIMIT: u64 = 256 << 20;
    let data = tempfile::tempdir().expect("a folder");
    let flags = ["--memory-limit=256MiB"];
    let server = Promkairos::ready(data.path(), &Backend::Embedded, &flags).await;
    for request in 0..12 {
        eventually("exemplars are taken", async || {
            let answer = send(&server, with_exemplars(request)).await;
            if answer.status == 204 { Ok(()) } else { Err(answer.body) }
        })
        .await;
    }
    // Resets the peak.
    let process = server.process.id();
    std::fs::write(format!("/proc/{process}/clear_refs"), "5").expect("it is ours");
    let ask = async |end: &str| {
        let path = format!("/api/v1/query_exemplars?query=m&start=0&end={end}");
        server.get(&path).await.expect("an answer")
    };
    for _ in 0..3 {
        for (status, text) in join_all((0..8).map(|_| ask("4000"))).await {
            let named = text.contains("which is the setting max-label-results-size");
            assert!((status == 422 && named) || status == 503, "{status}: {text:.200}");
        }
    }
    eventually("fewer are answered", async || {
        let (status, text) = ask("3600.001").await;
        let found = text.matches("trace_id").count();
        if (status, found) == (200, 2 * 50 * 12) {
            Ok(())
        } else {
            Err(format!("{status}: {text:.200}"))
        }
    })
    .await;
    let peak = peak(&server);
    println!("at most {} MiB", peak >> 20);
    assert!(peak < LIMIT, "{} of {} MiB", peak >> 20, LIMIT >> 20);
}

#[tokio::test]
async fn a_limit_beyond_the_machine_is_reported_at_the_start() {
    let data = tempfile::tempdir().expect("a folder");
    let flags = ["--memory-limit=64TiB", "--max-connections=2000"];
    let few = ["prlimit", "--nofile=512:2048"];
    let mut server = Promkairos::start_under(&few, data.path(), &Backend::Embedded, &flags);
    server.wait_ready().await;
    let log = server.process.log();
    assert!(log.contains("the setting memory-limit is 64TiB, and the machine"), "{log}");
    assert!(log.contains("the process may open 2048 files, and with the setting"), "{log}");
}

/// Every acknowledged point of this series is stored, with its bits.
async fn check_known(server: &Promkairos, books: &Books) {
    // Remote reads are refused while memory is short, so this asks with a query.
    let path = format!("/api/v1/query?time={}&query=known[3h]", 2 * TIME / 1000);
    let (status, text) = server.get(&path).await.expect("an answer");
    assert_eq!(status, 200, "{text}");
    let answer: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let values = answer["data"]["result"][0]["values"].as_array().expect("points");
    let held: BTreeSet<i64> = values
        .iter()
        .map(|point| {
            let time = (point[0].as_f64().expect("a time") * 1000.0).round() as i64;
            let value: f64 = point[1].as_str().expect("a text").parse().expect("a number");
            assert!(value == time as f64 || time == TIME - 1, "{point}");
            time
        })
        .collect();
    let known = books.known.lock().expect("nobody panics");
    let lost: Vec<&i64> = known.difference(&held).collect();
    assert!(!known.is_empty() && lost.is_empty(), "of {} points are lost: {lost:?}", known.len());
}
