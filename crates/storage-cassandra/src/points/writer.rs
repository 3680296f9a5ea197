//! Writes the rows of a plan to `data_points`.
//!
//! Rows are sent in unlogged batches of partitions that share their replicas, so that each batch is
//! handled where its data lives. Rows that Cassandra refuses for good are found one by one. Any
//! other error fails the whole write, and the caller may repeat it.

use std::collections::HashMap;

use futures::FutureExt;

use crate::cql::concurrent::all;
use crate::cql::executor::Deadline;
use crate::cql::prepared::{MAX_BATCH_PARTITIONS, MAX_BATCH_ROWS};
use crate::cql::replicas::Replicas;
use crate::cql::stamp::now_ms;
use crate::lifetime::ttl_left;
use crate::plan::{Plan, PlannedRow, RefusedSeries};
use crate::points::point_store::PointStore;
use promkairos_storage::Result;

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

impl PointStore {
    /// Writes the rows of a plan, except for series in `without`; `ttls` has the TTL of each series. Returns
    /// the rows that Cassandra refuses for good. The caller raises the epochs for read caches.
    pub(crate) async fn put<'a>(
        &self,
        plan: &'a Plan,
        ttls: &[u32],
        without: &RefusedSeries,
        deadline: Deadline,
    ) -> Result<Vec<RefusedRow<'a>>> {
        let parcels = self.parcels(plan, ttls, without);
        let send = move |parcel| self.send(parcel, deadline).boxed();
        // The executor limits how many of them are in flight.
        let parcels = Box::new(parcels.into_iter().map(send));
        let refused = all(self.in_flight, parcels).await?;
        self.cql.executor.metrics.floored.inc_by(plan.floored);
        self.spacings.written(plan, self.spec);
        Ok(refused.into_iter().flatten().collect())
    }

    async fn send<'a>(
        &self,
        parcel: Parcel<'a>,
        deadline: Deadline,
    ) -> Result<Vec<RefusedRow<'a>>> {
        let insert = &self.statements.insert;
        let refused = self.cql.executor.insert(insert, &parcel.rows, deadline).await;
        // A failed write may be stored too.
        parcel.rows.iter().for_each(|(key, ..)| self.dead_cells.written(key));
        let refused = refused?;
        let written = parcel.rows.len() - refused.len();
        self.cql.executor.metrics.rows_written.inc_by(written as u64);
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
        let replicas = Replicas::new(&self.cql.executor.session, &self.cql.keyspace);
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
