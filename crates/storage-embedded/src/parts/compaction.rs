//! Compaction: merges neighbouring small parts of one partition, and applies deletes to files.
//!
//! Merged parts follow each other in the manifest. Only parts without points in their time may be
//! between them, so precedence stays. One manifest replaces the inputs by the new part; readers of
//! the old files keep them. One compaction runs at a time.
//!
//! A part that compaction wrote rests: it is not written again within an hour, not for a delete either unless very
//! many deletes are pending. The manifest has the time of the merge; only a clock that is set by more than an hour
//! ends a rest early. A part that a flush wrote may be merged or rewritten at once. So a day cannot grow without
//! bound. Parts that rest were written within the hour, from at least four parts in an open day and from two in a
//! closed one; the others only wait for enough neighbours of about one size. Beside a few parts of each size, a day
//! has a third as many parts as flushes touched it within an hour; as many, if it is closed or something was deleted
//! from it after each.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use promkairos_model::TimeRange;
use promkairos_storage::StoreError;
use promkairos_storage::index::evaluate;

use super::cpu_throttle::CpuThrottle;
use super::manifest::PartEntry;
use super::merged_values::MergedValues;
use super::merging::{Merging, MergingExemplars};
use super::names::{self, WIDE};
use super::part::Part;
use super::state::{PartStore, State};
use super::writer::{Finished, PartWriter};

/// Most parts merged at once.
const MAX_INPUTS: usize = 16;
/// Most bytes merged at once.
const MAX_BYTES: u64 = 8 << 30;
/// How long a part that compaction wrote is left alone.
const REST: Duration = Duration::from_secs(3_600);
/// With more pending deletes than this no part rests, since every read checks each of them.
const MANY_TOMBSTONES: usize = 256;
/// How long after its end a day is closed, in milliseconds: late samples have arrived.
const CLOSED_AFTER_MS: i64 = 3 * 3_600_000;

/// How fast parts are merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Speed {
    /// As fast as it goes.
    Full,
    /// At most half of one core, from the first series to the footer: requests of clients come
    /// first. Full speed while the store is being closed.
    Background,
}

impl PartStore {
    /// Does the most useful piece of work, if there is any; returns whether it did.
    pub(super) fn compact_once(&self, now: i64, speed: Speed) -> Result<bool, StoreError> {
        let _one_at_a_time = self.compacting.lock();
        if self.stopping.load(Relaxed) {
            return Ok(false);
        }
        let state = self.state();
        let Some(inputs) = choose(&state, now) else { return Ok(false) };
        if let [part] = inputs.as_slice()
            && is_untouched(&state, part)?
        {
            self.mark_cut(&state, part)?;
            return Ok(true);
        }
        let hurry = || speed == Speed::Full || self.stopping.load(Relaxed);
        let mut duty = CpuThrottle::new(hurry);
        let Some(merged) = self.merge(&state, &inputs, &mut duty)? else { return Ok(false) };
        self.replace(&inputs, merged, now)?;
        self.metrics.compactions.inc();
        Ok(true)
    }

    /// Writes one part in place of several; no part if no data are left. `None` when the store is being closed.
    fn merge(
        &self,
        state: &State,
        inputs: &[Arc<Part>],
        duty: &mut CpuThrottle<'_>,
    ) -> Result<Option<Option<Finished>>, StoreError> {
        let id = self.new_id();
        let partition = inputs[0].entry.partition;
        let target = self.target();
        let mut writer = PartWriter::new(&target, partition, id);
        let tombstones = &state.manifest.tombstones;
        let mut merging = Merging::new(tombstones, inputs, target.sizes)?;
        while merging.next(&mut writer)? {
            if self.stopping.load(Relaxed) {
                return Ok(None);
            }
            duty.keep();
        }
        let (rows, continued) = merging.rows();
        let keep = &mut || duty.keep();
        let mut merging = MergingExemplars::new(tombstones, inputs)?;
        while let Some((labels, exemplars)) = merging.next(keep)? {
            if self.stopping.load(Relaxed) {
                return Ok(None);
            }
            writer.add_exemplars(&labels, &exemplars)?;
            keep();
        }
        let inputs = inputs.iter().map(|part| &**part).zip(&rows);
        let finished = writer.finish(state.manifest.last_tombstone, |out| {
            MergedValues::new(inputs, &continued)?.write(out, keep)
        })?;
        Ok(Some(finished))
    }

    /// Lists the merged part instead of its inputs, at the position of the last input.
    fn replace(
        &self,
        inputs: &[Arc<Part>],
        merged: Option<Finished>,
        now: i64,
    ) -> Result<(), StoreError> {
        self.commit(|state| {
            let is_input =
                |part: &Arc<Part>| inputs.iter().any(|input| input.entry.id == part.entry.id);
            if state.parts.iter().filter(|part| is_input(part)).count() != inputs.len() {
                // Retention or a delete removed an input meanwhile: discard the new part.
                return Ok(());
            }
            let Some(last) = state.parts.iter().rposition(is_input) else { return Ok(()) };
            let Some(finished) = merged else {
                state.parts.retain(|part| !is_input(part));
                return Ok(());
            };
            let entry = PartEntry { merged: now, ..finished.publish()? };
            let part = Arc::new(self.adopt(entry));
            state.parts[last] = part.clone();
            state.parts.retain(|part| !is_input(part));
            part.check()
        })
    }

    /// Records that no tombstone so far cuts anything in a part.
    fn mark_cut(&self, seen: &State, part: &Part) -> Result<(), StoreError> {
        let cut_through = seen.manifest.last_tombstone;
        self.commit(|state| {
            for known in &mut state.parts {
                if known.entry.id == part.entry.id {
                    // The same file: a selection made before still reads it.
                    *known = Arc::new(known.listed_as(PartEntry { cut_through, ..part.entry }));
                }
            }
            Ok(())
        })
    }
}

/// Parts worth merging or rewriting; all of one partition, in order.
fn choose(state: &State, now: i64) -> Option<Vec<Arc<Part>>> {
    let rests = |part: &Part| part.entry.was_merged_within(REST, now);
    for (partition, places) in by_partition(state).iter().rev() {
        let end = names::partition_end(*partition).saturating_add(CLOSED_AFTER_MS);
        let is_closed = *partition == WIDE || end < now;
        for places in neighbours(state, places, rests) {
            let parts: Vec<&Arc<Part>> = places.iter().map(|place| &state.parts[*place]).collect();
            let sizes: Vec<u64> = parts.iter().map(|part| part.entry.bytes).collect();
            if let Some(run) = worth_merging(&sizes, is_closed) {
                return Some(parts[run].iter().map(|part| Arc::clone(part)).collect());
            }
        }
    }
    let many = state.manifest.tombstones.len() > MANY_TOMBSTONES;
    let mut parts = state.parts.iter().filter(|part| many || !rests(part));
    let cut = |part: &&Arc<Part>| {
        state.manifest.tombstones.iter().any(|tombstone| tombstone.concerns(&part.entry))
    };
    parts.find(cut).map(|part| vec![part.clone()])
}

/// Positions of the parts of each partition, in order.
fn by_partition(state: &State) -> BTreeMap<i64, Vec<usize>> {
    let mut places: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
    for (place, part) in state.parts.iter().enumerate() {
        places.entry(part.entry.partition).or_default().push(place);
    }
    places
}

/// Runs of neighbouring parts of one partition, without parts that rest. A part of another partition between them
/// must not have points in their time: a merge would give points of earlier parts precedence over it.
fn neighbours(state: &State, places: &[usize], rests: impl Fn(&Part) -> bool) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    let mut range: Option<TimeRange> = None;
    let mut last = 0;
    for place in places {
        let part = &state.parts[*place];
        let is_between = |other: &Arc<Part>| {
            other.entry.partition != part.entry.partition
                && range.is_some_and(|range| range.overlaps(&other.entry.range))
        };
        if rests(part) || state.parts[last..*place].iter().any(is_between) {
            all.push(Vec::new());
            range = None;
        }
        last = *place;
        if !rests(part)
            && let Some(last) = all.last_mut()
        {
            last.push(*place);
            let own = part.entry.range;
            range = Some(range.map_or(own, |range| range.hull(own)));
        }
    }
    all
}

/// The run of neighbours whose merge removes most parts for the bytes it writes. A part that is
/// much larger than the rest of the run together is not rewritten.
fn worth_merging(sizes: &[u64], is_closed: bool) -> Option<Range<usize>> {
    let (fewest, ratio) = if is_closed { (2, 4) } else { (4, 2) };
    let mut best: Option<(u64, Range<usize>)> = None;
    for start in 0..sizes.len() {
        let (mut total, mut largest) = (0u64, 0);
        for (end, size) in sizes.iter().enumerate().skip(start).take(MAX_INPUTS) {
            total = total.saturating_add(*size);
            largest = largest.max(*size);
            let count = end + 1 - start;
            if total > MAX_BYTES {
                break;
            }
            if count < fewest || largest > (total - largest).saturating_mul(ratio) {
                continue;
            }
            // Scaled, so that it is exact enough for tiny parts too.
            let price = total.saturating_mul(1 << 20) / (count as u64 - 1);
            if best.as_ref().is_none_or(|(least, _)| price < *least) {
                best = Some((price, start..end + 1));
            }
        }
    }
    best.map(|(_, run)| run)
}

/// Whether no tombstone that concerns a part cuts anything in it.
fn is_untouched(state: &State, part: &Part) -> Result<bool, StoreError> {
    if part.entry.exemplars > 0 {
        return Ok(false);
    }
    let reader = part.reader()?;
    for tombstone in &state.manifest.tombstones {
        if tombstone.concerns(&part.entry) && !evaluate(&reader, &tombstone.matchers)?.is_empty() {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::super::ticking::Ticking;
    use super::super::{Options, ingest_flush};
    use super::*;
    use promkairos_chunk::encode_points;
    use promkairos_model::{Exemplar, Labels, Point, Value};
    use promkairos_storage::disk::Disk;
    use promkairos_storage::{DayCounts, Flush, RatePacer, SeriesRun};
    use promkairos_telemetry::StoreMetrics;

    /// How often a merge of two parts with `series` series rests, if every piece is long. Each
    /// series has a value of its own; `exemplars` of them have an exemplar.
    fn rests_of_a_merge(series: u64, exemplars: u64) -> usize {
        let dir = tempfile::tempdir().expect("a folder");
        let metrics = StoreMetrics::default();
        let store = PartStore::open(Arc::new(Disk), dir.path().into(), Options::default(), metrics);
        let store = Arc::new(store.expect("it opens"));
        let labels = |n| Labels::from_pairs([("n", format!("{n:06}"))]).expect("valid");
        for time in 0..2 {
            let point = Point { timestamp: time, start_timestamp: 0, value: Value::Float(0.5) };
            let chunks = encode_points([&point]);
            let runs = (0..series).map(|n| SeriesRun { labels: labels(n), chunks: chunks.clone() });
            let exemplar = |n| {
                let exemplar = Exemplar { labels: labels(n), value: 1.0, timestamp: time };
                (labels(n), vec![exemplar])
            };
            let flush = Flush {
                through: 1,
                runs: Box::new(runs),
                exemplars: (0..exemplars).map(exemplar).collect(),
                metadata: Vec::new(),
                days: DayCounts::default(),
                pace: RatePacer::default(),
            };
            let runtime = tokio::runtime::Builder::new_current_thread().build();
            let absorbed = ingest_flush::ingest_flush(store.clone(), flush);
            runtime.expect("a runtime").block_on(absorbed).expect("absorbed");
        }
        let (state, clock) = (store.state(), Ticking::new());
        let merged = store.merge(&state, &state.parts, &mut clock.duty()).expect("merged");
        let Some(Some(finished)) = merged else { panic!("nothing was left") };
        assert_eq!(u64::from(finished.entry.series), series);
        assert_eq!(finished.entry.exemplars, 2 * exemplars);
        clock.rests()
    }

    #[test]
    fn the_whole_of_a_merge_keeps_to_its_share() {
        let (few, more) = (rests_of_a_merge(10, 0), rests_of_a_merge(110, 0));
        // For each series, once for its points and once for its entry in the index.
        assert_eq!(more - few, 2 * 100);
        // Once for the exemplars of each part, and once when they are written.
        assert_eq!(rests_of_a_merge(110, 50) - more, 3 * 50);
        assert_eq!(few, 2 * 10);
    }

    #[test]
    fn what_is_worth_merging() {
        let check =
            |is_closed, sizes: &[u64], want| assert_eq!(worth_merging(sizes, is_closed), want);
        let (open, closed) = (false, true);
        check(open, &[10, 10, 10], None);
        check(open, &[10, 10, 10, 10], Some(0..4));
        check(open, &[1_000, 10, 10, 10], None);
        check(open, &[1_000, 10, 10, 10, 10], Some(1..5));
        check(closed, &[10], None);
        check(closed, &[1_000, 10], None);
        check(closed, &[1_000, 300], Some(0..2));
        check(closed, &[MAX_BYTES, MAX_BYTES], None);
        check(open, &[1; 40], Some(0..16));
    }
}
