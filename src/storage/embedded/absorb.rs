//! Taking a flush: runs of series become one new part for each day they touch.
//!
//! The runs come from an iterator that may borrow, so the caller's task pulls them and a
//! blocking thread writes them. Nothing is visible until all parts are durable and one manifest
//! lists them; a caller that goes away before the end leaves nothing behind.
//!
//! It is not spread over the time of its pace: memory would hold the points for that long. But while nothing
//! makes it urgent it takes half of a core at most, so that it is done in twice the time.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::mpsc;

use crate::chunk::{Chunk, ChunkError};
use crate::model::{Exemplar, Labels, Metadata, TimeRange};
use crate::storage::{Absorbed, Flush, SeriesRun, StoreError};

use super::duty::DutyCycle;
use super::state::{Flight, PartStore};
use super::writer::PartWriter;
use super::{blocking, cutting, metadata, names, packing};

/// Bytes of labels and chunks that are handed to the writing thread at once.
const BATCH_BYTES: usize = 256 << 10;

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

/// Writes a flush. `Ok` means durable and findable.
pub(super) async fn absorb(
    store: Arc<PartStore>,
    flush: Flush<'_>,
) -> Result<Absorbed, StoreError> {
    let (sender, receiver) = mpsc::channel(4);
    // Deletes from here on concern what is being written too: it was accepted before them.
    let flight = PartStore::begin_flight(&store);
    let Flush { through, runs, exemplars, metadata, pace } = flush;
    let writer = blocking(move || {
        let mut duty = DutyCycle::new(|| pace.is_urgent());
        write(&flight, receiver, &mut || duty.keep())
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
                // A writer that has gone has failed; its own error says why.
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

/// Calls `keep` after each piece of work.
fn write(
    flight: &Flight,
    mut receiver: mpsc::Receiver<Message>,
    keep: &mut dyn FnMut(),
) -> Result<Absorbed, StoreError> {
    let store = &*flight.store;
    let mut parts = Writers { store, open: BTreeMap::new() };
    let mut points = 0;
    loop {
        match receiver.blocking_recv() {
            Some(Message::Runs(runs)) => {
                store.check_open()?;
                for run in &runs {
                    points += run.chunks.iter().map(|c| u64::from(c.count)).sum::<u64>();
                    parts.add(run)?;
                    keep();
                }
            }
            Some(Message::End(end)) => {
                parts.finish(end, flight.cut_through, keep)?;
                store.metrics.points.inc_by(points);
                return Ok(Absorbed { points, ..Absorbed::default() });
            }
            None => {
                let what = "the flush was given up by its sender".into();
                return Err(StoreError::Invalid(what));
            }
        }
    }
}

/// One part being written for each time partition.
struct Writers<'a> {
    store: &'a PartStore,
    open: BTreeMap<i64, PartWriter>,
}

impl Writers<'_> {
    fn add(&mut self, run: &SeriesRun) -> Result<(), StoreError> {
        let refuse =
            |error| StoreError::Invalid(format!("a flushed chunk of {}: {error}", run.labels));
        for (partition, chunks) in by_partition(&run.chunks).map_err(refuse)? {
            let chunks = packing::packed(chunks).map_err(refuse)?;
            self.writer(partition).add_series(&run.labels, &chunks)?;
        }
        Ok(())
    }

    fn add_exemplars(&mut self, mut series: Vec<(Labels, Vec<Exemplar>)>) {
        series.sort_by(|a, b| a.0.cmp(&b.0));
        for (labels, exemplars) in series {
            let mut by_day: BTreeMap<i64, Vec<Exemplar>> = BTreeMap::new();
            for exemplar in exemplars {
                by_day.entry(names::partition_of(exemplar.timestamp)).or_default().push(exemplar);
            }
            for (partition, exemplars) in by_day {
                self.writer(partition).add_exemplars(&labels, &exemplars);
            }
        }
    }

    fn writer(&mut self, partition: i64) -> &mut PartWriter {
        let store = self.store;
        self.open.entry(partition).or_insert_with(|| {
            PartWriter::new(store.files.clone(), &store.dir, partition, store.new_id())
        })
    }

    fn finish(
        mut self,
        end: Ending,
        cut_through: u64,
        keep: &mut dyn FnMut(),
    ) -> Result<(), StoreError> {
        self.add_exemplars(end.exemplars);
        let store = self.store;
        let mut finished = Vec::new();
        for writer in self.open.into_values() {
            store.check_open()?;
            finished.extend(writer.finish(cut_through, keep)?);
        }
        let metadata_id = store.new_id();
        store.commit(|state| {
            for part in finished {
                // Listed before it is checked: should that fail, the commit removes it.
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

/// Chunks by the time partition they lie in, each list in the order given; a chunk that lies in
/// several is cut.
fn by_partition(chunks: &[Chunk]) -> Result<BTreeMap<i64, Vec<Chunk>>, ChunkError> {
    let mut by_partition: BTreeMap<i64, Vec<Chunk>> = BTreeMap::new();
    for chunk in chunks {
        let first = names::partition_of(chunk.min_time);
        if names::partition_of(chunk.max_time) == first {
            by_partition.entry(first).or_default().push(chunk.clone());
            continue;
        }
        let mut next = Some(first);
        while let Some(partition) = next.filter(|partition| *partition <= chunk.max_time) {
            let end = names::partition_end(partition);
            let here = cutting::within(chunk, TimeRange::new(partition, end))?;
            if !here.is_empty() {
                by_partition.entry(partition).or_default().extend(here);
            }
            next = end.checked_add(1);
        }
    }
    Ok(by_partition)
}

#[cfg(test)]
mod tests {
    use super::super::Options;
    use super::super::duty::tests::Ticking;
    use super::*;
    use crate::chunk::encode_points;
    use crate::model::{Point, Value};
    use crate::storage::disk::Disk;
    use crate::telemetry::StoreMetrics;

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
            let written = write(&flight, receiver, &mut || duty.keep()).expect("written");
            assert_eq!(written.points, series);
            drop(duty);
            clock.rests()
        };
        let (few, more) = (rests_of(10, Ticking::new()), rests_of(110, Ticking::new()));
        // Once for its points and once for its entry in the index.
        assert_eq!(more - few, 2 * 100);
        let urgent = Ticking::new();
        urgent.set_hurry();
        assert_eq!(rests_of(110, urgent), 0);
    }
}
