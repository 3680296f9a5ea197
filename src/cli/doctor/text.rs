//! The report of the doctor as text.

use std::fmt::{self, Write};

use crate::model::{ShownLabel, ShownMetric};
use crate::storage::cassandra::doctor::{
    Cut, Depth, Facts, Group, Kind, Partition, Report, Settings,
};

/// Most metrics printed for a kind; the JSON has more.
const MOST_METRICS: usize = 10;

/// Writes the whole report.
pub(super) fn write_all(
    text: &mut String,
    keyspace: &str,
    spec: &str,
    report: &Report,
    settings: &Settings,
) -> fmt::Result {
    let facts = &report.facts;
    writeln!(text, "Keyspace {keyspace}: {spec}")?;
    write!(text, "Looked at {} rows of data", facts.rows)?;
    if settings.depth == Depth::Cells {
        write!(text, " with {} cells", facts.cells)?;
    }
    writeln!(
        text,
        ", and at rows of the index: {} row_keys, {} tag_indexed_row_keys, {} row_key_index",
        facts.row_keys, facts.tag_index_rows, facts.legacy_rows
    )?;
    let mut mendable = 0;
    for kind in Kind::ALL {
        let Some(total) = report.total(kind) else { continue };
        write_kind(text, kind, &total, report)?;
        if kind.remedy().is_some() && !settings.fix.contains(&kind) {
            mendable += total.left().saturating_sub(total.by_hand);
        }
    }
    write_facts(text, facts, settings)?;
    match (report.left(), mendable) {
        (0, _) if report.findings.is_empty() => writeln!(text, "\nNothing is wrong."),
        (0, _) => writeln!(text, "\nAll is mended."),
        (left, 0) => writeln!(text, "\n{left} findings are left."),
        (left, mendable) => {
            writeln!(
                text,
                "\n{left} findings; promkairos doctor --fix can try to mend {mendable} of them."
            )
        }
    }
}

fn write_kind(text: &mut String, kind: Kind, total: &Group, report: &Report) -> fmt::Result {
    write!(text, "\n{kind}: {}", total.found)?;
    if total.fixed > 0 {
        write!(text, ", {} mended", total.fixed)?;
    }
    if total.resisted > 0 {
        write!(text, ", {} could not be: a later write time stands over them", total.resisted)?;
    }
    writeln!(text, "\n  {}", kind.meaning())?;
    match kind.remedy() {
        Some(_) if total.by_hand == total.found => {
            writeln!(text, "  --fix does not mend it: see docs/doctor.md")?;
        }
        Some(remedy) => writeln!(text, "  --fix {remedy}")?,
        None => writeln!(text, "  {}", kind.advice())?,
    }
    let metrics = report.findings.get(&kind).into_iter().flatten();
    let mut metrics: Vec<_> = metrics.collect();
    metrics.sort_by_key(|(_, group)| std::cmp::Reverse(group.found));
    for (metric, group) in metrics.iter().take(MOST_METRICS) {
        if !metric.is_empty() {
            writeln!(text, "  {}: {}", Cut(&ShownMetric(metric).to_string()), group.found)?;
        }
        for example in &group.examples {
            writeln!(text, "    {example}")?;
        }
    }
    let more = metrics.len().saturating_sub(MOST_METRICS);
    if more > 0 {
        writeln!(text, "  and {more} metrics more")?;
    }
    Ok(())
}

fn write_facts(text: &mut String, facts: &Facts, settings: &Settings) -> fmt::Result {
    writeln!(text, "\nFor information")?;
    for note in &facts.notes {
        writeln!(text, "  {note}")?;
    }
    if facts.names_without_data > 0 {
        let names = facts.names_without_data;
        writeln!(text, "  {names} names of metrics without data, which harms nothing")?;
    }
    if facts.rows_left > 0 {
        let rows = facts.rows_left;
        writeln!(
            text,
            "  {rows} rows of the index stay that --fix was to delete: each leaves a tombstone, so it deletes no more \
             than {} of a partition; run it again once these are compacted away",
            settings.most_deleted
        )?;
    }
    for wide in facts.wide.iter() {
        let (rows, partition) = (wide.size, &wide.entry);
        writeln!(text, "  wide partition of {}: {rows} rows: {}", partition.table, partition.key)?;
    }
    for hot in facts.hot.iter() {
        let (cells, Partition { table, key }) = (hot.size, &hot.entry);
        writeln!(text, "  hot partition of {table}: {cells} cells of the last hour: {key}")?;
    }
    for metric in facts.metrics.iter() {
        let (series, counted) = (metric.size, &metric.entry);
        let shown = ShownMetric(&counted.metric).to_string();
        write!(text, "  {}: {series} series in one window", Cut(&shown))?;
        for (at, (name, values)) in counted.tags.iter().take(5).enumerate() {
            let shown = ShownLabel(name).to_string();
            write!(text, "{} {values} {}", if at == 0 { ":" } else { "," }, Cut(&shown))?;
        }
        writeln!(text)?;
    }
    Ok(())
}
