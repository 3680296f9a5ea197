//! `load count` reads the stored samples by remote read, counts them and times the read; `load
//! stored` lets the server count by PromQL, which every peer supports.

use std::io;
use std::net::SocketAddr;
use std::time::Instant;

use clap::Args;
use serde_json::Value;

use crate::http::Connection;
use crate::read::{self, Matcher};
use crate::record::Subject;

#[derive(Args)]
pub struct ReadOptions {
    /// Address of the server, on the loopback.
    #[arg(long, default_value = "127.0.0.1:9201")]
    address: SocketAddr,
    /// Start of the range in milliseconds.
    #[arg(long, default_value_t = 1_700_000_000_000)]
    start: i64,
    /// End of the range in milliseconds.
    #[arg(long, default_value_t = 1_800_000_000_000)]
    end: i64,
    /// Matchers, NAME=VALUE or NAME=~PATTERN.
    #[arg(long = "match", default_value = "__name__=~bench_.+", value_parser = read::parse_matcher)]
    matchers: Vec<Matcher>,
    /// How often to read.
    #[arg(long, default_value_t = 1)]
    rounds: usize,
    /// Expected number of samples; fewer or more are an error.
    #[arg(long)]
    expected: Option<u64>,
    /// Name of the load.
    #[arg(long, default_value = "read")]
    figure: String,
    #[command(flatten)]
    subject: Subject,
}

pub fn read(options: &ReadOptions) -> io::Result<()> {
    let mut connection = read::connect(options.address)?;
    let (mut samples, mut times) = (0, Vec::new());
    for _ in 0..options.rounds {
        let began = Instant::now();
        let range = (options.start, options.end);
        samples = read::read(&mut connection, &options.matchers, range)?;
        times.push(began.elapsed());
    }
    if let Some(expected) = options.expected.filter(|expected| *expected != samples) {
        return Err(io::Error::other(format!("{samples} samples instead of {expected}")));
    }
    let (subject, figure) = (&options.subject, &options.figure);
    subject.print_times(figure, &times);
    subject.print(figure, samples as f64, "samples");
    Ok(())
}

#[derive(Args)]
pub struct StoredOptions {
    /// Address of the server, on the loopback.
    #[arg(long, default_value = "127.0.0.1:9201")]
    address: SocketAddr,
    /// First part of the metric names.
    #[arg(long, default_value = "bench_subsystem")]
    prefix: String,
    /// Time of the first sample in milliseconds.
    #[arg(long, default_value_t = 1_700_000_000_000)]
    start: i64,
    /// Scrapes.
    #[arg(long)]
    scrapes: usize,
    /// Expected number of samples.
    #[arg(long)]
    expected: u64,
    #[command(flatten)]
    subject: Subject,
}

/// Prints the share of the samples that is stored. Missing samples are reported on standard error too.
pub fn stored(options: &StoredOptions) -> io::Result<()> {
    let mut samples = 0;
    // A window at a time, to stay below limits on the samples of a query.
    for first in (0..options.scrapes).step_by(WINDOW) {
        let scrapes = WINDOW.min(options.scrapes - first);
        samples += count_window(options, first, scrapes)?;
    }
    if samples != options.expected {
        eprintln!("load: {samples} samples are stored, {} were sent", options.expected);
    }
    let share = samples as f64 / options.expected as f64 * 100.0;
    options.subject.print("counted back", share, "% of what was sent");
    Ok(())
}

/// Scrapes counted by one query.
const WINDOW: usize = 40;

fn count_window(options: &StoredOptions, first: usize, scrapes: usize) -> io::Result<u64> {
    let interval = crate::shape::SCRAPE_INTERVAL / 1000;
    let end = options.start / 1000 + (first + scrapes - 1) as i64 * interval;
    // The range excludes its start.
    let range = scrapes as i64 * interval;
    let selector = format!("%7B__name__%3D~%22{}_.%2B%22%7D", options.prefix);
    let count = format!("sum(count_over_time({selector}%5B{range}s%5D))");
    let path = format!("/api/v1/query?query={count}&time={end}&timeout=10m");
    let body = Connection::open_get(options.address, &path)?.ask(&[])?.expect_success()?;
    let answer: Value = serde_json::from_slice(&body)?;
    let count = &answer["data"]["result"][0]["value"][1];
    Ok(count.as_str().and_then(|count| count.parse::<f64>().ok()).unwrap_or(0.0) as u64)
}
