//! Writes one part file: frames as the series come, everything else at the end.
//!
//! Invariant: series come in rising order of their labels, so a series' number is its rank. The
//! file has a temporary name until [`Finished::publish`]; dropped before that, it is removed.
//! Memory holds the labels' postings and the packed series table, never the points.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use roaring::RoaringBitmap;

use crate::chunk::Chunk;
use crate::model::{Exemplar, Labels, TimeRange};
use crate::storage::StoreError;
use crate::storage::codec::{pack, put_bytes, put_varint, put_zigzag, seal};
use crate::storage::frame::put_frame;
use crate::storage::index::MemoryIndex;

use super::directory::{
    BlockRef, Directory, Footer, HEAD_BYTES, NameEntry, PART_VERSION, SeriesBlock, ValueBlock,
    footer_crc, part_head,
};
use super::files::{Files, NewFile};
use super::manifest::PartEntry;
use super::{io_error, names};

/// Unpacked bytes after which a block is cut.
const BLOCK_TARGET: usize = 8 << 10;
/// Bytes collected before they are written.
const WRITE_BUFFER: usize = 1 << 20;
/// Bytes between two syncs. The disk gets a large part in pieces, each of which counts as work of the one who
/// writes it: the syncs of the log in between never wait for all of it.
const SYNC_BYTES: u64 = 8 << 20;
/// At most so many series stand in the block of their value; more lie apart as a bitmap.
pub(super) const INLINE_POSTINGS: usize = 16;
/// Exemplars in one entry; a series with more has several entries.
const EXEMPLARS_PER_ENTRY: usize = 256;

/// A part being written.
pub(super) struct PartWriter {
    output: Output,
    id: u64,
    partition: i64,
    index: MemoryIndex,
    table: Table,
    exemplars: Blocks,
    counts: Counts,
}

/// A part that is whole and durable, but under its temporary name.
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

/// The file: opened late, so that many small parts need no descriptors.
struct Output {
    files: Arc<dyn Files>,
    dir: PathBuf,
    name: String,
    file: Option<Box<dyn NewFile>>,
    created: bool,
    buffer: Vec<u8>,
    written: u64,
    /// Bytes of those that are durable.
    synced: u64,
}

/// The series table so far.
struct Table {
    blocks: Blocks,
    directory: Vec<SeriesBlock>,
    count: u32,
    first: u32,
    frames: u64,
    next_frames: u64,
}

/// Entries packed into blocks.
#[derive(Default)]
struct Blocks {
    raw: Vec<u8>,
    packed: Vec<u8>,
    lengths: Vec<u32>,
}

impl PartWriter {
    pub(super) fn new(files: Arc<dyn Files>, dir: &Path, partition: i64, id: u64) -> Self {
        let start = HEAD_BYTES as u64;
        Self {
            output: Output {
                files,
                dir: dir.to_owned(),
                name: names::part(partition, id),
                file: None,
                created: false,
                buffer: part_head(PART_VERSION).to_vec(),
                written: 0,
                synced: 0,
            },
            id,
            partition,
            index: MemoryIndex::new(),
            table: Table {
                blocks: Blocks::default(),
                directory: Vec::new(),
                count: 0,
                first: 0,
                frames: start,
                next_frames: start,
            },
            exemplars: Blocks::default(),
            counts: Counts::default(),
        }
    }

    /// Adds a series that comes after all before it, with chunks in order of precedence.
    pub(super) fn add_series(
        &mut self,
        labels: &Labels,
        chunks: &[Chunk],
    ) -> Result<(), StoreError> {
        let Some(range) = range_of(chunks) else { return Ok(()) };
        let frame = put_frame(&mut self.output.buffer, self.partition, chunks) as u64;
        self.counts.points += chunks.iter().map(|chunk| u64::from(chunk.count)).sum::<u64>();
        self.counts.extend(range);
        self.index.add(self.table.count, labels.as_ref());
        self.table.add(labels, range, frame, self.partition);
        self.output.write_when_full()
    }

    /// Adds exemplars of a series; series come in order of their labels.
    pub(super) fn add_exemplars(&mut self, labels: &Labels, exemplars: &[Exemplar]) {
        for some in exemplars.chunks(EXEMPLARS_PER_ENTRY) {
            let raw = &mut self.exemplars.raw;
            put_bytes(raw, labels.as_bytes());
            put_varint(raw, some.len() as u64);
            for exemplar in some {
                put_zigzag(raw, exemplar.timestamp.wrapping_sub(self.partition));
                raw.extend_from_slice(&exemplar.value.to_bits().to_le_bytes());
                put_bytes(raw, exemplar.labels.as_bytes());
                self.counts.extend(TimeRange::new(exemplar.timestamp, exemplar.timestamp));
            }
            self.counts.exemplars += some.len() as u64;
            self.exemplars.cut_when_full();
        }
    }

    /// Writes the index and the footer, and makes the file durable. Calls `keep` after each piece of that
    /// work. `None`: there was nothing.
    pub(super) fn finish(
        mut self,
        cut_through: u64,
        keep: &mut dyn FnMut(),
    ) -> Result<Option<Finished>, StoreError> {
        let Some(range) = self.counts.range else { return Ok(None) };
        self.table.cut();
        self.exemplars.cut();
        let mut directory = Directory { postings: self.output.position(), ..Directory::default() };
        let values = self.write_postings(&mut directory.names, keep)?;
        let output = &mut self.output;
        let mut at = output.position();
        for values in directory.names.iter_mut().flat_map(|name| &mut name.blocks) {
            values.block.offset = at;
            at += u64::from(values.block.len);
        }
        output.put_long(&values.packed, keep)?;
        at = output.position();
        directory.series = self.table.directory;
        for (series, len) in directory.series.iter_mut().zip(&self.table.blocks.lengths) {
            series.block = BlockRef { offset: at, len: *len };
            at += u64::from(*len);
        }
        output.put_long(&self.table.blocks.packed, keep)?;
        at = output.position();
        for len in &self.exemplars.lengths {
            directory.exemplars.push(BlockRef { offset: at, len: *len });
            at += u64::from(*len);
        }
        output.put_long(&self.exemplars.packed, keep)?;
        let packed = pack(&directory.encode());
        let footer = Footer {
            version: PART_VERSION,
            directory: BlockRef { offset: output.position(), len: packed.len() as u32 },
            series: self.table.count,
            points: self.counts.points,
            exemplars: self.counts.exemplars,
            partition: self.partition,
            min_time: range.start,
            max_time: range.end,
        };
        let footer_bytes = footer.encode();
        output.put(&packed)?;
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
        };
        Ok(Some(Finished { entry, output: self.output }))
    }

    /// Writes the large postings; returns the blocks of values.
    fn write_postings(
        &mut self,
        directory: &mut Vec<NameEntry>,
        keep: &mut dyn FnMut(),
    ) -> Result<Blocks, StoreError> {
        let start = self.output.position();
        let mut blocks = Blocks::default();
        for name in self.index.names(None) {
            let values = self.index.value_count(name);
            let mut entry = NameEntry { name: name.into(), values, blocks: Vec::new() };
            let mut first = "";
            for (value, series) in self.index.postings_by_value(name) {
                if blocks.raw.is_empty() {
                    first = value;
                }
                put_bytes(&mut blocks.raw, value.as_bytes());
                put_postings(&mut blocks.raw, series, &mut self.output, start)?;
                if let Cut::Yes(len) = blocks.cut_when_full() {
                    entry.blocks.push(value_block(first, len));
                }
                keep();
            }
            if let Cut::Yes(len) = blocks.cut() {
                entry.blocks.push(value_block(first, len));
            }
            directory.push(entry);
        }
        Ok(blocks)
    }
}

impl Finished {
    /// Gives the file its name. The folder is not synced yet.
    pub(super) fn publish(mut self) -> Result<PartEntry, StoreError> {
        let output = &mut self.output;
        let to = output.dir.join(&output.name);
        let renamed = output.files.rename(&output.path(), &to);
        renamed.map_err(|source| io_error(&to, source))?;
        output.created = false;
        Ok(self.entry)
    }
}

fn range_of(chunks: &[Chunk]) -> Option<TimeRange> {
    let start = chunks.iter().map(|chunk| chunk.min_time).min()?;
    let end = chunks.iter().map(|chunk| chunk.max_time).max()?;
    Some(TimeRange::new(start, end))
}

fn value_block(first: &str, len: u32) -> ValueBlock {
    // The offset follows when all postings are written.
    ValueBlock { first: first.into(), block: BlockRef { offset: 0, len } }
}

fn put_postings(
    raw: &mut Vec<u8>,
    mut series: RoaringBitmap,
    output: &mut Output,
    start: u64,
) -> Result<(), StoreError> {
    put_varint(raw, series.len());
    if series.len() <= INLINE_POSTINGS as u64 {
        let mut before = 0;
        for id in series {
            put_varint(raw, u64::from(id - before));
            before = id;
        }
        return Ok(());
    }
    series.optimize();
    put_varint(raw, output.position() - start);
    let from = output.buffer.len();
    series.serialize_into(&mut output.buffer).expect("writing to a Vec does not fail");
    seal(&mut output.buffer, from);
    put_varint(raw, (output.buffer.len() - from) as u64);
    output.write_when_full()
}

impl Counts {
    fn extend(&mut self, more: TimeRange) {
        let range = self.range.get_or_insert(more);
        *range = TimeRange::new(range.start.min(more.start), range.end.max(more.end));
    }
}

impl Table {
    fn add(&mut self, labels: &Labels, range: TimeRange, frame: u64, partition: i64) {
        let raw = &mut self.blocks.raw;
        put_bytes(raw, labels.as_bytes());
        put_varint(raw, frame);
        put_zigzag(raw, range.start.wrapping_sub(partition));
        put_varint(raw, range.end.wrapping_sub(range.start) as u64);
        self.count += 1;
        self.next_frames += frame;
        if self.blocks.raw.len() >= BLOCK_TARGET {
            self.cut();
        }
    }

    fn cut(&mut self) {
        if let Cut::Yes(len) = self.blocks.cut() {
            self.directory.push(SeriesBlock {
                first: self.first,
                count: self.count - self.first,
                frames: self.frames,
                frames_len: self.next_frames - self.frames,
                block: BlockRef { offset: 0, len },
            });
            self.first = self.count;
            self.frames = self.next_frames;
        }
    }
}

/// Whether a block was cut, and its packed length.
enum Cut {
    Yes(u32),
    No,
}

impl Blocks {
    fn cut_when_full(&mut self) -> Cut {
        if self.raw.len() < BLOCK_TARGET { Cut::No } else { self.cut() }
    }

    fn cut(&mut self) -> Cut {
        if self.raw.is_empty() {
            return Cut::No;
        }
        let packed = pack(&self.raw);
        self.raw.clear();
        self.packed.extend_from_slice(&packed);
        self.lengths.push(packed.len() as u32);
        Cut::Yes(packed.len() as u32)
    }
}

impl Output {
    fn path(&self) -> PathBuf {
        self.dir.join(names::temporary(&self.name))
    }

    fn position(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.buffer.extend_from_slice(bytes);
        self.write_when_full()
    }

    /// Puts bytes that may be very many.
    fn put_long(&mut self, bytes: &[u8], keep: &mut dyn FnMut()) -> Result<(), StoreError> {
        for piece in bytes.chunks(WRITE_BUFFER) {
            self.put(piece)?;
            keep();
        }
        Ok(())
    }

    fn write_when_full(&mut self) -> Result<(), StoreError> {
        if self.buffer.len() < WRITE_BUFFER {
            return Ok(());
        }
        let written = self.write().and_then(|()| match self.written - self.synced {
            SYNC_BYTES.. => self.sync(),
            _ => Ok(()),
        });
        written.map_err(|source| io_error(&self.path(), source))
    }

    fn write(&mut self) -> std::io::Result<()> {
        if self.file.is_none() {
            let file = self.files.create(&self.path());
            // Even a failed attempt may leave the name behind.
            self.created = true;
            self.file = Some(file?);
        }
        if let Some(file) = &mut self.file {
            file.write_all(&self.buffer)?;
        }
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    fn finish(&mut self) -> Result<(), StoreError> {
        let written = self.write().and_then(|()| self.sync());
        self.file = None;
        written.map_err(|source| io_error(&self.path(), source))
    }

    fn sync(&mut self) -> std::io::Result<()> {
        if let Some(file) = &mut self.file {
            file.sync()?;
        }
        self.synced = self.written;
        Ok(())
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if self.created
            && let Err(error) = self.files.remove(&self.path())
        {
            // The next start removes what the manifest does not list.
            tracing::debug!(path = %self.path().display(), %error, "temporary file stays");
        }
    }
}
