//! The index of a part: its series table, values of labels and postings.
//!
//! Series are numbered in order of their labels, so rising numbers are sorted label sets.
//! Only the blocks that are needed are read. Nothing here knows of other parts.

use std::cmp::Ordering;
use std::ops::ControlFlow;

use roaring::RoaringBitmap;

use promkairos_model::{RawLabels, TimeRange};
use promkairos_storage::StoreError;
use promkairos_storage::codec::{Cursor, Damage, unseal};
use promkairos_storage::index::{LabelIndex, ValueJudge};

use super::block_ref::BlockRef;
use super::directory::Values;
use super::part::PartReader;
use super::value_keys::{self, KeyedBlock};
use super::value_writer::INLINE_POSTINGS;

/// A row of the series table.
pub(super) struct SeriesRow<'a> {
    /// Canonical bytes of the labels.
    pub(super) labels: &'a [u8],
    /// Where its chunks are.
    pub(super) frame: BlockRef,
    /// Its first and last point.
    pub(super) range: TimeRange,
}

/// Where the series of a value are stored; not read yet.
#[derive(Clone, Copy)]
pub(super) enum Postings<'a> {
    Here { count: u64, ids: Cursor<'a> },
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
            let Some(block) = self.directory.block_of(id) else { break };
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

    /// Visits the values of a label that begin with `prefix`, in order, with their postings.
    fn for_postings(
        &self,
        name: &str,
        prefix: &str,
        visit: &mut dyn FnMut(&str, Postings<'_>) -> Walk,
    ) -> Result<(), StoreError> {
        match &self.directory.values {
            Values::Sorted { values, .. } => {
                let first = self.block_of(values, name, prefix)?;
                let mut label = String::new();
                for block in values.iter().skip(first) {
                    let walk = self.in_block(block.block, name, prefix, Some(&mut label), visit)?;
                    if walk.is_break() {
                        break;
                    }
                }
            }
            Values::ByLabel(names) => {
                let Some(entry) = value_keys::entry_of(names, name) else { return Ok(()) };
                for block in entry.blocks_with(prefix) {
                    if self.in_block(block.block, name, prefix, None, visit)?.is_break() {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Visits such values in one block. If blocks have values of several labels, `label` is the
    /// label of the last value.
    fn in_block(
        &self,
        block: BlockRef,
        name: &str,
        prefix: &str,
        mut label: Option<&mut String>,
        visit: &mut dyn FnMut(&str, Postings<'_>) -> Walk,
    ) -> Walk {
        let raw = self.block(block)?;
        let damage = |damage| self.part.damage(block.offset, damage);
        let mut cursor = Cursor(&raw);
        while !cursor.is_empty() {
            if let Some(label) = &mut label
                && let Some(other) = label_of_entry(&mut cursor).map_err(damage)?
            {
                other.clone_into(label);
            }
            let value = cursor.text().map_err(damage)?;
            let postings = self.postings_entry(&mut cursor).map_err(damage)?;
            match label.as_ref().map_or(Ordering::Equal, |label| label.as_str().cmp(name)) {
                Ordering::Less => continue,
                Ordering::Greater => return Ok(ControlFlow::Break(())),
                Ordering::Equal => {}
            }
            if !value.starts_with(prefix) {
                if value > prefix {
                    return Ok(ControlFlow::Break(()));
                }
                continue;
            }
            if visit(value, postings)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// The first block of values that can have this label or a later one.
    fn block_of(
        &self,
        blocks: &[KeyedBlock],
        name: &str,
        value: &str,
    ) -> Result<usize, StoreError> {
        value_keys::block_of(blocks, name, value, |block| {
            let raw = self.block(block.block)?;
            let mut cursor = Cursor(&raw);
            let first = label_of_entry(&mut cursor).and_then(|first| Ok((first, cursor.text()?)));
            let first = first.map_err(|damage| self.part.damage(block.block.offset, damage))?;
            Ok(first > (Some(name), value))
        })
    }

    /// Visits the names of all labels in order, each with its number of values.
    pub(super) fn for_names(
        &self,
        visit: &mut dyn FnMut(&str, u64) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        match &self.directory.values {
            Values::Sorted { names, .. } => {
                for block in names {
                    if self.names_of(block.block, visit)?.is_break() {
                        break;
                    }
                }
            }
            Values::ByLabel(names) => {
                let _ = names.iter().try_for_each(|entry| visit(&entry.name, entry.values));
            }
        }
        Ok(())
    }

    fn names_of(
        &self,
        block: BlockRef,
        visit: &mut dyn FnMut(&str, u64) -> ControlFlow<()>,
    ) -> Walk {
        let raw = self.block(block)?;
        let mut cursor = Cursor(&raw);
        while !cursor.is_empty() {
            let entry = cursor.text().and_then(|name| Ok((name, cursor.varint()?)));
            let entry = entry.map_err(|damage| self.part.damage(block.offset, damage));
            let (name, values) = entry?;
            if visit(name, values).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// How many values a label has.
    fn count_values(&self, name: &str) -> Result<u64, StoreError> {
        let mut count = 0;
        let mut visit = |other: &str, values| {
            if other == name {
                count = values;
            }
            if other < name { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        match &self.directory.values {
            Values::Sorted { names, .. } => {
                let at = value_keys::block_of(names, name, "", |block| {
                    let raw = self.block(block.block)?;
                    let first = Cursor(&raw).text();
                    let first =
                        first.map_err(|damage| self.part.damage(block.block.offset, damage))?;
                    Ok::<_, StoreError>(first > name)
                })?;
                if let Some(block) = names.get(at) {
                    let _ = self.names_of(block.block, &mut visit)?;
                }
            }
            Values::ByLabel(names) => {
                return Ok(value_keys::entry_of(names, name).map_or(0, |entry| entry.values));
            }
        }
        Ok(count)
    }

    /// Visits the values of a label in order: all, or only values of the series in `within`.
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

    /// Reads where the series of a value are; this follows the value in its block.
    pub(super) fn postings_entry<'a>(
        &self,
        cursor: &mut Cursor<'a>,
    ) -> Result<Postings<'a>, Damage> {
        let count = cursor.varint()?;
        if count > INLINE_POSTINGS as u64 {
            let offset = self.directory.postings.checked_add(cursor.varint()?);
            let offset = offset.ok_or(Damage("an offset is too large"))?;
            return Ok(Postings::Apart { offset, len: cursor.varint()? });
        }
        let ids = *cursor;
        for _ in 0..count {
            cursor.varint_u32()?;
        }
        Ok(Postings::Here { count, ids })
    }

    /// The series of a value.
    pub(super) fn load(&self, postings: Postings<'_>) -> Result<RoaringBitmap, StoreError> {
        let (offset, len) = match postings {
            Postings::Here { count, ids } => return Ok(ids_here(count, ids)),
            Postings::Apart { offset, len } => (offset, len),
        };
        let bytes = self.bytes(offset, len)?;
        unseal(&bytes)
            .and_then(|ids| {
                RoaringBitmap::deserialize_from(ids).map_err(|_| Damage("postings are malformed"))
            })
            .map_err(|damage| self.part.damage(offset, damage))
    }

    /// The series of a value that are in `within`.
    fn load_within(
        &self,
        postings: Postings<'_>,
        within: Option<&RoaringBitmap>,
    ) -> Result<RoaringBitmap, StoreError> {
        let ids = self.load(postings)?;
        Ok(match within {
            Some(within) => ids & within,
            None => ids,
        })
    }

    /// Whether these series are in no more blocks than the values of the label with this prefix.
    /// Reading and unpacking blocks is the cost; the blocks of series that pass are needed anyway.
    fn is_in_no_more_blocks(&self, series: &RoaringBitmap, name: &str, prefix: &str) -> bool {
        let most = match &self.directory.values {
            Values::Sorted { values, .. } => value_keys::blocks_with(values, name, prefix),
            Values::ByLabel(names) => {
                let entry = value_keys::entry_of(names, name);
                entry.map_or(0, |entry| entry.blocks_with(prefix).len())
            }
        };
        let mut ids = series.iter();
        let mut count = 0;
        while let Some(id) = ids.next() {
            count += 1;
            if count > most {
                return false;
            }
            match self.directory.block_of(id) {
                Some(block) => ids.advance_to(block.first.saturating_add(block.count)),
                None => break,
            }
        }
        true
    }
}

/// The label of the next values in a block, if the next entry begins with a label.
pub(super) fn label_of_entry<'a>(cursor: &mut Cursor<'a>) -> Result<Option<&'a str>, Damage> {
    match cursor.u8()? {
        0 => Ok(None),
        1 => cursor.text().map(Some),
        _ => Err(Damage("a value of an unknown kind")),
    }
}

/// Series that are stored in the block of their value; `postings_entry` has checked them.
fn ids_here(count: u64, mut ids: Cursor<'_>) -> RoaringBitmap {
    let mut found = RoaringBitmap::new();
    let mut before = 0u32;
    for _ in 0..count {
        let Ok(step) = ids.varint_u32() else { break };
        before = before.wrapping_add(step);
        found.insert(before);
    }
    found
}

/// The value of a label in the canonical bytes of a label set; empty if the set has no such label.
pub(super) fn value_of<'a>(labels: &'a [u8], name: &str) -> Result<&'a str, Damage> {
    const MALFORMED: Damage = Damage("a label set is malformed");
    for pair in RawLabels(labels).pairs() {
        let (own, value) = pair.ok_or(MALFORMED)?;
        if own == name.as_bytes() {
            return std::str::from_utf8(value).map_err(|_| MALFORMED);
        }
    }
    Ok("")
}

/// The next row of a block of the series table, whose chunks begin at `offset`.
pub(super) fn read_row<'a>(
    cursor: &mut Cursor<'a>,
    offset: u64,
    partition: i64,
) -> Result<SeriesRow<'a>, Damage> {
    let labels = cursor.bytes()?;
    let frame = BlockRef { offset, len: cursor.varint_u32()? };
    let start = partition.wrapping_add(cursor.zigzag()?);
    let range = TimeRange::new(start, start.wrapping_add(cursor.varint()? as i64));
    Ok(SeriesRow { labels, frame, range })
}

impl LabelIndex for PartReader<'_> {
    fn all(&self) -> Result<RoaringBitmap, StoreError> {
        let mut all = RoaringBitmap::new();
        all.insert_range(0..self.part.entry.series);
        Ok(all)
    }

    fn value_count(&self, name: &str) -> u64 {
        // The count only decides what is read first; reading the values returns the error.
        self.count_values(name).unwrap_or(0)
    }

    fn series_count(&self, name: &str, _value: &str) -> u64 {
        // The average over all values: the exact count is only in the blocks.
        match self.value_count(name) {
            0 => 0,
            values => u64::from(self.part.entry.series).div_ceil(values),
        }
    }

    fn postings(
        &self,
        name: &str,
        value: &str,
        within: Option<&RoaringBitmap>,
    ) -> Result<RoaringBitmap, StoreError> {
        let mut found = RoaringBitmap::new();
        self.for_postings(name, value, &mut |candidate, postings| {
            // The first value with this prefix is the value itself, if it exists.
            if candidate == value {
                found = self.load_within(postings, within)?;
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
        within: Option<&RoaringBitmap>,
    ) -> Result<RoaringBitmap, StoreError> {
        let mut union = RoaringBitmap::new();
        let few = within.filter(|within| self.is_in_no_more_blocks(within, name, prefix));
        let Some(few) = few else {
            self.for_postings(name, prefix, &mut |value, postings| {
                if passes(value) {
                    union |= self.load_within(postings, within)?;
                }
                Ok(ControlFlow::Continue(()))
            })?;
            return Ok(union);
        };
        let (mut judge, mut ids) = (ValueJudge::new(prefix, passes), few.iter());
        self.for_series(few, &mut |row| {
            let value = value_of(row.labels, name).map_err(|d| self.part.damage(0, d))?;
            if let Some(id) = ids.next()
                && judge.passes(value)
            {
                union.insert(id);
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(union)
    }
}

#[cfg(test)]
#[path = "../../../storage/src/index/cases.rs"]
mod cases;

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::Arc;

    use proptest::prelude::*;
    use proptest::test_runner::TestRunner;

    use super::super::cache::BlockCache;
    use super::super::indexed_writer::IndexedWriter;
    use super::super::part::Part;
    use super::super::writer::{Sizes, Target};
    use super::*;
    use promkairos_chunk::encode_points;
    use promkairos_model::{Labels, MatchOp, Matcher, Point, Value};
    use promkairos_storage::disk::Disk;
    use promkairos_storage::index::{MemoryIndex, evaluate};
    use promkairos_telemetry::StoreMetrics;

    /// Sets for many blocks of each kind, and postings of every size.
    fn sets() -> Vec<Labels> {
        cases::sets(3_000)
    }

    fn write(sets: &[Labels], dir: &std::path::Path) -> Part {
        let files = Arc::new(Disk);
        let target = Target { files: files.clone(), dir: dir.into(), sizes: Sizes::default() };
        let mut writer = IndexedWriter::new(&target, 0, 1);
        for (n, labels) in sets.iter().enumerate() {
            let value = Value::Float(1.0);
            let point = Point { timestamp: n as i64, start_timestamp: 0, value };
            writer.add_series(labels, &encode_points([&point])).expect("written");
        }
        let finished = writer.finish(0, &mut || {}).expect("written").expect("not empty");
        let entry = finished.publish().expect("renamed");
        let cache = Arc::new(BlockCache::new(1 << 20, StoreMetrics::default()));
        let part = Part::new(files, dir, entry, cache);
        part.check().expect("just written");
        part
    }

    #[test]
    fn a_part_answers_as_the_index_in_memory() {
        let dir = tempfile::tempdir().expect("a folder");
        let sets = sets();
        let part = write(&sets, dir.path());
        let reader = part.reader().expect("it opens");
        let Values::Sorted { values, .. } = &reader.directory.values else { panic!("not new") };
        assert!(reader.directory.series.len() > 10 && values.len() > 5);
        let mut memory = MemoryIndex::default();
        sets.iter().enumerate().for_each(|(id, set)| memory.add(id as u32, set.as_ref()));
        let memory = memory.with_values(|id, name| sets[id as usize].get(name));
        let check = |op, name: &str, value: &str| {
            let matchers = [Matcher::new(op, name, value).expect("valid")];
            let want = evaluate(&memory, &matchers).expect("no I/O");
            assert_eq!(evaluate(&reader, &matchers).expect("well-formed"), want, "{matchers:?}");
        };
        for host in ["host-00000-with-a-long-name", "host-01234-with-a-long-name", "a", "z", ""] {
            check(MatchOp::Equal, "host", host);
            check(MatchOp::NotEqual, "host", host);
        }
        check(MatchOp::Equal, "zone", "north");
        check(MatchOp::Equal, "zone", "");
        check(MatchOp::Regex, "host", "host-01.*");
        check(MatchOp::Regex, "host", ".*99.*");
        check(MatchOp::NotRegex, "host", "host-0[01].*");
        check(MatchOp::Regex, "rack", "r1|r149|r7.?");
        check(MatchOp::Regex, "absent", ".*");
        check(MatchOp::Regex, "absent", ".+");
    }

    #[test]
    fn the_shorter_of_values_and_series_is_walked() {
        let dir = tempfile::tempdir().expect("a folder");
        let sets = sets();
        let part = write(&sets, dir.path());
        let reader = part.reader().expect("it opens");
        let count = reader.directory.series[0].count;
        let neighbours: RoaringBitmap = (0..2 * count).collect();
        let scattered: RoaringBitmap = (0..3_000).step_by(count as usize / 2).collect();
        for (series, name, prefix, by_series) in [
            (&neighbours, "host", "", true),
            (&neighbours, "host", "host-00", true),
            // Two blocks of series against one block with all racks.
            (&neighbours, "rack", "", false),
            (&neighbours, "absent", "", false),
            (&scattered, "host", "", false),
            (&(0..1).collect(), "rack", "", true),
        ] {
            let is_shorter = reader.is_in_no_more_blocks(series, name, prefix);
            assert_eq!(is_shorter, by_series, "{name}, {prefix}, {} series", series.len());
            let asked = Cell::new(0);
            let passes = |value: &str| {
                asked.set(asked.get() + 1);
                value.contains('7')
            };
            let found = reader.union_where(name, prefix, &passes, Some(series)).expect("read");
            let want = series.iter().filter(|id| {
                let value = sets[*id as usize].get(name);
                value.starts_with(prefix) && value.contains('7')
            });
            assert_eq!(found, want.collect(), "{name}, {prefix}, {} series", series.len());
            assert!(!by_series || asked.get() <= series.len());
        }
    }

    #[test]
    fn evaluation_is_a_filter() {
        let dir = tempfile::tempdir().expect("a folder");
        let sets = sets();
        let part = write(&sets, dir.path());
        let reader = part.reader().expect("it opens");
        let matchers = prop::collection::vec(cases::matcher(), 0..4);
        let check = |matchers: Vec<Matcher>| {
            let want = cases::matching(&sets, &matchers);
            prop_assert_eq!(evaluate(&reader, &matchers).expect("well-formed"), want);
            Ok(())
        };
        TestRunner::default().run(&matchers, check).expect("each is a filter");
    }

    #[test]
    fn rows_and_values_come_in_order() {
        let dir = tempfile::tempdir().expect("a folder");
        let sets = sets();
        let part = write(&sets, dir.path());
        let reader = part.reader().expect("it opens");
        let ids: RoaringBitmap = (0..3_000).filter(|id| id % 97 == 3 || *id > 2_990).collect();
        let mut found = Vec::new();
        let visit = &mut |row: SeriesRow<'_>| {
            found.push((row.labels.to_vec(), row.range.start));
            Ok(ControlFlow::Continue(()))
        };
        reader.for_series(&ids, visit).expect("well-formed");
        let of = |id: u32| (sets[id as usize].as_bytes().to_vec(), i64::from(id));
        assert_eq!(found, ids.iter().map(of).collect::<Vec<_>>());

        let mut values = Vec::new();
        let visit = &mut |value: &str| {
            values.push(value.to_owned());
            Ok(ControlFlow::Continue(()))
        };
        reader.for_values("host", Some(&ids), visit).expect("well-formed");
        let mut want: Vec<&str> = ids.iter().map(|id| sets[id as usize].get("host")).collect();
        want.sort_unstable();
        assert_eq!(values, want);
    }
}
