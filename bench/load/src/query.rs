//! `load query`: a request of Prometheus' HTTP API, timed; promkairos, Prometheus and VictoriaMetrics
//! answer the same ones.

use std::io;
use std::net::SocketAddr;
use std::time::Instant;

use clap::Args;
use serde_json::{Value, json};

use crate::http::Connection;
use crate::process;
use crate::timing;

#[derive(Args)]
pub struct Options {
    /// Address of the server, on the loopback.
    #[arg(long, default_value = "127.0.0.1:9201")]
    address: SocketAddr,
    /// Path with its query string, encoded.
    #[arg(long)]
    path: String,
    /// How often to ask; the times are those of all but the first.
    #[arg(long, default_value_t = 6)]
    rounds: usize,
    /// Process of the server, for the memory of the first request.
    #[arg(long, default_value_t = 0)]
    pid: u32,
}

pub fn run(options: &Options) -> io::Result<()> {
    let mut connection = Connection::open_get(options.address, &options.path)?;
    let (mut times, mut last) = (Vec::new(), Vec::new());
    let idle = process::forget_peak_rss(options.pid);
    let mut first_bytes = 0;
    for round in 0..options.rounds {
        let began = Instant::now();
        let answer = connection.ask(&[])?;
        times.push(began.elapsed());
        if answer.status != 200 {
            let text = String::from_utf8_lossy(&answer.body);
            return Err(io::Error::other(format!("status {}: {text}", answer.status)));
        }
        if round == 0 {
            first_bytes = process::peak_rss(options.pid).saturating_sub(idle);
        }
        last = answer.body;
    }
    let answer: Value = serde_json::from_slice(&last)?;
    let (results, points) = count(&answer["data"]);
    let result = json!({
        "results": results,
        "points": points,
        "answer_bytes": last.len(),
        "first_ms": times[0].as_secs_f64() * 1e3,
        "then_ms": timing::summary(&times[1..]),
        "first_peak_above_idle_bytes": first_bytes,
    });
    println!("{result:#}");
    Ok(())
}

/// Series, or values of a label, and points.
fn count(data: &Value) -> (usize, usize) {
    let results = data.as_array().or_else(|| data["result"].as_array());
    let results = results.map_or(&[][..], |results| results);
    let points = results.iter().filter_map(|result| result["values"].as_array()).map(Vec::len);
    (results.len(), points.sum())
}
