//! The basic encodings of chunk files: varints, strings, checksums, blocks.
//!
//! Pure bytes, no I/O. Reading never panics, and never allocates memory for a length that the input
//! is too short for. A block is
//!
//! ```text
//! ┌────────────┬────────────────┬─────────┬────────────────────────────┐
//! │ u8 packing │ u32 raw length │ payload │ u32 crc32c of all before it │
//! └────────────┴────────────────┴─────────┴────────────────────────────┘
//! packing: 0 = the payload as it is, 1 = zstd. Integers are little-endian.
//! ```

use std::cell::RefCell;

use bytes::Bytes;
use zstd::bulk::Decompressor;

use promkairos_model::{Labels, varint};

pub use promkairos_model::varint::{push as put_varint, push_zigzag as put_zigzag};

/// Bytes around the payload of a block.
const BLOCK_OVERHEAD: usize = 9;
/// Maximum bytes that a block may unpack to.
const MAX_RAW_BLOCK: usize = 64 << 20;
/// Level of zstd: the fastest; blocks are small and repetitive.
const ZSTD_LEVEL: i32 = 1;

/// The error for bytes that differ from what was written, with the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Damage(pub &'static str);

/// Bytes being taken apart from the front.
#[derive(Debug, Clone, Copy)]
pub struct Cursor<'a>(
    /// What is left.
    pub &'a [u8],
);

impl<'a> Cursor<'a> {
    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next `len` bytes.
    pub fn take(&mut self, len: usize) -> Result<&'a [u8], Damage> {
        let (head, rest) = self.0.split_at_checked(len).ok_or(Damage("ends too early"))?;
        self.0 = rest;
        Ok(head)
    }

    /// The next byte.
    pub fn u8(&mut self) -> Result<u8, Damage> {
        Ok(self.take(1)?[0])
    }

    /// The next four bytes, little-endian.
    pub fn u32(&mut self) -> Result<u32, Damage> {
        let bytes = self.take(4)?;
        Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    /// The next eight bytes, little-endian.
    pub fn u64(&mut self) -> Result<u64, Damage> {
        let (low, high) = (self.u32()?, self.u32()?);
        Ok(u64::from(low) | u64::from(high) << 32)
    }

    /// The next varint.
    pub fn varint(&mut self) -> Result<u64, Damage> {
        varint::read(|| self.u8(), Damage("a varint is too long"))
    }

    /// The next varint, which must fit 32 bits.
    pub fn varint_u32(&mut self) -> Result<u32, Damage> {
        u32::try_from(self.varint()?).map_err(|_| Damage("a number is too large"))
    }

    /// The next zigzag varint.
    pub fn zigzag(&mut self) -> Result<i64, Damage> {
        self.varint().map(varint::unzigzag)
    }

    /// Bytes behind their length.
    pub fn bytes(&mut self) -> Result<&'a [u8], Damage> {
        let len = self.varint()?;
        self.take(usize::try_from(len).map_err(|_| Damage("ends too early"))?)
    }

    /// Text behind its length.
    pub fn text(&mut self) -> Result<&'a str, Damage> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Damage("text is not UTF-8"))
    }

    /// A label set behind its length, in canonical bytes.
    pub fn labels(&mut self) -> Result<Labels, Damage> {
        labels(self.bytes()?)
    }
}

/// A label set from its canonical bytes.
pub fn labels(bytes: &[u8]) -> Result<Labels, Damage> {
    Labels::from_bytes(bytes).map_err(|_| Damage("a label set is malformed"))
}

/// Appends bytes behind their length.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends the checksum of `out[start..]`.
pub fn seal(out: &mut Vec<u8>, start: usize) {
    let crc = crc32c::crc32c(&out[start..]);
    out.extend_from_slice(&crc.to_le_bytes());
}

/// What [`seal`] has sealed, without the checksum.
pub fn unseal(bytes: &[u8]) -> Result<&[u8], Damage> {
    let at = bytes.len().checked_sub(4).ok_or(Damage("ends too early"))?;
    let (content, crc) = bytes.split_at(at);
    if crc32c::crc32c(content).to_le_bytes() != crc {
        return Err(Damage("the checksum is wrong"));
    }
    Ok(content)
}

/// Packs `raw` as a block; packed only where that is smaller.
pub fn pack(raw: &[u8]) -> Vec<u8> {
    // A failure to compress is no failure to store.
    let packed =
        zstd::bulk::compress(raw, ZSTD_LEVEL).ok().filter(|packed| packed.len() < raw.len());
    let (packing, payload) = match &packed {
        Some(packed) => (1, packed.as_slice()),
        None => (0, raw),
    };
    let mut block = Vec::with_capacity(payload.len() + BLOCK_OVERHEAD);
    block.push(packing);
    block.extend_from_slice(&(raw.len() as u32).to_le_bytes());
    block.extend_from_slice(payload);
    seal(&mut block, 0);
    block
}

thread_local! {
    /// Kept for the next block: new pages for it cost more than what they unpack.
    static DECOMPRESSOR: RefCell<Decompressor<'static>> = RefCell::default();
}

/// The bytes given to [`pack`].
pub fn unpack(block: &[u8]) -> Result<Bytes, Damage> {
    let mut cursor = Cursor(unseal(block)?);
    let packing = cursor.u8()?;
    let raw_len = cursor.u32()? as usize;
    if raw_len > MAX_RAW_BLOCK {
        return Err(Damage("a block is too large"));
    }
    let raw = match packing {
        0 => cursor.0.to_vec(),
        1 => DECOMPRESSOR
            .with_borrow_mut(|decompressor| decompressor.decompress(cursor.0, raw_len))
            .map_err(|_| Damage("a block does not decompress"))?,
        _ => return Err(Damage("a block has an unknown packing")),
    };
    if raw.len() != raw_len {
        return Err(Damage("a block has the wrong length"));
    }
    Ok(raw.into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn blocks_give_back_what_was_packed_and_notice_every_flip() {
        for raw in [vec![], b"short".to_vec(), b"again and again and ".repeat(100)] {
            let block = pack(&raw);
            assert_eq!(unpack(&block).expect("just packed"), raw);
            for at in 0..block.len() {
                let mut flipped = block.clone();
                flipped[at] ^= 0x10;
                assert_eq!(unpack(&flipped), Err(Damage("the checksum is wrong")));
                assert!(unpack(&block[..at]).is_err());
            }
        }
    }

    #[test]
    fn a_declared_length_is_not_believed() {
        let mut block = vec![1];
        block.extend_from_slice(&u32::MAX.to_le_bytes());
        seal(&mut block, 0);
        assert_eq!(unpack(&block), Err(Damage("a block is too large")));
        assert!(Cursor(&[0xff; 11]).varint().is_err());
        assert!(
            Cursor(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]).bytes().is_err()
        );
    }

    #[test]
    fn a_block_that_does_not_decompress_spoils_no_other() {
        let raw = b"again and again and ".repeat(100);
        let good = pack(&raw);
        assert_eq!(good[0], 1, "packed");
        let payload = 5..good.len() - 4;
        for at in payload {
            let mut bad = good[..good.len() - 4].to_vec();
            bad[at] ^= 0xff;
            seal(&mut bad, 0);
            let _ = unpack(&bad);
            let mut cut = good[..at].to_vec();
            seal(&mut cut, 0);
            assert!(unpack(&cut).is_err(), "cut at {at}");
            assert_eq!(unpack(&good).expect("just packed"), raw, "behind one cut at {at}");
        }
    }

    proptest! {
        #[test]
        fn numbers_come_back(unsigned: u64, signed: i64) {
            let mut out = Vec::new();
            put_varint(&mut out, unsigned);
            put_zigzag(&mut out, signed);
            let mut cursor = Cursor(&out);
            prop_assert_eq!(cursor.varint(), Ok(unsigned));
            prop_assert_eq!(cursor.zigzag(), Ok(signed));
            prop_assert!(cursor.is_empty());
        }

        #[test]
        fn hostile_bytes_are_refused_quietly(mut bytes: Vec<u8>) {
            let _ = unpack(&bytes);
            seal(&mut bytes, 0);
            let _ = unpack(&bytes);
        }
    }
}
