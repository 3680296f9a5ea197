//! Merges the series of several parts into one part, one series after the other.
//!
//! Memory holds the chunks of one series, up to [`Sizes::whole`] bytes. The chunks of a larger series are not merged
//! into one list: its rows follow each other in order of precedence, so that every answer is the same.

use std::cmp::Ordering;
use std::iter::Peekable;
use std::sync::Arc;

use bytes::Bytes;
use roaring::RoaringBitmap;

use promkairos_chunk::Chunk;
use promkairos_model::{Exemplar, Labels};
use promkairos_storage::codec::{self, Cursor};
use promkairos_storage::exemplars::Gathered;
use promkairos_storage::{StoreError, frame, merge};

use super::block_ref::BlockRef;
use super::exemplar_entries::ExemplarEntries;
use super::lookup::read_row;
use super::manifest::Tombstone;
use super::merged_values::NewRows;
use super::part::{Part, PartReader};
use super::writer::{PartWriter, Sizes};
use super::{cutting, packing};

/// Bytes that a scan of chunks reads at a time.
const AHEAD_BYTES: u64 = 256 << 10;

/// The series of several parts, merged.
pub(super) struct Merging<'a> {
    tombstones: &'a [Arc<Tombstone>],
    scans: Vec<Scan<'a>>,
    continued: RoaringBitmap,
    whole_bytes: u64,
}

impl<'a> Merging<'a> {
    pub(super) fn new(
        tombstones: &'a [Arc<Tombstone>],
        inputs: &'a [Arc<Part>],
        sizes: Sizes,
    ) -> Result<Self, StoreError> {
        let scans = inputs.iter().map(|part| Scan::new(part)).collect::<Result<_, _>>()?;
        let (continued, whole_bytes) = (RoaringBitmap::new(), sizes.whole as u64);
        Ok(Self { tombstones, scans, continued, whole_bytes })
    }

    /// Writes the next label set with its chunks, cut and in order. Returns whether there was one.
    pub(super) fn next(&mut self, writer: &mut PartWriter) -> Result<bool, StoreError> {
        let heads = self.scans.iter().filter_map(|scan| scan.head.as_ref());
        let Some(labels) = heads.map(|head| &head.labels).min().cloned() else {
            return Ok(false);
        };
        let mut rows = Vec::new();
        for (at, scan) in self.scans.iter_mut().enumerate() {
            let is_it = |row: &mut Row| row.labels.cmp(&labels) == Ordering::Equal;
            while let Some(row) = scan.head.take_if(is_it) {
                rows.push((at, row.frame));
                scan.advance()?;
            }
        }
        let bytes = rows.iter().map(|(_, frame)| u64::from(frame.len)).sum::<u64>();
        let new = match bytes <= self.whole_bytes {
            true => self.merge(writer, &labels, &rows)?,
            false => self.follow(writer, &labels, &rows)?,
        };
        self.continued.insert_range(new.start.saturating_add(1)..new.end);
        for (at, _) in rows {
            self.scans[at].new_rows.note((!new.is_empty()).then_some(new.start));
        }
        Ok(true)
    }

    /// Merges rows of one series.
    fn merge(
        &mut self,
        writer: &mut PartWriter,
        labels: &Labels,
        rows: &[(usize, BlockRef)],
    ) -> Result<std::ops::Range<u32>, StoreError> {
        let mut sources = Vec::with_capacity(rows.len());
        for (at, frame) in rows {
            let scan = &mut self.scans[*at];
            sources.push((
                scan.reader.part,
                frame.offset,
                scan.chunks(*frame, labels, self.tombstones)?,
            ));
        }
        // A clone of a chunk shares its bytes.
        let chunks = sources.iter().flat_map(|(_, _, chunks)| chunks).cloned().collect();
        let merged = merge::merge(chunks).and_then(packing::packed);
        let merged = merged.map_err(|error| Part::merge_damage(sources, error))?;
        writer.add_series(labels, &merged)
    }

    /// Writes rows of one series one after the other.
    fn follow(
        &mut self,
        writer: &mut PartWriter,
        labels: &Labels,
        rows: &[(usize, BlockRef)],
    ) -> Result<std::ops::Range<u32>, StoreError> {
        let mut new: Option<std::ops::Range<u32>> = None;
        for (at, frame) in rows {
            let scan = &mut self.scans[*at];
            let chunks = packing::packed(scan.chunks(*frame, labels, self.tombstones)?);
            let chunks =
                chunks.map_err(|error| scan.reader.part.chunk_damage(frame.offset, error))?;
            let more = writer.add_series(labels, &chunks)?;
            new = Some(new.map_or(more.clone(), |new| new.start..more.end));
        }
        Ok(new.unwrap_or_default())
    }

    /// What the rows of each part became, in order; and the new rows that continue the series of the row before.
    pub(super) fn rows(self) -> (Vec<NewRows>, RoaringBitmap) {
        (self.scans.into_iter().map(|scan| scan.new_rows).collect(), self.continued)
    }
}

/// Merges the exemplars of several parts. Memory holds the exemplars of one series, and a block of each part.
pub(super) struct MergingExemplars<'a> {
    tombstones: &'a [Arc<Tombstone>],
    parts: Vec<(&'a Part, Peekable<ExemplarEntries<'a>>)>,
}

impl<'a> MergingExemplars<'a> {
    pub(super) fn new(
        tombstones: &'a [Arc<Tombstone>],
        inputs: &'a [Arc<Part>],
    ) -> Result<Self, StoreError> {
        let entries = |part: &'a Arc<Part>| Ok((&**part, part.reader()?.exemplars().peekable()));
        let parts = inputs.iter().filter(|part| part.entry.exemplars > 0).map(entries);
        Ok(Self { tombstones, parts: parts.collect::<Result<_, StoreError>>()? })
    }

    /// The next series with its exemplars that are not deleted, perhaps none. Calls `keep` after
    /// each piece of work.
    pub(super) fn next(
        &mut self,
        keep: &mut dyn FnMut(),
    ) -> Result<Option<(Labels, Vec<Exemplar>)>, StoreError> {
        let mut first: Option<Labels> = None;
        for (_, entries) in &mut self.parts {
            // An error is returned below, where the entry is taken.
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
    /// Remaining rows of the current block.
    rows: std::vec::IntoIter<Row>,
    head: Option<Row>,
    new_rows: NewRows,
    /// Offset and bytes of the chunks that were read ahead.
    ahead: (u64, Bytes),
}

struct Row {
    labels: Labels,
    frame: BlockRef,
}

impl<'a> Scan<'a> {
    fn new(part: &'a Part) -> Result<Self, StoreError> {
        let (reader, rows) = (part.reader()?, Vec::new().into_iter());
        let (new_rows, ahead) = (NewRows::default(), (0, Bytes::new()));
        let mut scan = Self { reader, next_block: 0, rows, head: None, new_rows, ahead };
        scan.advance()?;
        Ok(scan)
    }

    /// The chunks of a row of a series, without deleted points.
    fn chunks(
        &mut self,
        frame: BlockRef,
        labels: &Labels,
        tombstones: &[Arc<Tombstone>],
    ) -> Result<Vec<Chunk>, StoreError> {
        let (part, bytes) = (self.reader.part, self.bytes(frame)?);
        let chunks = frame::chunks_of(&bytes, part.entry.partition)
            .map_err(|damage| part.damage(frame.offset, damage))?;
        let cuts = cutting::cuts(tombstones, &part.entry, labels);
        cutting::without(chunks, &cuts).map_err(|error| part.chunk_damage(frame.offset, error))
    }

    /// The bytes of a row. Reads the rows behind it too: rows are visited in the order of the file.
    fn bytes(&mut self, BlockRef { offset, len }: BlockRef) -> Result<Bytes, StoreError> {
        let (start, bytes) = &self.ahead;
        let end = start + bytes.len() as u64;
        let len = u64::from(len);
        if offset < *start || offset.saturating_add(len) > end {
            let left = self.reader.part.entry.bytes.saturating_sub(offset);
            // A row beyond the end of the file is an error of its own.
            let bytes = self.reader.bytes(offset, len.max(AHEAD_BYTES.min(left)))?;
            self.ahead = (offset, bytes);
        }
        let (start, bytes) = &self.ahead;
        let from = (offset - start) as usize;
        Ok(bytes.slice(from..from + len as usize))
    }

    fn advance(&mut self) -> Result<(), StoreError> {
        while self.rows.len() == 0 && self.next_block < self.reader.directory.series.len() {
            self.rows = self.read_block()?.into_iter();
            self.next_block += 1;
        }
        self.head = self.rows.next();
        Ok(())
    }

    fn read_block(&self) -> Result<Vec<Row>, StoreError> {
        let block = self.reader.directory.series[self.next_block];
        let part = self.reader.part;
        let raw = self.reader.uncached_block(block.block)?;
        let damage = |damage| part.damage(block.block.offset, damage);
        let mut cursor = Cursor(&raw);
        let mut rows = Vec::new();
        let mut offset = block.frames;
        for _ in 0..block.count {
            let row = read_row(&mut cursor, offset, part.entry.partition).map_err(damage)?;
            offset += u64::from(row.frame.len);
            if offset - block.frames > block.frames_len {
                return Err(damage(codec::Damage("a series points beyond its block")));
            }
            let labels = codec::labels(row.labels).map_err(damage)?;
            rows.push(Row { labels, frame: row.frame });
        }
        Ok(rows)
    }
}
