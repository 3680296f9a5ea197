//! The first stage: tables, their settings, and `spec`. Small reads of system tables.

use std::collections::{BTreeMap, BTreeSet};

use crate::cql::durability::Durability;
use crate::cql::once;
use crate::doctor::check::Doctor;
use crate::doctor::judge_settings::{judge_compaction, judge_spec};
use crate::doctor::part::Part;
use promkairos_storage::Result;

/// Table, compaction options, flags.
type TableRow = (String, Option<BTreeMap<String, String>>, Option<BTreeSet<String>>);

impl Doctor {
    pub(super) async fn check_keyspace(&self) -> Result<Part> {
        let mut part = Part::default();
        for table in &self.missing {
            let note = format!("table {table} is not there; this KairosDB is an old one");
            part.report.facts.notes.push(note);
        }
        let cql = "SELECT table_name, compaction, flags FROM system_schema.tables \
                   WHERE keyspace_name = ?";
        let keyspace = self.options.keyspace.as_str();
        let tables: Vec<TableRow> =
            once::rows(&self.cql.executor.session, cql, (keyspace,)).await?;
        for (table, compaction, flags) in tables.iter().filter(|(table, ..)| is_kairosdb(table)) {
            let flags = flags.clone().unwrap_or_default();
            if !flags.contains("compound") || flags.contains("dense") {
                let note = format!("{table} is WITH COMPACT STORAGE, as KairosDB creates it");
                part.report.facts.notes.push(note);
            }
            let options: Vec<(String, String)> =
                compaction.clone().unwrap_or_default().into_iter().collect();
            if let Some(finding) = judge_compaction(table, &options) {
                self.settle(finding, &mut part).await?;
            }
        }
        if let Some(risk) = Durability::ask(&self.cql.executor.session, &self.options).await.risk()
        {
            part.report.facts.notes.push(risk.to_string());
        }
        if self.stored_spec.is_none() {
            let sample = self.rows_if_read(&self.statements.data.sample, ()).await?;
            if sample.is_none() {
                let note =
                    "spec is not there, and Cassandra gives up on reading a sample of data_points";
                part.report.facts.notes.push(note.into());
            }
            if let Some(finding) = judge_spec(&sample.unwrap_or_default()) {
                self.settle(finding, &mut part).await?;
            }
        }
        Ok(part)
    }
}

fn is_kairosdb(table: &str) -> bool {
    const TABLES: [&str; 6] = [
        "data_points",
        "row_key_index",
        "row_key_time_index",
        "row_keys",
        "string_index",
        "tag_indexed_row_keys",
    ];
    TABLES.contains(&table)
}
