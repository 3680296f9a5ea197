//! Queries while samples are sent, at a fixed rate, each over another range that ends at the newest
//! samples sent.
//!
//! Queries are due at fixed times, however long earlier ones took; several run concurrently. If the
//! server is too slow for the rate, fewer are answered, and the figures show how many. The time of
//! a query counts from when it was sent.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;

use crate::http::Connection;
use crate::record::Subject;
use crate::timing::quantile_ms;

/// Concurrent queries.
const AT_A_TIME: usize = 4;

#[derive(Args)]
pub struct Queries {
    /// Queries per second while the samples are sent.
    #[arg(long, default_value_t = 0.0)]
    queries_per_second: f64,
    /// Path of these queries with its query string, encoded, without the range and the step.
    #[arg(long, default_value = "")]
    query: String,
    /// Minutes that each of these queries spans, at a step of 15 s.
    #[arg(long, default_value_t = 15)]
    query_minutes: i64,
}

/// Progress of the sending: the newest time that a server has accepted, in milliseconds.
pub struct Progress {
    newest: AtomicI64,
    ended: AtomicBool,
}

impl Progress {
    pub fn new(newest: i64) -> Self {
        Self { newest: newest.into(), ended: false.into() }
    }

    pub fn reached(&self, timestamp: i64) {
        self.newest.fetch_max(timestamp, Ordering::Relaxed);
    }

    pub fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

/// The times that the answered queries took.
#[derive(Default)]
pub struct Asked {
    times: Vec<Duration>,
}

impl Asked {
    pub fn add(&mut self, more: Self) {
        self.times.extend(more.times);
    }

    /// Prints the figures, unless no query was sent.
    pub fn print(&self, subject: &Subject, seconds: f64) {
        if !self.times.is_empty() {
            subject.print("queries answered", self.times.len() as f64 / seconds, "queries/s");
            subject.print("query p50", quantile_ms(&self.times, 0.5), "ms");
            subject.print("query p99", quantile_ms(&self.times, 0.99), "ms");
        }
    }
}

/// Sends queries until the sending of samples has ended.
pub fn ask(address: SocketAddr, options: &Queries, progress: &Progress) -> io::Result<Asked> {
    let mut asked = Asked::default();
    if options.queries_per_second == 0.0 {
        return Ok(asked);
    }
    let (began, next) = (Instant::now(), AtomicUsize::new(0));
    thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_A_TIME)
            .map(|_| scope.spawn(|| ask_in_turn(address, options, progress, (began, &next))))
            .collect();
        for worker in workers {
            asked.times.extend(worker.join().expect("a worker that does not panic")?);
        }
        Ok(asked)
    })
}

fn ask_in_turn(
    address: SocketAddr,
    options: &Queries,
    progress: &Progress,
    (began, next): (Instant, &AtomicUsize),
) -> io::Result<Vec<Duration>> {
    let mut connection = Connection::open_get(address, "/")?;
    let mut times = Vec::new();
    loop {
        let turn = next.fetch_add(1, Ordering::Relaxed);
        let due = began + Duration::from_secs_f64(turn as f64 / options.queries_per_second);
        while Instant::now() < due && !progress.ended.load(Ordering::Relaxed) {
            let wait = due.saturating_duration_since(Instant::now());
            thread::sleep(wait.min(Duration::from_millis(50)));
        }
        if progress.ended.load(Ordering::Relaxed) {
            return Ok(times);
        }
        connection.get(&path(options, progress.newest.load(Ordering::Relaxed), turn));
        let asked = Instant::now();
        connection.ask(&[])?.expect_success()?;
        times.push(asked.elapsed());
    }
}

/// The path of a query. Ranges of any two queries differ by at least a millisecond.
fn path(options: &Queries, newest: i64, turn: usize) -> String {
    let end = newest - turn as i64 % 15_000;
    let start = end - options.query_minutes * 60_000;
    let seconds = |ms: i64| format!("{}.{:03}", ms / 1000, ms % 1000);
    format!("{}&start={}&end={}&step=15", options.query, seconds(start), seconds(end))
}
