//! Compaction: neighbouring small parts of one day become one, and deletes are carried out.
//!
//! Only parts that follow each other in the manifest, within their day, are merged, so the
//! precedence of their points stays. The new part takes their place in one manifest; whoever
//! still reads the old ones keeps them. One runs at a time.
//!
//! What it wrote it does not write again within an hour, not for a delete either unless very many of them wait:
//! the manifest says when that was. Only a clock that is set by more than that ends a rest early. What a flush
//! wrote may be merged or rewritten at once. So a day cannot grow without bound: what rests was written within
//! the hour, from four parts at least in an open day and from two in a closed one; the others wait only until
//! there are as many neighbours of about one size. Beside a few of each size a day has a third as many parts as
//! flushes touched it within an hour; as many, if it is closed or something was deleted from it after each.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::iter::Peekable;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use bytes::Bytes;

use crate::chunk::Chunk;
use crate::model::{Exemplar, Labels};
use crate::storage::codec::{self, Cursor};
use crate::storage::exemplars::Gathered;
use crate::storage::index::evaluate;
use crate::storage::{StoreError, frame, merge};

use super::duty::DutyCycle;
use super::lookup::{ExemplarEntries, read_row};
use super::manifest::{PartEntry, Tombstone};
use super::part::{Part, PartReader};
use super::state::{PartStore, State};
use super::writer::{Finished, PartWriter};
use super::{cutting, names, packing};

/// Parts merged at once.
const MAX_INPUTS: usize = 16;
/// Bytes merged at once.
const MAX_BYTES: u64 = 8 << 30;
/// A part that compaction wrote is left alone for so long.
const REST: Duration = Duration::from_secs(3_600);
/// With more deletes than this that are not carried out, each of which every read looks at, no part rests.
const MANY_TOMBSTONES: usize = 256;
/// A day is over for good so long after its end: late samples have come.
const CLOSED_AFTER_MS: i64 = 3 * 3_600_000;

/// How fast parts are merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Speed {
    /// As fast as it goes.
    Full,
    /// One thread, at most half of the time, from the first series to the footer: what clients ask for comes
    /// first. Not when the store is being closed.
    Background,
}

impl PartStore {
    /// Does the most useful piece of work, if there is any; returns whether there was.
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
        let mut duty = DutyCycle::new(hurry);
        let Some(merged) = self.merge(&state, &inputs, &mut duty)? else { return Ok(false) };
        self.replace(&inputs, merged, now)?;
        self.metrics.compactions.inc();
        Ok(true)
    }

    /// Writes one part in place of several; `None` when the store is being closed.
    fn merge(
        &self,
        state: &State,
        inputs: &[Arc<Part>],
        duty: &mut DutyCycle<'_>,
    ) -> Result<Option<Merged>, StoreError> {
        let id = self.new_id();
        let partition = inputs[0].entry.partition;
        let mut writer = PartWriter::new(self.files.clone(), &self.dir, partition, id);
        let mut merging = Merging { tombstones: &state.manifest.tombstones, scans: Vec::new() };
        for part in inputs {
            merging.scans.push(Scan::new(part)?);
        }
        while let Some((labels, chunks)) = merging.next()? {
            if self.stopping.load(Relaxed) {
                return Ok(None);
            }
            writer.add_series(&labels, &chunks)?;
            duty.keep();
        }
        let keep = &mut || duty.keep();
        let mut merging = MergingExemplars::new(&state.manifest.tombstones, inputs)?;
        while let Some((labels, exemplars)) = merging.next(keep)? {
            if self.stopping.load(Relaxed) {
                return Ok(None);
            }
            writer.add_exemplars(&labels, &exemplars);
            keep();
        }
        Ok(Some(Merged(writer.finish(state.manifest.last_tombstone, keep)?)))
    }

    /// Lists the merged part instead of its inputs, where the last of them stood.
    fn replace(&self, inputs: &[Arc<Part>], merged: Merged, now: i64) -> Result<(), StoreError> {
        self.commit(|state| {
            let is_input =
                |part: &Arc<Part>| inputs.iter().any(|input| input.entry.id == part.entry.id);
            if state.parts.iter().filter(|part| is_input(part)).count() != inputs.len() {
                // Retention or a delete removed an input meanwhile: the new part is given up.
                return Ok(());
            }
            let Some(last) = state.parts.iter().rposition(is_input) else { return Ok(()) };
            let Merged(Some(finished)) = merged else {
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

    /// Notes that the tombstones so far cut nothing of a part.
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

/// What is left of the inputs; `None` = nothing.
struct Merged(Option<Finished>);

/// Parts worth merging or rewriting; all of one day, in order.
fn choose(state: &State, now: i64) -> Option<Vec<Arc<Part>>> {
    let rests = |part: &Part| part.entry.was_merged_within(REST, now);
    let mut days: BTreeMap<i64, Vec<&Arc<Part>>> = BTreeMap::new();
    for part in &state.parts {
        days.entry(part.entry.partition).or_default().push(part);
    }
    for (partition, parts) in days.iter().rev() {
        let end = names::partition_end(*partition).saturating_add(CLOSED_AFTER_MS);
        let age = if end < now { Age::Closed } else { Age::Open };
        for parts in parts.split(|part| rests(part)) {
            let sizes: Vec<u64> = parts.iter().map(|part| part.entry.bytes).collect();
            if let Some(run) = worth_merging(&sizes, age) {
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

/// Whether a day still gets flushes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Age {
    Open,
    Closed,
}

/// The run of neighbours whose merge saves most parts for the bytes it writes. A part that is
/// much larger than the others of the run together is not written again for their sake.
fn worth_merging(sizes: &[u64], age: Age) -> Option<Range<usize>> {
    let (fewest, ratio) = match age {
        Age::Open => (4, 2),
        Age::Closed => (2, 4),
    };
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

/// The series of several parts, merged.
struct Merging<'a> {
    tombstones: &'a [Arc<Tombstone>],
    scans: Vec<Scan<'a>>,
}

impl Merging<'_> {
    /// The next label set with its chunks, cut and in order.
    fn next(&mut self) -> Result<Option<(Labels, Vec<Chunk>)>, StoreError> {
        let heads = self.scans.iter().filter_map(|scan| scan.head.as_ref());
        let Some(labels) = heads.map(|head| &head.labels).min().cloned() else { return Ok(None) };
        let mut sources = Vec::new();
        for scan in &mut self.scans {
            let head =
                scan.head.as_ref().filter(|head| head.labels.cmp(&labels) == Ordering::Equal);
            if let Some(offset) = head.map(|head| head.offset) {
                let part = scan.reader.part;
                sources.push((part, offset, scan.take(self.tombstones)?));
            }
        }
        // Handles: the bytes are shared.
        let chunks = sources.iter().flat_map(|(_, _, chunks)| chunks).cloned().collect();
        let merged = merge::merge(chunks).and_then(packing::packed);
        let merged = merged.map_err(|error| Part::merge_damage(sources, error))?;
        Ok(Some((labels, merged)))
    }
}

/// The exemplars of several parts, merged: those of one series are in memory at a time, and a block of each part.
struct MergingExemplars<'a> {
    tombstones: &'a [Arc<Tombstone>],
    parts: Vec<(&'a Part, Peekable<ExemplarEntries<'a>>)>,
}

impl<'a> MergingExemplars<'a> {
    fn new(tombstones: &'a [Arc<Tombstone>], inputs: &'a [Arc<Part>]) -> Result<Self, StoreError> {
        let entries = |part: &'a Arc<Part>| Ok((&**part, part.reader()?.exemplars().peekable()));
        let parts = inputs.iter().filter(|part| part.entry.exemplars > 0).map(entries);
        Ok(Self { tombstones, parts: parts.collect::<Result<_, StoreError>>()? })
    }

    /// The next series with its exemplars, without what was deleted; it may have none. Calls `keep` after each
    /// piece of work.
    fn next(
        &mut self,
        keep: &mut dyn FnMut(),
    ) -> Result<Option<(Labels, Vec<Exemplar>)>, StoreError> {
        let mut first: Option<Labels> = None;
        for (_, entries) in &mut self.parts {
            // An error is met below, where it can be taken.
            if let Some(Ok((labels, _))) = entries.peek()
                && first.as_ref().is_none_or(|first| labels < first)
            {
                first = Some(labels.clone());
            }
        }
        // A later part wins.
        let mut gathered = Gathered::new(usize::MAX);
        for (part, entries) in &mut self.parts {
            let is_it = |entry: &Result<(Labels, Vec<Exemplar>), StoreError>| {
                entry.as_ref().map_or(true, |(labels, _)| Some(labels) == first.as_ref())
            };
            while let Some(entry) = entries.next_if(is_it) {
                let (labels, mut exemplars) = entry?;
                let cuts = cutting::cuts(self.tombstones, &part.entry, &labels);
                exemplars.retain(|e| !cuts.iter().any(|cut| cut.contains(e.timestamp)));
                gathered.add(&labels, exemplars)?;
                keep();
            }
        }
        let Some(labels) = first else { return Ok(None) };
        let exemplars = gathered.finish().into_iter().next().map(|(_, exemplars)| exemplars);
        Ok(Some((labels, exemplars.unwrap_or_default())))
    }
}

/// Reads the series of one part from first to last.
struct Scan<'a> {
    reader: PartReader<'a>,
    next_block: usize,
    /// Rows of the current block that are still to come, with their frames.
    rows: std::vec::IntoIter<Head>,
    head: Option<Head>,
}

struct Head {
    labels: Labels,
    offset: u64,
    frame: Bytes,
}

impl<'a> Scan<'a> {
    fn new(part: &'a Part) -> Result<Self, StoreError> {
        let reader = part.reader()?;
        let mut scan = Self { reader, next_block: 0, rows: Vec::new().into_iter(), head: None };
        scan.advance()?;
        Ok(scan)
    }

    /// The chunks of the head, without what was deleted; goes on to the next one.
    fn take(&mut self, tombstones: &[Arc<Tombstone>]) -> Result<Vec<Chunk>, StoreError> {
        let Some(head) = self.head.take() else { return Ok(Vec::new()) };
        let part = self.reader.part;
        let chunks = frame::chunks_of(&head.frame, part.entry.partition)
            .map_err(|damage| part.damage(head.offset, damage))?;
        let cuts = cutting::cuts(tombstones, &part.entry, &head.labels);
        let chunks = cutting::without(chunks, &cuts)
            .map_err(|error| part.chunk_damage(head.offset, error))?;
        self.advance()?;
        Ok(chunks)
    }

    fn advance(&mut self) -> Result<(), StoreError> {
        while self.rows.len() == 0 && self.next_block < self.reader.directory.series.len() {
            self.rows = self.read_block()?.into_iter();
            self.next_block += 1;
        }
        self.head = self.rows.next();
        Ok(())
    }

    fn read_block(&self) -> Result<Vec<Head>, StoreError> {
        let block = self.reader.directory.series[self.next_block];
        let part = self.reader.part;
        let raw = self.reader.uncached_block(block.block)?;
        let frames = self.reader.bytes(block.frames, block.frames_len)?;
        let damage = |damage| part.damage(block.block.offset, damage);
        let mut cursor = Cursor(&raw);
        let mut heads = Vec::new();
        let mut offset = block.frames;
        for _ in 0..block.count {
            let row = read_row(&mut cursor, offset, part.entry.partition).map_err(damage)?;
            let from = offset - block.frames;
            offset += u64::from(row.frame.len);
            let to = offset - block.frames;
            if to > block.frames_len {
                return Err(damage(codec::Damage("a series points beyond its block")));
            }
            let labels = codec::labels(row.labels).map_err(damage)?;
            let frame = frames.slice(from as usize..to as usize);
            heads.push(Head { labels, offset: row.frame.offset, frame });
        }
        Ok(heads)
    }
}

#[cfg(test)]
mod tests {
    use super::super::duty::tests::Ticking;
    use super::super::{Options, absorb};
    use super::*;
    use crate::chunk::encode_points;
    use crate::model::{Point, Value};
    use crate::storage::disk::Disk;
    use crate::storage::{Flush, Pace, SeriesRun};
    use crate::telemetry::StoreMetrics;

    /// A merge of two parts with so many series, of which each has a value of its own and, where it is
    /// wanted, an exemplar. How often it would rest if that were long work.
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
                pace: Pace::default(),
            };
            let runtime = tokio::runtime::Builder::new_current_thread().build();
            let absorbed = absorb::absorb(store.clone(), flush);
            runtime.expect("a runtime").block_on(absorbed).expect("absorbed");
        }
        let (state, clock) = (store.state(), Ticking::new());
        let merged = store.merge(&state, &state.parts, &mut clock.duty()).expect("merged");
        let Some(Merged(Some(finished))) = merged else { panic!("nothing was left") };
        assert_eq!(u64::from(finished.entry.series), series);
        assert_eq!(finished.entry.exemplars, 2 * exemplars);
        clock.rests()
    }

    #[test]
    fn the_whole_of_a_merge_keeps_to_its_share() {
        let (few, more) = (rests_of_a_merge(10, 0), rests_of_a_merge(110, 0));
        // Once for its points and once for its entry in the index.
        assert_eq!(more - few, 2 * 100);
        // Once for the exemplars of each part, and once when they are written.
        assert_eq!(rests_of_a_merge(110, 50) - more, 3 * 50 + 1);
        // And once for each other piece of the file: the values and the series.
        assert_eq!(few, 2 * 10 + 2);
    }

    #[test]
    fn what_is_worth_merging() {
        let check = |age, sizes: &[u64], want| assert_eq!(worth_merging(sizes, age), want);
        check(Age::Open, &[10, 10, 10], None);
        check(Age::Open, &[10, 10, 10, 10], Some(0..4));
        check(Age::Open, &[1_000, 10, 10, 10], None);
        check(Age::Open, &[1_000, 10, 10, 10, 10], Some(1..5));
        check(Age::Closed, &[10], None);
        check(Age::Closed, &[1_000, 10], None);
        check(Age::Closed, &[1_000, 300], Some(0..2));
        check(Age::Closed, &[MAX_BYTES, MAX_BYTES], None);
        check(Age::Open, &[1; 40], Some(0..16));
    }
}
