//! The report of a copy as text.

use std::fmt::Write as _;

use crate::cli::output;
use crate::copy::left_out::REASONS;
use crate::copy::{Difference, Starts, Totals, What};
use crate::storage::cassandra::Skipped;

use super::report::Report;

/// Lines for what was copied, for what was left out, and for the result of the comparison.
pub(super) fn describe(report: &Report) -> String {
    output::text(|text| write(text, report))
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
    let more = compared.differences.saturating_sub(compared.listed.len() as u64);
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
        let what =
            if report.left_out.is_empty() { "The same" } else { "What can be copied is the same" };
        writeln!(
            text,
            "{what} on both sides: {} points (checksum {}) and {} exemplars.",
            compared.points, compared.checksum, compared.exemplars
        )?;
        return write_not_allowed(text, report);
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
    )?;
    write_not_allowed(text, report)
}

/// Data that is left out, an error unless the user allows it.
fn write_not_allowed(text: &mut String, report: &Report) -> std::fmt::Result {
    let reasons: Vec<&str> = report.not_allowed().collect();
    if reasons.is_empty() {
        return Ok(());
    }
    let (from, to) = (&report.from, &report.to);
    let flags = reasons.iter().map(|reason| format!(" --allow-left-out={reason}"));
    writeln!(
        text,
        "NOT ALL of {from} is in {to}: {} (above). Where that is no loss:{}",
        reasons.join(", "),
        flags.collect::<String>()
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
    if copied.refused > 0 {
        writeln!(text, "{to} refused {}:", copied.refused)?;
        copied.reasons.iter().try_for_each(|reason| writeln!(text, "  {reason}"))?;
    }
    Ok(())
}

/// Data that the source has, or may have, and that is not copied.
fn write_left_out(text: &mut String, report: &Report) -> std::fmt::Result {
    let from = &report.from;
    if report.source_starts == Starts::None {
        writeln!(
            text,
            "{from} tells no start timestamps: none is copied or compared, and how many it has is unknown."
        )?;
    }
    if !report.left_out.is_empty() {
        writeln!(text, "Left out of {from}, and not in {}:", report.to)?;
    }
    for (reason, Skipped { count, at_least, first }) in report.left_out.iter() {
        let what = REASONS.iter().find(|(known, _)| *known == reason);
        let what = what.map_or(reason, |(_, what)| what);
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
    use std::collections::BTreeMap;

    use super::*;
    use crate::cli::copy::report::Allowed;
    use crate::copy::Compared;
    use crate::copy::LeftOut;

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
            left_out: LeftOut::default(),
            allowed: Allowed::default(),
        }
    }

    #[test]
    fn what_is_left_out_is_a_fault_unless_it_is_allowed() {
        let of_type = Skipped { count: 3, at_least: false, first: "m{} kairos_string, x".into() };
        let values = Skipped { count: 9, at_least: true, first: "v".into() };
        let compared = Compared {
            metadata: 4,
            metadata_otherwise: 2,
            first_otherwise: Some("up".into()),
            ..compared()
        };
        let mut report = Report {
            source_starts: Starts::None,
            left_out: BTreeMap::from([("data_type", of_type), ("value", values)]).into(),
            ..report(compared)
        };
        assert!(!report.is_good());
        let text = "embedded:a tells no start timestamps: none is copied or compared, and how many it has is unknown.\n\
             Left out of embedded:a, and not in cassandra:b/c:\n\
             \x20 data_type: 3 rows of series with a data type of others; the first: m{} kairos_string, x\n\
             \x20 value: at least 9 cells whose value cannot be read; the first: v\n\
             cassandra:b/c describes 2 of 4 families of metadata otherwise, which stays (the first: up).\n\
             What can be copied is the same on both sides: 7 points (checksum 00000000000000ff) and 0 exemplars.\n";
        let not_all = "NOT ALL of embedded:a is in cassandra:b/c: data_type, value (above). Where that is no \
             loss: --allow-left-out=data_type --allow-left-out=value\n";
        assert_eq!(describe(&report), format!("{text}{not_all}"));
        report.allowed.left_out = vec!["value".into()];
        assert!(!report.is_good());
        for allowed in [vec!["value".to_owned(), "data_type".to_owned()], vec!["all".to_owned()]] {
            report.allowed.left_out = allowed;
            assert!(report.is_good());
            assert_eq!(describe(&report), text);
        }
    }

    #[test]
    fn what_was_refused_may_be_missing_where_that_is_allowed_and_nothing_else_may() {
        let copied = Totals { refused: 2, reasons: vec!["no room".into()], ..Totals::default() };
        let compared = Compared { missing: 2, differences: 1, ..compared() };
        let mut report = Report { copied: Some(copied), ..report(compared) };
        report.left_out.add("refused", 2, || "no room".into());
        assert!(!report.is_good());
        report.allowed.left_out = vec!["refused".into()];
        assert!(report.is_good());
        report.compared.missing = 3;
        assert!(!report.is_good());
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
        let copied =
            Totals { floats: 5, refused: 2, reasons: vec!["no room".into()], ..Totals::default() };
        let (of, day) = ("{__name__=\"up\"}".to_owned(), Some(86_400_000));
        let (missing, different, too_many) = (2, 0, 1);
        let points = Difference { of, day, what: What::Points, missing, different, too_many };
        let family =
            Difference { of: "up".into(), day: None, what: What::Metadata, ..points.clone() };
        let listed = vec![points, family];
        let (differences, differences_of_more) = (9, 5);
        let compared = Compared {
            differences,
            differences_of_more,
            missing: 2,
            listed,
            target_points: 6,
            ..compared()
        };
        let report = Report { copied: Some(copied), ..report(compared) };
        assert!(!report.is_good());
        assert_eq!(
            describe(&report),
            "Copied 5 points (5 floats, 0 histograms), 0 exemplars and the metadata of \
             0 families.\n\
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
        let compared =
            Compared { differences: 3, differences_of_more: 3, too_many: 3, ..compared() };
        let mut report = report(compared);
        assert!(!report.is_good());
        report.allowed.more = true;
        assert!(report.is_good());
        assert!(describe(&report).starts_with("and 3 differences more\nNothing is missing and "));
        (report.compared.differences, report.compared.missing) = (4, 1);
        assert!(!report.is_good());
        assert!(!describe(&report).contains("Nothing is missing"));
    }
}
