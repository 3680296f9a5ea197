//! The values of a part from first to last, each with the series that have it, as a merge reads them.
//!
//! Memory holds one block. Values are found by name in [`lookup`](super::lookup).

use bytes::Bytes;
use roaring::RoaringBitmap;

use promkairos_storage::StoreError;
use promkairos_storage::codec::{Cursor, Damage};

use super::block_ref::BlockRef;
use super::directory::Values;
use super::lookup::label_of_entry;
use super::part::PartReader;

/// A label with the series of a part that have it.
pub(super) struct Posted {
    pub(super) name: String,
    pub(super) value: String,
    pub(super) series: RoaringBitmap,
}

/// All values of a part.
pub(super) struct ValuesInOrder<'a> {
    reader: PartReader<'a>,
    /// The next block: of all blocks, or of the blocks of a label.
    next_block: usize,
    next_label: usize,
    /// The current block, the position in it, and where it is.
    raw: Bytes,
    at: usize,
    place: BlockRef,
    /// The label of the last value.
    name: String,
}

impl<'a> ValuesInOrder<'a> {
    pub(super) fn new(reader: PartReader<'a>) -> Self {
        let place = BlockRef { offset: 0, len: 0 };
        Self {
            reader,
            next_block: 0,
            next_label: 0,
            raw: Bytes::new(),
            at: 0,
            place,
            name: String::new(),
        }
    }

    /// The next value; `None` = there are no more.
    pub(super) fn next(&mut self) -> Result<Option<Posted>, StoreError> {
        while self.at == self.raw.len() {
            let Some(block) = self.next_block() else { return Ok(None) };
            (self.raw, self.at, self.place) = (self.reader.uncached_block(block)?, 0, block);
        }
        let damage = |damage: Damage| self.reader.part.damage(self.place.offset, damage);
        let rest = &self.raw[self.at..];
        let mut cursor = Cursor(rest);
        if let Values::Sorted { .. } = self.reader.directory.values
            && let Some(name) = label_of_entry(&mut cursor).map_err(damage)?
        {
            name.clone_into(&mut self.name);
        }
        let value = cursor.text().map_err(damage)?.to_owned();
        let postings = self.reader.postings_entry(&mut cursor).map_err(damage)?;
        let series = self.reader.load(postings)?;
        self.at += rest.len() - cursor.0.len();
        Ok(Some(Posted { name: self.name.clone(), value, series }))
    }

    fn next_block(&mut self) -> Option<BlockRef> {
        match &self.reader.directory.values {
            Values::Sorted { values, .. } => {
                let block = values.get(self.next_block)?;
                self.next_block += 1;
                Some(block.block)
            }
            Values::ByLabel(names) => loop {
                let name = names.get(self.next_label)?;
                if let Some(block) = name.blocks.get(self.next_block) {
                    self.next_block += 1;
                    (*name.name).clone_into(&mut self.name);
                    return Some(block.block);
                }
                (self.next_label, self.next_block) = (self.next_label + 1, 0);
            },
        }
    }
}
