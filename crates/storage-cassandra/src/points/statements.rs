//! The statements on `data_points`.

use crate::cql::prepared::{Batches, Prepared, Preparer, STAMPED, STAMPED_TTL};
use promkairos_storage::Result;

/// On `data_points`.
pub(crate) struct PointStatements {
    /// key, column1, value, stamp, ttl
    pub(crate) insert: Batches,
    /// key, first column, column after the last
    pub(crate) select: Prepared,
    /// like `select`, with the TTL of each cell
    pub(crate) select_lasting: Prepared,
    /// key, column1
    pub(crate) write_time: Prepared,
    /// key; one cell, if there is any
    pub(crate) any: Prepared,
    /// stamp, key, first column, column after the last
    pub(crate) delete: Prepared,
    /// stamp, keys
    pub(crate) delete_rows: Prepared,
    /// keys; returns those that have any cell
    pub(crate) standing: Prepared,
}

impl Preparer<'_> {
    /// Prepares the statements on points.
    pub(crate) async fn points(&self) -> Result<PointStatements> {
        let table = self.table("data_points");
        let slice = "key = ? AND column1 >= ? AND column1 < ?";
        let columns = "(key, column1, value) VALUES (?, ?, ?)";
        let insert =
            self.write("insert_point", format!("INSERT INTO {table} {columns} {STAMPED_TTL}"));
        let insert = insert.await?.of_points();
        let select = format!("SELECT column1, value FROM {table} WHERE {slice}");
        let lasting = format!("SELECT column1, value, TTL(value) FROM {table} WHERE {slice}");
        let write_time =
            format!("SELECT WRITETIME(value) FROM {table} WHERE key = ? AND column1 = ?");
        let delete = format!("DELETE FROM {table} {STAMPED} WHERE {slice}");
        let any = format!("SELECT column1 FROM {table} WHERE key = ? LIMIT 1");
        let delete_rows = format!("DELETE FROM {table} {STAMPED} WHERE key IN ?");
        let standing = format!("SELECT DISTINCT key FROM {table} WHERE key IN ?");
        Ok(PointStatements {
            insert: Batches::new(insert),
            select: self.read("select_points", select).await?,
            select_lasting: self.read("select_lasting_points", lasting).await?,
            write_time: self.read("select_write_time", write_time).await?,
            any: self.read("any_point", any).await?,
            delete: self.write("delete_points", delete).await?,
            delete_rows: self.write("delete_rows", delete_rows).await?,
            standing: self.read("standing_rows", standing).await?,
        })
    }
}
