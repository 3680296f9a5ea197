//! Numbers in bits: the variable-length code of histogram chunks.
//!
//! A prefix of ones gives the number of bits that follow. A signed field of n bits holds
//! −(2^(n−1) − 1) to 2^(n−1): one more value above zero than below.

use super::bits::{BitReader, BitWriter};
use super::error::ChunkError;

/// The number of bits that follow a prefix, by its number of ones.
const WIDTHS: [u32; 9] = [0, 3, 6, 9, 12, 18, 25, 56, 64];

/// Writes a signed number.
pub(super) fn write_signed(bits: &mut BitWriter, value: i64) {
    let ones = (0..8).find(|&ones| fits(value, WIDTHS[ones])).unwrap_or(8);
    write_prefixed(bits, ones, value as u64);
}

/// Writes an unsigned number.
pub(super) fn write_unsigned(bits: &mut BitWriter, value: u64) {
    let ones = (0..8).find(|&ones| value >> WIDTHS[ones] == 0).unwrap_or(8);
    write_prefixed(bits, ones, value);
}

/// Reads a number written by [`write_signed`].
#[inline]
pub(super) fn read_signed(bits: &mut BitReader<'_>) -> Result<i64, ChunkError> {
    match bits.read_ones(8)? {
        0 => Ok(0),
        ones => {
            let width = WIDTHS[ones as usize];
            Ok(from_field(bits.read(width)?, width))
        }
    }
}

/// Reads a number written by [`write_unsigned`].
#[inline]
pub(super) fn read_unsigned(bits: &mut BitReader<'_>) -> Result<u64, ChunkError> {
    match bits.read_ones(8)? {
        0 => Ok(0),
        ones => bits.read(WIDTHS[ones as usize]),
    }
}

/// Whether `value` fits into a signed field of `width` bits.
#[inline]
pub(super) fn fits(value: i64, width: u32) -> bool {
    match width {
        0 => value == 0,
        64.. => true,
        _ => {
            let half = 1 << (width - 1);
            -(half - 1) <= value && value <= half
        }
    }
}

/// The signed number in a field of `width` bits.
#[inline]
pub(super) fn from_field(field: u64, width: u32) -> i64 {
    if width < 64 && field > 1 << (width - 1) {
        field.wrapping_sub(1 << width) as i64
    } else {
        field as i64
    }
}

fn write_prefixed(bits: &mut BitWriter, ones: usize, value: u64) {
    match ones {
        0 => bits.write(0, 1),
        8 => bits.write(0xff, 8),
        _ => bits.write((1 << (ones + 1)) - 2, ones as u32 + 1),
    }
    if ones > 0 {
        bits.write(value, WIDTHS[ones]);
    }
}

/// An integer coded by the delta of its deltas.
#[derive(Debug, Clone, Copy)]
pub(super) struct IntValue {
    pub(super) value: i64,
    delta: i64,
}

impl IntValue {
    pub(super) fn new(value: i64) -> Self {
        Self { value, delta: 0 }
    }

    pub(super) fn write(&mut self, bits: &mut BitWriter, value: i64) {
        let delta = value.wrapping_sub(self.value);
        write_signed(bits, delta.wrapping_sub(self.delta));
        *self = Self { value, delta };
    }

    pub(super) fn read(&mut self, bits: &mut BitReader<'_>) -> Result<i64, ChunkError> {
        self.delta = self.delta.wrapping_add(read_signed(bits)?);
        self.value = self.value.wrapping_add(self.delta);
        Ok(self.value)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn signed(value: i64) -> (usize, i64) {
        let mut writer = BitWriter::default();
        write_signed(&mut writer, value);
        writer.write(1, 1);
        let bytes = writer.snapshot(&[]);
        let mut reader = BitReader::new(&bytes);
        let read = read_signed(&mut reader).expect("just written");
        (bytes.len() * 8 - reader.remaining(), read)
    }

    #[test]
    fn signed_widths() {
        let cases: [(i64, usize); 14] = [
            (0, 1),
            (4, 5),
            (-3, 5),
            (-4, 9),
            (5, 9),
            (32, 9),
            (-32, 13),
            (256, 13),
            (2048, 17),
            (-2048, 24),
            (1 << 17, 24),
            (1 << 24, 32),
            (1 << 55, 64),
            (-(1 << 55), 72),
        ];
        for (value, bits) in cases {
            assert_eq!(signed(value), (bits, value), "{value}");
        }
    }

    proptest! {
        #[test]
        fn numbers_come_back(value: i64, shift in 0u32..64) {
            let value = value >> shift;
            prop_assert_eq!(signed(value).1, value);
            let mut writer = BitWriter::default();
            write_unsigned(&mut writer, value as u64);
            let bytes = writer.snapshot(&[]);
            prop_assert_eq!(read_unsigned(&mut BitReader::new(&bytes)), Ok(value as u64));
        }
    }
}
