//! The layout that all histograms of a chunk share: schema, zero threshold, spans and custom bounds.
//!
//! ```text
//! zero threshold   byte 0: 0.0 · byte 1..=254: 2^(byte − 244) · 255: 64 bits
//! schema           signed
//! spans            unsigned number, then unsigned length and signed offset each;
//!                  the positive side, then the negative one
//! custom bounds    only with custom buckets: unsigned number, then each:
//!                  unsigned 1000 × bound + 1, or 0 and 64 bits
//! ```
//!
//! A list is refused if the remaining bits cannot hold it.

use super::bits::{BitReader, BitWriter};
use super::error::ChunkError;
use super::varbit::{read_signed, read_unsigned, write_signed, write_unsigned};
use promkairos_model::{CUSTOM_BUCKETS_SCHEMA, Histogram, Span};

/// The largest bound × 1000 that is written as a number.
const MAX_THOUSANDFOLD: f64 = 33_554_430.0;
/// Added to the exponent of a zero threshold that is a power of two.
const EXPONENT_BIAS: i64 = 244;

#[derive(Debug, Clone, Default)]
pub(super) struct Layout {
    pub(super) schema: i32,
    pub(super) zero_threshold: f64,
    pub(super) positive_spans: Vec<Span>,
    pub(super) negative_spans: Vec<Span>,
    pub(super) custom_values: Vec<f64>,
}

impl Layout {
    pub(super) fn of(histogram: &Histogram) -> Self {
        Self {
            schema: histogram.schema,
            zero_threshold: histogram.zero_threshold,
            positive_spans: histogram.positive_spans.clone(),
            negative_spans: histogram.negative_spans.clone(),
            custom_values: histogram.custom_values.clone(),
        }
    }

    /// Whether the histogram has this layout.
    pub(super) fn fits(&self, histogram: &Histogram) -> bool {
        self.schema == histogram.schema
            && self.zero_threshold.to_bits() == histogram.zero_threshold.to_bits()
            && self.positive_spans == histogram.positive_spans
            && self.negative_spans == histogram.negative_spans
            && self.custom_values.len() == histogram.custom_values.len()
            && (self.custom_values.iter())
                .zip(&histogram.custom_values)
                .all(|(a, b)| a.to_bits() == b.to_bits())
    }

    pub(super) fn write(&self, bits: &mut BitWriter) {
        write_zero_threshold(bits, self.zero_threshold);
        write_signed(bits, i64::from(self.schema));
        write_spans(bits, &self.positive_spans);
        write_spans(bits, &self.negative_spans);
        if self.schema == CUSTOM_BUCKETS_SCHEMA {
            write_unsigned(bits, self.custom_values.len() as u64);
            for &bound in &self.custom_values {
                write_bound(bits, bound);
            }
        }
    }

    pub(super) fn read(bits: &mut BitReader<'_>) -> Result<Self, ChunkError> {
        let zero_threshold = read_zero_threshold(bits)?;
        let schema = i32::try_from(read_signed(bits)?).map_err(|_| ChunkError::Field("schema"))?;
        let positive_spans = read_spans(bits)?;
        let negative_spans = read_spans(bits)?;
        let mut custom_values = Vec::new();
        if schema == CUSTOM_BUCKETS_SCHEMA {
            let count = read_length(bits)?;
            custom_values.reserve_exact(count);
            for _ in 0..count {
                custom_values.push(read_bound(bits)?);
            }
        }
        Ok(Self { schema, zero_threshold, positive_spans, negative_spans, custom_values })
    }

    /// The number of positive buckets, and of all buckets.
    pub(super) fn buckets(&self) -> (u64, u64) {
        let sum = |spans: &[Span]| spans.iter().map(|span| u64::from(span.length)).sum::<u64>();
        let positive = sum(&self.positive_spans);
        (positive, positive.saturating_add(sum(&self.negative_spans)))
    }
}

fn write_zero_threshold(bits: &mut BitWriter, threshold: f64) {
    let raw = threshold.to_bits();
    let exponent = (raw >> 52) as i64 - 1023;
    if raw == 0 {
        bits.write(0, 8);
    } else if raw << 12 == 0 && (-243..=10).contains(&exponent) {
        bits.write((exponent + EXPONENT_BIAS) as u64, 8);
    } else {
        bits.write(255, 8);
        bits.write(raw, 64);
    }
}

fn read_zero_threshold(bits: &mut BitReader<'_>) -> Result<f64, ChunkError> {
    match bits.read(8)? {
        0 => Ok(0.0),
        255 => Ok(f64::from_bits(bits.read(64)?)),
        byte => Ok(f64::from_bits(((byte as i64 - EXPONENT_BIAS + 1023) as u64) << 52)),
    }
}

fn write_spans(bits: &mut BitWriter, spans: &[Span]) {
    write_unsigned(bits, spans.len() as u64);
    for span in spans {
        write_unsigned(bits, u64::from(span.length));
        write_signed(bits, i64::from(span.offset));
    }
}

fn read_spans(bits: &mut BitReader<'_>) -> Result<Vec<Span>, ChunkError> {
    let count = read_length(bits)?;
    let mut spans = Vec::with_capacity(count);
    for _ in 0..count {
        let length = u32::try_from(read_unsigned(bits)?);
        let offset = i32::try_from(read_signed(bits)?);
        spans.push(Span {
            length: length.map_err(|_| ChunkError::Field("span length"))?,
            offset: offset.map_err(|_| ChunkError::Field("span offset"))?,
        });
    }
    Ok(spans)
}

/// The length of a list whose entries take at least two bits.
fn read_length(bits: &mut BitReader<'_>) -> Result<usize, ChunkError> {
    let length = read_unsigned(bits)?;
    if length > bits.remaining() as u64 / 2 {
        return Err(ChunkError::Truncated);
    }
    Ok(length as usize)
}

fn write_bound(bits: &mut BitWriter, bound: f64) {
    let thousandfold = (bound * 1000.0).round();
    // Compared by bits: −0.0 must not become 0.0.
    let whole = (thousandfold / 1000.0).to_bits() == bound.to_bits();
    if whole && (0.0..=MAX_THOUSANDFOLD).contains(&(bound * 1000.0)) && bound.to_bits() >> 63 == 0 {
        write_unsigned(bits, thousandfold as u64 + 1);
    } else {
        bits.write(0, 1);
        bits.write(bound.to_bits(), 64);
    }
}

fn read_bound(bits: &mut BitReader<'_>) -> Result<f64, ChunkError> {
    match read_unsigned(bits)? {
        0 => Ok(f64::from_bits(bits.read(64)?)),
        number => Ok((number - 1) as f64 / 1000.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_keep_their_bits() {
        let powers = (-244..=11).map(|exponent| 2f64.powi(exponent));
        for threshold in powers.chain([0.0, -0.0, 0.001, 1.5, f64::MAX, f64::MIN_POSITIVE]) {
            let mut writer = BitWriter::default();
            write_zero_threshold(&mut writer, threshold);
            let bytes = writer.snapshot(&[]);
            let short = (2f64.powi(-243)..=1024.0).contains(&threshold)
                && threshold.to_bits() << 12 == 0
                || threshold.to_bits() == 0;
            assert_eq!(bytes.len(), if short { 1 } else { 9 }, "{threshold}");
            let read = read_zero_threshold(&mut BitReader::new(&bytes)).expect("written");
            assert_eq!(read.to_bits(), threshold.to_bits());
        }
    }

    #[test]
    fn bounds_keep_their_bits() {
        let thousandths = (0..20_000).map(|i| f64::from(i) / 1000.0);
        let others = [-0.0, -1.0, 33_554.43, 33_554.431, 1e300, f64::INFINITY, 0.1 + 0.2, 1e-9];
        for bound in thousandths.chain(others) {
            let mut writer = BitWriter::default();
            write_bound(&mut writer, bound);
            let bytes = writer.snapshot(&[]);
            let read = read_bound(&mut BitReader::new(&bytes)).expect("written");
            assert_eq!(read.to_bits(), bound.to_bits(), "{bound}");
        }
    }
}
