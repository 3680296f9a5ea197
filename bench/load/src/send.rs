//! `load send`: bodies first, then the clock, then the sockets.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;

use crate::bodies::{Fleet, SCRAPE_INTERVAL, Shape};
use crate::http::Connection;
use crate::process;

#[derive(Args)]
pub struct Options {
    /// Address of the server, on the loopback.
    #[arg(long, default_value = "127.0.0.1:9201")]
    address: SocketAddr,
    /// Path of remote write.
    #[arg(long, default_value = "/api/v1/write")]
    path: String,
    #[command(flatten)]
    shape: Shape,
    /// Scrapes of all series; each is 15 s after the one before.
    #[arg(long, default_value_t = 40)]
    scrapes: usize,
    /// Samples in a request.
    #[arg(long, default_value_t = 2000)]
    samples: usize,
    /// Connections.
    #[arg(long, default_value_t = 2)]
    connections: usize,
    /// Time of the first scrape in milliseconds.
    #[arg(long, default_value_t = 1_700_000_000_000)]
    start: i64,
    /// Process of the server, for its CPU time and memory.
    #[arg(long, default_value_t = 0)]
    pid: u32,
}

const HEADERS: &str = "Content-Type: application/x-protobuf\r\nContent-Encoding: snappy\r\n\
                       X-Prometheus-Remote-Write-Version: 0.1.0\r\n";

pub fn run(options: &Options) -> io::Result<()> {
    let mut fleet = Fleet::new(&options.shape);
    let mut bodies = Vec::new();
    for scrape in 0..options.scrapes {
        let timestamp = options.start + scrape as i64 * SCRAPE_INTERVAL;
        bodies.extend(fleet.scrape(timestamp, options.samples));
    }
    let bytes: usize = bodies.iter().map(Vec::len).sum();
    let (next, cpu) = (AtomicUsize::new(0), process::cpu_seconds(options.pid));
    let began = Instant::now();
    let mut latencies = thread::scope(|scope| {
        let workers: Vec<_> = (0..options.connections)
            .map(|_| scope.spawn(|| send_all(options, &bodies, &next)))
            .collect();
        let mut all = Vec::with_capacity(bodies.len());
        for worker in workers {
            all.extend(worker.join().expect("a worker that does not panic")?);
        }
        Ok::<_, io::Error>(all)
    })?;
    let seconds = began.elapsed().as_secs_f64();
    latencies.sort();
    let samples = (fleet.len() * options.scrapes) as f64;
    let cpu = process::cpu_seconds(options.pid) - cpu;
    let at = |share: f64| latencies[((latencies.len() - 1) as f64 * share) as usize];
    let result = serde_json::json!({
        "series": options.shape.series,
        "samples": samples,
        "requests": bodies.len(),
        "body_bytes_per_sample": bytes as f64 / samples,
        "seconds": seconds,
        "samples_per_second": samples / seconds,
        "samples_per_server_cpu_second": if cpu > 0.0 { Some(samples / cpu) } else { None },
        "p50_ms": at(0.5).as_secs_f64() * 1e3,
        "p99_ms": at(0.99).as_secs_f64() * 1e3,
        "peak_rss_bytes": process::peak_rss(options.pid),
    });
    println!("{result:#}");
    Ok(())
}

/// Takes bodies in order until none is left. A series keeps its order since the scrapes are whole
/// requests apart; two connections may still cross, as two shards of a sender do.
fn send_all(
    options: &Options,
    bodies: &[Vec<u8>],
    next: &AtomicUsize,
) -> io::Result<Vec<Duration>> {
    let mut connection = Connection::open(options.address, &options.path, HEADERS)?;
    let mut latencies = Vec::new();
    while let Some(body) = bodies.get(next.fetch_add(1, Ordering::Relaxed)) {
        let began = Instant::now();
        let answer = connection.ask(body)?;
        if answer.status >= 300 {
            let text = String::from_utf8_lossy(&answer.body);
            return Err(io::Error::other(format!("status {}: {text}", answer.status)));
        }
        latencies.push(began.elapsed());
    }
    Ok(latencies)
}
