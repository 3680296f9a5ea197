//! The index of a part: its series table, values of labels and postings, and its exemplars.
//!
//! Series are numbered in order of their labels, so rising numbers are sorted label sets.
//! Only the blocks that are needed are read. Nothing here knows of other parts.

use std::ops::ControlFlow;

use roaring::RoaringBitmap;

use crate::model::{Exemplar, Labels, TimeRange};
use crate::storage::StoreError;
use crate::storage::index::LabelIndex;

use super::codec::{Cursor, Damage, unseal};
use super::part::PartReader;
use super::writer::INLINE_POSTINGS;

/// A row of the series table.
pub(super) struct SeriesRow<'a> {
    /// Canonical bytes of the labels.
    pub(super) labels: &'a [u8],
    /// Where its chunks are.
    pub(super) frame: Frame,
    /// Its first and last point.
    pub(super) range: TimeRange,
}

/// Where the chunks of a series are in the file of a part.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame {
    pub(super) offset: u64,
    pub(super) len: u32,
}

/// The series that have a value.
enum Postings {
    Here(RoaringBitmap),
    Apart { offset: u64, len: u64 },
}

/// Whether a walk goes on.
pub(super) type Walk = Result<ControlFlow<()>, StoreError>;

impl PartReader<'_> {
    /// Visits the rows of the given series, in order.
    pub(super) fn for_series(
        &self,
        ids: &RoaringBitmap,
        visit: &mut dyn FnMut(SeriesRow<'_>) -> Walk,
    ) -> Result<(), StoreError> {
        let mut ids = ids.iter();
        let mut next = ids.next();
        while let Some(id) = next {
            let after = self.directory.series.partition_point(|block| block.first <= id);
            let Some(block) = after.checked_sub(1).and_then(|at| self.directory.series.get(at))
            else {
                break;
            };
            let raw = self.block(block.block)?;
            let damage = |damage| self.part.damage(block.block.offset, damage);
            let mut rows = Cursor(&raw);
            let mut offset = block.frames;
            for row_id in block.first..block.first.saturating_add(block.count) {
                let row = read_row(&mut rows, offset, self.part.entry.partition).map_err(damage)?;
                offset += u64::from(row.frame.len);
                if next == Some(row_id) {
                    next = ids.next();
                    if visit(row)?.is_break() {
                        return Ok(());
                    }
                }
            }
            if next.is_some_and(|next| next <= id) {
                return Err(damage(Damage("a series is missing")));
            }
        }
        Ok(())
    }

    /// Visits the values of a label that begin with `prefix`, in order, with a way to
    /// their series.
    fn for_postings(
        &self,
        name: &str,
        prefix: &str,
        visit: &mut dyn FnMut(&str, Postings) -> Walk,
    ) -> Result<(), StoreError> {
        let Some(entry) = self.directory.name(name) else { return Ok(()) };
        for block in entry.blocks_from(prefix) {
            let raw = self.block(block.block)?;
            let damage = |damage| self.part.damage(block.block.offset, damage);
            let mut cursor = Cursor(&raw);
            while !cursor.is_empty() {
                let value = cursor.text().map_err(damage)?;
                let postings = self.postings_entry(&mut cursor).map_err(damage)?;
                if !value.starts_with(prefix) {
                    if value > prefix {
                        return Ok(());
                    }
                    continue;
                }
                if visit(value, postings)?.is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Visits the values of a label, in order: all, or those of the series `within`.
    pub(super) fn for_values(
        &self,
        name: &str,
        within: Option<&RoaringBitmap>,
        visit: &mut dyn FnMut(&str) -> Walk,
    ) -> Result<(), StoreError> {
        self.for_postings(name, "", &mut |value, postings| {
            if let Some(within) = within
                && self.load(postings)?.is_disjoint(within)
            {
                return Ok(ControlFlow::Continue(()));
            }
            visit(value)
        })
    }

    /// Visits all exemplars, by series in order of labels.
    pub(super) fn for_exemplars(
        &self,
        visit: &mut dyn FnMut(Labels, Vec<Exemplar>),
    ) -> Result<(), StoreError> {
        for block in &self.directory.exemplars {
            let raw = self.uncached_block(*block)?;
            let mut cursor = Cursor(&raw);
            while !cursor.is_empty() {
                let entry = exemplars_entry(&mut cursor, self.part.entry.partition);
                let (labels, exemplars) =
                    entry.map_err(|damage| self.part.damage(block.offset, damage))?;
                visit(labels, exemplars);
            }
        }
        Ok(())
    }

    fn postings_entry(&self, cursor: &mut Cursor<'_>) -> Result<Postings, Damage> {
        let count = cursor.varint()?;
        if count > INLINE_POSTINGS as u64 {
            let offset = self.directory.postings.checked_add(cursor.varint()?);
            let offset = offset.ok_or(Damage("an offset is too large"))?;
            return Ok(Postings::Apart { offset, len: cursor.varint()? });
        }
        let mut ids = RoaringBitmap::new();
        let mut before = 0u32;
        for _ in 0..count {
            before = before.wrapping_add(cursor.varint_u32()?);
            ids.insert(before);
        }
        Ok(Postings::Here(ids))
    }

    fn load(&self, postings: Postings) -> Result<RoaringBitmap, StoreError> {
        let (offset, len) = match postings {
            Postings::Here(ids) => return Ok(ids),
            Postings::Apart { offset, len } => (offset, len),
        };
        let bytes = self.bytes(offset, len)?;
        unseal(&bytes)
            .and_then(|ids| {
                RoaringBitmap::deserialize_from(ids).map_err(|_| Damage("postings are malformed"))
            })
            .map_err(|damage| self.part.damage(offset, damage))
    }
}

/// The next row of a block of the series table, whose chunks begin at `offset`.
pub(super) fn read_row<'a>(
    cursor: &mut Cursor<'a>,
    offset: u64,
    partition: i64,
) -> Result<SeriesRow<'a>, Damage> {
    let labels = cursor.bytes()?;
    let frame = Frame { offset, len: cursor.varint_u32()? };
    let start = partition.wrapping_add(cursor.zigzag()?);
    let range = TimeRange::new(start, start.wrapping_add(cursor.varint()? as i64));
    Ok(SeriesRow { labels, frame, range })
}

fn exemplars_entry(
    cursor: &mut Cursor<'_>,
    partition: i64,
) -> Result<(Labels, Vec<Exemplar>), Damage> {
    let series = cursor.labels()?;
    let mut exemplars = Vec::new();
    for _ in 0..cursor.varint()? {
        let timestamp = partition.wrapping_add(cursor.zigzag()?);
        let value = f64::from_bits(cursor.u64()?);
        exemplars.push(Exemplar { labels: cursor.labels()?, value, timestamp });
    }
    Ok((series, exemplars))
}

impl LabelIndex for PartReader<'_> {
    fn all(&self) -> Result<RoaringBitmap, StoreError> {
        let mut all = RoaringBitmap::new();
        all.insert_range(0..self.part.entry.series);
        Ok(all)
    }

    fn postings(&self, name: &str, value: &str) -> Result<RoaringBitmap, StoreError> {
        let mut found = RoaringBitmap::new();
        self.for_postings(name, value, &mut |candidate, postings| {
            // The first value with this prefix is the value itself, if it is there.
            if candidate == value {
                found = self.load(postings)?;
            }
            Ok(ControlFlow::Break(()))
        })?;
        Ok(found)
    }

    fn union_where(
        &self,
        name: &str,
        prefix: &str,
        passes: &dyn Fn(&str) -> bool,
    ) -> Result<RoaringBitmap, StoreError> {
        let mut union = RoaringBitmap::new();
        self.for_postings(name, prefix, &mut |value, postings| {
            if passes(value) {
                union |= self.load(postings)?;
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(union)
    }
}
