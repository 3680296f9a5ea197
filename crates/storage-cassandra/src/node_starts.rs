//! When the nodes of a keyspace were started, so that writes which a killed node had not synced are noticed.
//!
//! A node's `gossip_generation` changes with each start. After a change, this process forgets which index rows
//! exist in Cassandra; they are read or written again. A node that does not answer is ignored: nothing is
//! concluded from its silence here.
//!
//! Not here: how long a write may be lost (`durability`), and whether all copies may be lost (`storage::Since`).

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::join_all;

use crate::cql::durability::Durability;
use crate::cql::each_node::{first_row, nodes};
use crate::index::series_index::SeriesIndex;
use crate::options::Role;
use crate::schema::spec;
use promkairos_storage::{Result, Starts, StoreError, Unsynced};

/// The nodes of an opened keyspace.
pub(crate) struct Nodes {
    pub(crate) index: Arc<SeriesIndex>,
    /// What survives a kill of a node after Cassandra acknowledged a write.
    pub(crate) durability: Durability,
}

#[async_trait]
impl Unsynced for Nodes {
    fn period(&self) -> Duration {
        self.durability.period(self.index.options.keep_unsynced)
    }

    fn copies(&self) -> usize {
        self.durability.copies
    }

    async fn starts(&self) -> Result<Starts> {
        starts(&self.index).await
    }

    async fn start_over(&self) -> Result<()> {
        let (session, options) = (&self.index.cql.executor.session, &self.index.options);
        self.index.forget_all();
        // Without `spec` the next process to open the keyspace would take it for one of an old KairosDB.
        if options.role == Role::Write && spec::stored(session, &options.keyspace).await?.is_none()
        {
            spec::write(session, options, self.index.spec).await?;
        }
        Ok(())
    }
}

impl Nodes {
    /// Forgets which index rows exist when a node was restarted: it may have lost them.
    pub(crate) async fn forget_after_restart(&self, known: &mut Starts) {
        let Ok(now) = starts(&self.index).await else { return };
        let was_started =
            |(node, start): (&String, &i64)| known.get(node).is_some_and(|known| known != start);
        if now.iter().any(was_started) {
            tracing::info!(
                "a node of Cassandra was started again: what it had not synced is looked for again"
            );
            self.index.forget_known_rows();
        }
        known.extend(now);
    }
}

async fn starts(index: &SeriesIndex) -> Result<Starts> {
    const CQL: &str = "SELECT gossip_generation FROM system.local WHERE key = 'local'";
    let session = &index.cql.executor.session;
    let asked = nodes(session, &index.options).into_iter().map(|node| async move {
        let row: Option<(Option<i32>,)> = first_row(session, &node, CQL).await.ok()?;
        Some((node.host_id.to_string(), i64::from(row?.0?)))
    });
    let starts: Starts = join_all(asked).await.into_iter().flatten().collect();
    if starts.is_empty() {
        return Err(StoreError::unavailable("no node of Cassandra says when it was started"));
    }
    Ok(starts)
}
