//! Writes a flush: runs of series become one new part for each day, or for many days together
//! ([`partitioning`](super::partitioning)).
//!
//! The runs come from an iterator that may borrow, so the caller's task reads it and a blocking
//! thread writes. Nothing is visible until all parts are durable and one manifest lists them. A
//! caller that is dropped before the end leaves nothing behind.
//!
//! A flush is not spread over its pace: memory would hold the points for that long. Unless it is
//! urgent, it uses at most half of a core, and so takes twice the time.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::mpsc;

use promkairos_model::{Exemplar, Labels, Metadata};
use promkairos_storage::{Flush, FlushOutcome, SeriesRun, StoreError};

use super::blocking::blocking;
use super::cpu_throttle::CpuThrottle;
use super::indexed_writer::IndexedWriter;
use super::metadata;
use super::names::{self, WIDE};
use super::packing;
use super::partitioning::Partitions;
use super::state::{Flight, PartStore};
use super::writer::{Finished, Target};

/// Bytes of labels and chunks that are handed to the writing thread at once.
const BATCH_BYTES: usize = 256 << 10;

/// Most parts that are written at a time.
const MOST_OPEN: usize = 256;

/// What comes after the runs.
struct Ending {
    through: u64,
    exemplars: Vec<(Labels, Vec<Exemplar>)>,
    metadata: Vec<(String, Metadata)>,
}

enum Message {
    Runs(Vec<SeriesRun>),
    End(Ending),
}

/// Writes a flush. `Ok` = durable and visible.
pub(super) async fn ingest_flush(
    store: Arc<PartStore>,
    flush: Flush<'_>,
) -> Result<FlushOutcome, StoreError> {
    let (sender, receiver) = mpsc::channel(4);
    // Deletes from now on apply to this flush too: its points were accepted before them.
    let flight = PartStore::begin_flight(&store);
    let Flush { through, runs, exemplars, days, metadata, pace } = flush;
    let partitions = Partitions::of(&days);
    let writer = blocking(move || {
        let mut duty = CpuThrottle::new(|| pace.is_urgent());
        write(&flight, partitions, receiver, &mut || duty.keep())
    });
    let send = async move {
        let mut batch = Vec::new();
        let mut bytes = 0;
        for run in runs {
            bytes += run.labels.as_bytes().len();
            bytes += run.chunks.iter().map(|chunk| chunk.data.len() + 64).sum::<usize>();
            batch.push(run);
            if bytes >= BATCH_BYTES {
                bytes = 0;
                // The writer ends early only if it failed; it returns the error.
                if sender.send(Message::Runs(std::mem::take(&mut batch))).await.is_err() {
                    return;
                }
            }
        }
        if sender.send(Message::Runs(batch)).await.is_ok() {
            let end = Message::End(Ending { through, exemplars, metadata });
            drop(sender.send(end).await);
        }
    };
    let (written, ()) = tokio::join!(writer, send);
    written
}

/// Writes the parts of a flush. Calls `keep` after each piece of work.
fn write(
    flight: &Flight,
    partitions: Partitions,
    mut receiver: mpsc::Receiver<Message>,
    keep: &mut dyn FnMut(),
) -> Result<FlushOutcome, StoreError> {
    let store = &*flight.store;
    let mut parts = Writers::new(store, partitions, flight.cut_through);
    let mut points = 0;
    loop {
        match receiver.blocking_recv() {
            Some(Message::Runs(runs)) => {
                store.check_open()?;
                for run in &runs {
                    points += run.chunks.iter().map(|c| u64::from(c.count)).sum::<u64>();
                    parts.add(run, keep)?;
                    keep();
                }
            }
            Some(Message::End(end)) => {
                parts.finish(end, keep)?;
                store.metrics.points.inc_by(points);
                return Ok(FlushOutcome { points, ..FlushOutcome::default() });
            }
            None => {
                let what = "the flush was given up by its sender".into();
                return Err(StoreError::Invalid(what));
            }
        }
    }
}

/// The parts that are written, one for each partition. When together they use too much memory, all
/// are finished and new ones begin: so the memory of a flush is bounded, whatever its labels are.
struct Writers<'a> {
    store: &'a PartStore,
    target: Target,
    partitions: Partitions,
    cut_through: u64,
    open: BTreeMap<i64, IndexedWriter>,
    /// Approximate size of the open parts in memory, in bytes.
    bytes: usize,
    /// Parts that are finished.
    finished: Vec<Finished>,
}

impl<'a> Writers<'a> {
    fn new(store: &'a PartStore, partitions: Partitions, cut_through: u64) -> Self {
        let (target, open, finished) = (store.target(), BTreeMap::new(), Vec::new());
        Self { store, target, partitions, cut_through, open, bytes: 0, finished }
    }

    fn add(&mut self, run: &SeriesRun, keep: &mut dyn FnMut()) -> Result<(), StoreError> {
        let refuse =
            |error| StoreError::Invalid(format!("a flushed chunk of {}: {error}", run.labels));
        for (partition, chunks) in self.partitions.split(&run.chunks).map_err(refuse)? {
            let chunks = packing::packed(chunks).map_err(refuse)?;
            self.with_writer(partition, |writer| writer.add_series(&run.labels, &chunks))?;
        }
        self.end_if_large(keep)
    }

    fn add_exemplars(
        &mut self,
        mut series: Vec<(Labels, Vec<Exemplar>)>,
        keep: &mut dyn FnMut(),
    ) -> Result<(), StoreError> {
        series.sort_by(|a, b| a.0.cmp(&b.0));
        for (labels, exemplars) in series {
            let mut by_partition: BTreeMap<i64, Vec<Exemplar>> = BTreeMap::new();
            for exemplar in exemplars {
                let partition = self.partitions.at(exemplar.timestamp);
                by_partition.entry(partition).or_default().push(exemplar);
            }
            for (partition, exemplars) in by_partition {
                self.with_writer(partition, |writer| writer.add_exemplars(&labels, &exemplars))?;
            }
            self.end_if_large(keep)?;
        }
        Ok(())
    }

    fn with_writer(
        &mut self,
        partition: i64,
        add: impl FnOnce(&mut IndexedWriter) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let Self { store, target, open, bytes, .. } = self;
        // The flush has more days than its counts say.
        let is_new = !open.contains_key(&partition);
        let partition = if is_new && open.len() >= MOST_OPEN { WIDE } else { partition };
        let writer = open.entry(partition);
        let writer =
            writer.or_insert_with(|| IndexedWriter::new(target, partition, store.new_id()));
        add(writer)?;
        *bytes += writer.growth();
        Ok(())
    }

    fn end_if_large(&mut self, keep: &mut dyn FnMut()) -> Result<(), StoreError> {
        if self.bytes <= self.store.write_bytes { Ok(()) } else { self.end(keep) }
    }

    fn end(&mut self, keep: &mut dyn FnMut()) -> Result<(), StoreError> {
        self.bytes = 0;
        while let Some((_, writer)) = self.open.pop_first() {
            self.store.check_open()?;
            self.finished.extend(writer.finish(self.cut_through, keep)?);
        }
        Ok(())
    }

    fn finish(mut self, end: Ending, keep: &mut dyn FnMut()) -> Result<(), StoreError> {
        self.add_exemplars(end.exemplars, keep)?;
        self.end(keep)?;
        let Self { store, finished, .. } = self;
        let metadata_id = store.new_id();
        store.commit(|state| {
            for part in finished {
                // Listed before the check, so that the commit removes the part if the check fails.
                let part = Arc::new(store.adopt(part.publish()?));
                state.parts.push(part.clone());
                part.check()?;
            }
            if state.merge_metadata(end.metadata) {
                let bytes = metadata::encode(&state.metadata);
                store.write_file(&names::metadata(metadata_id), &bytes)?;
                state.manifest.metadata = metadata_id;
            }
            let through = &mut state.manifest.flushed_through;
            *through = end.through.max(*through);
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Options;
    use super::super::ticking::Ticking;
    use super::*;
    use promkairos_chunk::encode_points;
    use promkairos_model::{Point, Value};
    use promkairos_storage::disk::Disk;
    use promkairos_telemetry::StoreMetrics;

    #[test]
    fn a_flush_keeps_to_its_share_unless_there_is_a_hurry() {
        let dir = tempfile::tempdir().expect("a folder");
        let metrics = StoreMetrics::default();
        let store = PartStore::open(Arc::new(Disk), dir.path().into(), Options::default(), metrics);
        let store = Arc::new(store.expect("it opens"));
        let rests_of = |series: u64, clock: Ticking| {
            let point = Point { timestamp: 1, start_timestamp: 0, value: Value::Float(0.5) };
            let run = |n: u64| {
                let labels = Labels::from_pairs([("n", format!("{n:06}"))]).expect("valid");
                SeriesRun { labels, chunks: encode_points([&point]) }
            };
            let (sender, receiver) = mpsc::channel(2);
            let (exemplars, metadata) = Default::default();
            let end = Message::End(Ending { through: 1, exemplars, metadata });
            for message in [Message::Runs((0..series).map(run).collect()), end] {
                assert!(sender.try_send(message).is_ok(), "there is room");
            }
            let flight = PartStore::begin_flight(&store);
            let mut duty = clock.duty();
            let written =
                write(&flight, Partitions::Days, receiver, &mut || duty.keep()).expect("written");
            assert_eq!(written.points, series);
            drop(duty);
            clock.rests()
        };
        let (few, more) = (rests_of(10, Ticking::new()), rests_of(110, Ticking::new()));
        // For each series, once for its points and once for its entry in the index.
        assert_eq!(more - few, 2 * 100);
        let urgent = Ticking::new();
        urgent.set_hurry();
        assert_eq!(rests_of(110, urgent), 0);
    }
}
