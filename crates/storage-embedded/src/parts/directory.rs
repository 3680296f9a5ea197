//! The end of a part file: the directory of its blocks, and the footer with the place of the directory.
//!
//! Pure bytes: no I/O. The directory has a bounded number of bytes for each block, so it is small beside its file,
//! whatever the labels are. It is written and read in pieces, so its length is not limited. Directories of older
//! parts are for [`old_directory`](super::old_directory). `docs/EMBEDDED-FORMAT.md` has the layout.

use promkairos_storage::codec::{Cursor, Damage, put_bytes, put_varint, seal, unseal};

use super::block_ref::BlockRef;
use super::value_keys::{KEY_BYTES, KeyedBlock, NameEntry};

/// Version of the part files that are written. Versions 1 and 2 are read too.
pub(super) const PART_VERSION: u8 = 3;
/// Unpacked bytes after which a piece of the directory ends.
const PIECE_BYTES: usize = 64 << 10;
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

/// A block of the series table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SeriesBlock {
    /// Number of the first series in it.
    pub(super) first: u32,
    /// Number of series.
    pub(super) count: u32,
    /// Where the chunks of its first series begin.
    pub(super) frames: u64,
    /// Bytes of the chunks of its series.
    pub(super) frames_len: u64,
    pub(super) block: BlockRef,
}

/// Where the values of labels are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Values {
    /// All values sorted by label, and the names of the labels.
    Sorted { values: Vec<KeyedBlock>, names: Vec<KeyedBlock> },
    /// Values in blocks by label, sorted by its name: versions 1 and 2.
    ByLabel(Vec<NameEntry>),
}

/// Where everything in a part is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Directory {
    pub(super) series: Vec<SeriesBlock>,
    pub(super) values: Values,
    pub(super) exemplars: Vec<BlockRef>,
    /// Where the large postings begin.
    pub(super) postings: u64,
}

/// Kinds of records in a directory.
mod kind {
    pub(super) const END: u8 = 0;
    pub(super) const SERIES: u8 = 1;
    pub(super) const VALUES: u8 = 2;
    pub(super) const NAMES: u8 = 3;
    pub(super) const EXEMPLARS: u8 = 4;
}

/// A directory that is read piece by piece.
#[derive(Default)]
pub(super) struct DirectoryReader {
    series: Vec<SeriesBlock>,
    values: Vec<KeyedBlock>,
    names: Vec<KeyedBlock>,
    exemplars: Vec<BlockRef>,
    /// End of the last block, by kind of record.
    ends: [u64; 4],
    /// Number of series so far.
    count: u32,
    /// Where the large postings begin, once the end is read.
    postings: Option<u64>,
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

/// The checksum that a manifest keeps of a footer. It covers the numbers only: with its own
/// checksum included, every footer would have the same one.
pub(super) fn footer_crc(footer: &[u8]) -> u32 {
    let numbers = footer.len().saturating_sub(TAIL_BYTES + 4);
    crc32c::crc32c(&footer[..numbers])
}

impl Default for Values {
    fn default() -> Self {
        Self::Sorted { values: Vec::new(), names: Vec::new() }
    }
}

impl Directory {
    /// Encodes the directory, unpacked.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let Ok(()) = self.pieces(&mut |piece| {
            out.extend_from_slice(piece);
            Ok::<(), std::convert::Infallible>(())
        });
        out
    }

    /// Encodes the directory piece by piece; a piece ends only between two records.
    pub(super) fn pieces<E>(&self, put: &mut dyn FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let (no_values, no_names) = (Vec::new(), Vec::new());
        let (values, names) = match &self.values {
            Values::Sorted { values, names } => (values, names),
            // No such directory is written.
            Values::ByLabel(_) => (&no_values, &no_names),
        };
        let mut raw = Vec::new();
        let mut ends = [0u64; 4];
        let mut record = |kind: u8, offset: u64, end: u64, rest: &mut dyn FnMut(&mut Vec<u8>)| {
            raw.push(kind);
            let before = &mut ends[usize::from(kind) - 1];
            put_varint(&mut raw, offset.wrapping_sub(*before));
            *before = end;
            rest(&mut raw);
            if raw.len() >= PIECE_BYTES {
                put(&raw)?;
                raw.clear();
            }
            Ok(())
        };
        for series in &self.series {
            record(kind::SERIES, series.frames, series.block.end(), &mut |raw| {
                put_varint(raw, series.count.into());
                put_varint(raw, series.frames_len);
                put_varint(raw, series.block.len.into());
            })?;
        }
        for values in values {
            record(kind::VALUES, values.block.offset, values.block.end(), &mut |raw| {
                put_bytes(raw, &values.name);
                put_bytes(raw, &values.value);
                put_varint(raw, values.block.len.into());
            })?;
        }
        for names in names {
            record(kind::NAMES, names.block.offset, names.block.end(), &mut |raw| {
                put_bytes(raw, &names.name);
                put_varint(raw, names.block.len.into());
            })?;
        }
        for block in &self.exemplars {
            record(kind::EXEMPLARS, block.offset, block.end(), &mut |raw| {
                put_varint(raw, block.len.into());
            })?;
        }
        raw.push(kind::END);
        put_varint(&mut raw, self.postings);
        put(&raw)
    }

    /// Reads what [`Self::encode`] wrote; an error says what is wrong with the bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, Damage> {
        let mut reader = DirectoryReader::default();
        reader.read(bytes)?;
        reader.finish()
    }

    /// The block of the series table that can hold a series.
    pub(super) fn block_of(&self, id: u32) -> Option<&SeriesBlock> {
        let after = self.series.partition_point(|block| block.first <= id);
        self.series.get(after.checked_sub(1)?)
    }

    /// Approximate size in memory, in bytes.
    pub(super) fn memory(&self) -> usize {
        /// Bytes that the allocator needs for each text.
        const BESIDE: usize = 16;
        let values = match &self.values {
            Values::Sorted { values, names } => {
                let of = |block: &KeyedBlock| {
                    size_of::<KeyedBlock>() + 2 * BESIDE + block.name.len() + block.value.len()
                };
                values.iter().chain(names).map(of).sum::<usize>()
            }
            Values::ByLabel(names) => {
                let own = names.iter().map(|name| size_of::<NameEntry>() + name.name.len());
                let blocks = names.iter().flat_map(|name| &name.blocks);
                let first = blocks.map(|block| size_of_val(block) + BESIDE + block.first.len());
                own.sum::<usize>() + first.sum::<usize>()
            }
        };
        size_of_val(self.series.as_slice()) + size_of_val(self.exemplars.as_slice()) + values
    }
}

impl DirectoryReader {
    /// Reads the next piece.
    pub(super) fn read(&mut self, piece: &[u8]) -> Result<(), Damage> {
        let mut cursor = Cursor(piece);
        while !cursor.is_empty() {
            if self.postings.is_some() {
                return Err(Damage("the directory is too long"));
            }
            let kind = cursor.u8()?;
            let gap = cursor.varint()?;
            if kind == kind::END {
                self.postings = Some(gap);
                continue;
            }
            let end = self.ends.get(usize::from(kind) - 1);
            let end = end.ok_or(Damage("the directory has something unknown"))?;
            let offset = end.checked_add(gap).ok_or(TOO_LARGE)?;
            self.ends[usize::from(kind) - 1] = self.record(kind, offset, &mut cursor)?;
        }
        Ok(())
    }

    /// Reads a record of a block whose data begin at `offset`; returns where the block ends.
    fn record(&mut self, kind: u8, offset: u64, cursor: &mut Cursor<'_>) -> Result<u64, Damage> {
        let mut at = offset;
        match kind {
            kind::SERIES => {
                let (first, count) = (self.count, cursor.varint_u32()?);
                let frames_len = cursor.varint()?;
                at = at.checked_add(frames_len).ok_or(TOO_LARGE)?;
                let block = next_block(&mut at, cursor.varint_u32()?)?;
                self.series.push(SeriesBlock { first, count, frames: offset, frames_len, block });
                self.count = first.checked_add(count).ok_or(Damage("too many series"))?;
            }
            kind::VALUES | kind::NAMES => {
                let name = key(cursor)?;
                let value = if kind == kind::VALUES { key(cursor)? } else { Box::default() };
                let block = next_block(&mut at, cursor.varint_u32()?)?;
                let blocks = if kind == kind::VALUES { &mut self.values } else { &mut self.names };
                blocks.push(KeyedBlock { name, value, block });
            }
            _ => self.exemplars.push(next_block(&mut at, cursor.varint_u32()?)?),
        }
        Ok(at)
    }

    /// The directory, after its last piece was read.
    pub(super) fn finish(self) -> Result<Directory, Damage> {
        let Self { series, values, names, exemplars, postings, .. } = self;
        let postings = postings.ok_or(Damage("the directory ends too early"))?;
        Ok(Directory { series, values: Values::Sorted { values, names }, exemplars, postings })
    }
}

const TOO_LARGE: Damage = Damage("an offset is too large");

fn key(cursor: &mut Cursor<'_>) -> Result<Box<[u8]>, Damage> {
    match cursor.bytes()? {
        key if key.len() <= KEY_BYTES => Ok(key.into()),
        _ => Err(Damage("the beginning of a label is too long")),
    }
}

/// The block of length `len` at `offset`; moves `offset` behind the block.
pub(super) fn next_block(offset: &mut u64, len: u32) -> Result<BlockRef, Damage> {
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
        for time in [self.partition, self.min_time, self.max_time] {
            out.extend_from_slice(&time.to_le_bytes());
        }
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
        if cursor.is_empty() { Ok(footer) } else { Err(Damage("the footer is too long")) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::value_keys::Key;
    use super::*;

    fn directory() -> Directory {
        let at = |offset, len| BlockRef { offset, len };
        let keyed = |name, value, block| KeyedBlock::new(Key::of(name, value), block);
        Directory {
            series: vec![
                SeriesBlock { first: 0, count: 3, frames: 8, frames_len: 90, block: at(98, 7) },
                SeriesBlock { first: 3, count: 1, frames: 105, frames_len: 2, block: at(107, 9) },
            ],
            values: Values::Sorted {
                values: vec![
                    keyed("a", "x", at(200, 10)),
                    keyed("b", "b", at(230, 10)),
                    keyed("b", "f", at(240, 11)),
                ],
                names: vec![keyed("a", "", at(210, 11))],
            },
            exemplars: vec![at(316, 4), at(320, 1)],
            postings: 190,
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
            let longer = [&bytes[..], &[kind::END, 0]].concat();
            assert_eq!(Directory::decode(&longer), Err(Damage("the directory is too long")));
        }
    }

    #[test]
    fn a_directory_of_any_length_is_written_in_pieces() {
        let value = "v".repeat(KEY_BYTES);
        let block = |n: u64| {
            let name = format!("{n:06}");
            KeyedBlock::new(Key::of(&name, &value), BlockRef { offset: n * 10, len: 7 })
        };
        let values = (0..5_000).map(block).collect();
        let values = Values::Sorted { values, names: Vec::new() };
        let directory = Directory { values, ..Directory::default() };
        let mut reader = DirectoryReader::default();
        let mut pieces = 0;
        let put = &mut |piece: &[u8]| {
            pieces += 1;
            assert!(piece.len() < PIECE_BYTES + 2 * KEY_BYTES + 32);
            reader.read(piece)
        };
        directory.pieces(put).expect("our own");
        assert!(pieces > 5, "{pieces}");
        assert_eq!(reader.finish(), Ok(directory));
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
