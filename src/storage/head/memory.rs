//! What the head has in memory: series with their recent points, and metadata.
//!
//! Pure memory: no log, no store below. A write is first resolved (labels to ids) and, once its
//! record is committed, applied; the caller orders the applications as the records lie in the log.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use roaring::RoaringBitmap;

use super::map::leaving::{self, Leave, Room};
use super::map::{SERIES_BYTES, SeriesMap};
use super::order;
use super::prepared::{Families, Judge, Judged, Prepared};
use super::series::Taken;
use crate::chunk::{Chunk, ChunkError};
use crate::model::{
    Exemplar, Labels, Matcher, Metadata, MetadataEntry, TimeRange, WriteBatch, WriteOutcome,
    sorted_by_labels,
};
use crate::storage::exemplars::Budget;
use crate::storage::index::{Among, MemoryIndex};
use crate::storage::{
    ExemplarList, Limited, Pressure, SelectHints, SeriesQuery, SeriesRun, StoreError, check_bytes,
    check_label_bytes,
};
use crate::telemetry::HeadMetrics;

/// Bytes that a flush takes for a series until it has ended, about; the store below has the labels again.
const FLUSH_BYTES: u64 = 96;

/// Everything in memory.
#[derive(Default)]
pub(super) struct Memory {
    map: RwLock<SeriesMap>,
    /// Told since the last flush, whether it changed or not.
    metadata: Mutex<BTreeMap<String, Metadata>>,
    /// Bytes of points that no flush has yet, about.
    bytes: AtomicU64,
    /// Bytes of points in the flush under way, about.
    flushing_bytes: AtomicU64,
    /// Number of the last flush. A series joins it when it is next touched.
    flush: AtomicU32,
    /// When flushes began, from the last one that is `stay` old on.
    begun: Mutex<VecDeque<(u32, Instant)>>,
    /// How long a series that nobody writes to stays at least.
    stay: Duration,
    /// Is told when much memory was freed.
    pressure: Arc<Pressure>,
    metrics: HeadMetrics,
}

/// A write with its series found. No series goes away while it lives, and no await either.
pub(super) struct Resolved<'m> {
    /// Locked for reading.
    pub(super) map: RwLockReadGuard<'m, SeriesMap>,
    pub(super) write: Prepared,
    pub(super) judged: Judged,
}

impl Memory {
    pub(super) fn new(metrics: HeadMetrics, stay: Duration, pressure: Arc<Pressure>) -> Self {
        Self { metrics, stay, pressure, ..Self::default() }
    }

    /// Finds the series of a batch. Its write must be among the steps to be applied before this
    /// goes: that is what keeps the series until then.
    pub(super) fn resolve(&self, batch: WriteBatch<'_>, judge: Judge<'_>) -> Resolved<'_> {
        let map = self.map.read();
        let flush = self.flush.load(Ordering::Relaxed);
        let (write, judged) = Prepared::new(&map, batch, judge, flush);
        Resolved { map, write, judged }
    }

    /// What a write adds to [`bytes`](Self::bytes) at most.
    pub(super) fn most_bytes(write: &Prepared) -> u64 {
        let (samples, histograms) = (write.sample_count() as u64, write.histograms.len() as u64);
        let others = (write.exemplars.len() + write.metadata.len()) as u64;
        bytes_of(samples, samples + histograms, histograms + others)
    }

    /// Puts a write in. `stamp` is the acceptance time; 0 = not kept. Only one thread applies.
    pub(super) fn apply(&self, mut write: Prepared, stamp: i64) -> WriteOutcome {
        let mut outcome = WriteOutcome::default();
        let mut late = 0u64;
        let flush = self.flush.load(Ordering::Relaxed);
        let map = self.make_series(&mut write, flush);
        let mut pager = map.pager();
        let id = |write: &Prepared, entry: u32| write.entries[entry as usize].id;
        // Histograms first: within one request a float wins at the same timestamp.
        for (entry, point) in std::mem::take(&mut write.histograms) {
            let series = pager.series(id(&write, entry)).join_flush(flush as u8);
            late += u64::from(series.push(point, stamp) == Taken::Late);
            outcome.histograms += 1;
        }
        for entry in &write.entries {
            for sample in write.samples(entry) {
                let series = pager.series(entry.id).join_flush(flush as u8);
                late += u64::from(series.push_float(sample, stamp) == Taken::Late);
                outcome.samples += 1;
            }
        }
        for (entry, exemplar) in std::mem::take(&mut write.exemplars) {
            pager.series(id(&write, entry)).push_exemplar(exemplar);
            outcome.exemplars += 1;
        }
        drop(pager);
        outcome.metadata = write.metadata.len() as u64;
        let learned = self.learn(&write.metadata);
        self.metrics.late_points.inc_by(late);
        let rare = outcome.histograms + outcome.exemplars + learned;
        let bytes = bytes_of(outcome.samples, late, rare);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.metrics.bytes.set(self.bytes() as i64);
        outcome
    }

    /// Keeps metadata. Says how many entries were not known already.
    fn learn(&self, families: &Families) -> u64 {
        if families.len() == 0 {
            return 0;
        }
        let mut learned = 0;
        let mut known = self.metadata.lock();
        for MetadataEntry { family, kind, help, unit } in families.iter() {
            let old = known.get_mut(family);
            if old.as_ref().is_some_and(|m| m.kind == kind && m.help == help && m.unit == unit) {
                continue;
            }
            learned += 1;
            let metadata = Metadata { kind, help: help.to_owned(), unit: unit.to_owned() };
            match old {
                Some(old) => *old = metadata,
                None => drop(known.insert(family.to_owned(), metadata)),
            }
        }
        learned
    }

    /// Makes the series that a write needs and memory does not have.
    fn make_series(&self, write: &mut Prepared, flush: u32) -> RwLockReadGuard<'_, SeriesMap> {
        if write.new.is_empty() {
            let map = self.map.read();
            write.renumber(&map);
            return map;
        }
        let mut map = self.map.write();
        write.renumber(&map);
        for (entry, labels) in write.new.drain(..) {
            write.entries[entry as usize].id = map.find_or_insert(labels, flush);
        }
        self.metrics.series.set(map.len() as i64);
        self.pressure.set_flush_need(bytes_of_series(&map, FLUSH_BYTES));
        RwLockWriteGuard::downgrade(map)
    }

    /// Takes points and exemplars of the series that match out.
    pub(super) fn delete(&self, matchers: &[Matcher], range: &TimeRange) -> Result<(), StoreError> {
        let map = self.map.read();
        let mut pager = map.pager();
        for id in &map.matching(matchers)? {
            pager.series(id).delete(range).map_err(chunk_error)?;
        }
        Ok(())
    }

    /// The chunks in `range` of the series that match, sorted by labels; chunks are in order of
    /// acceptance. Fails when the label sets, or they and the chunks, have more than `limits` says.
    pub(super) fn select(
        &self,
        matchers: &[Matcher],
        range: &TimeRange,
        limits: &SelectHints,
    ) -> Result<Vec<(Labels, Vec<Chunk>)>, StoreError> {
        let map = self.map.read();
        let mut pager = map.pager();
        let mut found = Vec::new();
        let (mut bytes, mut pinned) = (0, 0);
        for id in map.matching(matchers)? {
            let chunks = pager.series(id).chunks(range);
            if !chunks.is_empty() {
                bytes += map.label_bytes(id);
                check_label_bytes(bytes, limits.max_label_bytes)?;
                pinned += pinned_bytes(&chunks);
                check_bytes(bytes.saturating_add(pinned), limits.max_bytes)?;
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
        let ids = present(&map, &query.matchers, &query.range)?;
        let rest = |left: usize, id| left.checked_sub(map.label_bytes(id));
        let fit = ids.iter().try_fold(query.limit.bytes, rest).is_some();
        if fit && ids.len() <= query.limit.items as u64 {
            let labels: Vec<Labels> = ids.iter().map(|id| map.labels(id)).collect();
            drop(map);
            // Sorted when nobody waits for the map.
            let labels = sorted_by_labels(labels, Labels::as_ref);
            return Ok(Limited::first(labels, query.limit));
        }
        // Only those that are answered come into being.
        let ids = order::sorted(|| &*map, ids.iter().collect());
        Ok(Limited::first(ids.map(|id| map.labels(id)), query.limit))
    }

    /// Asks the label index, whose answers are sorted, about the series that match and may have points
    /// in the range.
    pub(super) fn ask_index(
        &self,
        query: &SeriesQuery,
        ask: impl for<'m> FnOnce(&'m MemoryIndex, Among<'_>) -> Vec<&'m str>,
    ) -> Result<Limited<String>, StoreError> {
        let map = self.map.read();
        let ids = map.matching(&query.matchers)?;
        let mut pager = map.pager();
        // As a rule the first one has. Where none has, no value need be asked for all of its series.
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

    /// Metadata written since the last flush.
    pub(super) fn metadata(&self) -> BTreeMap<String, Metadata> {
        self.metadata.lock().clone()
    }

    /// The same of one family, or of the first ones by name.
    pub(super) fn metadata_of(
        &self,
        family: Option<&str>,
        limit: usize,
    ) -> Vec<(String, Metadata)> {
        let known = self.metadata.lock();
        let wanted = known.iter().filter(|(name, _)| family.is_none_or(|family| family == *name));
        wanted.take(limit).map(|(name, metadata)| (name.clone(), metadata.clone())).collect()
    }

    /// Bytes of points, about; those of the flush under way are in memory until its end.
    pub(super) fn bytes(&self) -> u64 {
        self.unflushed_bytes() + self.flushing_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of points not yet in a flush, about.
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

    /// How many points there are; those of the flush under way count until its end.
    pub(super) fn points(&self) -> u64 {
        let mut points = 0;
        self.map.read().for_each(|_, series| points += series.points());
        points
    }

    /// How many series there are.
    pub(super) fn series_count(&self) -> usize {
        self.map.read().len()
    }

    /// Begins a flush: what was applied before is part of it, what comes later is not. Called while
    /// nothing is being applied, and not before the end of the last flush.
    pub(super) fn begin_flush(&self) {
        let number = self.flush.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        self.begun.lock().push_back((number, Instant::now()));
        let bytes = self.bytes.swap(0, Ordering::Relaxed);
        self.flushing_bytes.store(bytes, Ordering::Relaxed);
    }

    /// The series that the flush has points of, sorted by labels. Their ids stay in use until its end.
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

    /// What the flush has of one series; `None` where a delete has left nothing.
    pub(super) fn flushing_run(&self, id: u32) -> Option<SeriesRun> {
        let map = self.map.read();
        let flush = self.flush.load(Ordering::Relaxed);
        let chunks = map.pager().series(id).flushing(flush as u8);
        (!chunks.is_empty()).then(|| SeriesRun { labels: map.labels(id), chunks })
    }

    /// The last flush that began long ago, if any.
    fn old_flush(&self, now: Instant) -> Option<u32> {
        let mut begun = self.begun.lock();
        let is_old = |at: Instant| now.saturating_duration_since(at) >= self.stay;
        while begun.get(1).is_some_and(|(_, at)| is_old(*at)) {
            begun.pop_front();
        }
        begun.front().filter(|(_, at)| is_old(*at)).map(|(number, _)| *number)
    }

    /// Forgets what the store below has taken, and series that have had nothing for a while. The exemplars
    /// of a series are in the order in which [`exemplars`](Self::exemplars) gave them.
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
        drop(current);
        if self.flushing_bytes.swap(0, Ordering::Relaxed) > 0 {
            // Chunks, and all that the store below had to write them.
            self.pressure.note_freed();
        }
        // Locked in any case: every write that found its series before is a step now.
        self.map.write().forget_renewed();
        if let Some(old) = self.old_flush(Instant::now()) {
            self.leave(Leave::Unseen { flush: self.flush.load(Ordering::Relaxed), old });
        }
        self.metrics.series.set(self.series_count() as i64);
        self.metrics.bytes.set(self.bytes() as i64);
    }

    /// Has all series without points leave. No write waits to be applied.
    pub(super) fn leave_all(&self) {
        self.leave(Leave::All);
        self.metrics.series.set(self.series_count() as i64);
    }

    /// Has series without points leave.
    fn leave(&self, leave: Leave) {
        if leaving::leave(&self.map, leave) == Room::Freed {
            self.pressure.note_freed();
        }
        self.pressure.set_flush_need(bytes_of_series(&self.map.read(), FLUSH_BYTES));
    }

    /// Bytes that all of it takes, about.
    pub(super) fn whole_bytes(&self) -> u64 {
        self.bytes() + bytes_of_series(&self.map.read(), SERIES_BYTES)
    }
}

/// Bytes of the labels of all series, with so many more for each.
fn bytes_of_series(map: &SeriesMap, each: u64) -> u64 {
    map.len() as u64 * each + map.index.text_bytes() as u64
}

fn present(
    map: &SeriesMap,
    matchers: &[Matcher],
    range: &TimeRange,
) -> Result<RoaringBitmap, StoreError> {
    let mut pager = map.pager();
    let mut ids = map.matching(matchers)?;
    let gone: RoaringBitmap = ids.iter().filter(|id| !pager.series(*id).may_have(range)).collect();
    ids -= gone;
    Ok(ids)
}

/// What reaches over both.
pub(super) fn hull(a: Option<TimeRange>, b: Option<TimeRange>) -> Option<TimeRange> {
    a.into_iter().chain(b).reduce(TimeRange::hull)
}

/// Bytes that these chunks take for who keeps them. The points of a closed one are shared with memory as long as
/// it has them.
pub(super) fn pinned_bytes(chunks: &[Chunk]) -> usize {
    /// Of what the allocator gives beyond what is asked for, and of the count of those who share the points.
    const BESIDE: usize = 64;
    let bytes = |chunk: &Chunk| {
        let sides = chunk.starts.len() + chunk.stamps.len();
        size_of::<Chunk>() + BESIDE + chunk.data.len() + sides
    };
    chunks.iter().map(bytes).sum()
}

/// A chunk that cannot be read.
pub(super) fn chunk_error(error: ChunkError) -> StoreError {
    StoreError::Backend { what: "a chunk cannot be read".into(), source: Box::new(error) }
}

/// What floats, those of them and of the histograms that came late, and all that is rarer than
/// floats take, about.
fn bytes_of(samples: u64, late: u64, rare: u64) -> u64 {
    samples * 2 + late * 48 + rare * 256
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{MetricType, RawLabels, Sample, SeriesEntry};
    use crate::storage::ListSize;

    /// A write to this series, with the series found; no flush has ended since then.
    fn found(memory: &Memory, name: &str, time: i64) -> Prepared {
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

    fn flush(memory: &Memory) -> Vec<Labels> {
        memory.begin_flush();
        let ids = memory.flushing();
        let flushed = ids.into_iter().map(|id| memory.map.read().labels(id)).collect();
        memory.end_flush(&[], &[]);
        flushed
    }

    /// Names in the label index, whether their series have points or not.
    fn indexed(memory: &Memory) -> Vec<String> {
        memory.map.read().index.values("__name__", None).into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn a_series_leaves_the_index_with_the_second_flush_after_its_last_write() {
        let memory = Memory::default();
        let names = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        for name in ["a", "b"] {
            memory.apply(found(&memory, name, 1), 0);
        }
        assert_eq!(flush(&memory).len(), 2);
        assert_eq!(indexed(&memory), names(&["a", "b"]));
        memory.apply(found(&memory, "b", 2), 0);
        assert_eq!(flush(&memory).len(), 1);
        assert_eq!(indexed(&memory), names(&["b"]));
        // The place of one that has gone is free.
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
        let memory = Memory::default();
        memory.apply(found(&memory, "a", 1), 0);
        let waits = found(&memory, "a", 2);
        assert_eq!(flush(&memory).len(), 1);
        // One that came meanwhile has an id of its own.
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
    fn write_all(memory: &Memory, series: std::ops::Range<usize>, time: i64) {
        series.for_each(|n| drop(memory.apply(found(memory, &format!("s{n}"), time), 0)));
    }

    #[test]
    fn the_room_of_series_that_left_is_given_up() {
        let memory = Memory::default();
        write_all(&memory, 0..6_000, 1);
        flush(&memory);
        assert_eq!(memory.map.read().room(), 6_000);
        // Most stay: their places are for the next ones.
        write_all(&memory, 0..2_500, 2);
        flush(&memory);
        assert_eq!((memory.series_count(), memory.map.read().room()), (2_500, 6_000));
        write_all(&memory, 1_000..1_300, 3);
        write_all(&memory, 9_000..9_010, 3);
        // One waits to be applied meanwhile, with an id that it had before.
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
        let memory = Memory::default();
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
            let hints = SelectHints { sorted: true, max_label_bytes, max_bytes };
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
        let memory =
            Memory::new(HeadMetrics::default(), Duration::from_secs(24 * 3600), Arc::default());
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
        let memory = Memory::default();
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
        assert_eq!(write(two()), (2, bytes_of(0, 0, 2)));
        assert_eq!(write(two()), (2, 0));
        assert_eq!(write(vec![]), (0, 0));
        for changed in
            [entry("a", gauge, "", "s"), entry("a", gauge, "s", ""), entry("a", gauge, "s", "m")]
        {
            // Within one batch too.
            let batch = vec![entry("be", gauge, "Help.", ""), entry("a", counter, "", ""), changed];
            assert_eq!(write(batch).0, 3);
            let known = memory.metadata();
            let a = Metadata { kind: gauge, help: changed.help.into(), unit: changed.unit.into() };
            let be = Metadata { kind: gauge, help: "Help.".into(), unit: String::new() };
            assert_eq!(known, BTreeMap::from([("a".to_owned(), a), ("be".to_owned(), be)]));
        }
    }
}
