//! A part of a flush being written: the writer with an index of the labels that it was given.
//!
//! The index is what a part takes in memory until it ends, so it is counted: whoever writes ends the part when it
//! has become large ([`absorb`](super::absorb)). A merge knows its values from the parts that it reads.

use crate::chunk::Chunk;
use crate::model::{Exemplar, Labels};
use crate::storage::StoreError;
use crate::storage::index::MemoryIndex;

use super::writer::{Finished, PartWriter, Target};

/// A part with an index of its own.
pub(super) struct IndexedWriter {
    writer: PartWriter,
    index: MemoryIndex,
}

impl IndexedWriter {
    pub(super) fn new(target: &Target, partition: i64, id: u64) -> Self {
        let writer = PartWriter::new(target, partition, id);
        Self { writer, index: MemoryIndex::new() }
    }

    /// Bytes that it holds, about.
    pub(super) fn memory(&self) -> usize {
        self.writer.memory() + self.index.bytes()
    }

    /// Adds a series that comes after all before it, with chunks in order of precedence.
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

    /// Writes what comes behind the points, and makes the file durable. Calls `keep` after each piece of that
    /// work. `None`: there was nothing.
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
