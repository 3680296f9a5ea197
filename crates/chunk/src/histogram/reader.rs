//! Reads the histograms of a chunk.
//!
//! Declared lengths are checked against the bytes; an error says what is wrong.

use std::sync::Arc;

use super::columns::Columns;
use super::hint::hint_of;
use crate::bits::BitReader;
use crate::chunk::ChunkKind;
use crate::error::ChunkError;
use crate::layout::Layout;
use crate::varbit::read_signed;
use crate::xor::XorValue;
use promkairos_model::{Histogram, ResetHint};

/// Reads the histograms of a chunk.
#[derive(Debug, Clone)]
pub(crate) struct HistogramReader<'a> {
    bits: BitReader<'a>,
    layout: Layout,
    hint: ResetHint,
    count: u16,
    read: u16,
    time: i64,
    time_delta: i64,
    sum: XorValue,
    columns: Columns,
}

impl<'a> HistogramReader<'a> {
    pub(crate) fn new(data: &'a [u8], count: u16, kind: ChunkKind) -> Result<Self, ChunkError> {
        let (&[high, low, flags], rest) = data.split_first_chunk().ok_or(ChunkError::Truncated)?;
        let found = u16::from_be_bytes([high, low]);
        if found != count {
            return Err(ChunkError::Count { expected: count, found });
        }
        let mut bits = BitReader::new(rest);
        let layout = Layout::read(&mut bits)?;
        Ok(Self {
            bits,
            layout,
            hint: hint_of(flags),
            count,
            read: 0,
            time: 0,
            time_delta: 0,
            sum: XorValue::new(0.0),
            columns: Columns::unread(kind),
        })
    }

    /// The next histogram, or `None` after the last.
    pub(crate) fn next_histogram(&mut self) -> Result<Option<(i64, Arc<Histogram>)>, ChunkError> {
        if self.read == self.count {
            return Ok(None);
        }
        if self.read == 0 {
            self.time = read_signed(&mut self.bits)?;
            let (_, number) = self.layout.buckets();
            self.columns.read_first(&mut self.bits, &mut self.sum, number)?;
        } else {
            self.time_delta = self.time_delta.wrapping_add(read_signed(&mut self.bits)?);
            let time = self.time.wrapping_add(self.time_delta);
            if time <= self.time {
                return Err(ChunkError::Order);
            }
            self.time = time;
            self.columns.read_next(&mut self.bits, &mut self.sum)?;
        }
        self.read += 1;
        Ok(Some((self.time, Arc::new(self.histogram()))))
    }

    /// The histogram that was read last.
    fn histogram(&self) -> Histogram {
        let (layout, counts) = if self.sum.is_stale() {
            (Layout::default(), Columns::unread(self.columns.kind()).counts(0))
        } else {
            (self.layout.clone(), self.columns.counts(self.layout.buckets().0))
        };
        Histogram {
            schema: layout.schema,
            zero_threshold: layout.zero_threshold,
            sum: f64::from_bits(self.sum.value),
            reset_hint: self.hint_here(),
            positive_spans: layout.positive_spans,
            negative_spans: layout.negative_spans,
            custom_values: layout.custom_values,
            counts,
        }
    }

    fn hint_here(&self) -> ResetHint {
        match self.hint {
            _ if self.sum.is_stale() => ResetHint::Unknown,
            ResetHint::Gauge => ResetHint::Gauge,
            _ if self.read <= 1 => ResetHint::Unknown,
            _ => ResetHint::NotReset,
        }
    }

    /// Bits behind the last histogram read.
    pub(crate) fn remaining(&self) -> usize {
        self.bits.remaining()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::spans;
    use super::*;
    use crate::bits::BitWriter;

    #[test]
    fn declared_buckets_are_not_believed() {
        let mut bits = BitWriter::default();
        let positive_spans = spans(&[(0, u32::MAX)]);
        Layout { positive_spans, ..Layout::default() }.write(&mut bits);
        bits.write(0, 3);
        bits.write(0, 64);
        let data = bits.snapshot(&[0, 1, 0]);
        for kind in [ChunkKind::Histogram, ChunkKind::FloatHistogram] {
            let mut reader = HistogramReader::new(&data, 1, kind).expect("layout");
            assert_eq!(reader.next_histogram(), Err(ChunkError::Truncated));
        }
    }
}
