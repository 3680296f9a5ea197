//! `load count`: how many samples are stored, and how long it takes to read them by remote read.

use std::io;
use std::net::SocketAddr;
use std::time::Instant;

use clap::Args;

use crate::process;
use crate::read::{self, Matcher};
use crate::timing;

#[derive(Args)]
pub struct Options {
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
    /// How often to read; the times are those of all but the first.
    #[arg(long, default_value_t = 1)]
    rounds: usize,
    /// Process of the server, for its memory.
    #[arg(long, default_value_t = 0)]
    pid: u32,
}

pub fn run(options: &Options) -> io::Result<()> {
    let mut connection = read::connect(options.address)?;
    let (mut last, mut times) = (read::Read::default(), Vec::new());
    for _ in 0..options.rounds {
        let began = Instant::now();
        last = read::read(&mut connection, &options.matchers, (options.start, options.end))?;
        times.push(began.elapsed());
    }
    let result = serde_json::json!({
        "series": last.series.len(),
        "samples": last.samples,
        "chunk_bytes_per_sample": last.chunk_bytes as f64 / last.samples as f64,
        "first_ms": times[0].as_secs_f64() * 1e3,
        "then_ms": timing::summary(&times[1..]),
        "peak_rss_bytes": process::peak_rss(options.pid),
    });
    println!("{result:#}");
    Ok(())
}
