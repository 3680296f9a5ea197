//! The table `spec`: how a keyspace cuts time into rows.
//!
//! `spec` has two rows, and KairosDB writes them one after the other. A single row belongs to a write in progress,
//! and is not taken as complete before that write had time to finish. Ours are one batch, which is never seen in
//! part. `spec` is written only where there is no data; data without it is an old, `LEGACY` keyspace.

use std::time::Duration;

use scylla::client::session::Session;
use scylla::statement::batch::{Batch, BatchType};

use crate::cql::once::{failed, rows};
use crate::cql::rows::Rows;
use crate::cql::stamp::now_ms;
use crate::options::{Keyspace, Options};
use promkairos_kairos::RowSpec;
use promkairos_storage::{Result, StoreError};

/// The pauses between looks for the other row.
const PAUSES: [Duration; 5] = [
    Duration::from_millis(50),
    Duration::from_millis(150),
    Duration::from_millis(300),
    Duration::from_millis(500),
    Duration::from_secs(1),
];

/// The content of the table.
#[derive(Default)]
struct Stored {
    unit: Option<String>,
    width: Option<String>,
}

impl Stored {
    async fn look(session: &Session, keyspace: &Keyspace) -> Result<Self> {
        let cql = format!(
            "SELECT name, value FROM {} WHERE spec_type = 'cluster_config'",
            keyspace.table("spec")
        );
        let mut stored = Self::default();
        for (name, value) in rows::<(String, Option<String>)>(session, &cql, ()).await? {
            match name.as_str() {
                "row_time_unit" => stored.unit = value,
                "row_width" => stored.width = value,
                _ => {}
            }
        }
        Ok(stored)
    }

    /// Both values or none, or one whose other half did not follow.
    async fn settled(session: &Session, keyspace: &Keyspace) -> Result<Self> {
        for pause in PAUSES {
            let stored = Self::look(session, keyspace).await?;
            if stored.unit.is_some() == stored.width.is_some() {
                return Ok(stored);
            }
            tokio::time::sleep(pause).await;
        }
        Self::look(session, keyspace).await
    }

    /// The stored values, with `otherwise` for missing ones.
    fn or(&self, otherwise: RowSpec, keyspace: &Keyspace) -> Result<RowSpec> {
        let unit = self.unit.as_deref().unwrap_or(otherwise.unit().as_str());
        let width = self.width.clone().unwrap_or_else(|| otherwise.width().to_string());
        RowSpec::parse(unit, &width)
            .map_err(|error| StoreError::Invalid(format!("keyspace {keyspace}: {error}")))
    }
}

/// The stored `spec`, with KairosDB's defaults for one missing value; None when it is empty.
pub(crate) async fn stored(session: &Session, keyspace: &Keyspace) -> Result<Option<RowSpec>> {
    match Stored::settled(session, keyspace).await? {
        Stored { unit: None, width: None } => Ok(None),
        stored => stored.or(RowSpec::LEGACY, keyspace).map(Some),
    }
}

/// The stored `spec`; where it is incomplete and there is no data, it is written first.
pub(crate) async fn settle(session: &Session, options: &Options) -> Result<RowSpec> {
    let keyspace = &options.keyspace;
    let stored = Stored::settled(session, keyspace).await?;
    if stored.unit.is_some() && stored.width.is_some() {
        return stored.or(RowSpec::LEGACY, keyspace);
    }
    if let Some(found) = of_data(session, keyspace, &[]).await? {
        return Ok(found);
    }
    let wanted = stored.or(options.row_spec, keyspace)?;
    write(session, options, wanted).await?;
    // Another program may have written its own at the same time: the stored one counts.
    Ok(self::stored(session, keyspace).await?.unwrap_or(wanted))
}

/// Writes both values at once.
pub(crate) async fn write(session: &Session, options: &Options, spec: RowSpec) -> Result<()> {
    let cql = format!(
        "INSERT INTO {} (spec_type, name, value) VALUES ('cluster_config', ?, ?)",
        options.keyspace.table("spec")
    );
    let mut batch = Batch::new(BatchType::Unlogged);
    batch.append_statement(cql.as_str());
    batch.append_statement(cql.as_str());
    batch.set_consistency(options.write_consistency);
    batch.set_timestamp(Some(now_ms()));
    let (unit, width) = (spec.unit().as_str(), spec.width().to_string());
    let values = (("row_time_unit", unit), ("row_width", width.as_str()));
    let written = session.batch(&batch, values).await;
    written.map(drop).map_err(|error| failed("the write of spec", error))
}

/// The row spec of a keyspace without a complete `spec`, if it has data; None if it has none.
pub(crate) async fn of_data(
    session: &Session,
    keyspace: &Keyspace,
    missing: &[&str],
) -> Result<Option<RowSpec>> {
    let tables = ["string_index", "row_keys", "row_key_index", "data_points"];
    for table in tables.into_iter().filter(|table| !missing.contains(table)) {
        let column = if table == "row_keys" { "data_type" } else { "column1" };
        let cql = format!("SELECT {column} FROM {} LIMIT 1", keyspace.table(table));
        let result = session.query_unpaged(cql.as_str(), ()).await.map_err(|e| failed(&cql, e))?;
        if Rows::of("a look for data", result)?.is_empty() {
            continue;
        }
        // The data may come from a program that wrote `spec` first, after it was read here.
        if !missing.contains(&"spec")
            && let Some(spec) = stored(session, keyspace).await?
        {
            return Ok(Some(spec));
        }
        tracing::warn!(%keyspace, "no spec but data: taken as LEGACY, and left as it is");
        return Ok(Some(RowSpec::LEGACY));
    }
    Ok(None)
}
