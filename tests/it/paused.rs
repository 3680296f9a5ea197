//! SIGSTOP and SIGCONT: Cassandra stops during writes and queries, and promkairos itself while
//! clients run out of patience and send again. Nothing is lost, and nothing is stored twice.
//!
//! Each wait is for a stopped process: no test depends on which of two is faster.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rustix::process::Signal;
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::task::spawn_blocking;

use crate::support::cassandra::OwnCassandra;
use crate::support::load::{Load, compress};
use crate::support::promkairos::{Backend, Message, Promkairos};
use crate::support::remote_read::Point;
use crate::support::{eventually, long, proto, seed};

/// A server over Cassandra, and the data written through it.
struct Written {
    server: Promkairos,
    load: Load,
    _data: TempDir,
}

impl Written {
    async fn start(backend: &Backend) -> Self {
        let data = tempfile::tempdir().expect("a folder");
        let flags = ["--flush-interval=200ms", "--cassandra-request-timeout=5s"];
        let server = Promkairos::ready(data.path(), backend, &flags).await;
        Self { server, load: Load::default(), _data: data }
    }

    async fn takes_writes(&self, random: &mut StdRng) {
        eventually("a write is accepted", async || {
            match self.load.send(&self.server, random).await {
                Ok(204) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
    }

    /// Reads are refused with an error that names Cassandra.
    async fn refuses_reads(&self) {
        let names_it = |status: u16, why: &str| status == 503 && why.contains("Cassandra");
        eventually("a remote read is refused", async || {
            match self.server.read("__name__", "load").await {
                Err(why) if why.contains("503") && why.contains("Cassandra") => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
        eventually("a query is refused", async || {
            match self.server.get("/api/v1/query?query=load&time=1700000010").await {
                Ok((status, why)) if names_it(status, &why) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
    }

    async fn has_everything(&self) {
        self.load.check_soon(&self.server).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cassandra_that_stands_still_for_a_while_costs_nothing_but_time() {
    let cassandra = spawn_blocking(OwnCassandra::start).await.expect("it starts");
    let (address, mut random) = (cassandra.address(), StdRng::seed_from_u64(seed()));
    let [(store, _), (wal, b)] = Backend::both_at(&address);
    let (by_store, by_wal) = (Written::start(&store).await, Written::start(&wal).await);
    for _ in 0..if long() { 5 } else { 2 } {
        by_store.takes_writes(&mut random).await;
        by_wal.takes_writes(&mut random).await;
        by_store.has_everything().await;
        by_wal.has_everything().await;

        cassandra.pause();
        // A write under way may have been answered just before.
        eventually("a write is refused in its time", async || {
            match by_store.load.attempt(&by_store.server, &mut random).await {
                Ok(answer) if answer.status == 503 => Ok(answer),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
        let refused = by_store.load.attempt(&by_store.server, &mut random).await;
        let refused = refused.expect("it answers");
        assert_eq!(refused.status, 503, "{refused:?}");
        assert!(refused.retry_after.is_some(), "{refused:?}");
        assert!(refused.body.contains("Cassandra"), "{refused:?}");
        for _ in 0..20 {
            let sent = by_wal.load.send(&by_wal.server, &mut random).await;
            assert_eq!(sent.expect("it answers"), 204);
        }
        eventually("a flush fails", async || match by_wal.server.process.log() {
            log if log.contains("a flush failed, tried again") => Ok(()),
            log => Err(log),
        })
        .await;
        futures::join!(by_store.refuses_reads(), by_wal.refuses_reads());
        for server in [&by_store.server, &by_wal.server] {
            assert_eq!(server.get("/-/healthy").await.expect("it answers").0, 200);
        }

        cassandra.resume();
        by_store.takes_writes(&mut random).await;
        by_store.has_everything().await;
        by_wal.has_everything().await;
    }
    // All of the log arrives: a process without that log reads it.
    let data = tempfile::tempdir().expect("a folder");
    let direct = Backend::CassandraStore { address, keyspace: b };
    let server = Promkairos::ready(data.path(), &direct, &[]).await;
    eventually("all of the log has arrived", async || {
        match by_wal.load.difference(&server).await? {
            None => Ok(()),
            Some(wrong) => Err(wrong),
        }
    })
    .await;
}

const SENDERS: u64 = 4;
const POINTS: u64 = 10;
const START_MS: u64 = 1_700_000_000_000;

/// The points of one request of a sender; no other request has their times.
fn points(request: u64) -> impl Iterator<Item = (u64, f64)> {
    (0..POINTS)
        .map(move |point| (START_MS + request * 100 + point, (request * POINTS + point) as f64))
}

fn body(sender: u64, request: u64) -> Vec<u8> {
    let label = |name: &str, value: &str| proto::Message::default().bytes(1, name).bytes(2, value);
    let labels = [label("__name__", "repeated"), label("sender", &sender.to_string())];
    let samples = points(request)
        .map(|(time, value)| proto::Message::default().double(1, value).varint(2, time));
    let series = proto::Message::default().messages(1, labels).messages(2, samples);
    compress(&proto::Message::default().messages(1, [series]))
}

/// Clients that send, and send again without an answer when they run out of patience.
struct Clients {
    /// Counts how often all clients have run out of patience.
    patience: watch::Sender<u32>,
    answered: AtomicU64,
    is_enough: AtomicBool,
}

impl Clients {
    /// Runs one client; returns the number of requests that were answered in the end.
    async fn send(&self, server: &Promkairos, sender: u64) -> u64 {
        let mut patience = self.patience.subscribe();
        let mut request = 0;
        loop {
            tokio::select! {
                answer = server.write(Message::V1, body(sender, request)) => {
                    let answer = answer.expect("it answers");
                    assert_eq!(answer.status, 204, "{answer:?}");
                    request += 1;
                    self.answered.fetch_add(1, Ordering::Relaxed);
                    // Stop only after an answer: a request without one may be stored already.
                    if self.is_enough.load(Ordering::Relaxed) {
                        return request;
                    }
                }
                lost = patience.changed() => lost.expect("the test runs"),
            }
        }
    }

    /// Stops and continues the server again and again, then sets `is_enough`.
    async fn interrupt(&self, server: &Promkairos, random: &mut StdRng) {
        for _ in 0..if long() { 100 } else { 10 } {
            let before = self.answered.load(Ordering::Relaxed);
            eventually("more is answered", async || match self.answered.load(Ordering::Relaxed) {
                now if now > before => Ok(()),
                now => Err(format!("{now}")),
            })
            .await;
            tokio::time::sleep(Duration::from_millis(random.random_range(0..50))).await;
            server.process.signal(Signal::STOP);
            for _ in 0..2 {
                tokio::time::sleep(Duration::from_millis(random.random_range(1..100))).await;
                self.patience.send_modify(|lost| *lost += 1);
            }
            server.process.signal(Signal::CONT);
        }
        self.is_enough.store(true, Ordering::Relaxed);
    }
}

/// Every answered point is stored once, with its value.
async fn check(server: &Promkairos, answered: &[u64]) {
    let found = server.read("__name__", "repeated").await.expect("it answers");
    assert_eq!(found.len(), answered.len());
    for series in found {
        let sender: usize = series.labels["sender"].parse().expect("a number");
        let expected = (0..answered[sender]).flat_map(points);
        let expected: Vec<(i64, Point)> = expected
            .map(|(time, value)| (time.cast_signed(), Point::Float(value.to_bits())))
            .collect();
        let points: Vec<_> = series.points.into_iter().collect();
        assert!(points == expected, "{} instead of {}", points.len(), expected.len());
    }
    let count = "sum(count_over_time(repeated%5B1d%5D))&time=1700080000";
    let (status, text) =
        server.get(&format!("/api/v1/query?query={count}")).await.expect("it answers");
    let answer: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let expected = (answered.iter().sum::<u64>() * POINTS).to_string();
    assert_eq!(
        (status, &answer["data"]["result"][0]["value"][1]),
        (200, &expected.into()),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_promkairos_that_stands_still_for_a_while_has_every_sample_once() {
    let (data, mut random) =
        (tempfile::tempdir().expect("a folder"), StdRng::seed_from_u64(seed()));
    let flags = ["--flush-interval=200ms"];
    let mut server = Promkairos::ready(data.path(), &Backend::Embedded, &flags).await;
    let clients = Clients {
        patience: watch::Sender::new(0),
        answered: AtomicU64::new(0),
        is_enough: AtomicBool::new(false),
    };
    let sending = (0..SENDERS).map(|sender| clients.send(&server, sender));
    let (answered, ()) =
        futures::join!(futures::future::join_all(sending), clients.interrupt(&server, &mut random));
    check(&server, &answered).await;
    server.process.kill();
    let mut server = Promkairos::ready(data.path(), &Backend::Embedded, &flags).await;
    check(&server, &answered).await;
    assert!(server.process.terminate().success(), "{}", server.process.log());
    let server = Promkairos::ready(data.path(), &Backend::Embedded, &flags).await;
    check(&server, &answered).await;
}
