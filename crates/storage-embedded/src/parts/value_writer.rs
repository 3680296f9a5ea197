//! Writes the values of a part: each with the series that have it, sorted by label, and the names of the labels.
//!
//! Blocks and large postings are written at once; memory holds only the first key of each block.

use roaring::RoaringBitmap;

use promkairos_storage::StoreError;
use promkairos_storage::codec::{put_bytes, put_varint, seal};

use super::directory::Values;
use super::output::Output;
use super::value_keys::{Key, KeyedBlock};

/// Most series that are stored in the block of their value; more are stored apart as a bitmap.
pub(super) const INLINE_POSTINGS: usize = 16;

/// Takes the values of a part with their series, sorted by label.
pub(super) struct ValueWriter<'w> {
    output: &'w mut Output,
    block_bytes: usize,
    /// Where postings begin.
    start: u64,
    /// The current block of values, and its first label.
    raw: Vec<u8>,
    first: (String, String),
    /// The label of the last value, and how many values it has so far.
    name: String,
    count: u64,
    /// The current block of names, and its first name.
    raw_names: Vec<u8>,
    first_name: String,
    values: Vec<KeyedBlock>,
    names: Vec<KeyedBlock>,
}

impl<'w> ValueWriter<'w> {
    /// Starts at the current end of the output.
    pub(super) fn new(output: &'w mut Output, block_bytes: usize) -> Self {
        let start = output.position();
        Self {
            output,
            block_bytes,
            start,
            raw: Vec::new(),
            first: Default::default(),
            name: String::new(),
            count: 0,
            raw_names: Vec::new(),
            first_name: String::new(),
            values: Vec::new(),
            names: Vec::new(),
        }
    }

    /// Adds the next value of a label, and the series that have it.
    pub(super) fn put(
        &mut self,
        name: &str,
        value: &str,
        series: RoaringBitmap,
    ) -> Result<(), StoreError> {
        let is_new = self.count == 0 || self.name != name;
        if is_new {
            self.end_name()?;
            name.clone_into(&mut self.name);
        }
        self.count += 1;
        if self.raw.is_empty() {
            name.clone_into(&mut self.first.0);
            value.clone_into(&mut self.first.1);
        }
        let names_label = is_new || self.raw.is_empty();
        self.raw.push(names_label.into());
        if names_label {
            put_bytes(&mut self.raw, name.as_bytes());
        }
        put_bytes(&mut self.raw, value.as_bytes());
        put_postings(&mut self.raw, series, self.output, self.start)?;
        if self.raw.len() >= self.block_bytes { self.cut_values() } else { Ok(()) }
    }

    fn cut_values(&mut self) -> Result<(), StoreError> {
        if !self.raw.is_empty() {
            let block = self.output.put_block(&mut self.raw)?;
            self.values.push(KeyedBlock::new(Key::of(&self.first.0, &self.first.1), block));
        }
        Ok(())
    }

    fn end_name(&mut self) -> Result<(), StoreError> {
        if self.count == 0 {
            return Ok(());
        }
        if self.raw_names.is_empty() {
            self.first_name.clone_from(&self.name);
        }
        put_bytes(&mut self.raw_names, self.name.as_bytes());
        put_varint(&mut self.raw_names, std::mem::take(&mut self.count));
        if self.raw_names.len() >= self.block_bytes { self.cut_names() } else { Ok(()) }
    }

    fn cut_names(&mut self) -> Result<(), StoreError> {
        if !self.raw_names.is_empty() {
            let block = self.output.put_block(&mut self.raw_names)?;
            self.names.push(KeyedBlock::new(Key::of(&self.first_name, ""), block));
        }
        Ok(())
    }

    /// Ends the last blocks; returns where all blocks are.
    pub(super) fn finish(mut self) -> Result<Values, StoreError> {
        self.end_name()?;
        self.cut_values()?;
        self.cut_names()?;
        Ok(Values::Sorted { values: self.values, names: self.names })
    }
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
    let from = output.buffer().len();
    series.serialize_into(output.buffer()).expect("writing to a Vec does not fail");
    seal(output.buffer(), from);
    put_varint(raw, (output.buffer().len() - from) as u64);
    output.write_when_full()
}
