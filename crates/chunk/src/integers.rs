//! A column of integers that is written once: differences are taken, then packed in blocks as
//! offsets from the least value of each block, with as few bits as possible.
//!
//! ```text
//! u8       how often differences were taken: 0 to 2
//! zigzags  what the differences begin with, one for each time
//! blocks   u8: units of 32 values in the block, less 1 · zigzag: the least value · u8: width in bits
//!          · the values above the least, `width` bits each, the lowest bits first, padded to a byte
//! ```
//!
//! A new block begins where a different width saves more than a block head: an outlier costs its
//! unit, not the whole column, and a regular column is one block of width 0. All arithmetic wraps:
//! any two `i64` have a difference. The reader must know the number of values.

use super::error::ChunkError;
use promkairos_model::varint;

/// Values in a unit. A block consists of whole units, except at the end of the column.
const UNIT: usize = 32;
/// Maximum number of units in a block.
const MAX_UNITS: usize = 256;
/// Maximum number of times that differences are taken.
const MAX_ORDER: usize = 2;

/// Values that are packed with the same width.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Block {
    units: usize,
    least: i64,
    greatest: i64,
}

impl Block {
    fn of(unit: &[i64]) -> Self {
        let (least, greatest) = unit
            .iter()
            .fold((i64::MAX, i64::MIN), |(least, greatest), &v| (least.min(v), greatest.max(v)));
        Self { units: 1, least, greatest }
    }

    /// Bits of the largest offset from the least value.
    fn width(&self) -> usize {
        (u64::BITS - self.greatest.wrapping_sub(self.least).cast_unsigned().leading_zeros())
            as usize
    }

    /// Bytes of the block if all its units are full.
    fn bytes(&self) -> usize {
        2 + varint::len(varint::zigzag(self.least)) + self.units * (UNIT / 8) * self.width()
    }

    fn join(&self, next: &Self) -> Self {
        let (least, greatest) = (self.least.min(next.least), self.greatest.max(next.greatest));
        Self { units: self.units + next.units, least, greatest }
    }
}

/// Appends a column.
pub(super) fn put(out: &mut Vec<u8>, values: &[i64]) {
    let order = cheapest_order(values);
    out.push(order as u8);
    let mut rest = values.to_vec();
    for _ in 0..order {
        varint::push_zigzag(out, take_differences(&mut rest));
    }
    let mut rest = rest.as_slice();
    for block in blocks_of(rest) {
        let (own, others) = rest.split_at(rest.len().min(block.units * UNIT));
        let (least, width) = (block.least, block.width());
        out.push((block.units - 1) as u8);
        varint::push_zigzag(out, least);
        out.push(width as u8);
        put_bits(out, own.iter().map(|value| value.wrapping_sub(least).cast_unsigned()), width);
        rest = others;
    }
}

/// How many times differences are taken.
fn cheapest_order(values: &[i64]) -> usize {
    let (mut left, mut heads) = (values.to_vec(), 0);
    let mut bytes = Vec::with_capacity(MAX_ORDER + 1);
    for order in 0..=MAX_ORDER.min(values.len()) {
        if order > 0 {
            heads += varint::len(varint::zigzag(take_differences(&mut left)));
        }
        bytes.push(heads + blocks_of(&left).iter().map(Block::bytes).sum::<usize>());
    }
    (0..bytes.len()).min_by_key(|order| bytes[*order]).unwrap_or(0)
}

/// Replaces the values by the differences of neighbours, and returns the first value.
fn take_differences(values: &mut Vec<i64>) -> i64 {
    let first = values[0];
    for at in 1..values.len() {
        values[at - 1] = values[at].wrapping_sub(values[at - 1]);
    }
    values.pop();
    first
}

fn blocks_of(values: &[i64]) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    for unit in values.chunks(UNIT).map(Block::of) {
        if let Some(last) = blocks.last_mut() {
            let joined = last.join(&unit);
            if joined.units <= MAX_UNITS && joined.bytes() <= last.bytes() + unit.bytes() {
                *last = joined;
                continue;
            }
        }
        blocks.push(unit);
    }
    blocks
}

fn put_bits(out: &mut Vec<u8>, values: impl Iterator<Item = u64>, width: usize) {
    if width == 0 {
        return;
    }
    let (mut pending, mut filled) = (0u128, 0);
    for value in values {
        pending |= u128::from(value) << filled;
        filled += width;
        if filled >= 64 {
            out.extend_from_slice(&(pending as u64).to_le_bytes());
            pending >>= 64;
            filled -= 64;
        }
    }
    out.extend_from_slice(&(pending as u64).to_le_bytes()[..filled.div_ceil(8)]);
}

/// Reads a column of `count` values into `values`, replacing its content. Returns the bytes behind it.
pub(super) fn take<'a>(
    bytes: &'a [u8],
    count: usize,
    values: &mut Vec<i64>,
) -> Result<&'a [u8], ChunkError> {
    values.clear();
    let mut rest = bytes;
    let order = usize::from(take_byte(&mut rest)?);
    if order > MAX_ORDER.min(count) {
        return Err(ChunkError::Field("order of a column"));
    }
    let mut heads = [0; MAX_ORDER];
    for head in &mut heads[..order] {
        *head = take_zigzag(&mut rest)?;
    }
    while values.len() < count - order {
        let units = usize::from(take_byte(&mut rest)?) + 1;
        let least = take_zigzag(&mut rest)?;
        let width = usize::from(take_byte(&mut rest)?);
        if width > 64 {
            return Err(ChunkError::Field("width of a block"));
        }
        let len = (units * UNIT).min(count - order - values.len());
        let packed = rest.split_at_checked((len * width).div_ceil(8));
        let (packed, others) = packed.ok_or(ChunkError::Truncated)?;
        take_bits(packed, width, len, least, values);
        rest = others;
    }
    for &head in heads[..order].iter().rev() {
        add_up(head, values);
    }
    Ok(rest)
}

/// The inverse of [`take_differences`].
fn add_up(first: i64, differences: &mut Vec<i64>) {
    let mut value = first;
    for at in differences.iter_mut() {
        value = value.wrapping_add(std::mem::replace(at, value));
    }
    differences.push(value);
}

fn take_bits(packed: &[u8], width: usize, len: usize, least: i64, values: &mut Vec<i64>) {
    if width == 0 {
        values.resize(values.len() + len, least);
        return;
    }
    let mask = u64::MAX >> (64 - width);
    let value = |bits: u64| least.wrapping_add((bits & mask).cast_signed());
    // A value of up to 57 bits lies within the eight bytes that start with its first byte.
    let quick = if width <= 57 { (packed.len().saturating_sub(7) * 8 / width).min(len) } else { 0 };
    values.extend((0..quick).map(|at| {
        let (byte, bit) = (at * width / 8, at * width % 8);
        let word: &[u8; 8] = packed[byte..byte + 8].try_into().expect("eight bytes");
        value(u64::from_le_bytes(*word) >> bit)
    }));
    values.extend((quick..len).map(|at| {
        let (byte, bit) = (at * width / 8, at * width % 8);
        let mut word = [0; 16];
        let there = &packed[byte..packed.len().min(byte + 9)];
        word[..there.len()].copy_from_slice(there);
        value((u128::from_le_bytes(word) >> bit) as u64)
    }));
}

fn take_byte(rest: &mut &[u8]) -> Result<u8, ChunkError> {
    let (&byte, others) = rest.split_first().ok_or(ChunkError::Truncated)?;
    *rest = others;
    Ok(byte)
}

/// Reads a varint from the front.
pub(super) fn take_varint(rest: &mut &[u8]) -> Result<u64, ChunkError> {
    varint::read(|| take_byte(rest), ChunkError::Field("varint"))
}

fn take_zigzag(rest: &mut &[u8]) -> Result<i64, ChunkError> {
    take_varint(rest).map(varint::unzigzag)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn round_trip(values: &[i64]) -> usize {
        let mut bytes = Vec::new();
        put(&mut bytes, values);
        let len = bytes.len();
        bytes.push(7);
        let mut read = vec![1];
        assert_eq!(take(&bytes, values.len(), &mut read), Ok(&[7][..]));
        assert_eq!(read, values);
        len
    }

    #[test]
    fn sizes() {
        assert_eq!(round_trip(&[]), 1);
        assert_eq!(round_trip(&[5; 960]), 4);
        let rising: Vec<i64> = (0..960).map(|at| at * 15_000).collect();
        assert!(round_trip(&rising) <= 7);
        // Six bits per value; a reset costs one unit.
        let mut counter: Vec<i64> = (0..960).map(|at| at * 25 + at * at * 7919 % 38).collect();
        let len = round_trip(&counter);
        assert!((700..790).contains(&len), "{len}");
        counter[500..].iter_mut().for_each(|value| *value -= 12_000);
        assert!(round_trip(&counter) < len + 60);
    }

    proptest! {
        #[test]
        fn values_come_back(
            width in 0u32..=64,
            values in prop::collection::vec(any::<u64>(), 0..300),
            outliers in prop::collection::vec((0usize..300, any::<i64>()), 0..3),
        ) {
            let mask = u64::MAX.checked_shr(64 - width).unwrap_or(0);
            let mut values: Vec<i64> = values.iter().map(|v| (v & mask).cast_signed()).collect();
            for (at, outlier) in outliers {
                if let Some(value) = values.get_mut(at) {
                    *value = outlier;
                }
            }
            round_trip(&values);
            let mut sum = 0i64;
            values.iter_mut().for_each(|value| {
                sum = sum.wrapping_add(*value);
                *value = sum;
            });
            round_trip(&values);
        }

        #[test]
        fn hostile_bytes(bytes in prop::collection::vec(any::<u8>(), 0..60), count in 0usize..5_000) {
            let mut values = Vec::new();
            if take(&bytes, count, &mut values).is_ok() {
                prop_assert_eq!(values.len(), count);
            }
        }
    }
}
