//! `load pairs`: compares a build with an earlier one, from records in which both were measured alternately.
//!
//! For each figure the ratio within a round is taken: the build's rate divided by the earlier one's rate, or the
//! earlier one's time or size divided by the build's. Below 1 the build is worse. The interval holds the median of
//! such ratios in 95 of 100 runs, whatever their distribution is: its ends are two of the sorted ratios, chosen by
//! the binomial distribution (Conover, Practical Nonparametric Statistics, 3.2). It needs at least six rounds.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use clap::Args;

use crate::record::{self, Record};
use crate::table::{Better, better, digits, distinct, median, row, with_prefix};

/// A figure is worse or better if the whole interval differs from 1 by more than this.
const TOLERANCE: f64 = 0.03;
/// Highest probability that the median lies outside of the interval.
const OUTSIDE: f64 = 0.05;

#[derive(Args)]
pub struct Options {
    /// File with one record a line.
    records: PathBuf,
    /// Name of the earlier build in the records.
    #[arg(long, default_value = "before")]
    before: String,
    /// Name of the build to compare with it.
    #[arg(long, default_value = "after")]
    after: String,
}

pub fn run(options: &Options) -> io::Result<()> {
    let records = record::read(&options.records)?.records;
    print!("{}", table(&records, &options.before, &options.after));
    Ok(())
}

fn table(records: &[Record], before: &str, after: &str) -> String {
    let mut out = format!("| load | figure | {before} | {after} | ratio | 95 % interval | |\n");
    out += "|---|---|---:|---:|---:|---|---|\n";
    for row in distinct(records.iter().map(row)) {
        let of = |server: &str| -> BTreeMap<u32, f64> {
            let of = records.iter().filter(|r| r.server == server && self::row(r) == row);
            of.map(|r| (r.round, r.value)).collect()
        };
        let (old, new) = (of(before), of(after));
        let Some(better) = better(&row.2) else { continue };
        let ratio = |(turn, old): (&u32, &f64)| {
            let new = new.get(turn)?;
            Some(match better {
                Better::Higher => new / old,
                Better::Lower => old / new,
            })
        };
        let mut ratios: Vec<f64> = old.iter().filter_map(ratio).filter(|r| r.is_finite()).collect();
        if ratios.is_empty() {
            continue;
        }
        ratios.sort_by(f64::total_cmp);
        let middle = |cell: &BTreeMap<u32, f64>| with_prefix(median(cell.values().copied()));
        let interval = interval(&ratios);
        let shown = interval.map_or("too few turns".to_owned(), |(low, high)| {
            format!("{} to {}", digits(low), digits(high))
        });
        let verdict = match interval {
            Some((_, high)) if high < 1.0 - TOLERANCE => "**worse**",
            Some((low, _)) if low > 1.0 + TOLERANCE => "better",
            _ => "",
        };
        let (load, figure, unit) = &row;
        out += &format!("| {load} | {figure}, {unit} | {} | {} |", middle(&old), middle(&new));
        let ratio = digits(median(ratios.iter().copied()));
        out += &format!(" {ratio} | {shown} | {verdict} |\n");
    }
    out
}

/// The two sorted ratios between which the median lies.
fn interval(sorted: &[f64]) -> Option<(f64, f64)> {
    let count = sorted.len();
    // `term` is the probability that `number` ratios are below the median, `below` that at most `number` are.
    let (mut term, mut below, mut left_out) = (0.5_f64.powi(count as i32), 0.0, 0);
    for number in 0..count / 2 {
        below += term;
        if 2.0 * below > OUTSIDE {
            break;
        }
        left_out = number + 1;
        term *= (count - number) as f64 / (number + 1) as f64;
    }
    let low = left_out.checked_sub(1)?;
    Some((sorted[low], sorted[count - 1 - low]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_that_of_the_binomial_distribution() {
        let of = |count: u32| interval(&(1..=count).map(f64::from).collect::<Vec<_>>());
        assert_eq!([of(0), of(5)], [None, None]);
        assert_eq!(of(6), Some((1.0, 6.0)));
        // From published tables of confidence intervals for a median.
        assert_eq!(of(9), Some((2.0, 8.0)));
        assert_eq!(of(15), Some((4.0, 12.0)));
        assert_eq!(of(20), Some((6.0, 15.0)));
    }

    #[test]
    fn worse_is_what_lies_beyond_the_tolerance() {
        let record = |server: &str, round: u32, figure: &str, value: f64, unit: &str| Record {
            server: server.to_owned(),
            load: "20 k series".to_owned(),
            round,
            figure: figure.to_owned(),
            value,
            unit: unit.to_owned(),
        };
        let mut records = Vec::new();
        for round in 1..=9 {
            let noise = f64::from(round) / 1000.0;
            records.push(record("before", round, "ingest", 100.0, "samples/s"));
            records.push(record("after", round, "ingest", 90.0 + noise, "samples/s"));
            records.push(record("before", round, "sum, again", 2.0, "ms"));
            records.push(record("after", round, "sum, again", 1.0 + noise, "ms"));
            records.push(record("before", round, "disk", 1.0, "B"));
            records.push(record("after", round, "disk", 1.02, "B"));
        }
        let table = table(&records, "before", "after");
        let lines: Vec<&str> = table.lines().skip(2).collect();
        assert_eq!(lines.len(), 3, "{table}");
        assert!(lines[0].ends_with("| 0.900 | 0.900 to 0.900 | **worse** |"), "{table}");
        assert!(lines[1].ends_with("| better |"), "{table}");
        assert!(lines[2].ends_with("| 0.980 | 0.980 to 0.980 |  |"), "{table}");
    }
}
