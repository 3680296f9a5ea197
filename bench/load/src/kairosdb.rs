//! `load kairosdb-send` and `load kairosdb-query`: KairosDB's own REST API, for comparison.
//!
//! KairosDB answers a write before it is stored, so the clock runs until it is: with `--keyspace`, rows are looked for
//! there. The time of a request ends at that answer, and is not comparable with servers that store first. promkairos
//! takes the same requests and stores first.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Value, json};

use crate::http::Connection;
use crate::process::CpuClock;
use crate::record::Subject;
use crate::rows::{self, Stored};
use crate::shape::{SCRAPE_INTERVAL, Shape, Values};
use crate::timing::quantile_ms;

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
    /// Processes of the server and of Cassandra, for their CPU time.
    #[arg(long = "pid")]
    pids: Vec<u32>,
    /// Contact point of Cassandra, on the loopback.
    #[arg(long, default_value = "127.0.0.1:9042")]
    cassandra: String,
    /// Keyspace with KairosDB's tables, in which the rows are looked for.
    #[arg(long)]
    keyspace: Option<String>,
    #[command(flatten)]
    subject: Subject,
}

/// Sends one point a series, as remote write does.
pub fn send(options: &SendOptions) -> io::Result<()> {
    let bodies = bodies(options);
    let runtime = tokio::runtime::Runtime::new()?;
    let (next, cpu) = (AtomicUsize::new(0), CpuClock::start(&options.pids));
    let began = Instant::now();
    let latencies = thread::scope(|scope| {
        let workers: Vec<_> = (0..options.connections)
            .map(|_| scope.spawn(|| post_all(options, &bodies, &next)))
            .collect();
        let mut latencies = Vec::new();
        for worker in workers {
            latencies.extend(worker.join().expect("a worker that does not panic")?);
        }
        Ok::<_, io::Error>(latencies)
    })?;
    let accepted = began.elapsed().as_secs_f64();
    let scrapes = (options.start, options.scrapes);
    if let Some(keyspace) = options.keyspace.clone() {
        let data_type = "kairos_double".to_owned();
        let stored = Stored { cassandra: options.cassandra.clone(), keyspace, data_type };
        let wait = rows::wait_until_stored(&stored, &options.shape, scrapes);
        runtime.block_on(wait).map_err(io::Error::other)?;
    }
    let stored = began.elapsed().as_secs_f64();
    let cpu = cpu.seconds();
    let points = (options.shape.series * options.scrapes) as f64;
    let subject = &options.subject;
    subject.print("ingest", points / stored, "samples/s");
    subject.print("ingest per server CPU second", points / cpu, "samples/CPU s");
    subject.print("accepted before it is stored", points / accepted, "samples/s");
    for (figure, share) in [("request p50", 0.5), ("request p99", 0.99)] {
        let figure = format!("{figure}, accepted before it is stored");
        subject.print(&figure, quantile_ms(&latencies, share), "ms");
    }
    Ok(())
}

/// Sends the requests; returns how long each took until it was accepted.
fn post_all(
    options: &SendOptions,
    bodies: &[Vec<u8>],
    next: &AtomicUsize,
) -> io::Result<Vec<Duration>> {
    let headers = "Content-Type: application/json\r\n";
    let mut connection = Connection::open(options.address, "/api/v1/datapoints", headers)?;
    let mut latencies = Vec::new();
    while let Some(body) = bodies.get(next.fetch_add(1, Ordering::Relaxed)) {
        let began = Instant::now();
        connection.ask(body)?.expect_success()?;
        latencies.push(began.elapsed());
    }
    Ok(latencies)
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
    /// How often to ask.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Name of the load.
    #[arg(long, default_value = "read")]
    figure: String,
    #[command(flatten)]
    subject: Subject,
}

/// Queries all series of the metrics, ungrouped.
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
        last = connection.ask(&body)?.expect_success()?;
        times.push(began.elapsed());
    }
    let answer: Value = serde_json::from_slice(&last)?;
    let queries = answer["queries"].as_array().into_iter().flatten();
    let results = queries.flat_map(|query| query["results"].as_array().into_iter().flatten());
    let points: usize = results.map(|result| result["values"].as_array().map_or(0, Vec::len)).sum();
    let (subject, figure) = (&options.subject, &options.figure);
    subject.print_times(figure, &times);
    subject.print(figure, points as f64, "samples");
    Ok(())
}
