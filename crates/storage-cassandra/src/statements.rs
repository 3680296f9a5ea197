//! Every statement on the data, prepared once.

use scylla::client::session::Session;
use scylla::statement::Consistency;

use crate::cql::prepared::{Prepared, Preparer, there};
use crate::index::statements::{
    LegacyStatements, NameStatements, RowKeyStatements, RowTimeStatements,
};
use crate::index::tag_index::statements::{StateStatements, TagIndexStatements, TagRowStatements};
use crate::metadata::MetadataStatements;
use crate::options::Options;
use crate::points::statements::PointStatements;
use crate::schema::tables::NameColumn;
use promkairos_storage::StoreError;

/// All statements; those on a table that the keyspace lacks are None.
pub(crate) struct Statements {
    pub(crate) points: PointStatements,
    pub(crate) row_keys: RowKeyStatements,
    pub(crate) row_times: RowTimeStatements,
    pub(crate) names: NameStatements,
    pub(crate) legacy: Option<LegacyStatements>,
    pub(crate) metadata: Option<MetadataStatements>,
    pub(crate) tags: TagIndexStatements,
    /// Milliseconds since 1970 by the coordinator's clock.
    pub(crate) clock: Prepared,
    /// The names of the tables of the keyspace.
    pub(crate) tables: Prepared,
}

impl Statements {
    /// Prepares all statements except those on `missing` tables; names are in a column of this type.
    pub(crate) async fn prepare(
        session: &Session,
        options: &Options,
        (missing, names): (&[&str], NameColumn),
    ) -> Result<Self, StoreError> {
        let on = Preparer { session, options };
        let clock = "SELECT toUnixTimestamp(now()) FROM system.local".into();
        let tables = format!(
            "SELECT table_name FROM system_schema.tables WHERE keyspace_name = '{}'",
            options.keyspace
        );
        Ok(Self {
            points: on.points().await?,
            row_keys: on.row_keys().await?,
            row_times: on.row_times().await?,
            names: on.names(names).await?,
            legacy: match missing.contains(&"row_key_index") {
                true => None,
                false => Some(on.legacy().await?),
            },
            metadata: match missing.contains(&"service_index") {
                true => None,
                false => Some(on.metadata().await?),
            },
            tags: on.tag_index(missing).await?,
            clock: on.prepare("clock", clock, Consistency::One).await?,
            tables: on.prepare("tables", tables, Consistency::One).await?,
        })
    }
}

impl Statements {
    pub(crate) fn legacy(&self) -> Result<&LegacyStatements, StoreError> {
        there(&self.legacy, "row_key_index")
    }

    pub(crate) fn metadata(&self) -> Result<&MetadataStatements, StoreError> {
        there(&self.metadata, "service_index")
    }

    pub(crate) fn tag_rows(&self) -> Result<&TagRowStatements, StoreError> {
        there(&self.tags.rows, "tag_indexed_row_keys")
    }

    pub(crate) fn tag_state(&self) -> Result<&StateStatements, StoreError> {
        there(&self.tags.state, "service_index")
    }
}
