//! The table `spec`: how a keyspace cuts time into rows.
//!
//! It is two rows, and KairosDB writes one after the other: half of it is somebody's write under way, and
//! is never taken for the whole before that had time to end. Ours are one batch, which nobody sees half.
//! It is written only where there is no data; data without it is an old, `LEGACY` keyspace.

use std::time::Duration;

use scylla::client::session::Session;
use scylla::statement::batch::{Batch, BatchType};

use super::executor::unreadable;
use super::options::{Keyspace, Options};
use super::schema::{failed, rows};
use super::stamp::now_ms;
use crate::kairos::RowSpec;
use crate::storage::StoreError;

/// How long the other half is waited for, between one look and the next.
const PAUSES: [Duration; 5] = [
    Duration::from_millis(50),
    Duration::from_millis(150),
    Duration::from_millis(300),
    Duration::from_millis(500),
    Duration::from_secs(1),
];

/// What stands in the table.
#[derive(Default)]
struct Stored {
    unit: Option<String>,
    width: Option<String>,
}

impl Stored {
    async fn look(session: &Session, keyspace: &Keyspace) -> Result<Self, StoreError> {
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

    /// Both halves or none, or the one that stayed alone.
    async fn settled(session: &Session, keyspace: &Keyspace) -> Result<Self, StoreError> {
        for pause in PAUSES {
            let stored = Self::look(session, keyspace).await?;
            if stored.unit.is_some() == stored.width.is_some() {
                return Ok(stored);
            }
            tokio::time::sleep(pause).await;
        }
        Self::look(session, keyspace).await
    }

    /// Its halves, and `otherwise` for what is missing.
    fn or(&self, otherwise: RowSpec, keyspace: &Keyspace) -> Result<RowSpec, StoreError> {
        let unit = self.unit.as_deref().unwrap_or(otherwise.unit().as_str());
        let width = self.width.clone().unwrap_or_else(|| otherwise.width().to_string());
        RowSpec::parse(unit, &width)
            .map_err(|error| StoreError::Invalid(format!("keyspace {keyspace}: {error}")))
    }
}

/// What `spec` says, with KairosDB's defaults for a half that is missing; none when there is nothing in it.
pub(super) async fn stored(
    session: &Session,
    keyspace: &Keyspace,
) -> Result<Option<RowSpec>, StoreError> {
    match Stored::settled(session, keyspace).await? {
        Stored { unit: None, width: None } => Ok(None),
        stored => stored.or(RowSpec::LEGACY, keyspace).map(Some),
    }
}

/// What `spec` says; where it does not say all and there is no data, it is written first.
pub(super) async fn settle(session: &Session, options: &Options) -> Result<RowSpec, StoreError> {
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
    // Another program may have written its own at the same moment: what stands there counts.
    Ok(self::stored(session, keyspace).await?.unwrap_or(wanted))
}

/// Writes both halves at once.
pub(super) async fn write(
    session: &Session,
    options: &Options,
    spec: RowSpec,
) -> Result<(), StoreError> {
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

/// What a keyspace without the whole of `spec` is when there is data; none when there is none.
pub(super) async fn of_data(
    session: &Session,
    keyspace: &Keyspace,
    missing: &[&str],
) -> Result<Option<RowSpec>, StoreError> {
    let tables = ["string_index", "row_keys", "row_key_index", "data_points"];
    for table in tables.into_iter().filter(|table| !missing.contains(table)) {
        let column = if table == "row_keys" { "data_type" } else { "column1" };
        let cql = format!("SELECT {column} FROM {} LIMIT 1", keyspace.table(table));
        let result = session.query_unpaged(cql.as_str(), ()).await.map_err(|e| failed(&cql, e))?;
        let rows = result.into_rows_result().map_err(|e| unreadable("a look for data", e))?;
        if rows.rows_num() == 0 {
            continue;
        }
        // The data may be of one who wrote `spec` first, after we had looked.
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
