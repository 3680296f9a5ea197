//! The recent samples of a head, in memory: series with their recent points, and metadata.
//!
//! It knows neither the log nor the store below. A write is first resolved (labels to ids), and
//! applied after its record is committed. The caller applies writes in the order of the log.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use roaring::RoaringBitmap;

use super::map::SeriesMap;
use super::map::leaving::{self, Leave};
use super::prepared::{Families, Judge, Judged, Prepared};
use super::series::Taken;
use super::{order, size};
use promkairos_chunk::{Chunk, ChunkError};
use promkairos_model::{
    Exemplar, Labels, Matcher, Metadata, MetadataEntry, Point, TimeRange, WriteBatch, WriteOutcome,
    sorted_by_labels,
};
use promkairos_storage::exemplars::Budget;
use promkairos_storage::index::{Among, MemoryIndex};
use promkairos_storage::{
    DayCounts, ExemplarList, Limited, Pressure, SelectHints, SelectionSize, SeriesQuery, SeriesRun,
    StoreError,
};
use promkairos_telemetry::HeadMetrics;

/// Series that a flush visits under one lock of the map.
const SERIES_AT_ONCE: usize = 4096;

/// Everything that a head has in memory.
#[derive(Default)]
pub(super) struct RecentSamples {
    map: RwLock<SeriesMap>,
    /// Metadata received since the last flush, changed or not.
    metadata: Mutex<BTreeMap<String, Metadata>>,
    /// Approximate bytes of metadata.
    metadata_bytes: AtomicU64,
    /// Approximate bytes of exemplars: not yet in a flush, and in the flush in progress.
    exemplar_bytes: [AtomicU64; 2],
    /// Approximate bytes of points that are not yet in a flush.
    bytes: AtomicU64,
    /// Approximate bytes of points in the flush in progress.
    flushing_bytes: AtomicU64,
    /// Number of the last flush. A series joins it when it is next touched.
    flush: AtomicU32,
    /// When flushes began, from the last flush that is at least `stay` old.
    begun: Mutex<VecDeque<(u32, Instant)>>,
    /// How long a series stays at least after its last write.
    stay: Duration,
    /// Notified when much memory was freed.
    pressure: Arc<Pressure>,
    metrics: HeadMetrics,
}

/// A write with its series found. While it lives no series is removed. It is not held over an await.
pub(super) struct Resolved<'m> {
    /// Locked for reading.
    pub(super) map: RwLockReadGuard<'m, SeriesMap>,
    pub(super) write: Prepared,
    pub(super) judged: Judged,
}

impl RecentSamples {
    pub(super) fn new(metrics: HeadMetrics, stay: Duration, pressure: Arc<Pressure>) -> Self {
        Self { metrics, stay, pressure, ..Self::default() }
    }

    /// Finds the series of a batch. The write must be among the steps to be applied before the
    /// result is dropped, so that its series stay until then.
    pub(super) fn resolve(&self, batch: WriteBatch<'_>, judge: Judge<'_>) -> Resolved<'_> {
        let map = self.map.read();
        let flush = self.flush.load(Ordering::Relaxed);
        let (write, judged) = Prepared::new(&map, batch, judge, flush);
        Resolved { map, write, judged }
    }

    /// Most bytes that a write adds to [`bytes`](Self::bytes), except those of [`size::of_cuts`]: at most once for a
    /// series.
    pub(super) fn most_bytes(write: &Prepared) -> u64 {
        let samples = write.sample_count() as u64;
        let late = samples + write.histograms.len() as u64;
        let most = |(_, point): &(u32, Point)| {
            let point = size::of_point(point);
            size::of_taken(point, Taken::Late).max(size::of_taken(point, Taken::InOrder))
        };
        let histograms: u64 = write.histograms.iter().map(most).sum();
        let exemplars = write.exemplars.iter().map(|(_, exemplar)| size::of_exemplar(exemplar));
        let metadata = write.metadata.iter().map(|entry| size::of_family(&entry));
        let floats = size::of_floats(samples, late) + size::of_longs(write.long_count() as u64);
        floats + histograms + exemplars.chain(metadata).sum::<u64>()
    }

    /// Applies a write. `stamp` is the acceptance time; 0 = not kept. Called by one thread only.
    pub(super) fn apply(&self, mut write: Prepared, stamp: i64) -> WriteOutcome {
        let mut outcome = WriteOutcome::default();
        let (mut late, mut rare, mut exemplars) = (0, 0, 0);
        let flush = self.flush.load(Ordering::Relaxed);
        let map = self.make_series(&mut write, flush);
        let mut pager = map.pager();
        let id = |write: &Prepared, entry: u32| write.entries[entry as usize].id;
        // Histograms first: within one request a float wins at the same timestamp.
        for (entry, point) in std::mem::take(&mut write.histograms) {
            let series = pager.series(id(&write, entry)).join_flush(flush as u8);
            let bytes = size::of_point(&point);
            let taken = series.push(point, stamp);
            late += u64::from(taken == Taken::Late);
            rare += size::of_taken(bytes, taken);
            outcome.histograms += 1;
        }
        let (mut longs, mut cuts) = (0, 0);
        for entry in &write.entries {
            for (sample, long) in write.samples(entry) {
                let series = pager.series(entry.id).join_flush(flush as u8);
                let taken = match long {
                    None => series.push_float(sample, stamp),
                    Some(long) => series.push_long(sample.timestamp, long, stamp),
                };
                longs += u64::from(long.is_some());
                late += u64::from(taken == Taken::Late);
                cuts += u64::from(taken == Taken::Cut);
                outcome.samples += 1;
            }
        }
        for (entry, exemplar) in std::mem::take(&mut write.exemplars) {
            exemplars += size::of_exemplar(&exemplar);
            pager.series(id(&write, entry)).push_exemplar(exemplar);
            outcome.exemplars += 1;
        }
        drop(pager);
        outcome.metadata = write.metadata.len() as u64;
        let learned = self.learn(&write.metadata);
        self.metrics.late_points.inc_by(late);
        let floats = size::of_floats(outcome.samples, late) + size::of_longs(longs);
        let floats = floats + size::of_cuts(cuts);
        let bytes = floats + rare + exemplars + learned;
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.metrics.bytes.set(self.bytes() as i64);
        if exemplars + learned > 0 {
            self.exemplar_bytes[0].fetch_add(exemplars, Ordering::Relaxed);
            self.metadata_bytes.fetch_add(learned, Ordering::Relaxed);
            self.note_size(&map);
        }
        outcome
    }

    /// Keeps metadata. Returns the bytes of entries that were not known.
    fn learn(&self, families: &Families) -> u64 {
        if families.len() == 0 {
            return 0;
        }
        let mut learned = 0;
        let mut known = self.metadata.lock();
        for entry in families.iter() {
            let MetadataEntry { family, kind, help, unit } = entry;
            let old = known.get_mut(family);
            if old.as_ref().is_some_and(|m| m.kind == kind && m.help == help && m.unit == unit) {
                continue;
            }
            learned += size::of_family(&entry);
            match old {
                Some(old) => *old = entry.to_metadata(),
                None => drop(known.insert(family.to_owned(), entry.to_metadata())),
            }
        }
        learned
    }

    /// Creates the series of a write that memory does not have.
    fn make_series(&self, write: &mut Prepared, flush: u32) -> RwLockReadGuard<'_, SeriesMap> {
        if write.new.is_empty() {
            let map = self.map.read();
            write.renumber(&map);
            return map;
        }
        let mut map = self.map.write();
        write.renumber(&map);
        let before = map.bytes();
        for (entry, labels) in write.new.drain(..) {
            write.entries[entry as usize].id = map.find_or_insert(labels, flush);
        }
        if let Some(room) = write.room.take() {
            room.fill(map.bytes().saturating_sub(before) as u64);
        }
        self.note_size(&map);
        RwLockWriteGuard::downgrade(map)
    }

    /// Publishes the size of memory, and the need of a flush.
    fn note_size(&self, map: &SeriesMap) {
        self.metrics.series.set(map.len() as i64);
        self.metrics.series_bytes.set(map.bytes() as i64);
        self.pressure.set_flush_need(self.flush_bytes(map));
    }

    fn flush_bytes(&self, map: &SeriesMap) -> u64 {
        let exemplars = self.exemplar_bytes.iter().map(|bytes| bytes.load(Ordering::Relaxed));
        let metadata = self.metadata_bytes.load(Ordering::Relaxed);
        size::of_flush(map, self.pressure.limit(), exemplars.sum(), metadata)
    }

    /// Removes points and exemplars of the series that match.
    pub(super) fn delete(&self, matchers: &[Matcher], range: &TimeRange) -> Result<(), StoreError> {
        let map = self.map.read();
        let mut pager = map.pager();
        for id in &map.matching(matchers)? {
            pager.series(id).delete(range).map_err(chunk_error)?;
        }
        Ok(())
    }

    /// The chunks in `range` of the series that match, sorted by labels; chunks are in order of
    /// acceptance. Fails if label sets, or label sets and chunks together, exceed `limits`.
    pub(super) fn select(
        &self,
        matchers: &[Matcher],
        range: &TimeRange,
        limits: &SelectHints,
    ) -> Result<Vec<(Labels, Vec<Chunk>)>, StoreError> {
        let map = self.map.read();
        let mut pager = map.pager();
        let mut found = Vec::new();
        let mut size = SelectionSize::within(limits);
        for id in map.matching(matchers)? {
            let chunks = pager.series(id).chunks(range);
            if !chunks.is_empty() {
                size.add(map.label_bytes(id), pinned_bytes(&chunks))?;
                found.push((id, chunks));
            }
        }
        drop(pager);
        let found = found.into_iter().map(|(id, chunks)| (map.labels(id), chunks)).collect();
        drop(map);
        Ok(sorted_by_labels(found, |(labels, _)| labels.as_ref()))
    }

    /// Labels of the series that match and may have points in the range.
    pub(super) fn series(&self, query: &SeriesQuery) -> Result<Limited<Labels>, StoreError> {
        let map = self.map.read();
        let mut pager = map.pager();
        let mut ids = map.matching(&query.matchers)?;
        let gone = ids.iter().filter(|id| !pager.series(*id).may_have(&query.range));
        let gone: RoaringBitmap = gone.collect();
        ids -= gone;
        drop(pager);
        let rest = |left: usize, id| left.checked_sub(map.label_bytes(id));
        let fit = ids.iter().try_fold(query.limit.bytes, rest).is_some();
        if fit && ids.len() <= query.limit.items as u64 {
            let labels: Vec<Labels> = ids.iter().map(|id| map.labels(id)).collect();
            drop(map);
            // Sorted after the map is unlocked.
            let labels = sorted_by_labels(labels, Labels::as_ref);
            return Ok(Limited::first(labels, query.limit));
        }
        // Only label sets that are returned are built.
        let ids = order::sorted(|| &*map, ids.iter().collect());
        Ok(Limited::first(ids.map(|id| map.labels(id)), query.limit))
    }

    /// Asks the label index, whose answers are sorted, about matching series with points in the
    /// range.
    pub(super) fn ask_index(
        &self,
        query: &SeriesQuery,
        ask: impl for<'m> FnOnce(&'m MemoryIndex, Among<'_>) -> Vec<&'m str>,
    ) -> Result<Limited<String>, StoreError> {
        let map = self.map.read();
        let ids = map.matching(&query.matchers)?;
        let mut pager = map.pager();
        // Usually the first series has points. If none has, the index need not be searched.
        let counts = &mut |id| pager.series(id).may_have(&query.range);
        if !ids.iter().any(&mut *counts) {
            return Ok(Limited { items: Vec::new(), truncated: false });
        }
        let found = ask(&map.index, Among { ids: &ids, counts });
        Ok(Limited::first(found.into_iter().map(str::to_owned), query.limit))
    }

    /// Exemplars in `range` by series, sorted. Fails when they take more than `max_bytes`.
    pub(super) fn exemplars(
        &self,
        matchers: &[Matcher],
        range: &TimeRange,
        max_bytes: usize,
    ) -> Result<ExemplarList, StoreError> {
        let mut budget = Budget::new(max_bytes);
        let map = self.map.read();
        let mut pager = map.pager();
        let mut found = Vec::new();
        for id in map.matching(matchers)? {
            let mut inside = Vec::new();
            for exemplar in pager.series(id).exemplars(range) {
                budget.exemplar(&exemplar.labels)?;
                inside.push(exemplar);
            }
            if !inside.is_empty() {
                let labels = map.labels(id);
                budget.series(&labels)?;
                found.push((labels, inside));
            }
        }
        drop(pager);
        drop(map);
        Ok(sorted_by_labels(found, |(labels, _)| labels.as_ref()))
    }

    /// Metadata written since the last flush: of one family, or of the first families by name.
    pub(super) fn metadata_of(
        &self,
        family: Option<&str>,
        limit: usize,
    ) -> Vec<(String, Metadata)> {
        let known = self.metadata.lock();
        let wanted = known.iter().filter(|(name, _)| family.is_none_or(|family| family == *name));
        wanted.take(limit).map(|(name, metadata)| (name.clone(), metadata.clone())).collect()
    }

    /// Approximate bytes of points, including the flush in progress.
    pub(super) fn bytes(&self) -> u64 {
        self.unflushed_bytes() + self.flushing_bytes.load(Ordering::Relaxed)
    }

    /// Approximate bytes of points that are not yet in a flush.
    pub(super) fn unflushed_bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// How many chunks there are, and the first and the last time of their points.
    pub(super) fn extent(&self) -> (u64, Option<TimeRange>) {
        let (mut chunks, mut range) = (0, None);
        self.map.read().for_each(|_, series| {
            let (more, at) = series.extent();
            chunks += more;
            range = hull(range, at);
        });
        (chunks, range)
    }

    /// The number of points, including the flush in progress.
    pub(super) fn points(&self) -> u64 {
        let mut points = 0;
        self.map.read().for_each(|_, series| points += series.points());
        points
    }

    /// The number of series.
    pub(super) fn series_count(&self) -> usize {
        self.map.read().len()
    }

    /// Begins a flush of everything that was applied so far. Called while nothing is being applied,
    /// and after the end of the last flush.
    pub(super) fn begin_flush(&self) {
        let number = self.flush.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        self.begun.lock().push_back((number, Instant::now()));
        let bytes = self.bytes.swap(0, Ordering::Relaxed);
        self.flushing_bytes.store(bytes, Ordering::Relaxed);
        let [unflushed, flushing] = &self.exemplar_bytes;
        flushing.store(unflushed.swap(0, Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Ids of the series with points in the flush, sorted by labels. They stay in use until its end.
    pub(super) fn flushing(&self) -> Vec<u32> {
        let flush = self.flush.load(Ordering::Relaxed);
        let mut found = Vec::new();
        self.map.read().for_each(|id, series| {
            if series.is_in_flush(flush as u8) {
                found.push(id);
            }
        });
        order::sorted(|| self.map.read(), found).collect()
    }

    /// Approximate number of points of the flush by day.
    pub(super) fn flushing_days(&self, series: &[u32]) -> DayCounts {
        let flush = self.flush.load(Ordering::Relaxed);
        let mut days = DayCounts::default();
        for some in series.chunks(SERIES_AT_ONCE) {
            let map = self.map.read();
            let mut pager = map.pager();
            for id in some {
                pager.series(*id).count_days(flush as u8, &mut days);
            }
        }
        days
    }

    /// The points of one series in the flush; `None` = deleted meanwhile.
    pub(super) fn flushing_run(&self, id: u32) -> Option<SeriesRun> {
        let map = self.map.read();
        let flush = self.flush.load(Ordering::Relaxed);
        let chunks = map.pager().series(id).flushing(flush as u8);
        (!chunks.is_empty()).then(|| SeriesRun { labels: map.labels(id), chunks })
    }

    /// The last flush that began at least `stay` ago, if any.
    fn old_flush(&self, now: Instant) -> Option<u32> {
        let mut begun = self.begun.lock();
        let is_old = |at: Instant| now.saturating_duration_since(at) >= self.stay;
        while begun.get(1).is_some_and(|(_, at)| is_old(*at)) {
            begun.pop_front();
        }
        begun.front().filter(|(_, at)| is_old(*at)).map(|(number, _)| *number)
    }

    /// Drops what the store below has taken, and series without recent writes. The exemplars of a
    /// series are in the order of [`exemplars`](Self::exemplars).
    pub(super) fn end_flush(
        &self,
        exemplars: &[(Labels, Vec<Exemplar>)],
        metadata: &[(String, Metadata)],
    ) {
        let map = self.map.read();
        let ids = exemplars.iter().filter_map(|(labels, flushed)| {
            Some((map.find(labels.as_bytes())?, flushed.as_slice()))
        });
        let ids: std::collections::HashMap<u32, &[Exemplar]> = ids.collect();
        let number = self.flush.load(Ordering::Relaxed) as u8;
        map.for_each(|id, series| {
            series.end_flush(number, ids.get(&id).copied().unwrap_or(&[]));
        });
        drop(map);
        let mut current = self.metadata.lock();
        for (family, flushed) in metadata {
            if current.get(family) == Some(flushed) {
                current.remove(family);
            }
        }
        let left = current.iter().map(|(family, Metadata { kind, help, unit })| {
            size::of_family(&MetadataEntry { family, kind: *kind, help, unit })
        });
        self.metadata_bytes.store(left.sum(), Ordering::Relaxed);
        drop(current);
        self.exemplar_bytes[1].store(0, Ordering::Relaxed);
        if self.flushing_bytes.swap(0, Ordering::Relaxed) > 0 {
            // Chunks, and the memory that the store below used to write them.
            self.pressure.note_freed();
        }
        // Locked in any case: afterwards every write that found its series before is a step.
        self.map.write().forget_renewed();
        if let Some(old) = self.old_flush(Instant::now()) {
            self.leave(Leave::Unseen { flush: self.flush.load(Ordering::Relaxed), old });
        }
        self.note_size(&self.map.read());
        self.metrics.bytes.set(self.bytes() as i64);
    }

    /// Removes all series without points. No write may wait to be applied.
    pub(super) fn leave_all(&self) {
        self.leave(Leave::All);
        self.note_size(&self.map.read());
    }

    /// Removes series without points.
    fn leave(&self, leave: Leave) {
        if leaving::leave(&self.map, leave) {
            self.pressure.note_freed();
        }
    }

    /// Approximate bytes of everything in memory, and of a flush in addition.
    pub(super) fn whole_bytes(&self) -> (u64, u64) {
        let map = self.map.read();
        (self.bytes() + map.bytes() as u64, self.flush_bytes(&map))
    }
}

/// The range that covers both.
pub(super) fn hull(a: Option<TimeRange>, b: Option<TimeRange>) -> Option<TimeRange> {
    a.into_iter().chain(b).reduce(TimeRange::hull)
}

/// Bytes that the holder of these chunks keeps in memory. The points of a closed chunk are shared
/// with memory as long as memory has them.
pub(super) fn pinned_bytes(chunks: &[Chunk]) -> usize {
    /// Bytes of allocator overhead and of the reference count of shared points.
    const BESIDE: usize = 64;
    let bytes = |chunk: &Chunk| {
        let sides = chunk.side.len() + chunk.stamps.len();
        size_of::<Chunk>() + BESIDE + chunk.data.len() + sides
    };
    chunks.iter().map(bytes).sum()
}

/// The error for a chunk that cannot be read.
pub(super) fn chunk_error(error: ChunkError) -> StoreError {
    StoreError::backend("a chunk cannot be read", error)
}

#[cfg(test)]
mod tests {
    use super::super::map::bytes_of_new;
    use super::*;
    use crate::counting::counted;
    use promkairos_model::{ExemplarEntry, MetricType, RawLabels, Sample, SeriesEntry};
    use promkairos_storage::ListSize;

    /// A write to this series, with the series found; no flush has ended since then.
    fn found(memory: &RecentSamples, name: &str, time: i64) -> Prepared {
        let labels = Labels::from_pairs([("__name__", name)]).expect("a label set");
        let series = SeriesEntry {
            labels: RawLabels(labels.as_bytes()),
            index: 0,
            samples: 0..1,
            histograms: 0..0,
            exemplars: 0..0,
        };
        let samples = vec![Sample { timestamp: time, start_timestamp: 0, value: 1.0 }];
        let batch = WriteBatch { series: vec![series], samples, ..WriteBatch::default() };
        memory.resolve(batch, Judge::Replay).write
    }

    fn flush(memory: &RecentSamples) -> Vec<Labels> {
        memory.begin_flush();
        let ids = memory.flushing();
        let flushed = ids.into_iter().map(|id| memory.map.read().labels(id)).collect();
        memory.end_flush(&[], &[]);
        flushed
    }

    /// Names in the label index, whether their series have points or not.
    fn indexed(memory: &RecentSamples) -> Vec<String> {
        memory.map.read().index.values("__name__", None).into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn a_series_leaves_the_index_with_the_second_flush_after_its_last_write() {
        let memory = RecentSamples::default();
        let names = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        for name in ["a", "b"] {
            memory.apply(found(&memory, name, 1), 0);
        }
        assert_eq!(flush(&memory).len(), 2);
        assert_eq!(indexed(&memory), names(&["a", "b"]));
        memory.apply(found(&memory, "b", 2), 0);
        assert_eq!(flush(&memory).len(), 1);
        assert_eq!(indexed(&memory), names(&["b"]));
        // The id of a removed series is free.
        memory.apply(found(&memory, "c", 3), 0);
        memory.apply(found(&memory, "a", 4), 0);
        assert_eq!(indexed(&memory), names(&["a", "b", "c"]));
        assert_eq!(flush(&memory).len(), 2);
        assert_eq!(indexed(&memory), names(&["a", "c"]));
        assert_eq!(flush(&memory).len(), 0);
        assert_eq!((indexed(&memory), memory.series_count()), (names(&[]), 0));
    }

    #[test]
    fn a_write_that_waits_to_be_applied_keeps_its_series_through_a_flush() {
        let memory = RecentSamples::default();
        memory.apply(found(&memory, "a", 1), 0);
        let waits = found(&memory, "a", 2);
        assert_eq!(flush(&memory).len(), 1);
        // A new series has an id of its own.
        memory.apply(found(&memory, "b", 1), 0);
        memory.apply(waits, 0);
        let matchers = [Matcher::equal("__name__", "a")];
        let chunks = memory.select(&matchers, &TimeRange::ALL, &SelectHints::default());
        let times = |chunks: &[Chunk]| chunks.iter().map(|c| c.max_time).collect::<Vec<_>>();
        let chunks = chunks.expect("own chunks").into_iter().map(|(_, chunks)| times(&chunks));
        assert_eq!(chunks.collect::<Vec<_>>(), [[2]]);
        assert_eq!(flush(&memory).len(), 2);
    }

    /// Writes a point to each of these series.
    fn write_all(memory: &RecentSamples, series: std::ops::Range<usize>, time: i64) {
        series.for_each(|n| drop(memory.apply(found(memory, &format!("s{n}"), time), 0)));
    }

    #[test]
    fn the_room_of_series_that_left_is_given_up() {
        let memory = RecentSamples::default();
        write_all(&memory, 0..6_000, 1);
        flush(&memory);
        assert_eq!(memory.map.read().room(), 6_000);
        // Most series stay: free ids are for new series.
        write_all(&memory, 0..2_500, 2);
        flush(&memory);
        assert_eq!((memory.series_count(), memory.map.read().room()), (2_500, 6_000));
        write_all(&memory, 1_000..1_300, 3);
        write_all(&memory, 9_000..9_010, 3);
        // Writes wait to be applied meanwhile, with old ids.
        let waits =
            [found(&memory, "s1234", 4), found(&memory, "s9005", 4), found(&memory, "x", 4)];
        flush(&memory);
        assert_eq!((memory.series_count(), memory.map.read().room()), (310, 310));
        assert!(memory.pressure.take_freed());
        waits.into_iter().for_each(|write| drop(memory.apply(write, 0)));
        write_all(&memory, 1_299..1_301, 5);
        let hints = SelectHints::default();
        let chunks = memory.select(&[], &TimeRange::ALL, &hints).expect("own chunks");
        let times = chunks.iter().map(|(labels, chunks)| {
            let times = chunks.iter().map(|chunk| (chunk.min_time, chunk.max_time));
            (labels.get("__name__").to_owned(), times.collect::<Vec<_>>())
        });
        let want = [("s1234", 4), ("s1299", 5), ("s1300", 5), ("s9005", 4), ("x", 4)];
        let want = want.map(|(name, time)| (name.to_owned(), vec![(time, time)]));
        assert_eq!(times.collect::<Vec<_>>(), want);
        assert_eq!((indexed(&memory).len(), memory.map.read().room()), (312, 312));
        assert_eq!(flush(&memory).len(), 5);
        flush(&memory);
        flush(&memory);
        assert_eq!((memory.series_count(), indexed(&memory).len()), (0, 0));
    }

    #[test]
    fn labels_that_are_too_many_do_not_come_into_being() {
        let memory = RecentSamples::default();
        for name in ["c", "a", "b"] {
            memory.apply(found(&memory, name, 1), 0);
        }
        let names = |labels: Vec<Labels>| {
            labels.iter().map(|labels| labels.get("__name__").to_owned()).collect::<Vec<_>>()
        };
        let bytes: usize = memory.map.read().labels(0).as_bytes().len();
        let list = |limit| {
            let (matchers, range) = (Vec::new(), TimeRange::ALL);
            let query = SeriesQuery { matchers, range, limit };
            let list = memory.series(&query).expect("no matchers");
            (names(list.items), list.truncated)
        };
        let whole = || (vec!["a".to_owned(), "b".to_owned(), "c".to_owned()], false);
        let cut = || (vec!["a".to_owned(), "b".to_owned()], true);
        assert_eq!(list(ListSize::items(3)), whole());
        assert_eq!(list(ListSize::items(2)), cut());
        assert_eq!(list(ListSize { bytes: 3 * bytes, ..ListSize::UNLIMITED }), whole());
        assert_eq!(list(ListSize { bytes: 3 * bytes - 1, ..ListSize::UNLIMITED }), cut());
        let select = |max_label_bytes, max_bytes| {
            let hints = SelectHints { max_label_bytes, max_bytes, ..SelectHints::default() };
            memory.select(&[], &TimeRange::ALL, &hints)
        };
        let selected = select(3 * bytes, usize::MAX).expect("within the limit");
        let pinned: usize = selected.iter().map(|(_, chunks)| pinned_bytes(chunks)).sum();
        assert!(pinned > 3 * size_of::<Chunk>());
        assert!(selected.iter().all(|(_, chunks)| chunks.capacity() == 1), "no room beside it");
        assert_eq!(names(selected.into_iter().map(|(labels, _)| labels).collect()), whole().0);
        assert!(matches!(select(3 * bytes - 1, usize::MAX), Err(StoreError::Limit(_))));
        let all = 3 * bytes + pinned;
        assert!(select(3 * bytes, all).is_ok());
        assert!(matches!(select(3 * bytes, all - 1), Err(StoreError::Limit(_))));
    }

    #[test]
    fn a_series_stays_for_its_time() {
        let memory = RecentSamples::new(
            HeadMetrics::default(),
            Duration::from_secs(24 * 3600),
            Arc::default(),
        );
        memory.apply(found(&memory, "a", 1), 0);
        for _ in 0..10 {
            flush(&memory);
        }
        assert_eq!(indexed(&memory).len(), 1);
        // By the time at which the flushes began.
        let begun = memory.begun.lock().clone();
        let later = |(_, at): &(u32, Instant)| *at + memory.stay;
        assert_eq!(memory.old_flush(later(&begun[4])), Some(begun[4].0));
        assert_eq!(memory.old_flush(later(&begun[9])), Some(begun[9].0));
    }

    #[test]
    fn the_last_metadata_counts_and_what_is_known_takes_no_memory() {
        let memory = RecentSamples::default();
        let entry = |family, kind, help, unit| MetadataEntry { family, kind, help, unit };
        let write = |metadata: Vec<MetadataEntry<'_>>| {
            let batch = WriteBatch { metadata, ..WriteBatch::default() };
            let Resolved { write, map, .. } = memory.resolve(batch, Judge::Replay);
            drop(map);
            let before = memory.bytes();
            let outcome = memory.apply(write, 0);
            (outcome.metadata, memory.bytes() - before)
        };
        let (counter, gauge) = (MetricType::Counter, MetricType::Gauge);
        let two = || vec![entry("a", counter, "", "s"), entry("be", gauge, "Help.", "")];
        let bytes = two().iter().map(size::of_family).sum();
        assert_eq!(write(two()), (2, bytes));
        assert_eq!(write(two()), (2, 0));
        assert_eq!(write(vec![]), (0, 0));
        for changed in
            [entry("a", gauge, "", "s"), entry("a", gauge, "s", ""), entry("a", gauge, "s", "m")]
        {
            // Within one batch too.
            let batch = vec![entry("be", gauge, "Help.", ""), entry("a", counter, "", ""), changed];
            assert_eq!(write(batch).0, 3);
            let known = memory.metadata.lock().clone();
            let a = Metadata { kind: gauge, help: changed.help.into(), unit: changed.unit.into() };
            let be = Metadata { kind: gauge, help: "Help.".into(), unit: String::new() };
            assert_eq!(known, BTreeMap::from([("a".to_owned(), a), ("be".to_owned(), be)]));
        }
    }

    /// Kinds of series that a sender may send many of.
    #[derive(Debug, Clone, Copy)]
    enum Shape {
        Usual,
        OneMetric,
        ManyNames,
        WideValues,
        ManyLabels,
        SharedWideValues,
        LongNames,
    }

    impl Shape {
        /// The labels of one of its series, and how many series there are.
        fn series(self) -> (Box<dyn Fn(usize) -> Labels>, usize) {
            fn labels(pairs: impl Iterator<Item = (String, String)>) -> Labels {
                Labels::from_pairs(pairs.chain([("__name__".to_owned(), "m".to_owned())]))
                    .expect("a label set")
            }
            match self {
                Self::Usual => (
                    Box::new(|n| {
                        let value = |l: usize| match l {
                            0 => format!("host-{n:06}.example.net"),
                            1 => format!("pod-{:06}", n / 10),
                            l => format!("value-{:02}", (n + l) % 7),
                        };
                        labels((0..12).map(|l| (format!("label_{l}"), value(l))))
                    }),
                    4_000,
                ),
                Self::OneMetric => {
                    (Box::new(|n| labels([("n".to_owned(), n.to_string())].into_iter())), 8_000)
                }
                Self::ManyNames => (
                    Box::new(|n| labels((0..20).map(|l| (format!("n{n}_{l}"), "v".to_owned())))),
                    2_000,
                ),
                Self::WideValues => (
                    Box::new(|n| {
                        labels(
                            [("v".to_owned(), format!("{n:06}{}", "x".repeat(15_890)))].into_iter(),
                        )
                    }),
                    300,
                ),
                Self::ManyLabels => (
                    Box::new(|n| {
                        let value = |_| format!("{n}-{}", "v".repeat(250));
                        labels((0..110).map(|l| (format!("label_number_{l:03}"), value(l))))
                    }),
                    200,
                ),
                Self::SharedWideValues => (
                    Box::new(|n| {
                        let value = |l: usize| format!("{}{}", (n >> l) % 2, "w".repeat(2_000));
                        labels((0..14).map(|l| (format!("label_{l}"), value(l))))
                    }),
                    4_000,
                ),
                Self::LongNames => (
                    Box::new(|n| labels((0..4).map(|l| (format!("{l}{n:0900}"), format!("{n}"))))),
                    800,
                ),
            }
        }
    }

    const SHAPES: [Shape; 7] = [
        Shape::Usual,
        Shape::OneMetric,
        Shape::ManyNames,
        Shape::WideValues,
        Shape::ManyLabels,
        Shape::SharedWideValues,
        Shape::LongNames,
    ];

    /// A write of a point to each of these series, with exemplars and metadata.
    fn write_of(
        memory: &RecentSamples,
        sets: &[Labels],
        judge: Judge<'_>,
        exemplars: &[Labels],
        metadata: Vec<MetadataEntry<'_>>,
    ) -> Prepared {
        let each = exemplars.len() / sets.len().max(1);
        let entry = |(n, labels): (usize, _)| SeriesEntry {
            labels: RawLabels(Labels::as_bytes(labels)),
            index: n as u32,
            samples: n as u32..n as u32 + 1,
            histograms: 0..0,
            exemplars: (n * each) as u32..((n + 1) * each) as u32,
        };
        let series = sets.iter().enumerate().map(entry).collect();
        let sample = Sample { timestamp: 1, start_timestamp: 0, value: 1.0 };
        let exemplars = exemplars.iter().zip(1..).map(|(labels, timestamp)| ExemplarEntry {
            labels: RawLabels(labels.as_bytes()),
            value: 1.0,
            timestamp,
        });
        let batch = WriteBatch {
            series,
            samples: vec![sample; sets.len()],
            exemplars: exemplars.collect(),
            metadata,
            ..WriteBatch::default()
        };
        memory.resolve(batch, judge).write
    }

    /// Fails unless `said` is at least nine tenths of what the allocator gave and at most `most` times that.
    fn check_said(what: &str, said: u64, given: usize, most: f64) {
        let factor = said as f64 / given as f64;
        assert!((0.9..most).contains(&factor), "{what}: {said} of {given} bytes, {factor:.2}");
    }

    #[test]
    fn what_series_take_is_said_before_and_after_whatever_their_labels_are() {
        for shape in SHAPES {
            let (labels, count) = shape.series();
            let sets: Vec<Labels> = (0..count).map(labels).collect();
            let pressure = Arc::new(Pressure::new(1 << 40));
            let (memory, given, most) = counted(|| {
                let memory =
                    RecentSamples::new(HeadMetrics::default(), Duration::ZERO, pressure.clone());
                for sets in sets.chunks(50) {
                    let before = memory.map.read().bytes();
                    let growth = memory.map.read().growth() as u64;
                    let judge = Judge::Accept { refuse: None, pressure: &pressure };
                    let write = write_of(&memory, sets, judge, &[], Vec::new());
                    let new = write.new.iter().map(|(_, labels)| bytes_of_new(labels)).sum::<u64>();
                    memory.apply(write, 0);
                    let more = (memory.map.read().bytes() - before) as u64;
                    // Lists and tables that grow take room for later series too.
                    assert!(more <= new + growth + (1 << 18), "{shape:?}: {more} of {new}");
                }
                memory
            });
            let (said, flush) = memory.whole_bytes();
            check_said(&format!("{shape:?}"), said, given, 1.6);
            // In addition: what a table takes while it grows, and the write itself.
            let beside = memory.map.read().growth() + (4 << 20);
            assert!(most <= said as usize + beside, "{shape:?}: {most}");
            assert!(flush as usize >= memory.map.read().index.bytes(), "{shape:?}");
            drop(memory);
        }
    }

    #[test]
    fn a_flush_takes_no_more_than_was_said_before() {
        for shape in SHAPES {
            let (labels, count) = shape.series();
            let sets: Vec<Labels> = (0..count).map(labels).collect();
            let memory = RecentSamples::default();
            memory.apply(write_of(&memory, &sets, Judge::Replay, &[], Vec::new()), 0);
            let (_, said) = memory.whole_bytes();
            memory.begin_flush();
            // As the embedded store: an index of all labels until the end, and a run at a time.
            let (index, _, most) = counted(|| {
                let mut index = MemoryIndex::default();
                for (at, id) in (0..).zip(memory.flushing()) {
                    let run = memory.flushing_run(id).expect("it has a point");
                    index.add(at, run.labels.as_ref());
                }
                index
            });
            assert!(most as u64 <= said, "{shape:?}: {most} bytes, and {said} were said");
            assert_eq!(index.ids().len(), count as u64);
        }
    }

    #[test]
    fn exemplars_and_metadata_take_what_is_said() {
        let sets: Vec<Labels> = (0..50)
            .map(|n| Labels::from_pairs([("__name__", "m"), ("n", &n.to_string())]).expect("valid"))
            .collect();
        for length in [10, 128, 500] {
            let id = |n: usize| format!("{n:0length$}");
            let exemplars: Vec<Labels> = (0..5_000)
                .map(|n| Labels::from_pairs([("trace_id", id(n))]).expect("valid"))
                .collect();
            let memory = RecentSamples::default();
            memory.apply(write_of(&memory, &sets, Judge::Replay, &[], Vec::new()), 0);
            let before = memory.bytes();
            let ((), given, _) = counted(|| {
                memory.apply(write_of(&memory, &sets, Judge::Replay, &exemplars, Vec::new()), 0);
            });
            let said = memory.bytes() - before;
            check_said(&format!("exemplars of {length} bytes"), said, given, 1.7);
        }
        let families: Vec<String> = (0..3_000).map(|n| format!("family_{n}")).collect();
        for help in ["", "Help.", &"Help. ".repeat(100)] {
            let memory = RecentSamples::default();
            let (kind, unit) = (MetricType::Gauge, "seconds");
            let entries = families.iter().map(|family| MetadataEntry { family, kind, help, unit });
            let metadata: Vec<MetadataEntry<'_>> = entries.collect();
            let ((), given, _) = counted(|| {
                memory.apply(write_of(&memory, &[], Judge::Replay, &[], metadata.clone()), 0);
            });
            check_said(
                &format!("families with a help of {}", help.len()),
                memory.bytes(),
                given,
                1.7,
            );
        }
    }
}
