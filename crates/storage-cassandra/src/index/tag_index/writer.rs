//! Writes rows of `tag_indexed_row_keys`, before those of `row_keys`: a reader that finds a row
//! there may rely on its tag rows.
//!
//! A row of `row_keys` has one row here for each indexed tag, each in a partition of its own. The
//! rows are sent in batches of partitions that share their replicas.

use std::collections::BTreeMap;

use futures::FutureExt;
use scylla::statement::prepared::PreparedStatement;

use crate::cql::concurrent::all;
use crate::cql::executor::Deadline;
use crate::cql::prepared::MAX_BATCH_PARTITIONS;
use crate::cql::replicas::Replicas;
use crate::cql::stamp::now_ms;
use crate::index::series_index::SeriesIndex;
use crate::index::window::WindowKey;
use crate::plan::RefusedSeries;
use promkairos_kairos::index::{IndexedTags, TagIndexRow};
use promkairos_kairos::{DataType, RowKey, Tags};
use promkairos_storage::Result;

/// Batches at the same time.
const BATCHES_AT_ONCE: usize = 16;
/// Rows in one batch.
const MOST_ROWS: usize = 100;
/// Bytes in one batch, about: Cassandra refuses batches of several partitions above 50 KiB.
const MOST_BYTES: usize = 32 << 10;

/// A row of `row_keys` that needs rows in the tag index.
pub(crate) struct Tagged<'a> {
    /// Identifies the row in [`RefusedSeries`].
    pub(crate) series: u32,
    pub(crate) data_type: &'a DataType,
    pub(crate) tags: BTreeMap<&'a str, &'a str>,
    pub(crate) ttl: i32,
}

/// A row to write.
struct TagRow<'a> {
    tagged: &'a Tagged<'a>,
    pair: Box<str>,
    hash: i32,
}

/// Rows for one batch.
#[derive(Default)]
struct Batch<'a> {
    rows: Vec<TagRow<'a>>,
    bytes: usize,
    partitions: usize,
}

impl SeriesIndex {
    /// The indexed tags of a metric. They stay the same while a write is in progress.
    pub(crate) fn indexed_tags(&self, metric: &str) -> Option<IndexedTags> {
        self.tags.view().written(metric)
    }

    /// Writes the tag rows of rows of a window. Returns the series that Cassandra refuses for good.
    pub(crate) async fn write_tag_rows(
        &self,
        key: WindowKey<'_>,
        tagged: &[Tagged<'_>],
        indexed: &IndexedTags,
        deadline: Deadline,
    ) -> Result<RefusedSeries> {
        let probe = &self.statements.tag_rows()?.probe.statement;
        let batches = self.tag_batches(probe, key, tag_rows(key, tagged, indexed));
        let send = |batch| self.send_tag_rows(key, batch, deadline).boxed();
        let refused = all(BATCHES_AT_ONCE, Box::new(batches.into_iter().map(send))).await?;
        Ok(refused.into_iter().flatten().collect())
    }

    fn tag_batches<'a>(
        &self,
        probe: &PreparedStatement,
        key: WindowKey<'_>,
        mut rows: Vec<TagRow<'a>>,
    ) -> Vec<Vec<TagRow<'a>>> {
        let replicas = Replicas::new(&self.cql.executor.session, &self.cql.keyspace);
        let (metric, table_name, row_time) = key.values();
        let place_of = |pair: &str| {
            let token = probe.calculate_token(&(metric, table_name, row_time, pair, 1));
            token.ok().flatten().map_or(0, |token| replicas.of_token("tag_indexed_row_keys", token))
        };
        rows.sort_by(|a, b| a.pair.cmp(&b.pair));
        let mut open: BTreeMap<u64, Batch<'a>> = BTreeMap::new();
        let mut done = Vec::new();
        let (mut last, mut place) = (None::<Box<str>>, 0);
        for row in rows {
            let is_new = last.as_ref() != Some(&row.pair);
            if is_new {
                place = place_of(&row.pair);
                last = Some(row.pair.clone());
            }
            let batch = open.entry(place).or_default();
            let full = batch.rows.len() >= MOST_ROWS || batch.bytes + row.bytes() > MOST_BYTES;
            if full || is_new && batch.partitions >= MAX_BATCH_PARTITIONS {
                done.push(std::mem::take(batch).rows);
            }
            batch.partitions += usize::from(is_new || batch.rows.is_empty());
            batch.bytes += row.bytes();
            batch.rows.push(row);
        }
        done.extend(open.into_values().map(|batch| batch.rows));
        done.retain(|batch| !batch.is_empty());
        done
    }

    async fn send_tag_rows(
        &self,
        key: WindowKey<'_>,
        rows: Vec<TagRow<'_>>,
        deadline: Deadline,
    ) -> Result<RefusedSeries> {
        let stamp = self.cql.stamps.for_index(now_ms());
        let (metric, table_name, row_time) = key.values();
        let values: Vec<_> = rows
            .iter()
            .map(|row| {
                let (of, pair) = (row.tagged, &*row.pair);
                let data_type = of.data_type.as_str();
                let (hash, tags) = (row.hash, &of.tags);
                (stamp, of.ttl, metric, table_name, row_time, pair, data_type, hash, tags)
            })
            .collect();
        let insert = &self.statements.tag_rows()?.insert;
        let refused = self.cql.executor.insert(insert, &values, deadline).await?;
        let written = rows.len() - refused.len();
        self.cql.executor.metrics.index_rows_written.inc_by(written as u64);
        Ok(refused.into_iter().map(|(at, why)| (rows[at].tagged.series, why)).collect())
    }
}

impl TagRow<'_> {
    fn bytes(&self) -> usize {
        const FIXED: usize = 60;
        let tags = self.tagged.tags.iter().map(|(name, value)| name.len() + value.len() + 8);
        tags.sum::<usize>() + self.pair.len() + FIXED
    }
}

/// The rows of `tag_indexed_row_keys` that lead to rows of a window.
fn tag_rows<'a>(
    key: WindowKey<'_>,
    tagged: &'a [Tagged<'a>],
    indexed: &IndexedTags,
) -> Vec<TagRow<'a>> {
    let mut rows = Vec::new();
    for tagged in tagged {
        let pairs = tagged.tags.iter().map(|(name, value)| (*name, *value));
        let Ok(tags) = Tags::from_pairs(pairs) else { continue };
        let (metric, data_type) = (key.metric.into(), tagged.data_type.clone());
        let row_key = RowKey { metric, row_time: key.row_time, data_type, tags };
        for row in TagIndexRow::of(&row_key, indexed) {
            let (pair, hash) = (row.single_tag_pair, row.tag_collection_hash);
            rows.push(TagRow { tagged, pair, hash });
        }
    }
    rows
}
