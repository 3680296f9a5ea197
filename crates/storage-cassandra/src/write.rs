//! Writes a batch: index rows first, then data, then the answer. Rows that Cassandra refuses for good are found one by
//! one. Any other error fails the whole write, and the caller may repeat it.

use std::collections::{HashMap, HashSet};

use tracing::{Instrument, info_span};

use crate::cql::executor::Deadline;
use crate::cql::stamp::{now_ms, pause};
use crate::plan::planner::plan_batch;
use crate::points::late_write_tracker::LateWrites;
use crate::store::CassandraStore;
use promkairos_kairos::index::MetadataRow;
use promkairos_model::{Metadata, WriteBatch, WriteOutcome};
use promkairos_storage::Result;

impl CassandraStore {
    /// [`Store::write`](promkairos_storage::Store::write): ensure, then put.
    pub(crate) async fn write_batch(&self, batch: WriteBatch<'_>) -> Result<WriteOutcome> {
        self.cql.skew.check()?;
        let mut outcome = WriteOutcome::default();
        let mut plan = plan_batch(&batch, self.index.spec, &mut outcome);
        let _gate = self.index.begin_write().await?;
        let deadline = self.cql.executor.deadline();
        let ttls = self.index.lifetimes().of_series(&plan);
        let refused = self.index.ensure(&plan, &ttls, deadline);
        let mut refused = refused.instrument(info_span!("index")).await?;
        // Stamped last, so that a wait for the index does not make the data look old.
        let (stamp, wait) = self.cql.stamps.for_write(now_ms(), &plan.identities);
        plan.stamp(stamp);
        pause(wait).await;
        let mut late = LateWrites::default();
        self.epochs.begin_late_writes(&mut late, &plan, deadline).await?;
        let rows = self.points.put(&plan, &ttls, &refused, deadline);
        let rows = rows.instrument(info_span!("rows")).await;
        let raised = self.epochs.end_late_writes(late).await;
        for row in rows? {
            refused.insert(row.planned.series, row.why);
        }
        raised?;
        plan.account(&refused, &mut outcome);
        outcome.metadata = self.write_batch_metadata(&batch, deadline).await?;
        outcome.rejections.extend(batch.rejections);
        Ok(outcome)
    }

    async fn write_batch_metadata(
        &self,
        batch: &WriteBatch<'_>,
        deadline: Deadline,
    ) -> Result<u64> {
        let mut last: HashMap<&str, Metadata> = HashMap::new();
        for entry in &batch.metadata {
            let (help, unit) = (entry.help.into(), entry.unit.into());
            last.insert(entry.family, Metadata { kind: entry.kind, help, unit });
        }
        let rows = last.into_iter();
        let rows = rows.map(|(family, metadata)| MetadataRow { family: family.into(), metadata });
        let refused = self.metadata.write(rows.collect(), deadline).await?;
        let refused: HashSet<&str> = refused.iter().map(|family| &**family).collect();
        let entries = batch.metadata.iter();
        Ok(entries.filter(|entry| !refused.contains(entry.family)).count() as u64)
    }
}
