//! A stream of bits, most significant bit first, padded with zeros to a whole byte.
//!
//! Reader and writer process a `u64` at a time. Reading past the end is an error, never a panic.
//! The meaning of the bits is not known here.

use bytes::Bytes;

use super::error::ChunkError;

/// Appends bits to a buffer that grows in small steps, because a million writers may exist at a time.
#[derive(Debug, Clone, Default)]
pub(super) struct BitWriter {
    /// Complete words, then free room.
    bytes: Box<[u8]>,
    /// Bits that do not fill a word yet, at the top.
    pending: u64,
    /// Total number of bits written.
    bits: u32,
}

impl BitWriter {
    /// Appends the lowest `count` bits of `value`; `count` is 1 to 64.
    #[inline]
    pub(super) fn write(&mut self, value: u64, count: u32) {
        debug_assert!((1..=64).contains(&count));
        let value = value & (u64::MAX >> (64 - count));
        let free = 64 - (self.bits & 63);
        if count < free {
            self.pending |= value << (free - count);
        } else {
            let rest = count - free;
            self.spill(self.pending | (value >> rest));
            // Two shifts, because `rest` may be 0.
            self.pending = (value << 1) << (63 - rest);
        }
        self.bits += count;
    }

    fn spill(&mut self, word: u64) {
        let at = (self.bits / 64) as usize * 8;
        if at + 8 > self.bytes.len() {
            self.grow();
        }
        self.bytes[at..at + 8].copy_from_slice(&word.to_be_bytes());
    }

    #[cold]
    fn grow(&mut self) {
        let room = (self.bytes.len() / 4).next_multiple_of(8).max(16);
        let mut bytes = std::mem::take(&mut self.bytes).into_vec();
        bytes.reserve_exact(room);
        bytes.resize(bytes.len() + room, 0);
        self.bytes = bytes.into_boxed_slice();
    }

    /// `head`, followed by all bits written so far.
    pub(super) fn snapshot(&self, head: &[u8]) -> Bytes {
        let whole = (self.bits / 64) as usize * 8;
        let tail = (self.bits & 63).div_ceil(8) as usize;
        let mut bytes = Vec::with_capacity(head.len() + whole + tail);
        bytes.extend_from_slice(head);
        bytes.extend_from_slice(&self.bytes[..whole]);
        bytes.extend_from_slice(&self.pending.to_be_bytes()[..tail]);
        bytes.into()
    }
}

/// Reads bits from a slice.
#[derive(Debug, Clone)]
pub(super) struct BitReader<'a> {
    rest: &'a [u8],
    /// The next bits, at the top. Below the `filled` bits there may be some bits of `rest`.
    window: u64,
    /// The number of bits in the window that were removed from `rest`; at most 63.
    filled: u32,
}

impl<'a> BitReader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, window: 0, filled: 0 }
    }

    /// The number of bits left, including padding.
    pub(super) fn remaining(&self) -> usize {
        self.rest.len() * 8 + self.filled as usize
    }

    /// The next `count` bits; `count` is 1 to 64.
    #[inline]
    pub(super) fn read(&mut self, count: u32) -> Result<u64, ChunkError> {
        if count > 56 {
            let high = self.read_word(count - 32)?;
            return Ok(high << 32 | self.read_word(32)?);
        }
        self.read_word(count)
    }

    #[inline]
    fn read_word(&mut self, count: u32) -> Result<u64, ChunkError> {
        debug_assert!((1..=56).contains(&count));
        if self.filled < count {
            self.refill();
            if self.filled < count {
                return Err(ChunkError::Truncated);
            }
        }
        let value = self.window >> (64 - count);
        self.window <<= count;
        self.filled -= count;
        Ok(value)
    }

    /// Counts ones up to the next zero, which is read too, or up to `most` ones; `most` is 1 to 8.
    #[inline]
    pub(super) fn read_ones(&mut self, most: u32) -> Result<u32, ChunkError> {
        if self.filled < most {
            self.refill();
        }
        let ones = self.window.leading_ones().min(most);
        let used = if ones < most { ones + 1 } else { most };
        if used > self.filled {
            return Err(ChunkError::Truncated);
        }
        self.window <<= used;
        self.filled -= used;
        Ok(ones)
    }

    /// Fills the window to at least 56 bits, or with all remaining bits.
    #[inline]
    fn refill(&mut self) {
        if let Some(word) = self.rest.first_chunk::<8>() {
            self.window |= u64::from_be_bytes(*word) >> self.filled;
            let taken = (63 - self.filled) / 8;
            self.rest = &self.rest[taken as usize..];
            self.filled += taken * 8;
            return;
        }
        while self.filled < 56 {
            let Some((&byte, rest)) = self.rest.split_first() else { return };
            self.window |= (u64::from(byte) << 56) >> self.filled;
            self.filled += 8;
            self.rest = rest;
        }
    }
}

/// The bits of a slice by position: for loops that keep the position in a register.
#[derive(Debug, Clone, Copy)]
pub(super) struct BitSlice<'a>(pub(super) &'a [u8]);

impl BitSlice<'_> {
    /// The number of bits.
    pub(super) fn len(self) -> usize {
        self.0.len() * 8
    }

    /// The bits from a position on, at the top: at least [`BitSlice::AT_ONCE`]. Behind the end are
    /// zeros; the caller has to check the position.
    #[inline]
    pub(super) fn word_at(self, place: usize) -> u64 {
        let rest = self.0.get(place / 8..).unwrap_or_default();
        let word =
            rest.first_chunk().map_or_else(|| last_word(rest), |word| u64::from_be_bytes(*word));
        word << (place % 8)
    }

    /// `count` bits from a position on; `count` is 1 to 64.
    #[inline]
    pub(super) fn field(self, place: usize, count: u32) -> u64 {
        if count > Self::AT_ONCE {
            return self.field(place, count - 32) << 32
                | self.field(place + count as usize - 32, 32);
        }
        self.word_at(place) >> (64 - count)
    }

    /// The minimum number of bits that one [`BitSlice::word_at`] returns.
    pub(super) const AT_ONCE: u32 = 57;
}

/// A word of fewer than eight bytes, filled with zeros.
#[cold]
fn last_word(rest: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..rest.len()].copy_from_slice(rest);
    u64::from_be_bytes(word)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(fields in prop::collection::vec((any::<u64>(), 1u32..=64), 0..200)) {
            let mut writer = BitWriter::default();
            for &(value, count) in &fields {
                writer.write(value, count);
            }
            let bytes = writer.snapshot(&[7]);
            prop_assert_eq!(bytes[0], 7);
            let mut reader = BitReader::new(&bytes[1..]);
            for &(value, count) in &fields {
                prop_assert_eq!(reader.read(count), Ok(value & (u64::MAX >> (64 - count))));
            }
            prop_assert!(reader.remaining() < 8);
            prop_assert_eq!(reader.read(8), Err(ChunkError::Truncated));
        }

        #[test]
        fn a_place_has_the_bits_that_a_reader_finds_there(
            bytes in prop::collection::vec(any::<u8>(), 0..24),
            place in 0usize..200,
        ) {
            let slice = BitSlice(&bytes);
            let bit = |at: usize| bytes.get(at / 8).is_some_and(|byte| byte >> (7 - at % 8) & 1 == 1);
            let whole = slice.field(place, 64);
            for at in 0..64 {
                prop_assert_eq!(whole >> (63 - at) & 1 == 1, bit(place + at));
            }
            for count in 1..64 {
                prop_assert_eq!(slice.field(place, count), whole >> (64 - count));
            }
        }
    }

    #[test]
    fn ones() {
        let mut reader = BitReader::new(&[0b0101_1011, 0b1111_1111]);
        let ones: Vec<_> = std::iter::from_fn(|| reader.read_ones(4).ok()).collect();
        assert_eq!(ones, [0, 1, 2, 4, 4]);
    }
}
