//! Metadata of metric families, kept in `service_index`.
//!
//! Version 0.1 took each name of a series from remote write 2.0 for a family. Such rows remain, and are read as rows
//! of the family.

use std::ops::ControlFlow;

use crate::cql::failure::unreadable;
use crate::cql::prepared::{Prepared, Preparer, STAMPED};
use crate::shared::Shared;
use promkairos_kairos::index::MetadataRow;
use promkairos_model::{Metadata, with_parts_joined};
use promkairos_storage::StoreError;

/// On `service_index`; all begin with service, service key.
pub(crate) struct MetadataStatements {
    /// then key, value, stamp
    pub(crate) insert: Prepared,
    /// then key
    pub(crate) select: Prepared,
    pub(crate) select_all: Prepared,
}

impl Preparer<'_> {
    pub(crate) async fn metadata(&self) -> Result<MetadataStatements, StoreError> {
        let table = self.options.keyspace.table("service_index");
        let insert = format!(
            "INSERT INTO {table} (service, service_key, key, mtime, value) \
             VALUES (?, ?, ?, now(), ?) {STAMPED}"
        );
        let all = format!("SELECT key, value FROM {table} WHERE service = ? AND service_key = ?");
        let select = format!("{all} AND key = ?");
        Ok(MetadataStatements {
            insert: self.write("insert_metadata", insert).await?,
            select: self.read("select_metadata", select).await?,
            select_all: self.read("select_all_metadata", all).await?,
        })
    }
}

impl Shared {
    /// [`Store::metadata`](promkairos_storage::Store::metadata)
    pub(crate) async fn metadata(
        &self,
        family: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, Metadata)>, StoreError> {
        let (service, service_key) = (MetadataRow::SERVICE, MetadataRow::SERVICE_KEY);
        let Some(statements) = &self.statements.metadata else { return Ok(Vec::new()) };
        let Some(family) = family else {
            let values = (service, service_key);
            let all = self.metadata_rows(&statements.select_all, values, limit).await?;
            return Ok(with_parts_joined(all.into_iter().collect()).into_iter().collect());
        };
        for part in ["", "_bucket", "_sum"] {
            let name = format!("{family}{part}");
            let values = (service, service_key, name.as_str());
            let found = self.metadata_rows(&statements.select, values, limit).await?;
            let mut found = with_parts_joined(found.into_iter().collect());
            if let Some(metadata) = found.remove(family) {
                return Ok(vec![(family.to_owned(), metadata)]);
            }
        }
        Ok(Vec::new())
    }

    async fn metadata_rows(
        &self,
        select: &Prepared,
        values: impl scylla::serialize::row::SerializeRow,
        limit: usize,
    ) -> Result<Vec<(String, Metadata)>, StoreError> {
        let mut all = Vec::new();
        self.executor
            .pages(select, values, |page| {
                type Row<'f> = (&'f str, Option<&'f str>);
                for row in page.rows::<Row<'_>>().map_err(|e| unreadable(select.name, e))? {
                    // Rows are sorted by the name of the family.
                    if all.len() >= limit {
                        return Ok(ControlFlow::Break(()));
                    }
                    let (family, value) = row.map_err(|e| unreadable(select.name, e))?;
                    match MetadataRow::decode(family, value.unwrap_or_default()) {
                        Ok(row) => all.push((family.to_owned(), row.metadata)),
                        Err(error) => {
                            tracing::warn!(family, %error, "metadata cannot be read");
                            self.executor.skip("metadata", || family);
                        }
                    }
                }
                Ok(ControlFlow::Continue(()))
            })
            .await?;
        all.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(all)
    }
}
