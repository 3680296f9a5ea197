//! Reads the rows of an index partition page by page, in slices where Cassandra does not read it in one statement.
//!
//! Cassandra gives up on a read that passes over more than `tombstone_failure_threshold` (100,000) rows that were
//! deleted or expired and are not compacted away. Such a slice is cut at a [`SplitPoint`] and its parts are read by
//! themselves, repeatedly, so living rows are found. A row is returned once, except where the order of the index does
//! not say what follows a row ([`Order::Hashes`]): there it may be returned again.
//!
//! The cuts of a partition are remembered for [`LASTS`], and the next read begins with these slices. This hides
//! nothing: all slices are read each time.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use scylla::deserialize::row::ColumnIterator;
use scylla::deserialize::value::DeserializeValue;
use scylla::response::PagingState;
use scylla::value::CqlValue;

use crate::cql::cuts::Cuts;
use crate::cql::executor::Executor;
use crate::cql::failure::Failure;
use crate::cql::prepared::Prepared;
use crate::cql::rows::Rows;
use crate::identity::Identity;
use crate::index::split_point::{Order, SplitPoint};
use promkairos_model::ShownTime;
use promkairos_storage::Result;

/// How long the cuts of a partition are remembered.
const LASTS: Duration = Duration::from_secs(3600);
/// How long no read of the first row of a window is tried again.
const LASTS_DEAD: Duration = Duration::from_secs(60);
/// The most partitions whose cuts are remembered.
const MOST_PARTITIONS: usize = 1_000;
/// The most split points that are remembered of one partition.
const MOST_SPLIT_POINTS: usize = 4_000;
/// The most cuts of one read: one or two for each character that the first tags of dead rows share.
const MOST_CUTS: u32 = 500;
/// A slice read faster has few dead rows: it is joined with such a neighbour the next time.
const SOON: Duration = Duration::from_millis(10);

/// A SELECT of the rows of a partition from one split point up to, but excluding, another. It is bound to the
/// partition key, then to both split points.
#[derive(Debug, Clone)]
pub(crate) struct Sliced {
    pub(crate) select: Prepared,
    pub(crate) order: Order,
}

impl Sliced {
    /// A statement whose clustering columns have this order.
    pub(crate) fn new(select: Prepared, order: Order) -> Self {
        Self { select, order }
    }
}

/// The remembered cuts of partitions.
#[derive(Default)]
pub(crate) struct IndexCuts {
    partitions: Mutex<HashMap<Identity, (Instant, Vec<SplitPoint>)>>,
    /// Windows whose first row a server does not find, and since when that is known.
    dead_beginnings: Mutex<HashMap<Identity, Instant>>,
    /// The number of partitions, for readers, which mostly find none.
    count: AtomicUsize,
}

impl IndexCuts {
    /// Whether a server is known not to find the first row of a window of `row_keys`.
    pub(crate) fn begins_dead(&self, window: Identity) -> bool {
        let known = self.dead_beginnings.lock();
        known.get(&window).is_some_and(|since| since.elapsed() < LASTS_DEAD)
    }

    /// Remembers that a server did not find the first row of a window of `row_keys`.
    pub(crate) fn learn_dead_beginning(&self, window: Identity) {
        let mut known = self.dead_beginnings.lock();
        if known.len() >= MOST_PARTITIONS {
            known.retain(|_, since| since.elapsed() < LASTS_DEAD);
        }
        if known.len() < MOST_PARTITIONS {
            known.insert(window, Instant::now());
        }
    }

    fn split_points(&self, partition: &Partition) -> Vec<SplitPoint> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return Vec::new();
        }
        let partitions = self.partitions.lock();
        let known = partitions.get(&partition.identity());
        known
            .filter(|(at, _)| at.elapsed() < LASTS)
            .map_or_else(Vec::new, |(_, points)| points.clone())
    }

    /// Remembers the split points of a partition, unless they are too many. At the bound a new partition replaces the
    /// oldest one.
    fn learn(&self, partition: &Partition, points: Vec<SplitPoint>, now: Instant) {
        let (mut partitions, identity) = (self.partitions.lock(), partition.identity());
        partitions.remove(&identity);
        if points.len() <= MOST_SPLIT_POINTS {
            if partitions.len() >= MOST_PARTITIONS {
                let oldest = partitions.iter().min_by_key(|(_, (at, _))| *at);
                if let Some(oldest) = oldest.map(|(identity, _)| *identity) {
                    partitions.remove(&oldest);
                }
            }
            partitions.insert(identity, (now, points));
        }
        self.count.store(partitions.len(), Ordering::Relaxed);
    }
}

/// The partition key of an index, with its table.
struct Partition {
    table: String,
    key: Vec<CqlValue>,
}

impl Partition {
    fn identity(&self) -> Identity {
        let identity = Identity::of(&[self.table.as_bytes()]);
        self.key.iter().fold(identity, |identity, value| match value {
            CqlValue::Text(text) => identity.and(&[text.as_bytes()]),
            CqlValue::Blob(bytes) => identity.and(&[bytes]),
            CqlValue::Timestamp(time) => identity.with(time.0),
            other => identity.and(&[other.to_string().as_bytes()]),
        })
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (value, before) in self.key.iter().zip(["", ", ", ", ", ", "]) {
            f.write_str(before)?;
            match value {
                CqlValue::Text(text) => write!(f, "{}", text.escape_debug())?,
                CqlValue::Blob(bytes) => write!(f, "{}", bytes.escape_ascii())?,
                CqlValue::Timestamp(time) => write!(f, "{}", ShownTime(time.0))?,
                other => write!(f, "{other}")?,
            }
        }
        Ok(())
    }
}

/// The pages of a partition, or of a range of its rows.
pub(crate) struct IndexPages<'a> {
    executor: &'a Executor,
    known: &'a IndexCuts,
    sliced: &'a Sliced,
    partition: Partition,
    cuts: Cuts<SplitPoint>,
    /// Where the finished slices begin, and how long they took.
    read: Vec<(SplitPoint, Duration)>,
    /// Where the current slice continues.
    state: Option<PagingState>,
    /// The current slice was read up to, but excluding, this split point.
    behind: Option<SplitPoint>,
    /// The time that the current slice took so far.
    took: Duration,
}

impl Drop for IndexPages<'_> {
    fn drop(&mut self) {
        // Also after a read that was not finished: the next one continues cutting there.
        if self.cuts.is_cut() {
            let mut before = Duration::MAX;
            self.read.retain(|(_, took)| {
                let is_apart = *took >= SOON || before >= SOON;
                before = *took;
                is_apart
            });
            let read = self.read.drain(..).map(|(start, _)| start);
            let points = read.chain(self.cuts.starts().cloned()).collect();
            self.known.learn(&self.partition, points, Instant::now());
        }
    }
}

impl<'a> IndexPages<'a> {
    /// The rows of the partition with this key from one split point up to, but excluding, another.
    pub(crate) fn new(
        (executor, known): (&'a Executor, &'a IndexCuts),
        sliced: &'a Sliced,
        key: Vec<CqlValue>,
        [start, end]: [SplitPoint; 2],
    ) -> Self {
        let table = sliced.select.statement.get_table_spec();
        let table = table.map_or_else(String::new, |table| table.table_name().to_owned());
        let partition = Partition { table, key };
        let cuts = Cuts::of(start, end, known.split_points(&partition), MOST_CUTS);
        let (read, state, behind, took) = (Vec::new(), None, None, Duration::ZERO);
        Self { executor, known, sliced, partition, cuts, read, state, behind, took }
    }

    /// The next page. `None` = everything is read.
    pub(crate) async fn next(&mut self) -> Result<Option<Rows>> {
        let Sliced { select, order } = self.sliced;
        loop {
            if self.state.is_none() && self.cuts.next().is_none() {
                return Ok(None);
            }
            let state = self.state.take().unwrap_or_else(PagingState::start);
            let Some([start, end]) = self.cuts.now() else { return Ok(None) };
            let mut values = self.partition.key.clone();
            values.extend(order.values(start));
            values.extend(order.values(end));
            let begin = Instant::now();
            match self.executor.page(select, values, &state).await {
                Ok((page, next)) => {
                    self.took += begin.elapsed();
                    if next.is_some() {
                        self.behind = self.behind_page(&page)?.or(self.behind.take());
                    } else {
                        let took = std::mem::take(&mut self.took);
                        let slice = self.cuts.finish_slice();
                        self.read.extend(slice.map(|[start, _]| (start, took)));
                        self.behind = None;
                    }
                    self.state = next;
                    return Ok(Some(page));
                }
                Err(Failure::Unread(why)) => {
                    let (behind, took) = (self.behind.take(), std::mem::take(&mut self.took));
                    if behind.is_some() {
                        self.read.extend(self.cuts.now().map(|[start, _]| (start.clone(), took)));
                    }
                    if !self.cuts.cut(behind, |start, end| order.between(start, end)) {
                        self.executor.metrics.reads_unread.inc();
                        let why = format!("{why}; the partition is {}", self.partition);
                        return Err(Failure::Unread(why).into());
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The split point behind the last row of a page.
    fn behind_page(&self, page: &Rows) -> Result<Option<SplitPoint>> {
        let Some(last) = page.iter::<ColumnIterator<'_, '_>>()?.last() else { return Ok(None) };
        let mut columns = Vec::new();
        for column in last? {
            let column = column.map_err(|e| page.unreadable(e))?;
            let value = Option::<CqlValue>::deserialize(column.spec.typ(), column.slice);
            columns.push(value.map_err(|e| page.unreadable(e))?);
        }
        Ok(self.sliced.order.behind(&columns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_the_bounds_one_partition_is_forgotten() {
        let (known, begin) = (IndexCuts::default(), Instant::now() + LASTS);
        let partition =
            |n: usize| Partition { table: String::new(), key: vec![CqlValue::BigInt(n as i64)] };
        let mut turns = 0;
        let mut learn = |n, points| {
            turns += 1;
            let now = begin + Duration::from_nanos(turns);
            known.learn(&partition(n), vec![SplitPoint::FIRST; points], now);
        };
        let is_known = |n| !known.split_points(&partition(n)).is_empty();
        (0..MOST_PARTITIONS).for_each(|n| learn(n, 1));
        learn(0, 2);
        assert!((0..MOST_PARTITIONS).all(is_known), "each was known before");
        assert_eq!(known.split_points(&partition(0)).len(), 2);
        learn(MOST_PARTITIONS, 1);
        assert!(!is_known(1), "the oldest one");
        assert!(is_known(0) && (2..=MOST_PARTITIONS).all(is_known));
        learn(7, MOST_SPLIT_POINTS + 1);
        assert!(!is_known(7), "too many split points");
        assert!((2..7).chain(8..=MOST_PARTITIONS).all(is_known));
        assert_eq!(known.count.load(Ordering::Relaxed), MOST_PARTITIONS - 1);
    }
}
