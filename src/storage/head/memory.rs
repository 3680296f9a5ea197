//! What the head has in memory: series with their recent points, and metadata.
//!
//! Pure memory: no log, no store below. A write is first resolved (labels to ids, new series
//! made) and then applied; the caller orders the applications as their records lie in the log.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use roaring::RoaringBitmap;

use super::map::{self, SeriesMap};
use super::series::Taken;
use crate::chunk::{Chunk, ChunkError};
use crate::limits;
use crate::model::{
    Exemplar, LabelLimits, Labels, LabelsRef, Matcher, Metadata, Point, RejectReason, Rejections,
    Target, TimeRange, Value, WriteBatch, WriteOutcome,
};
use crate::storage::index::{MemoryIndex, evaluate};
use crate::storage::{StoreError, check_label_bytes};
use crate::telemetry::HeadMetrics;

/// The id of a series that is refused or has nothing.
const NO_SERIES: u32 = u32::MAX;
/// No limits: what was accepted once is not judged again.
const UNLIMITED: LabelLimits = LabelLimits {
    labels: usize::MAX,
    name_bytes: usize::MAX,
    value_bytes: usize::MAX,
    total_bytes: usize::MAX,
};

/// What a store below can never take; `None` = it can.
pub type Refuse = fn(LabelsRef<'_>) -> Option<RejectReason>;

/// Whether series are judged.
#[derive(Clone, Copy)]
pub(super) enum Judge {
    /// A request: limits hold, and the store below may refuse labels.
    Accept(Option<Refuse>),
    /// A record of the log: accepted before.
    Replay,
}

/// Everything in memory.
#[derive(Default)]
pub(super) struct Memory {
    map: RwLock<SeriesMap>,
    /// Changed since the last flush.
    metadata: Mutex<BTreeMap<String, Metadata>>,
    /// Bytes of points that no flush has yet, about.
    bytes: AtomicU64,
    /// Bytes of points in the flush under way, about.
    flushing_bytes: AtomicU64,
    /// Number of the last flush, modulo 256. A series joins it when it is next touched.
    flush: AtomicU8,
    metrics: HeadMetrics,
}

/// A batch with its series found. Keeps the map locked: no await while it lives.
pub(super) struct Resolved<'m> {
    map: RwLockReadGuard<'m, SeriesMap>,
    /// One for each series of the batch.
    ids: Vec<u32>,
    /// What is refused here, beyond what the decoder refused.
    pub(super) rejections: Rejections,
}

/// Series that match, in the locked map. No await while it lives.
pub(super) struct Matching<'m> {
    map: RwLockReadGuard<'m, SeriesMap>,
    ids: RoaringBitmap,
}

impl Matching<'_> {
    /// Takes points and exemplars out.
    pub(super) fn delete(&self, range: &TimeRange) -> Result<(), StoreError> {
        let mut pager = self.map.pager();
        for id in &self.ids {
            pager.series(id).delete(range).map_err(chunk_error)?;
        }
        Ok(())
    }
}

impl Resolved<'_> {
    /// Whether this series of the batch is taken.
    pub(super) fn is_taken(&self, position: usize) -> bool {
        self.ids[position] != NO_SERIES
    }
}

impl Memory {
    pub(super) fn new(metrics: HeadMetrics) -> Self {
        Self { metrics, ..Self::default() }
    }

    /// Finds or makes the series of a batch.
    pub(super) fn resolve<'m>(&'m self, batch: &WriteBatch<'_>, judge: Judge) -> Resolved<'m> {
        loop {
            let map = self.map.read();
            let epoch = map.epoch;
            let (mut ids, misses) = find_known(&map, batch);
            if misses.is_empty() {
                return Resolved { map, ids, rejections: Rejections::default() };
            }
            drop(map);
            let (new, rejections) = judge_new(batch, &misses, judge);
            let map = if new.is_empty() {
                self.map.read()
            } else {
                let mut map = self.map.write();
                for (position, labels) in new {
                    ids[position] = map.find_or_insert(labels);
                }
                self.metrics.series.set(map.len() as i64);
                parking_lot::RwLockWriteGuard::downgrade(map)
            };
            // A series found first may have gone while the map was unlocked.
            if map.epoch == epoch {
                return Resolved { map, ids, rejections };
            }
        }
    }

    /// Puts the points of a resolved batch in. `stamp` is the acceptance time; 0 = not kept.
    pub(super) fn apply(
        &self,
        resolved: &Resolved<'_>,
        batch: &WriteBatch<'_>,
        stamp: i64,
    ) -> WriteOutcome {
        let mut outcome = WriteOutcome::default();
        let mut late = 0u64;
        let flush = self.flush.load(Ordering::Relaxed);
        let mut pager = resolved.map.pager();
        let taken = || batch.series.iter().zip(&resolved.ids).filter(|(_, id)| **id != NO_SERIES);
        // Histograms first: within one request a float wins at the same timestamp.
        if !batch.histograms.is_empty() {
            for (entry, id) in taken() {
                for sample in &batch.histograms[range(&entry.histograms)] {
                    let point = Point {
                        timestamp: sample.timestamp,
                        start_timestamp: sample.start_timestamp,
                        value: Value::Histogram(Arc::new(sample.histogram.clone())),
                    };
                    let series = pager.series(*id).join_flush(flush);
                    late += u64::from(series.push(point, stamp) == Taken::Late);
                    outcome.histograms += 1;
                }
            }
        }
        for (entry, id) in taken() {
            for sample in &batch.samples[range(&entry.samples)] {
                let series = pager.series(*id).join_flush(flush);
                late += u64::from(series.push_float(sample, stamp) == Taken::Late);
                outcome.samples += 1;
            }
        }
        if !batch.exemplars.is_empty() {
            for (entry, id) in taken() {
                for exemplar in &batch.exemplars[range(&entry.exemplars)] {
                    let Ok(labels) = exemplar.labels.to_labels() else { continue };
                    let (value, timestamp) = (exemplar.value, exemplar.timestamp);
                    pager.series(*id).push_exemplar(Exemplar { labels, value, timestamp });
                    outcome.exemplars += 1;
                }
            }
        }
        drop(pager);
        self.apply_metadata(batch, &mut outcome);
        self.metrics.late_points.inc_by(late);
        let rare = outcome.histograms + outcome.exemplars + outcome.metadata;
        let bytes = outcome.samples * 2 + late * 48 + rare * 256;
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.metrics.bytes.set(self.bytes() as i64);
        outcome
    }

    fn apply_metadata(&self, batch: &WriteBatch<'_>, outcome: &mut WriteOutcome) {
        if batch.metadata.is_empty() {
            return;
        }
        let mut metadata = self.metadata.lock();
        for entry in &batch.metadata {
            let (help, unit) = (entry.help.to_owned(), entry.unit.to_owned());
            metadata.insert(entry.family.to_owned(), Metadata { kind: entry.kind, help, unit });
            outcome.metadata += 1;
        }
    }

    /// Finds the series that match and locks the map, before the order of acceptance, as the
    /// order of locks demands: regular expressions are slow, and no series comes until the end.
    pub(super) fn matching(&self, matchers: &[Matcher]) -> Result<Matching<'_>, StoreError> {
        let map = self.map.read();
        let ids = evaluate(&map.index, matchers)?;
        Ok(Matching { map, ids })
    }

    /// The chunks in `range` of the series that match, sorted by labels; chunks are in order of
    /// acceptance. Fails when the label sets have more than `max_label_bytes`.
    pub(super) fn select(
        &self,
        matchers: &[Matcher],
        range: &TimeRange,
        max_label_bytes: usize,
    ) -> Result<Vec<(Labels, Vec<Chunk>)>, StoreError> {
        let map = self.map.read();
        let mut pager = map.pager();
        let mut found = Vec::new();
        let mut bytes = 0;
        for id in evaluate(&map.index, matchers)? {
            let chunks = pager.series(id).chunks(range);
            if !chunks.is_empty() {
                let labels = map.labels(id).clone();
                bytes += labels.as_bytes().len();
                check_label_bytes(bytes, max_label_bytes)?;
                found.push((labels, chunks));
            }
        }
        drop(pager);
        drop(map);
        found.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        Ok(found)
    }

    /// Labels of the series that match and may have points in `range`, sorted.
    pub(super) fn series(
        &self,
        matchers: &[Matcher],
        range: &TimeRange,
    ) -> Result<Vec<Labels>, StoreError> {
        let map = self.map.read();
        let ids = present(&map, matchers, range)?;
        let mut labels: Vec<Labels> = ids.iter().map(|id| map.labels(id).clone()).collect();
        drop(map);
        labels.sort_unstable();
        Ok(labels)
    }

    /// Asks the label index about the series that match and may have points in `range`.
    pub(super) fn ask_index<R>(
        &self,
        matchers: &[Matcher],
        range: &TimeRange,
        ask: impl FnOnce(&MemoryIndex, &RoaringBitmap) -> R,
    ) -> Result<R, StoreError> {
        let map = self.map.read();
        let ids = present(&map, matchers, range)?;
        Ok(ask(&map.index, &ids))
    }

    /// Exemplars in `range` by series, unsorted.
    pub(super) fn exemplars(
        &self,
        matchers: &[Matcher],
        range: &TimeRange,
    ) -> Result<Vec<(Labels, Vec<Exemplar>)>, StoreError> {
        let map = self.map.read();
        let mut pager = map.pager();
        let mut found = Vec::new();
        for id in evaluate(&map.index, matchers)? {
            let all = pager.series(id).exemplars();
            let inside: Vec<Exemplar> =
                all.iter().filter(|e| range.contains(e.timestamp)).cloned().collect();
            if !inside.is_empty() {
                found.push((map.labels(id).clone(), inside));
            }
        }
        Ok(found)
    }

    /// Metadata written since the last flush.
    pub(super) fn metadata(&self) -> BTreeMap<String, Metadata> {
        self.metadata.lock().clone()
    }

    /// Bytes of points, about; those of the flush under way are in memory until its end.
    pub(super) fn bytes(&self) -> u64 {
        self.unflushed_bytes() + self.flushing_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of points not yet in a flush, about.
    pub(super) fn unflushed_bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// How many series there are.
    pub(super) fn series_count(&self) -> usize {
        self.map.read().len()
    }

    /// Begins a flush: what was applied before is part of it, what comes later is not. The caller
    /// holds the order of acceptance, and begins no flush before the end of the last one.
    pub(super) fn begin_flush(&self) {
        self.flush.fetch_add(1, Ordering::Relaxed);
        let bytes = self.bytes.swap(0, Ordering::Relaxed);
        self.flushing_bytes.store(bytes, Ordering::Relaxed);
    }

    /// The series that the flush has points of, sorted by labels.
    pub(super) fn flushing(&self) -> Vec<(Labels, u32)> {
        let map = self.map.read();
        let flush = self.flush.load(Ordering::Relaxed);
        let mut found = Vec::new();
        map.for_each(|id, series| {
            if !series.join_flush(flush).flushing().is_empty() {
                found.push((map.labels(id).clone(), id));
            }
        });
        drop(map);
        found.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        found
    }

    /// What the flush has of one series.
    pub(super) fn flushing_chunks(&self, id: u32) -> Vec<Chunk> {
        self.map.read().pager().series(id).flushing().to_vec()
    }

    /// Forgets what the store below has taken, and series that have had nothing for a while.
    pub(super) fn end_flush(
        &self,
        exemplars: &[(Labels, Vec<Exemplar>)],
        metadata: &[(String, Metadata)],
    ) {
        let map = self.map.read();
        let ids = exemplars.iter().filter_map(|(labels, flushed)| {
            let bytes = labels.as_bytes();
            Some((map.find(map::hash(bytes), bytes)?, flushed.as_slice()))
        });
        let ids: std::collections::HashMap<u32, &[Exemplar]> = ids.collect();
        map.for_each(|id, series| series.end_flush(ids.get(&id).copied().unwrap_or(&[])));
        drop(map);
        let mut current = self.metadata.lock();
        for (family, flushed) in metadata {
            if current.get(family) == Some(flushed) {
                current.remove(family);
            }
        }
        drop(current);
        self.flushing_bytes.store(0, Ordering::Relaxed);
        let mut map = self.map.write();
        map.drop_gone();
        self.metrics.series.set(map.len() as i64);
        self.metrics.bytes.set(self.bytes() as i64);
    }
}

/// Ids of known series, and the positions of those that are not.
fn find_known(map: &SeriesMap, batch: &WriteBatch<'_>) -> (Vec<u32>, Vec<usize>) {
    let mut misses = Vec::new();
    let find = |(position, entry): (usize, &crate::model::SeriesEntry<'_>)| {
        let empty =
            entry.samples.is_empty() && entry.histograms.is_empty() && entry.exemplars.is_empty();
        if empty {
            return NO_SERIES;
        }
        let bytes = entry.labels.as_bytes();
        map.find(map::hash(bytes), bytes).unwrap_or_else(|| {
            misses.push(position);
            NO_SERIES
        })
    };
    (batch.series.iter().enumerate().map(find).collect(), misses)
}

/// Labels of the series not found by their bytes: valid ones, and the refused.
fn judge_new(
    batch: &WriteBatch<'_>,
    misses: &[usize],
    judge: Judge,
) -> (Vec<(usize, Labels)>, Rejections) {
    let mut rejections = Rejections::default();
    let mut new = Vec::with_capacity(misses.len());
    let (limits, refuse) = match judge {
        Judge::Accept(refuse) => (&limits::LABEL_LIMITS, refuse),
        Judge::Replay => (&UNLIMITED, None),
    };
    for position in misses {
        let entry = &batch.series[*position];
        let judged = entry.labels.to_series(limits).map_err(RejectReason::from);
        let judged =
            judged.and_then(|labels| match refuse.and_then(|refuse| refuse(labels.as_ref())) {
                Some(reason) => Err(reason),
                None => Ok(labels),
            });
        match judged {
            Ok(labels) => new.push((*position, labels)),
            Err(reason) => {
                rejections.push(Target::Series(entry.index), reason, || entry.labels.describe());
            }
        }
    }
    (new, rejections)
}

fn present(
    map: &SeriesMap,
    matchers: &[Matcher],
    range: &TimeRange,
) -> Result<RoaringBitmap, StoreError> {
    let mut pager = map.pager();
    let mut ids = evaluate(&map.index, matchers)?;
    let gone: RoaringBitmap = ids.iter().filter(|id| !pager.series(*id).may_have(range)).collect();
    ids -= gone;
    Ok(ids)
}

fn range(range: &Range<u32>) -> Range<usize> {
    range.start as usize..range.end as usize
}

/// A chunk that cannot be read.
pub(super) fn chunk_error(error: ChunkError) -> StoreError {
    StoreError::Backend { what: "a chunk cannot be read".into(), source: Box::new(error) }
}
