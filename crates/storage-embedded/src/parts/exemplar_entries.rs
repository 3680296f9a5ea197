//! The exemplars of a part from first to last, as merges and queries read them.
//!
//! Memory holds one block. Callers choose which exemplars they need.

use promkairos_model::{Exemplar, Labels};
use promkairos_storage::StoreError;
use promkairos_storage::codec::{Cursor, Damage};

use super::block_ref::BlockRef;
use super::part::PartReader;

/// The exemplars of a part by series, in order of labels; a series may come several times in a row.
pub(super) struct ExemplarEntries<'a> {
    reader: PartReader<'a>,
    next_block: usize,
    entries: std::vec::IntoIter<(Labels, Vec<Exemplar>)>,
}

impl<'a> PartReader<'a> {
    /// All exemplars.
    pub(super) fn exemplars(self) -> ExemplarEntries<'a> {
        ExemplarEntries { reader: self, next_block: 0, entries: Vec::new().into_iter() }
    }
}

impl ExemplarEntries<'_> {
    /// The entries of a block.
    fn read(&self, block: BlockRef) -> Result<Vec<(Labels, Vec<Exemplar>)>, StoreError> {
        let part = self.reader.part;
        let raw = self.reader.uncached_block(block)?;
        let (mut cursor, mut entries) = (Cursor(&raw), Vec::new());
        while !cursor.is_empty() {
            let entry = exemplars_entry(&mut cursor, part.entry.partition);
            entries.push(entry.map_err(|damage| part.damage(block.offset, damage))?);
        }
        Ok(entries)
    }
}

impl Iterator for ExemplarEntries<'_> {
    type Item = Result<(Labels, Vec<Exemplar>), StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(entry) = self.entries.next() {
                return Some(Ok(entry));
            }
            let block = *self.reader.directory.exemplars.get(self.next_block)?;
            self.next_block += 1;
            match self.read(block) {
                Ok(entries) => self.entries = entries.into_iter(),
                Err(error) => return Some(Err(error)),
            }
        }
    }
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
