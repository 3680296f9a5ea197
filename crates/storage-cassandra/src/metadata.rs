//! Metadata of metric families, kept in `service_index`.
//!
//! Version 0.1 took each name of a series from remote write 2.0 for a family. Such rows remain, and are read as rows
//! of the family.

use std::sync::Arc;

use futures::FutureExt;

use crate::cql::concurrent::all;
use crate::cql::connection::Cql;
use crate::cql::executor::Deadline;
use crate::cql::failure::Failure;
use crate::cql::prepared::{Prepared, Preparer, STAMPED, there, unless_missing};
use crate::cql::stamp::{now_ms, pause};
use crate::identity::Identity;
use promkairos_kairos::index::MetadataRow;
use promkairos_model::{Metadata, with_parts_joined};
use promkairos_storage::Result;

/// Families of metadata written at the same time.
const FAMILIES_AT_ONCE: usize = 64;

/// On `service_index`; all begin with service, service key.
struct MetadataStatements {
    /// then key, value, stamp
    insert: Prepared,
    /// then key
    select: Prepared,
    select_all: Prepared,
}

impl Preparer<'_> {
    async fn metadata(&self) -> Result<MetadataStatements> {
        let table = self.table("service_index");
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

/// The metadata of a keyspace.
pub(crate) struct MetadataStore {
    cql: Arc<Cql>,
    /// None where the table is missing.
    statements: Option<MetadataStatements>,
}

impl MetadataStore {
    /// The metadata, without statements where the table is `missing`.
    pub(crate) async fn prepare(
        cql: &Arc<Cql>,
        on: &Preparer<'_>,
        missing: &[&str],
    ) -> Result<Self> {
        let statements = unless_missing(missing, "service_index", on.metadata()).await?;
        Ok(Self { cql: Arc::clone(cql), statements })
    }

    /// Writes metadata; each family occurs once. Returns the families that Cassandra refuses for good.
    pub(crate) async fn write(
        &self,
        rows: Vec<MetadataRow>,
        deadline: Deadline,
    ) -> Result<Vec<Box<str>>> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let family = |row: &MetadataRow| Identity::of(&[b"", row.family.as_bytes()]);
        let families: Vec<_> = rows.iter().map(family).collect();
        let (stamp, wait) = self.cql.stamps.for_write(now_ms(), &families);
        pause(wait).await;
        let write = |row| self.write_family(row, stamp, deadline).boxed();
        let refused = all(FAMILIES_AT_ONCE, Box::new(rows.iter().map(write))).await?;
        Ok(refused.into_iter().flatten().collect())
    }

    /// Returns the family if Cassandra refuses it for good.
    async fn write_family(
        &self,
        row: &MetadataRow,
        stamp: i64,
        deadline: Deadline,
    ) -> Result<Option<Box<str>>> {
        let (service, service_key) = (MetadataRow::SERVICE, MetadataRow::SERVICE_KEY);
        let values = (service, service_key, &*row.family, row.value(), stamp);
        let insert = &there(&self.statements, "service_index")?.insert;
        match self.cql.executor.run(insert, values, deadline).await {
            Ok(_) => Ok(None),
            Err(Failure::Refused(why)) => {
                tracing::warn!(family = %row.family, %why, "metadata was refused");
                Ok(Some(row.family.clone()))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// [`Store::metadata`](promkairos_storage::Store::metadata)
    pub(crate) async fn read(
        &self,
        family: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, Metadata)>> {
        let (service, service_key) = (MetadataRow::SERVICE, MetadataRow::SERVICE_KEY);
        let Some(statements) = &self.statements else { return Ok(Vec::new()) };
        let Some(family) = family else {
            let values = (service, service_key);
            let all = self.read_rows(&statements.select_all, values, limit).await?;
            return Ok(with_parts_joined(all.into_iter().collect()).into_iter().collect());
        };
        for part in ["", "_bucket", "_sum"] {
            let name = format!("{family}{part}");
            let values = (service, service_key, name.as_str());
            let found = self.read_rows(&statements.select, values, limit).await?;
            let mut found = with_parts_joined(found.into_iter().collect());
            if let Some(metadata) = found.remove(family) {
                return Ok(vec![(family.to_owned(), metadata)]);
            }
        }
        Ok(Vec::new())
    }

    async fn read_rows(
        &self,
        select: &Prepared,
        values: impl scylla::serialize::row::SerializeRow,
        limit: usize,
    ) -> Result<Vec<(String, Metadata)>> {
        let (mut all, mut pages) = (Vec::new(), self.cql.pages(select, values));
        'pages: while let Some(page) = pages.next().await? {
            for row in page.iter::<(&str, Option<&str>)>()? {
                // Rows are sorted by the name of the family.
                if all.len() >= limit {
                    break 'pages;
                }
                let (family, value) = row?;
                match MetadataRow::decode(family, value.unwrap_or_default()) {
                    Ok(row) => all.push((family.to_owned(), row.metadata)),
                    Err(error) => {
                        tracing::warn!(family, %error, "metadata cannot be read");
                        self.cql.executor.skip("metadata", || family);
                    }
                }
            }
        }
        all.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(all)
    }
}
