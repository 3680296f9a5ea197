//! The measurements: one JSON object a line, with a server, a load, a figure, a value and its unit.
//!
//! Every command prints only such lines, so that a run is the concatenated output of its commands.
//! Names decide what is comparable: the same load and figure of two servers share a row of the table.

use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::time::Duration;

use clap::Args;
use serde::{Deserialize, Serialize};

use crate::timing::quantile_ms;

/// Names of a measurement.
#[derive(Debug, Clone, Args)]
pub struct Subject {
    /// Name of the server.
    #[arg(long, default_value = "promkairos")]
    server: String,
    /// Name of the load.
    #[arg(long, default_value = "load")]
    load: String,
    /// Number of the round, if the measurement is repeated.
    #[arg(long, default_value_t = 1)]
    round: u32,
    /// Print only these figures.
    #[arg(long)]
    only: Vec<String>,
}

impl Subject {
    /// Prints a figure, if it is wanted. A value that could not be measured is not printed.
    pub fn print(&self, figure: &str, value: f64, unit: &str) {
        let wanted = self.only.is_empty() || self.only.iter().any(|only| only == figure);
        if wanted && value.is_finite() {
            let record = Record {
                server: self.server.clone(),
                load: self.load.clone(),
                round: self.round,
                figure: figure.to_owned(),
                value,
                unit: unit.to_owned(),
            };
            println!("{}", serde_json::to_string(&record).expect("plain values"));
        }
    }

    /// Prints the first of several times, and the median of the others.
    pub fn print_times(&self, figure: &str, times: &[Duration]) {
        self.print(&format!("{figure}, first"), quantile_ms(&times[..1], 0.5), "ms");
        self.print(&format!("{figure}, again"), quantile_ms(&times[1..], 0.5), "ms");
    }
}

/// One measured value.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    pub server: String,
    pub load: String,
    #[serde(default = "first")]
    pub round: u32,
    pub figure: String,
    pub value: f64,
    pub unit: String,
}

fn first() -> u32 {
    1
}

/// The header of a run: where and what it measures.
#[derive(Debug, Default, Deserialize)]
pub struct Run {
    pub date: String,
    pub commit: String,
    pub mode: String,
    /// Names, separated by blanks.
    pub parts: String,
    pub scale: u32,
    pub cores: u32,
    pub cpu: String,
    pub memory: String,
}

/// A part of a run that was finished.
#[derive(Debug, Deserialize)]
pub struct Part {
    pub part: String,
    pub seconds: u64,
}

/// The order in which servers were measured.
#[derive(Debug, Deserialize)]
pub struct Order {
    pub load: String,
    pub round: u32,
    pub order: Vec<String>,
}

/// The lines of a file by kind, in order.
#[derive(Debug, Default)]
pub struct Lines {
    pub run: Option<Run>,
    pub parts: Vec<Part>,
    pub orders: Vec<Order>,
    pub records: Vec<Record>,
}

/// Reads a file; lines of other kinds are skipped.
pub fn read(path: &Path) -> io::Result<Lines> {
    let mut lines = Lines::default();
    for line in BufReader::new(std::fs::File::open(path)?).lines() {
        let line: serde_json::Value = serde_json::from_str(&line?)?;
        let has = |key: &str| line.get(key).is_some();
        if has("figure") {
            lines.records.push(serde_json::from_value(line)?);
        } else if has("order") {
            lines.orders.push(serde_json::from_value(line)?);
        } else if has("part") {
            lines.parts.push(serde_json::from_value(line)?);
        } else if has("parts") {
            lines.run = Some(serde_json::from_value(line)?);
        }
    }
    Ok(lines)
}
