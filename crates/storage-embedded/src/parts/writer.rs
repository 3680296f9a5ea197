//! Writes one part file, from its beginning to its end.
//!
//! Invariant: series are added in rising order of their labels, so the number of a row is its rank. The file has a
//! temporary name until [`Finished::publish`]; a writer that is dropped before removes the file. Memory holds the
//! directory and bytes that are not written yet, but no points and no label sets. The caller passes all values with
//! their postings, in order, to a [`ValueWriter`].

use std::path::PathBuf;
use std::sync::Arc;

use promkairos_chunk::Chunk;
use promkairos_model::{Exemplar, Labels, TimeRange};
use promkairos_storage::StoreError;
use promkairos_storage::codec::{pack, put_bytes, put_varint, put_zigzag};
use promkairos_storage::frame::put_frame;

use super::block_ref::BlockRef;
use super::directory::{
    Directory, Footer, HEAD_BYTES, PART_VERSION, SeriesBlock, footer_crc, part_head,
};
use super::files::Files;
use super::manifest::{PartEntry, Resolution};
use super::names::{self, WIDE};
use super::output::Output;
use super::value_writer::ValueWriter;

/// Exemplars in one entry; a series with more has several entries.
const EXEMPLARS_PER_ENTRY: usize = 256;

/// Sizes in bytes at which parts of a file are cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// Unpacked bytes of a block.
    pub block: usize,
    /// Bytes of the chunks of one row: a series with more has several rows.
    pub frame: usize,
    /// The same in a part of many days. It is small, since a query for one day reads whole rows.
    pub wide_frame: usize,
    /// Most bytes of chunks of a series that a merge turns into one list. Decoded points take about
    /// thirty times as much. The rows of a larger series only follow each other.
    pub whole: usize,
}

impl Default for Sizes {
    fn default() -> Self {
        Self { block: 8 << 10, frame: 8 << 20, wide_frame: 32 << 10, whole: 2 << 20 }
    }
}

/// Where a part is written to, and how it is cut.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) files: Arc<dyn Files>,
    pub(super) dir: PathBuf,
    pub(super) sizes: Sizes,
}

/// A part being written.
pub(super) struct PartWriter {
    output: Output,
    id: u64,
    partition: i64,
    /// After how many bytes a block and a row are cut.
    block_bytes: usize,
    row_bytes: usize,
    table: Table,
    exemplars: Vec<u8>,
    directory: Directory,
    counts: Counts,
}

/// A complete and durable part that still has its temporary name.
pub(super) struct Finished {
    pub(super) entry: PartEntry,
    output: Output,
}

#[derive(Default)]
struct Counts {
    points: u64,
    exemplars: u64,
    range: Option<TimeRange>,
}

/// Rows of the series table that are in no block yet.
struct Table {
    raw: Vec<u8>,
    /// Number of the next row.
    count: u32,
    /// Number of the first row here, and where its chunks begin.
    first: u32,
    frames: u64,
}

impl PartWriter {
    pub(super) fn new(target: &Target, partition: i64, id: u64) -> Self {
        let Target { files, dir, sizes } = target.clone();
        Self {
            output: Output::new(files, dir, names::part(partition, id), &part_head(PART_VERSION)),
            id,
            partition,
            block_bytes: sizes.block,
            row_bytes: if partition == WIDE { sizes.wide_frame } else { sizes.frame },
            table: Table { raw: Vec::new(), count: 0, first: 0, frames: HEAD_BYTES as u64 },
            exemplars: Vec::new(),
            directory: Directory::default(),
            counts: Counts::default(),
        }
    }

    /// Approximate size in memory, in bytes.
    pub(super) fn memory(&self) -> usize {
        self.output.memory() + self.table.raw.len() + self.directory.memory()
    }

    /// Adds a series whose labels follow all before, with chunks in order of precedence, as one row
    /// or several. Returns the numbers of the rows.
    pub(super) fn add_series(
        &mut self,
        labels: &Labels,
        chunks: &[Chunk],
    ) -> Result<std::ops::Range<u32>, StoreError> {
        let first = self.table.count;
        let mut rest = chunks;
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = |chunk: &&Chunk| {
                let before = bytes;
                bytes += chunk.data.len() + chunk.side.len();
                before < self.row_bytes
            };
            let (row, others) = rest.split_at(rest.iter().take_while(fits).count());
            self.add_row(labels, row)?;
            rest = others;
        }
        Ok(first..self.table.count)
    }

    fn add_row(&mut self, labels: &Labels, chunks: &[Chunk]) -> Result<(), StoreError> {
        let range = chunks.iter().map(Chunk::range).reduce(TimeRange::hull);
        let Some(range) = range else { return Ok(()) };
        let frame = put_frame(self.output.buffer(), self.partition, chunks) as u64;
        self.counts.points += chunks.iter().map(|chunk| u64::from(chunk.count)).sum::<u64>();
        self.counts.extend(range);
        let raw = &mut self.table.raw;
        put_bytes(raw, labels.as_bytes());
        put_varint(raw, frame);
        put_zigzag(raw, range.start.wrapping_sub(self.partition));
        put_varint(raw, range.end.wrapping_sub(range.start) as u64);
        self.table.count += 1;
        if raw.len() >= self.block_bytes {
            self.cut_table()?;
        }
        self.output.write_when_full()
    }

    /// Ends a block of the series table, and writes it behind the chunks of its rows.
    fn cut_table(&mut self) -> Result<(), StoreError> {
        let Table { raw, count, first, frames } = &mut self.table;
        if raw.is_empty() {
            return Ok(());
        }
        let frames_len = self.output.position() - *frames;
        let block = self.output.put_block(raw)?;
        self.directory.series.push(SeriesBlock {
            first: *first,
            count: *count - *first,
            frames: *frames,
            frames_len,
            block,
        });
        (*first, *frames) = (*count, self.output.position());
        Ok(())
    }

    /// Adds exemplars of a series, in order of labels. No points may be added afterwards.
    pub(super) fn add_exemplars(
        &mut self,
        labels: &Labels,
        exemplars: &[Exemplar],
    ) -> Result<(), StoreError> {
        self.cut_table()?;
        for some in exemplars.chunks(EXEMPLARS_PER_ENTRY) {
            let raw = &mut self.exemplars;
            put_bytes(raw, labels.as_bytes());
            put_varint(raw, some.len() as u64);
            for exemplar in some {
                put_zigzag(raw, exemplar.timestamp.wrapping_sub(self.partition));
                raw.extend_from_slice(&exemplar.value.to_bits().to_le_bytes());
                put_bytes(raw, exemplar.labels.as_bytes());
                self.counts.extend(TimeRange::new(exemplar.timestamp, exemplar.timestamp));
            }
            self.counts.exemplars += some.len() as u64;
            if self.exemplars.len() >= self.block_bytes {
                self.cut_exemplars()?;
            }
        }
        Ok(())
    }

    fn cut_exemplars(&mut self) -> Result<(), StoreError> {
        if !self.exemplars.is_empty() {
            let block = self.output.put_block(&mut self.exemplars)?;
            self.directory.exemplars.push(block);
        }
        Ok(())
    }

    /// Writes the values, the directory and the footer, and makes the file durable. `None` = the part is empty.
    pub(super) fn finish(
        mut self,
        cut_through: u64,
        values: impl FnOnce(&mut ValueWriter<'_>) -> Result<(), StoreError>,
    ) -> Result<Option<Finished>, StoreError> {
        let Some(range) = self.counts.range else { return Ok(None) };
        self.cut_table()?;
        self.cut_exemplars()?;
        self.directory.postings = self.output.position();
        let mut writer = ValueWriter::new(&mut self.output, self.block_bytes);
        values(&mut writer)?;
        self.directory.values = writer.finish()?;
        let output = &mut self.output;
        let offset = output.position();
        self.directory.pieces(&mut |piece| {
            let packed = pack(piece);
            output.put(&(packed.len() as u32).to_le_bytes())?;
            output.put(&packed)
        })?;
        // A longer directory ends where the footer begins, as every directory does.
        let len = u32::try_from(output.position() - offset).unwrap_or(u32::MAX);
        let footer = Footer {
            version: PART_VERSION,
            directory: BlockRef { offset, len },
            series: self.table.count,
            points: self.counts.points,
            exemplars: self.counts.exemplars,
            partition: self.partition,
            min_time: range.start,
            max_time: range.end,
        };
        let footer_bytes = footer.encode();
        output.put(&footer_bytes)?;
        output.finish()?;
        let entry = PartEntry {
            id: self.id,
            partition: self.partition,
            bytes: output.position(),
            range,
            series: footer.series,
            points: footer.points,
            exemplars: footer.exemplars,
            cut_through,
            footer_crc: footer_crc(&footer_bytes),
            merged: 0,
            resolution: Resolution::Raw,
        };
        Ok(Some(Finished { entry, output: self.output }))
    }
}

impl Finished {
    /// Gives the file its name. The folder is not synced yet.
    pub(super) fn publish(self) -> Result<PartEntry, StoreError> {
        self.output.publish()?;
        Ok(self.entry)
    }
}

impl Counts {
    fn extend(&mut self, more: TimeRange) {
        self.range = Some(self.range.map_or(more, |range| range.hull(more)));
    }
}
