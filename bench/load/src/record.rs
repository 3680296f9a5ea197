//! What is measured: one JSON object a line, of a server, a load, a figure, a value and its unit.
//!
//! Every command prints such lines and nothing else, so that a run is the lines of its commands one
//! after the other. Which figures may be compared is said by their names alone: the same load and
//! figure of two servers stand in one row of the table.

use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::time::Duration;

use clap::Args;
use serde::{Deserialize, Serialize};

use crate::timing::quantile_ms;

/// Whom and what a command measures.
#[derive(Debug, Clone, Args)]
pub struct Subject {
    /// Name of the server.
    #[arg(long, default_value = "promkairos")]
    server: String,
    /// Name of the load.
    #[arg(long, default_value = "load")]
    load: String,
    /// Which turn of the same measurement this is.
    #[arg(long, default_value_t = 1)]
    round: u32,
    /// Print these figures only.
    #[arg(long)]
    only: Vec<String>,
}

impl Subject {
    /// Prints a figure, unless others are wanted. What cannot be measured is no figure.
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

    /// Prints the first of the times that the same took, and the median of the others.
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

/// What was to be measured, where and of what.
#[derive(Debug, Default, Deserialize)]
pub struct Run {
    pub date: String,
    pub commit: String,
    pub mode: String,
    /// Names with blanks between.
    pub parts: String,
    pub scale: u32,
    pub cores: u32,
    pub cpu: String,
    pub memory: String,
}

/// A part that was finished.
#[derive(Debug, Deserialize)]
pub struct Part {
    pub part: String,
    pub seconds: u64,
}

/// Who was measured after whom.
#[derive(Debug, Deserialize)]
pub struct Order {
    pub load: String,
    pub round: u32,
    pub order: Vec<String>,
}

/// The lines of a file, each kind in its order.
#[derive(Debug, Default)]
pub struct Lines {
    pub run: Option<Run>,
    pub parts: Vec<Part>,
    pub orders: Vec<Order>,
    pub records: Vec<Record>,
}

/// Reads a file; lines of other kinds are passed over.
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
