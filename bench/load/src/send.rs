//! `load send`: prepares bodies, then starts the clock and sends.
//!
//! Each connection owns a fixed share of the series. If the bodies of all scrapes would take too
//! much memory, the clock is paused while the next ones are prepared; the CPU time of the server
//! counts meanwhile.

use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;

use crate::beside::{self, Asked, Progress};
use crate::fleet::{Form, Share};
use crate::http::Connection;
use crate::process::{self, CpuClock};
use crate::record::Subject;
use crate::shape::{SCRAPE_INTERVAL, Shape};
use crate::timing::quantile_ms;

/// How long a request that the server cannot accept yet is retried.
const PATIENCE: Duration = Duration::from_secs(120);
const RETRY: Duration = Duration::from_millis(100);

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
    #[command(flatten)]
    form: Form,
    /// Scrapes of all series; each is 15 s after the one before.
    #[arg(long, default_value_t = 40)]
    scrapes: usize,
    /// Record the first scrape, in which all series are new, as a separate figure only.
    #[arg(long)]
    first: bool,
    /// Connections.
    #[arg(long, default_value_t = 2)]
    connections: usize,
    /// Samples per second over all connections; without it as fast as they are accepted.
    #[arg(long)]
    rate: Option<f64>,
    /// Time of the first scrape in milliseconds.
    #[arg(long, default_value_t = 1_700_000_000_000)]
    start: i64,
    /// Scrapes that were sent before: churn continues from there.
    #[arg(long, default_value_t = 0)]
    after: usize,
    /// Samples whose bodies are in memory at a time, at least one scrape.
    #[arg(long, default_value_t = 20_000_000)]
    at_once: usize,
    /// Processes of the server, for its CPU time and memory.
    #[arg(long = "pid")]
    pids: Vec<u32>,
    /// The rate without concurrent queries: prints the share of it that is reached.
    #[arg(long)]
    undisturbed: Option<f64>,
    #[command(flatten)]
    queries: beside::Queries,
    #[command(flatten)]
    subject: Subject,
}

pub fn run(options: &Options) -> io::Result<()> {
    let mut lanes = lanes(options);
    let mut first = 0;
    if options.first {
        first = 1;
        let sent = send_scrapes(options, &mut lanes, 0..1)?;
        options.subject.print("all series new", sent.samples / sent.seconds, "series/s");
    }
    let sent = send_scrapes(options, &mut lanes, first..options.scrapes)?;
    print(options, &sent);
    Ok(())
}

/// What was sent, and its duration.
#[derive(Default)]
struct Sent {
    samples: f64,
    seconds: f64,
    server_cpu_seconds: f64,
    own_cpu_seconds: f64,
    latencies: Vec<Duration>,
    refused: usize,
    asked: Asked,
}

fn send_scrapes(options: &Options, lanes: &mut [Lane], scrapes: Range<usize>) -> io::Result<Sent> {
    let series = options.shape.series;
    let samples = (series * scrapes.len()) as f64;
    let (mut sent, mut cpu) = (Sent { samples, ..Sent::default() }, None);
    let at_once = (options.at_once / series).max(1);
    for first in scrapes.clone().step_by(at_once) {
        let scrapes = first..(first + at_once).min(scrapes.end);
        thread::scope(|scope| {
            for lane in &mut *lanes {
                let scrapes = scrapes.clone();
                scope.spawn(move || lane.prepare(scrapes, options.start));
            }
        });
        cpu.get_or_insert_with(|| CpuClock::start(&options.pids));
        send_prepared(options, lanes, &mut sent)?;
    }
    sent.server_cpu_seconds = cpu.map_or(f64::NAN, |cpu| cpu.seconds());
    Ok(sent)
}

fn send_prepared(options: &Options, lanes: &[Lane], sent: &mut Sent) -> io::Result<()> {
    let progress = Progress::new(lanes[0].bodies.first().map_or(0, |(timestamp, _)| *timestamp));
    let (began, own) = (Instant::now(), CpuClock::start_own());
    thread::scope(|scope| {
        let queries = scope.spawn(|| beside::ask(options.address, &options.queries, &progress));
        let workers: Vec<_> =
            lanes.iter().map(|lane| scope.spawn(|| lane.send(options, began, &progress))).collect();
        let mut result = Ok(());
        for worker in workers {
            match worker.join().expect("a worker that does not panic") {
                Ok((latencies, refused)) => {
                    sent.latencies.extend(latencies);
                    sent.refused += refused;
                }
                Err(error) => result = Err(error),
            }
        }
        sent.seconds += began.elapsed().as_secs_f64();
        progress.end();
        sent.asked.add(queries.join().expect("queries that do not panic")?);
        result
    })?;
    sent.own_cpu_seconds += own.seconds();
    Ok(())
}

fn print(options: &Options, sent: &Sent) {
    let (subject, cpu) = (&options.subject, sent.server_cpu_seconds);
    let rate = sent.samples / sent.seconds;
    subject.print("ingest", rate, "samples/s");
    subject.print("ingest per server CPU second", sent.samples / cpu, "samples/CPU s");
    subject.print("request p50", quantile_ms(&sent.latencies, 0.5), "ms");
    subject.print("request p99", quantile_ms(&sent.latencies, 0.99), "ms");
    subject.print("peak memory", process::peak_rss(&options.pids).unwrap_or(f64::NAN), "B");
    if let Some(undisturbed) = options.undisturbed {
        subject.print("ingest beside queries", rate / undisturbed * 100.0, "%");
    }
    sent.asked.print(subject, sent.seconds);
    if sent.refused > 0 {
        subject.print("sent again after 503", sent.refused as f64, "requests");
    }
    subject.print("sent", sent.samples, "samples");
    subject.print("generator CPU a sample", sent.own_cpu_seconds * 1e6 / sent.samples, "µs");
}

/// A connection, its series, and the bodies to send next, with the times of their scrapes.
struct Lane {
    connection: usize,
    share: Share,
    bodies: Vec<(i64, Vec<u8>)>,
}

/// Distributes the series evenly; every connection has at least one.
fn lanes(options: &Options) -> Vec<Lane> {
    let (series, connections) = (options.shape.series, options.connections);
    let lane = |connection| {
        let numbers = series * connection / connections..series * (connection + 1) / connections;
        let mut share = Share::new(&options.shape, &options.form, numbers);
        share.skip(options.after);
        Lane { connection, share, bodies: Vec::new() }
    };
    thread::scope(|scope| {
        let made: Vec<_> = (0..connections).map(|n| scope.spawn(move || lane(n))).collect();
        made.into_iter().map(|lane| lane.join().expect("a lane")).collect()
    })
}

impl Lane {
    /// Prepares the bodies of these scrapes.
    fn prepare(&mut self, scrapes: Range<usize>, start: i64) {
        self.bodies.clear();
        for scrape in scrapes {
            let timestamp = start + scrape as i64 * SCRAPE_INTERVAL;
            let bodies = self.share.scrape(timestamp);
            self.bodies.extend(bodies.into_iter().map(|body| (timestamp, body)));
        }
    }

    /// Sends the bodies in order; returns how long each took until it was accepted, and how often
    /// the server could not accept one yet (503). With a rate, the time of a request that is late
    /// because the previous one was slow counts from when it was due.
    fn send(
        &self,
        options: &Options,
        began: Instant,
        progress: &Progress,
    ) -> io::Result<(Vec<Duration>, usize)> {
        let headers = options.form.protocol.headers();
        let mut connection = Connection::open(options.address, &options.path, headers)?;
        let (mut latencies, mut refused) = (Vec::with_capacity(self.bodies.len()), 0);
        let seconds = options.rate.map(|rate| self.mean_samples(options) / rate);
        for (i, (timestamp, body)) in self.bodies.iter().enumerate() {
            let due = seconds.map(|seconds| {
                // The requests of the connections alternate.
                let all = i * options.connections + self.connection;
                began + Duration::from_secs_f64(seconds * all as f64)
            });
            let from = due.map_or_else(Instant::now, wait_until);
            let mut answer = connection.ask(body)?;
            while answer.status == 503 && from.elapsed() < PATIENCE {
                refused += 1;
                thread::sleep(RETRY);
                answer = connection.ask(body)?;
            }
            answer.expect_success()?;
            latencies.push(from.elapsed());
            progress.reached(*timestamp);
        }
        Ok((latencies, refused))
    }

    /// Samples in a request.
    fn mean_samples(&self, options: &Options) -> f64 {
        let a_scrape = self.share.requests_a_scrape() * options.connections;
        options.shape.series as f64 / a_scrape as f64
    }
}

/// Waits until `due` and returns the current time; returns `due` if it has passed.
fn wait_until(due: Instant) -> Instant {
    let wait = due.saturating_duration_since(Instant::now());
    if wait.is_zero() {
        return due;
    }
    thread::sleep(wait);
    Instant::now()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::http::tests::{Act, serve};

    #[derive(Parser)]
    struct Arguments {
        #[command(flatten)]
        options: Options,
    }

    #[test]
    fn what_a_server_refuses_is_sent_again_until_it_takes_it_also_where_it_closes_then() {
        let (address, server) = serve(&[
            Act::Close(503),
            Act::Close(503),
            Act::Keep(204),
            Act::Keep(503),
            Act::Keep(204),
        ]);
        let address = format!("--address={address}");
        let shape = ["load", &address, "--series=3", "--scrapes=2", "--connections=1"];
        let options = Arguments::parse_from(shape).options;
        let sent = send_scrapes(&options, &mut lanes(&options), 0..2).expect("all taken");
        let bodies = server.join().expect("a server");
        assert_eq!(bodies[..2], [&bodies[2][..]; 2]);
        assert_ne!(bodies[2], bodies[3]);
        assert_eq!(bodies[3], bodies[4]);
        assert_eq!((sent.refused, sent.latencies.len()), (3, 2));
        assert!(sent.latencies[0] >= 2 * RETRY && sent.latencies[1] >= RETRY);
        assert!(sent.seconds >= 3.0 * RETRY.as_secs_f64());
    }
}
