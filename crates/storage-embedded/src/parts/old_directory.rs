//! Reads the directory of a part of version 1 or 2: one block, with the whole first value of every block of values.
//! Such directories are not written any more. `docs/EMBEDDED-FORMAT.md` has the layout.

use promkairos_storage::codec::{Cursor, Damage};

use super::block_ref::BlockRef;
use super::directory::{Directory, SeriesBlock, Values, next_block};
use super::value_keys::{NameEntry, ValueBlock};

/// Reads a directory; an error says what is wrong with the bytes.
pub fn decode(bytes: &[u8]) -> Result<Directory, Damage> {
    let mut cursor = Cursor(bytes);
    let postings = cursor.varint()?;
    let series = decode_series(&mut cursor)?;
    let names = decode_names(&mut cursor)?;
    let mut offset = cursor.varint()?;
    let mut exemplars = Vec::new();
    for _ in 0..cursor.varint()? {
        exemplars.push(next_block(&mut offset, cursor.varint_u32()?)?);
    }
    if !cursor.is_empty() {
        return Err(Damage("the directory is too long"));
    }
    Ok(Directory { series, values: Values::ByLabel(names), exemplars, postings })
}

fn decode_series(cursor: &mut Cursor<'_>) -> Result<Vec<SeriesBlock>, Damage> {
    let mut frames = cursor.varint()?;
    let mut offset = cursor.varint()?;
    let mut first = 0u32;
    let mut series = Vec::new();
    for _ in 0..cursor.varint()? {
        let count = cursor.varint_u32()?;
        let frames_len = cursor.varint()?;
        let block = next_block(&mut offset, cursor.varint_u32()?)?;
        series.push(SeriesBlock { first, count, frames, frames_len, block });
        first = first.checked_add(count).ok_or(Damage("too many series"))?;
        frames = frames.checked_add(frames_len).ok_or(Damage("an offset is too large"))?;
    }
    Ok(series)
}

fn decode_names(cursor: &mut Cursor<'_>) -> Result<Vec<NameEntry>, Damage> {
    let mut offset = cursor.varint()?;
    let mut names = Vec::new();
    for _ in 0..cursor.varint()? {
        let name = cursor.text()?.into();
        let values = cursor.varint()?;
        let mut blocks = Vec::new();
        for _ in 0..cursor.varint()? {
            let first = cursor.text()?.into();
            let block: BlockRef = next_block(&mut offset, cursor.varint_u32()?)?;
            blocks.push(ValueBlock { first, block });
        }
        names.push(NameEntry { name, values, blocks });
    }
    Ok(names)
}
