//! `load query`: times a request of Prometheus' HTTP API, which promkairos, Prometheus and
//! VictoriaMetrics answer, or of KairosDB's. An answer without a result is an error, because it would measure nothing.

use std::io;
use std::net::SocketAddr;
use std::time::Instant;

use clap::Args;
use serde_json::Value;

use crate::http::Connection;
use crate::process::{self, CpuClock};
use crate::record::Subject;

#[derive(Args)]
pub struct Options {
    /// Address of the server, on the loopback.
    #[arg(long, default_value = "127.0.0.1:9201")]
    address: SocketAddr,
    /// Path with its query string, encoded.
    #[arg(long)]
    path: String,
    /// Number of requests.
    #[arg(long, default_value_t = 6)]
    rounds: usize,
    /// Processes of the server, for the memory of the first request.
    #[arg(long = "pid")]
    pids: Vec<u32>,
    /// Name of the load.
    #[arg(long, default_value = "query")]
    figure: String,
    #[command(flatten)]
    subject: Subject,
}

pub fn run(options: &Options) -> io::Result<()> {
    let mut connection = Connection::open_get(options.address, &options.path)?;
    let (mut times, mut last) = (Vec::new(), Vec::new());
    let idle = process::forget_peak_rss(&options.pids);
    let mut above_idle = f64::NAN;
    let cpu = CpuClock::start(&options.pids);
    for round in 0..options.rounds {
        let began = Instant::now();
        last = connection.ask(&[])?.expect_success()?;
        times.push(began.elapsed());
        if round == 0 {
            let peak = process::peak_rss(&options.pids);
            above_idle = peak.zip(idle).map_or(f64::NAN, |(peak, idle)| (peak - idle).max(0.0));
        }
    }
    let cpu = cpu.seconds() / options.rounds as f64;
    let answer: Value = serde_json::from_slice(&last)?;
    let data = &answer["data"];
    let of_kairosdb = &answer["queries"][0]["results"][0]["values"];
    let results = data.as_array().or_else(|| data["result"].as_array());
    let results = results.or_else(|| of_kairosdb.as_array());
    if results.is_none_or(Vec::is_empty) {
        return Err(io::Error::other(format!("no result for {}", options.path)));
    }
    let (subject, figure) = (&options.subject, &options.figure);
    subject.print_times(figure, &times);
    subject.print(&format!("{figure}, memory above idle"), above_idle, "B");
    subject.print(&format!("{figure}, server CPU"), cpu, "s");
    Ok(())
}
