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
    values: Blocks,
    names: Blocks,
    /// The label of the last value, and how many values it has so far.
    name: String,
    count: u64,
}

/// Blocks of labels, the last one in memory.
#[derive(Default)]
struct Blocks {
    raw: Vec<u8>,
    /// The first label of the block in memory.
    first: (String, String),
    written: Vec<KeyedBlock>,
}

impl Blocks {
    /// Notes the next label: a block may begin with it.
    fn begin(&mut self, name: &str, value: &str) {
        if self.raw.is_empty() {
            name.clone_into(&mut self.first.0);
            value.clone_into(&mut self.first.1);
        }
    }

    /// Writes the block in memory if it has `least` bytes.
    fn cut(&mut self, least: usize, output: &mut Output) -> Result<(), StoreError> {
        if self.raw.len() >= least {
            let block = output.put_block(&mut self.raw)?;
            self.written.push(KeyedBlock::new(Key::of(&self.first.0, &self.first.1), block));
        }
        Ok(())
    }
}

impl<'w> ValueWriter<'w> {
    /// Starts at the current end of the output.
    pub(super) fn new(output: &'w mut Output, block_bytes: usize) -> Self {
        let (start, name, count) = (output.position(), String::new(), 0);
        let (values, names) = Default::default();
        Self { output, block_bytes, start, values, names, name, count }
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
        self.values.begin(name, value);
        let raw = &mut self.values.raw;
        let names_label = is_new || raw.is_empty();
        raw.push(names_label.into());
        if names_label {
            put_bytes(raw, name.as_bytes());
        }
        put_bytes(raw, value.as_bytes());
        put_postings(raw, series, self.output, self.start)?;
        self.values.cut(self.block_bytes, self.output)
    }

    fn end_name(&mut self) -> Result<(), StoreError> {
        if self.count == 0 {
            return Ok(());
        }
        self.names.begin(&self.name, "");
        put_bytes(&mut self.names.raw, self.name.as_bytes());
        put_varint(&mut self.names.raw, std::mem::take(&mut self.count));
        self.names.cut(self.block_bytes, self.output)
    }

    /// Ends the last blocks; returns where all blocks are.
    pub(super) fn finish(mut self) -> Result<Values, StoreError> {
        self.end_name()?;
        self.values.cut(1, self.output)?;
        self.names.cut(1, self.output)?;
        Ok(Values::Sorted { values: self.values.written, names: self.names.written })
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
