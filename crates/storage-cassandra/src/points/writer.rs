//! Writes: index rows first, then data, then the answer.
//!
//! Rows are sent in unlogged batches of partitions that share their replicas, so that each batch is
//! handled where its data lives. Rows that Cassandra refuses for good are found one by one. Any
//! other error fails the whole write, and the caller may repeat it.

use std::collections::{HashMap, HashSet};

use futures::FutureExt;
use tracing::{Instrument, info_span};

use crate::cql::concurrent::all;
use crate::cql::executor::Deadline;
use crate::cql::failure::Failure;
use crate::cql::prepared::{MAX_BATCH_PARTITIONS, MAX_BATCH_ROWS};
use crate::cql::replicas::Replicas;
use crate::cql::stamp::{now_ms, pause};
use crate::lifetime::ttl_left;
use crate::points::late_write_tracker::LateWrites;
use crate::points::plan::planner::plan_batch;
use crate::points::plan::{Plan, PlannedRow, RefusedSeries};
use crate::shared::Shared;
use promkairos_kairos::index::MetadataRow;
use promkairos_model::{Metadata, WriteBatch, WriteOutcome};
use promkairos_storage::StoreError;

/// Families of metadata written at the same time.
const FAMILIES_AT_ONCE: usize = 64;
/// The most bytes of keys and values in a batch for one partition.
const MAX_BATCH_BYTES: usize = 512 << 10;
/// The most for several partitions: Cassandra refuses such batches above 50 KiB by default.
const MAX_SHARED_BATCH_BYTES: usize = 40 << 10;

/// One row as it is bound: key, column1, value, stamp, ttl.
type Bound<'a> = (&'a [u8], &'a [u8], &'a [u8], i64, i32);

/// Rows for one batch, and the partition of each.
#[derive(Default)]
struct Parcel<'a> {
    rows: Vec<Bound<'a>>,
    planned: Vec<&'a PlannedRow>,
    partitions: usize,
    bytes: usize,
}

/// A row that Cassandra will never accept.
pub(crate) struct RefusedRow<'a> {
    pub(crate) row: Bound<'a>,
    pub(crate) planned: &'a PlannedRow,
    pub(crate) why: String,
}

impl Shared {
    /// [`Store::write`](promkairos_storage::Store::write)
    pub(crate) async fn write(&self, batch: WriteBatch<'_>) -> Result<WriteOutcome, StoreError> {
        self.skew.check()?;
        let mut outcome = WriteOutcome::default();
        let mut plan = plan_batch(&batch, self.spec, &mut outcome);
        let _gate = self.begin_write().await?;
        let deadline = self.executor.deadline();
        let ttls = self.lifetimes().of_series(&plan);
        let refused = self.ensure_index(&plan, &ttls, deadline);
        let mut refused = refused.instrument(info_span!("index")).await?;
        // Stamped last, so that a wait for the index does not make the data look old.
        let (stamp, wait) = self.stamps.for_write(now_ms(), &plan.identities);
        plan.stamp(stamp);
        pause(wait).await;
        let mut late = LateWrites::default();
        self.begin_late_writes(&mut late, &plan, deadline).await?;
        let rows = self.write_rows(&plan, &ttls, &refused, deadline);
        let rows = rows.instrument(info_span!("rows")).await;
        let raised = self.end_late_writes(late).await;
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
    ) -> Result<u64, StoreError> {
        let mut last: HashMap<&str, Metadata> = HashMap::new();
        for entry in &batch.metadata {
            let (help, unit) = (entry.help.into(), entry.unit.into());
            last.insert(entry.family, Metadata { kind: entry.kind, help, unit });
        }
        let rows = last.into_iter();
        let rows = rows.map(|(family, metadata)| MetadataRow { family: family.into(), metadata });
        let refused = self.write_metadata(rows.collect(), deadline).await?;
        let refused: HashSet<&str> = refused.iter().map(|family| &**family).collect();
        let entries = batch.metadata.iter();
        Ok(entries.filter(|entry| !refused.contains(entry.family)).count() as u64)
    }

    /// Writes metadata; each family occurs once. Returns the families that Cassandra refuses for good.
    pub(crate) async fn write_metadata(
        &self,
        rows: Vec<MetadataRow>,
        deadline: Deadline,
    ) -> Result<Vec<Box<str>>, StoreError> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let family =
            |row: &MetadataRow| crate::identity::Identity::of(&[b"", row.family.as_bytes()]);
        let families: Vec<_> = rows.iter().map(family).collect();
        let (stamp, wait) = self.stamps.for_write(now_ms(), &families);
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
    ) -> Result<Option<Box<str>>, StoreError> {
        let (service, service_key) = (MetadataRow::SERVICE, MetadataRow::SERVICE_KEY);
        let values = (service, service_key, &*row.family, row.value(), stamp);
        match self.executor.run(&self.statements.metadata()?.insert, values, deadline).await {
            Ok(_) => Ok(None),
            Err(Failure::Refused(why)) => {
                tracing::warn!(family = %row.family, %why, "metadata was refused");
                Ok(Some(row.family.clone()))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Writes the rows of a plan, except for series in `without`; `ttls` has the TTL of each series. Returns
    /// the rows that Cassandra refuses for good. The caller raises the epochs for read caches: see `late`.
    pub(crate) async fn write_rows<'a>(
        &self,
        plan: &'a Plan,
        ttls: &[u32],
        without: &RefusedSeries,
        deadline: Deadline,
    ) -> Result<Vec<RefusedRow<'a>>, StoreError> {
        let parcels = self.parcels(plan, ttls, without);
        let send = move |parcel| self.send(parcel, deadline).boxed();
        // The executor limits how many of them are in flight.
        let parcels = Box::new(parcels.into_iter().map(send));
        let refused = all(self.options.in_flight.max(1), parcels).await?;
        self.executor.metrics.floored.inc_by(plan.floored);
        self.spacings.written(plan, self.spec);
        Ok(refused.into_iter().flatten().collect())
    }

    async fn send<'a>(
        &self,
        parcel: Parcel<'a>,
        deadline: Deadline,
    ) -> Result<Vec<RefusedRow<'a>>, StoreError> {
        let insert = &self.statements.points.insert;
        let refused = self.executor.insert(insert, &parcel.rows, deadline).await;
        // A failed write may be stored too.
        parcel.rows.iter().for_each(|(key, ..)| self.dead_cells.written(key));
        let refused = refused?;
        let written = parcel.rows.len() - refused.len();
        self.executor.metrics.rows_written.inc_by(written as u64);
        let refused = refused.into_iter().map(|(at, why)| {
            let (row, planned) = (parcel.rows[at], parcel.planned[at]);
            RefusedRow { row, planned, why }
        });
        Ok(refused.collect())
    }

    /// Cuts the rows of a plan into batches.
    fn parcels<'a>(
        &self,
        plan: &'a Plan,
        ttls: &[u32],
        without: &RefusedSeries,
    ) -> Vec<Parcel<'a>> {
        let replicas = Replicas::new(&self.executor.session, &self.options.keyspace);
        let mut open: HashMap<u64, Parcel<'a>> = HashMap::new();
        let mut done = Vec::new();
        let now = now_ms();
        for row in plan.rows.iter().filter(|row| !without.contains_key(&row.series)) {
            let key = plan.key(row);
            let parcel = open.entry(replicas.of_blob("data_points", key)).or_default();
            let age = (now, ttls[row.series as usize]);
            pack(plan, row, age, parcel, &mut done);
            if parcel.partitions >= MAX_BATCH_PARTITIONS {
                done.push(std::mem::take(parcel));
            }
        }
        done.extend(open.into_values());
        done.retain(|parcel| !parcel.rows.is_empty());
        done
    }
}

/// Adds the cells of one partition to `parcel`; a full parcel goes to `done`. The pair is the
/// current time and the TTL of the metric.
fn pack<'a>(
    plan: &'a Plan,
    row: &'a PlannedRow,
    (now, ttl): (i64, u32),
    parcel: &mut Parcel<'a>,
    done: &mut Vec<Parcel<'a>>,
) {
    let key = plan.key(row);
    parcel.partitions += 1;
    for cell in &plan.cells[row.cells.clone()] {
        let Some(ttl) = ttl_left(ttl, now, cell.stamp) else { continue };
        let bytes = key.len() + cell.value().len();
        let room = match parcel.partitions {
            0 | 1 => MAX_BATCH_BYTES,
            _ => MAX_SHARED_BATCH_BYTES,
        };
        if parcel.rows.len() >= MAX_BATCH_ROWS || parcel.bytes + bytes > room {
            done.push(std::mem::take(parcel));
            parcel.partitions = 1;
        }
        parcel.bytes += bytes;
        parcel.rows.push((key, cell.column(), cell.value(), cell.stamp, ttl));
        parcel.planned.push(row);
    }
}
