//! `load table`: the records of a run as one table in Markdown.
//!
//! A row is a figure of a load, a column a server. Repeated rounds give their median. Beside a peer's
//! value is the lead of promkairos: its rate divided by the peer's, or the peer's time or size
//! divided by its own, as the median of the ratios within a round. Below 1 promkairos is behind.
//! Above the table are the machine and the finished parts, below it the order of the servers.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use clap::Args;

use crate::record::{self, Lines, Order, Part, Record, Run};

/// The server that the others are compared with.
const OURS: &str = "promkairos";

#[derive(Args)]
pub struct Options {
    /// File with one record a line.
    records: PathBuf,
}

pub fn run(options: &Options) -> io::Result<()> {
    let Lines { run, parts, orders, records } = record::read(&options.records)?;
    if let Some(run) = run {
        println!("{}\n", head(&run, &parts));
    }
    print!("{}", table(&records));
    print!("{}", order(&orders));
    Ok(())
}

/// The machine, the build, and the parts with their times.
fn head(run: &Run, parts: &[Part]) -> String {
    let Run { date, commit, mode, scale, cores, cpu, memory, .. } = run;
    let mut head = format!("{date}, commit {commit}, {mode}, {cores} cores of {cpu}, {memory}");
    if *scale != 1 {
        head += &format!(", a {scale}th of the series");
    }
    if parts.is_empty() {
        return head + &format!(". None of these parts is recorded as finished: {}.", run.parts);
    }
    let finished: Vec<String> =
        parts.iter().map(|part| format!("{} ({} s)", part.part, part.seconds)).collect();
    head += &format!(". Finished: {}", finished.join(", "));
    let unfinished: Vec<&str> =
        run.parts.split(' ').filter(|name| parts.iter().all(|part| part.part != *name)).collect();
    if !unfinished.is_empty() {
        head += &format!(". **Not finished: {}**", unfinished.join(", "));
    }
    head + "."
}

/// The order of the servers, a line for each load and round.
fn order(orders: &[Order]) -> String {
    if orders.is_empty() {
        return String::new();
    }
    let mut out = "\nThe order of the servers:\n\n".to_owned();
    for Order { load, round, order } in orders {
        out += &format!("- {load}, turn {round}: {}\n", order.join("; "));
    }
    out
}

/// Values by round.
type Cell = BTreeMap<u32, f64>;

fn table(records: &[Record]) -> String {
    let mut servers = distinct(records.iter().map(|record| record.server.clone()));
    servers.sort_by_key(|server| server != OURS);
    let rows = distinct(records.iter().map(row));
    let mut cells: BTreeMap<_, Cell> = BTreeMap::new();
    for record in records {
        let cell = cells.entry((row(record), record.server.clone())).or_default();
        cell.insert(record.round, record.value);
    }
    let mut out = format!("| load | figure | {} |\n", servers.join(" | "));
    out += &format!("|---|---|{}\n", "---:|".repeat(servers.len()));
    // The figures of a load are together, loads and figures in the order of their first records.
    for load in distinct(rows.iter().map(|(load, ..)| load.clone())) {
        for row in rows.iter().filter(|row| row.0 == load) {
            let ours = cells.get(&(row.clone(), OURS.to_owned()));
            out += &format!("| {} | {}, {} |", row.0, row.1, row.2);
            for server in &servers {
                let cell = cells.get(&(row.clone(), server.clone()));
                let peer = (server != OURS).then_some(ours).flatten();
                out += &cell
                    .map_or("  |".to_owned(), |cell| format!(" {} |", text(cell, peer, &row.2)));
            }
            out += "\n";
        }
    }
    out
}

/// Load, figure and unit.
pub(crate) fn row(record: &Record) -> (String, String, String) {
    (record.load.clone(), record.figure.clone(), record.unit.clone())
}

/// Each value once, in the order of first occurrence.
pub(crate) fn distinct<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut distinct = Vec::new();
    for one in all {
        if !distinct.contains(&one) {
            distinct.push(one);
        }
    }
    distinct
}

/// A value, and for a peer the lead of promkairos.
fn text(cell: &Cell, ours: Option<&Cell>, unit: &str) -> String {
    let value = with_prefix(median(cell.values().copied()));
    let ratio = |(turn, peer): (&u32, &f64)| {
        let ours = *ours?.get(turn)?;
        match better(unit)? {
            Better::Higher => Some(ours / peer),
            Better::Lower => Some(peer / ours),
        }
    };
    let ratios: Vec<f64> = cell.iter().filter_map(ratio).filter(|r| r.is_normal()).collect();
    match ratios.is_empty() {
        true => value,
        false => format!("{value} ({}x)", digits(median(ratios.into_iter()))),
    }
}

pub(crate) enum Better {
    Higher,
    Lower,
}

/// Whether larger or smaller values of a unit are better; `None` if neither.
pub(crate) fn better(unit: &str) -> Option<Better> {
    match unit {
        "s" | "ms" | "B" | "B/sample" => Some(Better::Lower),
        "%" => Some(Better::Higher),
        rate if rate.contains('/') => Some(Better::Higher),
        _ => None,
    }
}

/// A value with a prefix for its unit if it is large.
pub(crate) fn with_prefix(value: f64) -> String {
    match value {
        1e9.. => format!("{} G", digits(value / 1e9)),
        1e6.. => format!("{} M", digits(value / 1e6)),
        1e4.. => format!("{} k", digits(value / 1e3)),
        _ => digits(value),
    }
}

/// Three significant digits.
pub(crate) fn digits(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        1.0.. => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

pub(crate) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let (low, high) = ((values.len() - 1) / 2, values.len() / 2);
    (values[low] + values[high]) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(server: &str, round: u32, figure: &str, value: f64, unit: &str) -> Record {
        let text = |text: &str| text.to_owned();
        let (server, load) = (text(server), text("200 k series"));
        Record { server, load, round, figure: text(figure), value, unit: text(unit) }
    }

    #[test]
    fn a_peer_stands_beside_how_far_it_is_behind() {
        let records = [
            record("promkairos", 1, "ingest", 3e6, "samples/s"),
            record("promkairos", 1, "request p99", 4.0, "ms"),
            record("Prometheus", 1, "ingest", 0.3e6, "samples/s"),
            record("Prometheus", 1, "request p99", 36.0, "ms"),
            record("Prometheus", 1, "counted back", 100.0, "% of what was sent"),
        ];
        let expected = "\
| load | figure | promkairos | Prometheus |
|---|---|---:|---:|
| 200 k series | ingest, samples/s | 3.00 M | 300 k (10.0x) |
| 200 k series | request p99, ms | 4.00 | 36.0 (9.00x) |
| 200 k series | counted back, % of what was sent |  | 100 |
";
        assert_eq!(table(&records), expected);
    }

    #[test]
    fn the_head_says_which_parts_are_missing() {
        let text = |text: &str| text.to_owned();
        let run = Run {
            date: text("2026-11-25T02:49:52Z"),
            commit: text("0f84cbc"),
            mode: text("full"),
            parts: text("loads sizes kill"),
            scale: 1,
            cores: 2,
            cpu: text("a processor"),
            memory: text("25 GB"),
        };
        let part = |name: &str| Part { part: text(name), seconds: 562 };
        let about = "2026-11-25T02:49:52Z, commit 0f84cbc, full, 2 cores of a processor, 25 GB";
        for (parts, expected) in [
            (vec![], ". None of these parts is recorded as finished: loads sizes kill."),
            (vec![part("loads")], ". Finished: loads (562 s). **Not finished: sizes, kill**."),
            (
                vec![part("loads"), part("sizes"), part("kill")],
                ". Finished: loads (562 s), sizes (562 s), kill (562 s).",
            ),
        ] {
            assert_eq!(head(&run, &parts), format!("{about}{expected}"));
        }
    }

    #[test]
    fn the_order_of_the_servers_stands_below() {
        let order = Order {
            load: "200 k series".to_owned(),
            round: 1,
            order: ["VictoriaMetrics", "promkairos"].map(str::to_owned).to_vec(),
        };
        let expected = "\nThe order of the servers:\n\n\
                        - 200 k series, turn 1: VictoriaMetrics; promkairos\n";
        assert_eq!(super::order(&[order]), expected);
        assert_eq!(super::order(&[]), "");
    }

    #[test]
    fn promkairos_stands_first() {
        let records = [("bare driver", 1.0), ("promkairos", 2.0)]
            .map(|(server, value)| record(server, 1, "ingest", value, "samples/s"));
        let head = "| load | figure | promkairos | bare driver |";
        assert_eq!(table(&records).lines().next(), Some(head));
    }

    #[test]
    fn turns_give_medians_of_values_and_of_ratios() {
        let rounds = [(1, 10.0, 10.0), (2, 20.0, 5.0), (3, 90.0, 30.0)];
        let records: Vec<Record> = rounds
            .into_iter()
            .flat_map(|(round, ours, peer)| {
                [("promkairos", ours), ("bare driver", peer)]
                    .map(|(server, value)| record(server, round, "flush", value, "samples/s"))
            })
            .collect();
        let expected = "| 200 k series | flush, samples/s | 20.0 | 10.0 (3.00x) |";
        assert_eq!(table(&records).lines().last(), Some(expected));
    }
}
