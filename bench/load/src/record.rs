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

/// The records of a file in their order. Lines about the machine are no records.
pub fn read(path: &Path) -> io::Result<Vec<Record>> {
    let mut records = Vec::new();
    for line in BufReader::new(std::fs::File::open(path)?).lines() {
        let line: serde_json::Value = serde_json::from_str(&line?)?;
        if line.get("figure").is_some() {
            records.push(serde_json::from_value(line)?);
        }
    }
    Ok(records)
}
