//! A column of a chunk: one `i64` per point, for start timestamps, integers and acceptance times.
//!
//! ```text
//! bits   signed: the first value
//!        runs:   unsigned: length − 1 · signed: delta of the run − delta of the run before
//! ```
//!
//! Numbers are coded as in histogram chunks. Within a run each value is the previous value plus the
//! delta, wrapping, so a constant or evenly rising column takes a few bytes. A column of zeros is
//! empty.

use std::ops::Deref;

use bytes::Bytes;

use super::bits::{BitReader, BitWriter};
use super::error::ChunkError;
use super::varbit::{read_signed, read_unsigned, write_signed, write_unsigned};

/// The bytes of a column. Chunks of the embedded store usually have no columns, and a million
/// chunks are in memory at a time: an empty column takes one pointer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ColumnBytes(Option<Box<Bytes>>);

impl Deref for ColumnBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.as_deref().map_or(&[], |bytes| bytes)
    }
}

impl From<Bytes> for ColumnBytes {
    fn from(bytes: Bytes) -> Self {
        Self((!bytes.is_empty()).then(|| Box::new(bytes)))
    }
}

/// An open column.
#[derive(Debug, Clone, Default)]
pub(super) struct Column {
    bits: BitWriter,
    value: i64,
    /// Delta of the last run that was written.
    written: i64,
    /// Delta of the current run.
    delta: i64,
    /// Length of the current run; 0 = no run.
    run: u32,
    /// The number of zeros while all values are 0; they are not written yet.
    zeros: u32,
    started: bool,
}

impl Column {
    /// A column that starts with `count` zeros.
    pub(super) fn of_zeros(count: usize) -> Self {
        Self { zeros: count as u32, ..Self::default() }
    }

    /// Whether all values so far are 0.
    pub(super) fn is_zeros(&self) -> bool {
        !self.started
    }

    pub(super) fn push(&mut self, value: i64) {
        if !self.started {
            if value == 0 {
                self.zeros += 1;
                return;
            }
            self.started = true;
            if self.zeros == 0 {
                write_signed(&mut self.bits, value);
                self.value = value;
                return;
            }
            write_signed(&mut self.bits, 0);
            self.run = self.zeros - 1;
        }
        let delta = value.wrapping_sub(self.value);
        if self.run > 0 && delta == self.delta {
            self.run += 1;
        } else {
            self.flush();
            self.delta = delta;
            self.run = 1;
        }
        self.value = value;
    }

    fn flush(&mut self) {
        if self.run > 0 {
            write_unsigned(&mut self.bits, u64::from(self.run - 1));
            write_signed(&mut self.bits, self.delta.wrapping_sub(self.written));
            self.written = self.delta;
        }
    }

    /// The bytes of all values so far.
    pub(super) fn to_bytes(&self) -> ColumnBytes {
        if !self.started {
            return ColumnBytes::default();
        }
        let mut closed = self.clone();
        closed.flush();
        closed.bits.snapshot(&[]).into()
    }
}

/// The values of a column, one per point.
#[derive(Debug, Clone)]
pub struct ColumnValues<'a> {
    bits: Option<BitReader<'a>>,
    /// Points left.
    left: u16,
    value: i64,
    delta: i64,
    /// Values left in the run.
    run: u16,
    started: bool,
}

impl<'a> ColumnValues<'a> {
    /// `count` values; empty bytes mean zeros.
    pub(super) fn new(bytes: &'a [u8], count: u16) -> Self {
        let bits = (!bytes.is_empty()).then(|| BitReader::new(bytes));
        Self { bits, left: count, value: 0, delta: 0, run: 0, started: false }
    }

    fn step(&mut self) -> Result<i64, ChunkError> {
        let Some(bits) = &mut self.bits else { return Ok(0) };
        if !self.started {
            self.started = true;
            self.value = read_signed(bits)?;
            return Ok(self.value);
        }
        if self.run == 0 {
            let more = read_unsigned(bits)?;
            if more >= u64::from(self.left) {
                return Err(ChunkError::Field("run length"));
            }
            self.run = more as u16 + 1;
            self.delta = self.delta.wrapping_add(read_signed(bits)?);
        }
        self.run -= 1;
        self.value = self.value.wrapping_add(self.delta);
        Ok(self.value)
    }

    /// Bits behind the last value read.
    pub(super) fn remaining(&self) -> usize {
        self.bits.as_ref().map_or(0, BitReader::remaining)
    }
}

impl Iterator for ColumnValues<'_> {
    type Item = Result<i64, ChunkError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        let value = self.step();
        self.left = if value.is_ok() { self.left - 1 } else { 0 };
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn round_trip(values: &[i64]) -> usize {
        let mut column = Column::default();
        for &value in values {
            column.push(value);
        }
        let bytes = column.to_bytes();
        let read: Result<Vec<i64>, _> = ColumnValues::new(&bytes, values.len() as u16).collect();
        assert_eq!(read.as_deref(), Ok(values));
        bytes.len()
    }

    #[test]
    fn sizes() {
        assert_eq!(round_trip(&[0; 120]), 0);
        assert!(round_trip(&[1_700_000_000_000; 120]) <= 11);
        let rising: Vec<i64> = (0..120).map(|i| 1_700_000_000_000 + i * 15_000).collect();
        assert!(round_trip(&rising) <= 14);
    }

    proptest! {
        #[test]
        fn values_come_back(values in prop::collection::vec(
            prop_oneof![Just(0i64), Just(i64::MIN), Just(i64::MAX), 0i64..5, any::<i64>()], 0..200)) {
            round_trip(&values);
        }

        #[test]
        fn hostile_bytes(bytes in prop::collection::vec(any::<u8>(), 0..40), count: u16) {
            prop_assert!(ColumnValues::new(&bytes, count).count() <= usize::from(count));
        }
    }
}
