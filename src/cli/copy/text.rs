//! The report of a copy as text.

use std::fmt::Write as _;

use crate::cli::output;
use crate::copy::{Difference, Starts, Totals, What};
use crate::storage::cassandra::Skipped;

use super::Report;

/// A line for what was copied, one for each thing to know of it, and what the comparison found.
pub(super) fn describe(report: &Report) -> String {
    let mut text = String::new();
    write(&mut text, report).expect("writing to a String does not fail");
    text
}

fn write(text: &mut String, report: &Report) -> std::fmt::Result {
    if let Some(copied) = &report.copied {
        write_copied(text, copied, &report.to)?;
    }
    write_left_out(text, report)?;
    let compared = &report.compared;
    for difference in &compared.listed {
        write_difference(text, difference)?;
    }
    let more = compared.differences - compared.listed.len() as u64;
    if more > 0 {
        writeln!(text, "and {more} differences more")?;
    }
    let (from, to) = (&report.from, &report.to);
    if let Some(first) = &compared.first_otherwise {
        let (otherwise, all) = (compared.metadata_otherwise, compared.metadata);
        writeln!(
            text,
            "{to} describes {otherwise} of {all} families of metadata otherwise, which stays (the first: {first})."
        )?;
    }
    if compared.differences == 0 {
        return writeln!(
            text,
            "The same on both sides: {} points (checksum {}) and {} exemplars.",
            compared.points, compared.checksum, compared.exemplars
        );
    }
    if compared.differences == compared.differences_of_more {
        writeln!(text, "Nothing is missing and nothing different in {to}, which has more.")?;
    }
    let of_more = match compared.differences_of_more {
        0 => String::new(),
        of_more => format!(", {of_more} of them only more in {to}"),
    };
    writeln!(
        text,
        "{} differences{of_more}: {} points (checksum {}) in {from}, {} points (checksum {}) in {to}.",
        compared.differences,
        compared.points,
        compared.checksum,
        compared.target_points,
        compared.target_checksum
    )
}

fn write_copied(text: &mut String, copied: &Totals, to: &str) -> std::fmt::Result {
    let Totals { floats, histograms, exemplars, metadata, .. } = copied;
    writeln!(
        text,
        "Copied {} points ({floats} floats, {histograms} histograms), {exemplars} exemplars and \
         the metadata of {metadata} families.",
        copied.points()
    )?;
    if copied.starts_left_out > 0 {
        let starts = copied.starts_left_out;
        writeln!(text, "{to} has no room for {starts} start timestamps of floats.")?;
    }
    if copied.refused > 0 {
        writeln!(text, "{to} refused {}:", copied.refused)?;
        copied.reasons.iter().try_for_each(|reason| writeln!(text, "  {reason}"))?;
    }
    Ok(())
}

/// What the source has, or may have, and nobody copies.
fn write_left_out(text: &mut String, report: &Report) -> std::fmt::Result {
    let from = &report.from;
    if report.source_starts == Starts::None {
        writeln!(
            text,
            "{from} tells no start timestamps: none is copied or compared, and how many it has is unknown."
        )?;
    }
    if !report.left_out.is_empty() {
        writeln!(text, "{from} holds what is none to promkairos, and is left out:")?;
    }
    for (reason, Skipped { count, at_least, first }) in &report.left_out {
        let what = match *reason {
            "data_type" => "rows of series with a data type of others",
            "labels" => "rows of series with tags that are no labels",
            "row_key" => "rows of an index that lead to no data",
            "column" => "cells whose column is no time",
            "value" => "cells whose value cannot be read",
            "metadata" => "families whose metadata cannot be read",
            other => other,
        };
        let at_least = if *at_least { "at least " } else { "" };
        writeln!(text, "  {reason}: {at_least}{count} {what}; the first: {first}")?;
    }
    Ok(())
}

fn write_difference(text: &mut String, difference: &Difference) -> std::fmt::Result {
    let Difference { of, day, what, missing, different, too_many } = difference;
    let what = match what {
        What::Points => "points",
        What::Exemplars => "exemplars",
        What::Metadata => return writeln!(text, "{of}: no metadata"),
    };
    write!(text, "{of}")?;
    if let Some(day) = day {
        write!(text, " from {} on", output::time(*day))?;
    }
    let counts = [(missing, "missing"), (different, "different"), (too_many, "too many")];
    let counts = counts.iter().filter(|(count, _)| **count > 0);
    let counts: Vec<String> = counts.map(|(count, how)| format!("{count} {how}")).collect();
    writeln!(text, ": {what}: {}", counts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copy::Compared;
    use crate::storage::cassandra::LeftOutByReason;

    fn compared() -> Compared {
        let checksum = "00000000000000ff".to_owned();
        let target_checksum = checksum.clone();
        let (points, target_points) = (7, 7);
        Compared { points, target_points, checksum, target_checksum, ..Compared::default() }
    }

    fn report(compared: Compared) -> Report {
        Report {
            from: "embedded:a".into(),
            to: "cassandra:b/c".into(),
            copied: None,
            compared,
            source_starts: Starts::All,
            left_out: LeftOutByReason::new(),
            may_have_more: false,
        }
    }

    #[test]
    fn what_nobody_copies_is_said_and_is_no_difference() {
        let of_type = Skipped { count: 3, at_least: false, first: "m{} kairos_string, x".into() };
        let values = Skipped { count: 9, at_least: true, first: "v".into() };
        let compared = Compared {
            metadata: 4,
            metadata_otherwise: 2,
            first_otherwise: Some("up".into()),
            ..compared()
        };
        let report = Report {
            source_starts: Starts::None,
            left_out: [("data_type", of_type), ("value", values)].into(),
            ..report(compared)
        };
        assert!(report.is_good());
        assert_eq!(
            describe(&report),
            "embedded:a tells no start timestamps: none is copied or compared, and how many it has is unknown.\n\
             embedded:a holds what is none to promkairos, and is left out:\n\
             \x20 data_type: 3 rows of series with a data type of others; the first: m{} kairos_string, x\n\
             \x20 value: at least 9 cells whose value cannot be read; the first: v\n\
             cassandra:b/c describes 2 of 4 families of metadata otherwise, which stays (the first: up).\n\
             The same on both sides: 7 points (checksum 00000000000000ff) and 0 exemplars.\n"
        );
    }

    #[test]
    fn a_copy_that_is_whole() {
        let copied =
            Totals { floats: 5, histograms: 2, exemplars: 1, metadata: 3, ..Totals::default() };
        let report = Report { copied: Some(copied), ..report(compared()) };
        assert!(report.is_good());
        assert_eq!(
            describe(&report),
            "Copied 7 points (5 floats, 2 histograms), 1 exemplars and the metadata of \
             3 families.\n\
             The same on both sides: 7 points (checksum 00000000000000ff) and 0 exemplars.\n"
        );
    }

    #[test]
    fn what_is_not_the_same_is_listed() {
        let copied = Totals {
            floats: 5,
            starts_left_out: 4,
            refused: 2,
            reasons: vec!["no room".into()],
            ..Totals::default()
        };
        let (of, day) = ("{__name__=\"up\"}".to_owned(), Some(86_400_000));
        let (missing, different, too_many) = (2, 0, 1);
        let points = Difference { of, day, what: What::Points, missing, different, too_many };
        let family =
            Difference { of: "up".into(), day: None, what: What::Metadata, ..points.clone() };
        let listed = vec![points, family];
        let (differences, differences_of_more) = (9, 5);
        let compared =
            Compared { differences, differences_of_more, listed, target_points: 6, ..compared() };
        let report = Report { copied: Some(copied), ..report(compared) };
        assert!(!report.is_good());
        assert_eq!(
            describe(&report),
            "Copied 5 points (5 floats, 0 histograms), 0 exemplars and the metadata of \
             0 families.\n\
             cassandra:b/c has no room for 4 start timestamps of floats.\n\
             cassandra:b/c refused 2:\n  no room\n\
             {__name__=\"up\"} from 1970-01-02T00:00:00Z on: points: 2 missing, 1 too many\n\
             up: no metadata\n\
             and 7 differences more\n\
             9 differences, 5 of them only more in cassandra:b/c: 7 points (checksum 00000000000000ff) in \
             embedded:a, 6 points (checksum 00000000000000ff) in cassandra:b/c.\n"
        );
    }

    #[test]
    fn more_in_the_target_is_good_where_it_may_be_there() {
        let compared = Compared { differences: 3, differences_of_more: 3, ..compared() };
        let mut report = report(compared);
        assert!(!report.is_good());
        report.may_have_more = true;
        assert!(report.is_good());
        assert!(describe(&report).starts_with("and 3 differences more\nNothing is missing and "));
        report.compared.differences = 4;
        assert!(!report.is_good());
        assert!(!describe(&report).contains("Nothing is missing"));
    }
}
