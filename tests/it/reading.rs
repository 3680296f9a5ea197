//! Streamed remote reads under trouble: errors before and after the first byte, clients that go
//! away or do not read, and more requests than there are permits.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use promkairos::api::proto::v1;
use promkairos::api::{self, AppState};
use promkairos::chunk::Chunk;
use promkairos::limits::{MAX_CONCURRENT_READS, READ_AHEAD_RUNS};
use promkairos::model::TimeRange;
use promkairos::storage::memory::MemoryStore;
use promkairos::storage::{Forecast, Selection, SeriesReader, Store, StoreError};
use promkairos::telemetry::Metrics;
use promkairos::wire::snappy;
use prost::Message;
use tokio::sync::Semaphore;

use super::support::eventually;
use super::support::front::{Front, Fronted};

/// The memory store with a reader that waits at a gate before each run of series; one run fails.
struct Guarded {
    inner: MemoryStore,
    guard: Arc<Guard>,
}

struct Guard {
    /// Each permit allows one run.
    gate: Semaphore,
    /// The number of runs begun.
    begun: AtomicUsize,
    /// The series whose run fails.
    broken: usize,
}

struct GuardedReader {
    inner: Box<dyn SeriesReader>,
    guard: Arc<Guard>,
}

#[async_trait]
impl SeriesReader for GuardedReader {
    async fn read(&self, series: Range<usize>) -> Result<Vec<Vec<Chunk>>, StoreError> {
        self.guard.begun.fetch_add(1, Ordering::SeqCst);
        self.guard.gate.acquire().await.expect("never closed").forget();
        if series.contains(&self.guard.broken) {
            let path = "a part".into();
            return Err(StoreError::Corrupt { path, offset: 7, what: "broken".into() });
        }
        self.inner.read(series).await
    }

    async fn forecast(&self, range: TimeRange) -> Result<Forecast, StoreError> {
        self.inner.forecast(range).await
    }
}

impl Front for Guarded {
    fn behind(&self) -> Result<&dyn Store, StoreError> {
        Ok(&self.inner)
    }

    fn selected(&self, Selection { series, reader }: Selection) -> Selection {
        let reader = Box::new(GuardedReader { inner: reader, guard: self.guard.clone() });
        Selection { series, reader }
    }
}

/// A server over `series` series of one sample each.
struct Server {
    url: String,
    guard: Arc<Guard>,
    http: reqwest::Client,
}

impl Server {
    async fn start(series: usize, broken: usize) -> Self {
        let (gate, begun) = (Semaphore::new(0), AtomicUsize::new(0));
        let guard = Arc::new(Guard { gate, begun, broken });
        let store = Fronted(Arc::new(Guarded { inner: MemoryStore::new(), guard: guard.clone() }));
        let state = Arc::new(AppState::new(Arc::new(Metrics::new())));
        state.open(Arc::new(store));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        tokio::spawn(async move { axum::serve(listener, api::router(state)).await });
        let server = Self { url, guard, http: reqwest::Client::new() };
        let label = |name: &str, value: String| v1::Label { name: name.into(), value };
        let timeseries = (0..series).map(|number| v1::TimeSeries {
            labels: vec![label("__name__", "up".into()), label("job", format!("{number:06}"))],
            samples: vec![v1::Sample { value: 1.0, timestamp: 1000 }],
            ..Default::default()
        });
        let request = v1::WriteRequest { timeseries: timeseries.collect(), metadata: vec![] };
        let answer = server.post("/api/v1/write", request.encode_to_vec()).await;
        assert_eq!(answer.status(), 204);
        server
    }

    fn let_through(&self, runs: usize) {
        self.guard.gate.add_permits(runs);
    }

    fn begun(&self) -> usize {
        self.guard.begun.load(Ordering::SeqCst)
    }

    async fn post(&self, path: &str, message: Vec<u8>) -> reqwest::Response {
        let body = snappy::compress(&message).expect("small");
        let request = self.http.post(format!("{}{path}", self.url)).body(body);
        request.send().await.expect("an answer")
    }

    /// Requests all series, streamed.
    async fn read(&self) -> reqwest::Response {
        self.read_as(1).await
    }

    /// Requests all series with this type of answer.
    async fn read_as(&self, response_type: i32) -> reqwest::Response {
        let matcher = v1::LabelMatcher { r#type: 0, name: "__name__".into(), value: "up".into() };
        let query = v1::Query {
            start_timestamp_ms: 0,
            end_timestamp_ms: 2000,
            matchers: vec![matcher],
            hints: None,
        };
        let accepted_response_types = vec![response_type];
        let request = v1::ReadRequest { queries: vec![query], accepted_response_types };
        self.post("/api/v1/read", request.encode_to_vec()).await
    }
}

/// Far more permits than there are runs.
const ALL: usize = 100_000;

#[tokio::test(flavor = "multi_thread")]
async fn everything_in_order_when_nothing_is_wrong() {
    let server = Server::start(5000, usize::MAX).await;
    server.let_through(ALL);
    let body = server.read().await.bytes().await.expect("a whole body");
    let (mut rest, mut jobs) = (body.as_ref(), Vec::new());
    while !rest.is_empty() {
        let length = prost::encoding::decode_varint(&mut rest).expect("a length") as usize;
        let (payload, tail) = rest[4..].split_at(length);
        let frame = v1::ChunkedReadResponse::decode(payload).expect("a message");
        jobs.push(frame.chunked_series[0].labels[1].value.clone());
        rest = tail;
    }
    let want: Vec<String> = (0..5000).map(|number| format!("{number:06}")).collect();
    assert_eq!(jobs, want);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_before_the_first_byte_is_a_status() {
    let server = Server::start(5000, 0).await;
    server.let_through(ALL);
    let answer = server.read().await;
    assert_eq!(answer.status(), 500);
    let text = answer.text().await.expect("a body");
    assert_eq!(text, "a part: damaged at byte 7: broken\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_after_the_first_byte_breaks_the_body_off() {
    let server = Server::start(5000, 4999).await;
    server.let_through(ALL);
    let answer = server.read().await;
    assert_eq!(answer.status(), 200);
    answer.bytes().await.expect_err("a part must not pass for the whole");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_away_ends_the_work_and_frees_its_place() {
    let server = Server::start(5000, usize::MAX).await;
    let mut requests = 0;
    for _ in 0..2 * MAX_CONCURRENT_READS {
        let mut answer = eventually("an answer begins", async || {
            // The reader of the previous client may have taken the permit just before it ended.
            server.let_through(1);
            requests += 1;
            let first = tokio::time::timeout(Duration::from_millis(100), server.read()).await;
            first.map_err(|_| format!("{} runs begun", server.begun()))
        })
        .await;
        answer.chunk().await.expect("no error yet").expect("the first run");
        // The other runs wait at the gate: the number of runs begun is bounded, whatever follows.
        drop(answer);
    }
    let bound = requests * (READ_AHEAD_RUNS + 1);
    assert!(server.begun() <= bound, "{} runs begun", server.begun());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_gives_up_on_samples_frees_its_place() {
    let server = Arc::new(Server::start(1, usize::MAX).await);
    for begun in 1..=2 * MAX_CONCURRENT_READS {
        let reading = server.clone();
        let client = tokio::spawn(async move { reading.read_as(0).await });
        eventually("its read begins", async || match server.begun() {
            now if now >= begun => Ok(()),
            now => Err(format!("{now} begun")),
        })
        .await;
        client.abort();
    }
    server.let_through(ALL);
    assert_eq!(server.read_as(0).await.status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_beyond_the_gate_wait_in_line() {
    let server = Arc::new(Server::start(1, usize::MAX).await);
    let requests: Vec<_> = (0..MAX_CONCURRENT_READS + 3)
        .map(|_| {
            let server = server.clone();
            tokio::spawn(async move { server.read().await.bytes().await.is_ok() })
        })
        .collect();
    eventually("the gate is full", async || match server.begun() {
        MAX_CONCURRENT_READS => Ok(()),
        other => Err(format!("{other} begun")),
    })
    .await;
    server.let_through(ALL);
    for request in requests {
        assert!(request.await.expect("no panic"));
    }
    assert_eq!(server.begun(), MAX_CONCURRENT_READS + 3);
}
