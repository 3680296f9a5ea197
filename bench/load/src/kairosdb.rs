//! `load kairosdb-send` and `load kairosdb-query`: KairosDB's own REST, for comparison.
//!
//! KairosDB answers a write before it is stored: `load rows --wait` tells when it was.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use clap::Args;
use serde_json::{Value, json};

use crate::bodies::{SCRAPE_INTERVAL, Shape, Values};
use crate::http::Connection;
use crate::process;
use crate::timing;

#[derive(Args)]
pub struct SendOptions {
    /// Address of KairosDB's REST, on the loopback.
    #[arg(long)]
    address: SocketAddr,
    #[command(flatten)]
    shape: Shape,
    /// Scrapes of all series.
    #[arg(long, default_value_t = 10)]
    scrapes: usize,
    /// Points in a request.
    #[arg(long, default_value_t = 2000)]
    samples: usize,
    /// Connections.
    #[arg(long, default_value_t = 4)]
    connections: usize,
    /// Time of the first scrape in milliseconds.
    #[arg(long, default_value_t = 1_700_000_000_000)]
    start: i64,
    /// Process of the server, for its CPU time.
    #[arg(long, default_value_t = 0)]
    pid: u32,
}

/// Sends points one a series, as remote write does.
pub fn send(options: &SendOptions) -> io::Result<()> {
    let bodies = bodies(options);
    let (next, cpu) = (AtomicUsize::new(0), process::cpu_seconds(options.pid));
    let began = Instant::now();
    thread::scope(|scope| {
        let workers: Vec<_> = (0..options.connections)
            .map(|_| scope.spawn(|| post_all(options, &bodies, &next)))
            .collect();
        workers.into_iter().try_for_each(|w| w.join().expect("a worker that does not panic"))
    })?;
    let seconds = began.elapsed().as_secs_f64();
    let points = (options.shape.series * options.scrapes) as f64;
    let result = json!({
        "points": points,
        "seconds_until_accepted": seconds,
        "accepted_per_second": points / seconds,
        "server_cpu_seconds": process::cpu_seconds(options.pid) - cpu,
    });
    println!("{result:#}");
    Ok(())
}

fn post_all(options: &SendOptions, bodies: &[Vec<u8>], next: &AtomicUsize) -> io::Result<()> {
    let headers = "Content-Type: application/json\r\n";
    let mut connection = Connection::open(options.address, "/api/v1/datapoints", headers)?;
    while let Some(body) = bodies.get(next.fetch_add(1, Ordering::Relaxed)) {
        let answer = connection.ask(body)?;
        if answer.status >= 300 {
            let text = String::from_utf8_lossy(&answer.body);
            return Err(io::Error::other(format!("status {}: {text}", answer.status)));
        }
    }
    Ok(())
}

fn bodies(options: &SendOptions) -> Vec<Vec<u8>> {
    let shape = &options.shape;
    let series: Vec<Value> = (0..shape.series)
        .map(|series| {
            let labels = shape.labels(series);
            let tags = labels[1..].iter().map(|(name, value)| ((*name).to_owned(), json!(value)));
            json!({ "name": labels[0].1, "tags": tags.collect::<serde_json::Map<_, _>>() })
        })
        .collect();
    let (mut values, mut bodies) = (Values::new(shape.series), Vec::new());
    for scrape in 0..options.scrapes {
        let timestamp = options.start + scrape as i64 * SCRAPE_INTERVAL;
        for first in (0..shape.series).step_by(options.samples) {
            let numbers = first..(first + options.samples).min(shape.series);
            let points: Vec<Value> = numbers
                .map(|number| {
                    let mut point = series[number].clone();
                    point["datapoints"] = json!([[timestamp, values.next(number)]]);
                    point["type"] = json!("double");
                    point
                })
                .collect();
            bodies.push(serde_json::to_vec(&points).expect("plain values"));
        }
    }
    bodies
}

#[derive(Args)]
pub struct QueryOptions {
    /// Address of KairosDB's REST, on the loopback.
    #[arg(long)]
    address: SocketAddr,
    /// Metrics.
    #[arg(long = "metric", required = true)]
    metrics: Vec<String>,
    /// Filter, TAG=VALUE,VALUE,...: any of the values.
    #[arg(long = "tag")]
    tags: Vec<String>,
    /// Start of the range in milliseconds.
    #[arg(long, default_value_t = 1_700_000_000_000)]
    start: i64,
    /// End of the range in milliseconds.
    #[arg(long, default_value_t = 1_700_003_600_000)]
    end: i64,
    /// How often to ask; the times are those of all but the first.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
}

/// Asks for all series of the metrics, each apart.
pub fn query(options: &QueryOptions) -> io::Result<()> {
    let tags: serde_json::Map<String, Value> = options
        .tags
        .iter()
        .filter_map(|tag| tag.split_once('='))
        .map(|(name, values)| (name.to_owned(), json!(values.split(',').collect::<Vec<_>>())))
        .collect();
    let metric = |name: &String| {
        let group = json!([{ "name": "tag", "tags": ["instance", "pod"] }]);
        json!({ "name": name, "tags": tags, "group_by": group })
    };
    let metrics: Vec<Value> = options.metrics.iter().map(metric).collect();
    let (start, end) = (options.start, options.end);
    let body = json!({ "start_absolute": start, "end_absolute": end, "metrics": metrics });
    let body = serde_json::to_vec(&body)?;
    let headers = "Content-Type: application/json\r\n";
    let mut connection = Connection::open(options.address, "/api/v1/datapoints/query", headers)?;
    let (mut times, mut last) = (Vec::new(), Vec::new());
    for _ in 0..options.rounds {
        let began = Instant::now();
        let answer = connection.ask(&body)?;
        times.push(began.elapsed());
        if answer.status != 200 {
            let text = String::from_utf8_lossy(&answer.body);
            return Err(io::Error::other(format!("status {}: {text}", answer.status)));
        }
        last = answer.body;
    }
    let answer: Value = serde_json::from_slice(&last)?;
    let (mut series, mut points) = (0, 0);
    for result in answer["queries"].as_array().into_iter().flatten() {
        for result in result["results"].as_array().into_iter().flatten() {
            let values = result["values"].as_array().map_or(0, Vec::len);
            series += usize::from(values > 0);
            points += values;
        }
    }
    let result = json!({
        "series": series,
        "points": points,
        "first_ms": times[0].as_secs_f64() * 1e3,
        "then_ms": timing::summary(&times[1..]),
    });
    println!("{result:#}");
    Ok(())
}
