//! The end of a part file: the directory of its blocks, and the footer that finds it.
//!
//! Pure bytes. Blocks of one kind lie one after the other, so the directory keeps lengths only.
//! Values of different labels never share a block. `docs/EMBEDDED-FORMAT.md` has the boxes.

use crate::storage::codec::{Cursor, Damage, put_bytes, put_varint, seal, unseal};

/// Version of the layout of part files that are written. Those of version 1, which have no packed
/// chunks, are read.
pub(super) const PART_VERSION: u8 = 2;
/// Bytes before the first frame.
pub(super) const HEAD_BYTES: usize = 8;
/// Bytes after the checksum of the footer.
const TAIL_BYTES: usize = 8;
/// Length of the footer.
pub(super) const FOOTER_BYTES: usize = 72;

/// First bytes of a part file.
pub(super) fn part_head(version: u8) -> [u8; HEAD_BYTES] {
    [b'p', b'k', b'p', b'a', b'r', b't', version, b'\n']
}

/// Last bytes of a part file.
fn part_tail(version: u8) -> [u8; TAIL_BYTES] {
    [b'p', b'k', b'p', b'a', b'r', b't', version, b'E']
}

/// Where a block lies in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BlockRef {
    pub(super) offset: u64,
    pub(super) len: u32,
}

/// A block of the series table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SeriesBlock {
    /// Number of the first series in it.
    pub(super) first: u32,
    /// How many series.
    pub(super) count: u32,
    /// Where the chunks of its first series begin.
    pub(super) frames: u64,
    /// How many bytes the chunks of its series have.
    pub(super) frames_len: u64,
    pub(super) block: BlockRef,
}

/// A block of values of one label with their postings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ValueBlock {
    /// The first value in it.
    pub(super) first: Box<str>,
    pub(super) block: BlockRef,
}

/// All values of one label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NameEntry {
    pub(super) name: Box<str>,
    /// How many values.
    pub(super) values: u64,
    /// Sorted.
    pub(super) blocks: Vec<ValueBlock>,
}

/// Where everything in a part is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Directory {
    pub(super) series: Vec<SeriesBlock>,
    /// Sorted by name.
    pub(super) names: Vec<NameEntry>,
    pub(super) exemplars: Vec<BlockRef>,
    /// Where the large postings begin.
    pub(super) postings: u64,
}

/// The last bytes of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Footer {
    pub(super) version: u8,
    pub(super) directory: BlockRef,
    pub(super) series: u32,
    pub(super) points: u64,
    pub(super) exemplars: u64,
    /// First millisecond of the time partition.
    pub(super) partition: i64,
    /// Earliest and latest timestamp of points and exemplars.
    pub(super) min_time: i64,
    pub(super) max_time: i64,
}

/// The checksum by which a manifest knows a footer: that of its numbers alone, since with its
/// own checksum behind it every footer would have the same.
pub(super) fn footer_crc(footer: &[u8]) -> u32 {
    let numbers = footer.len().saturating_sub(TAIL_BYTES + 4);
    crc32c::crc32c(&footer[..numbers])
}

impl Directory {
    /// Its bytes, without a block around them.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_varint(&mut out, self.postings);
        put_varint(&mut out, self.series.first().map_or(0, |first| first.frames));
        put_varint(&mut out, self.series.first().map_or(0, |first| first.block.offset));
        put_varint(&mut out, self.series.len() as u64);
        for series in &self.series {
            put_varint(&mut out, series.count.into());
            put_varint(&mut out, series.frames_len);
            put_varint(&mut out, series.block.len.into());
        }
        let values = self.names.iter().flat_map(|name| &name.blocks);
        put_varint(&mut out, values.clone().next().map_or(0, |first| first.block.offset));
        put_varint(&mut out, self.names.len() as u64);
        for name in &self.names {
            put_bytes(&mut out, name.name.as_bytes());
            put_varint(&mut out, name.values);
            put_varint(&mut out, name.blocks.len() as u64);
            for values in &name.blocks {
                put_bytes(&mut out, values.first.as_bytes());
                put_varint(&mut out, values.block.len.into());
            }
        }
        put_varint(&mut out, self.exemplars.first().map_or(0, |first| first.offset));
        put_varint(&mut out, self.exemplars.len() as u64);
        for block in &self.exemplars {
            put_varint(&mut out, block.len.into());
        }
        out
    }

    /// Reads what [`Self::encode`] wrote; an error says what is wrong with the bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, Damage> {
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
        Ok(Self { series, names, exemplars, postings })
    }

    /// The entry of a label.
    pub(super) fn name(&self, name: &str) -> Option<&NameEntry> {
        let at = self.names.binary_search_by(|entry| (*entry.name).cmp(name)).ok()?;
        self.names.get(at)
    }

    /// The block of the series table that can hold a series.
    pub(super) fn block_of(&self, id: u32) -> Option<&SeriesBlock> {
        let after = self.series.partition_point(|block| block.first <= id);
        self.series.get(after.checked_sub(1)?)
    }

    /// Bytes in memory, about.
    pub(super) fn memory(&self) -> usize {
        let values = self.names.iter().flat_map(|name| &name.blocks);
        size_of_val(self.series.as_slice())
            + size_of_val(self.exemplars.as_slice())
            + self.names.iter().map(|name| size_of::<NameEntry>() + name.name.len()).sum::<usize>()
            + values.map(|block| size_of::<ValueBlock>() + block.first.len()).sum::<usize>()
    }
}

impl NameEntry {
    /// The blocks that can hold values that begin with `prefix`: from the last one that begins at or
    /// before it.
    pub(super) fn blocks_with(&self, prefix: &str) -> &[ValueBlock] {
        let after = self.blocks.partition_point(|block| &*block.first <= prefix);
        let behind = &self.blocks[after..];
        let more = behind.partition_point(|block| block.first.starts_with(prefix));
        &self.blocks[after.saturating_sub(1)..after + more]
    }
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
            let block = next_block(&mut offset, cursor.varint_u32()?)?;
            blocks.push(ValueBlock { first, block });
        }
        names.push(NameEntry { name, values, blocks });
    }
    Ok(names)
}

fn next_block(offset: &mut u64, len: u32) -> Result<BlockRef, Damage> {
    let block = BlockRef { offset: *offset, len };
    *offset = offset.checked_add(len.into()).ok_or(Damage("an offset is too large"))?;
    Ok(block)
}

impl Footer {
    /// Its bytes, with checksum and tail.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(FOOTER_BYTES);
        out.extend_from_slice(&u32::from(self.version).to_le_bytes());
        out.extend_from_slice(&self.series.to_le_bytes());
        out.extend_from_slice(&self.points.to_le_bytes());
        out.extend_from_slice(&self.exemplars.to_le_bytes());
        out.extend_from_slice(&self.partition.to_le_bytes());
        out.extend_from_slice(&self.min_time.to_le_bytes());
        out.extend_from_slice(&self.max_time.to_le_bytes());
        out.extend_from_slice(&self.directory.offset.to_le_bytes());
        out.extend_from_slice(&self.directory.len.to_le_bytes());
        seal(&mut out, 0);
        out.extend_from_slice(&part_tail(self.version));
        debug_assert_eq!(out.len(), FOOTER_BYTES);
        out
    }

    /// Reads what [`Self::encode`] wrote; an error says what is wrong with the bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, Damage> {
        let versions = 1..=PART_VERSION;
        let ended = |version| Some((version, bytes.strip_suffix(&part_tail(version))?));
        let Some((version, sealed)) = versions.into_iter().find_map(ended) else {
            return Err(Damage("it does not end as a part of a known version does"));
        };
        let mut cursor = Cursor(unseal(sealed)?);
        if cursor.u32()? != u32::from(version) {
            return Err(Damage("a part of a version that this program does not know"));
        }
        let footer = Self {
            version,
            series: cursor.u32()?,
            points: cursor.u64()?,
            exemplars: cursor.u64()?,
            partition: cursor.u64()? as i64,
            min_time: cursor.u64()? as i64,
            max_time: cursor.u64()? as i64,
            directory: BlockRef { offset: cursor.u64()?, len: cursor.u32()? },
        };
        match cursor.is_empty() {
            true => Ok(footer),
            false => Err(Damage("the footer is too long")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory() -> Directory {
        let at = |offset, len| BlockRef { offset, len };
        let values =
            |first: &str, offset, len| ValueBlock { first: first.into(), block: at(offset, len) };
        Directory {
            series: vec![
                SeriesBlock { first: 0, count: 3, frames: 8, frames_len: 90, block: at(300, 7) },
                SeriesBlock { first: 3, count: 1, frames: 98, frames_len: 2, block: at(307, 9) },
            ],
            names: vec![
                NameEntry { name: "a".into(), values: 1, blocks: vec![values("x", 200, 10)] },
                NameEntry {
                    name: "b".into(),
                    values: 9,
                    blocks: vec![values("b", 210, 10), values("f", 220, 11)],
                },
            ],
            exemplars: vec![at(316, 4), at(320, 1)],
            postings: 100,
        }
    }

    #[test]
    fn a_directory_comes_back() {
        for directory in [directory(), Directory::default()] {
            let bytes = directory.encode();
            assert_eq!(Directory::decode(&bytes).as_ref(), Ok(&directory));
            for len in 0..bytes.len() {
                assert!(Directory::decode(&bytes[..len]).is_err());
            }
        }
    }

    #[test]
    fn blocks_are_found_by_value() {
        let directory = directory();
        let entry = directory.name("b").expect("it is there");
        let firsts = |prefix| -> Vec<&str> {
            entry.blocks_with(prefix).iter().map(|block| &*block.first).collect()
        };
        assert_eq!(firsts(""), ["b", "f"]);
        for (prefix, want) in [("b", "b"), ("e", "b"), ("f", "f"), ("fa", "f"), ("g", "f")] {
            assert_eq!(firsts(prefix), [want], "{prefix}");
        }
        assert!(firsts("a").is_empty());
        let values = ["aa", "ab", "b", "ba", "bb", "c"]
            .map(|first| ValueBlock { first: first.into(), block: BlockRef { offset: 0, len: 1 } });
        let entry = NameEntry { name: "n".into(), values: 9, blocks: values.into() };
        let count = |prefix| entry.blocks_with(prefix).len();
        assert_eq!((count(""), count("a"), count("ab"), count("b"), count("bb")), (6, 2, 1, 3, 1));
        assert_eq!((count("0"), count("bc"), count("d")), (0, 1, 1));
        assert!(directory.name("c").is_none());
    }

    #[test]
    fn a_footer_comes_back_and_notices_every_flip() {
        let footer = Footer {
            version: 1,
            directory: BlockRef { offset: 1 << 40, len: 77 },
            series: 5,
            points: 6,
            exemplars: 7,
            partition: -86_400_000,
            min_time: -5,
            max_time: -1,
        };
        let bytes = footer.encode();
        assert_eq!(bytes.len(), FOOTER_BYTES);
        assert_eq!(Footer::decode(&bytes), Ok(footer));
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1;
            assert!(Footer::decode(&flipped).is_err());
        }
        let mut longer = bytes[..FOOTER_BYTES - TAIL_BYTES - 4].to_vec();
        longer.push(0);
        seal(&mut longer, 0);
        longer.extend(part_tail(footer.version));
        assert_eq!(Footer::decode(&longer), Err(Damage("the footer is too long")));
    }
}
