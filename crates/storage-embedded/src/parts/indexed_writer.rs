//! Writes a part of a flush: a part writer with an index of the labels it was given.
//!
//! The index stays in memory until the part is finished. Its size is counted, and
//! [`ingest_flush`](super::ingest_flush) finishes parts that became large. A merge does not use it, but reads values
//! from its input parts.

use promkairos_chunk::Chunk;
use promkairos_model::{Exemplar, Labels};
use promkairos_storage::StoreError;
use promkairos_storage::index::MemoryIndex;

use super::writer::{Finished, PartWriter, Target};

/// A part with an index of its own.
pub(super) struct IndexedWriter {
    writer: PartWriter,
    index: MemoryIndex,
    /// What [`Self::growth`] has returned in all.
    counted: usize,
}

impl IndexedWriter {
    pub(super) fn new(target: &Target, partition: i64, id: u64) -> Self {
        let writer = PartWriter::new(target, partition, id);
        Self { writer, index: MemoryIndex::default(), counted: 0 }
    }

    /// How much its memory has grown since the last call, in bytes; approximate.
    pub(super) fn growth(&mut self) -> usize {
        let before = self.counted;
        self.counted = before.max(self.writer.memory() + self.index.bytes());
        self.counted - before
    }

    /// Adds a series whose labels follow all before, with chunks in order of precedence.
    pub(super) fn add_series(
        &mut self,
        labels: &Labels,
        chunks: &[Chunk],
    ) -> Result<(), StoreError> {
        for row in self.writer.add_series(labels, chunks)? {
            self.index.add(row, labels.as_ref());
        }
        Ok(())
    }

    /// Adds exemplars of a series; series come in order of their labels, and no points come after them.
    pub(super) fn add_exemplars(
        &mut self,
        labels: &Labels,
        exemplars: &[Exemplar],
    ) -> Result<(), StoreError> {
        self.writer.add_exemplars(labels, exemplars)
    }

    /// Writes what follows the points, and makes the file durable. Calls `keep` after each value.
    /// `None` = the part is empty.
    pub(super) fn finish(
        self,
        cut_through: u64,
        keep: &mut dyn FnMut(),
    ) -> Result<Option<Finished>, StoreError> {
        let Self { writer, index, .. } = self;
        writer.finish(cut_through, |values| {
            for name in index.names(None) {
                for (value, series) in index.postings_by_value(name) {
                    values.put(name, value, series)?;
                    keep();
                }
            }
            Ok(())
        })
    }
}
