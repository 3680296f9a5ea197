//! The counts of the histograms of a chunk: how each is coded relative to the previous one.
//!
//! A bucket of an integer histogram is a delta to its neighbour; a bucket of a float histogram is
//! absolute. The appender and the reader handle times and layout.

use crate::bits::{BitReader, BitWriter};
use crate::chunk::ChunkKind;
use crate::error::ChunkError;
use crate::varbit::{IntValue, read_signed, read_unsigned, write_signed, write_unsigned};
use crate::xor::XorValue;
use promkairos_model::{Counts, Histogram};

/// The counts of the last histogram, from which the next one is coded.
#[derive(Debug, Clone)]
pub(super) enum Columns {
    Integer { count: IntValue, zero_count: IntValue, buckets: Vec<IntValue> },
    Float { count: XorValue, zero_count: XorValue, buckets: Vec<XorValue> },
}

impl Columns {
    /// The counts of a chunk before anything is read: all zero.
    pub(super) fn unread(kind: ChunkKind) -> Self {
        let (int, float) = (IntValue::new(0), XorValue::new(0.0));
        match kind {
            ChunkKind::FloatHistogram => {
                Self::Float { count: float, zero_count: float, buckets: Vec::new() }
            }
            _ => Self::Integer { count: int, zero_count: int, buckets: Vec::new() },
        }
    }

    /// Kind of the chunk.
    pub(super) fn kind(&self) -> ChunkKind {
        match self {
            Self::Integer { .. } => ChunkKind::Histogram,
            Self::Float { .. } => ChunkKind::FloatHistogram,
        }
    }

    /// Writes the part of the first histogram behind its time.
    pub(super) fn first(bits: &mut BitWriter, histogram: &Histogram) -> Self {
        let stale = histogram.is_stale();
        let sum = histogram.sum.to_bits();
        match &histogram.counts {
            Counts::Integer { count, zero_count, positive, negative } => {
                let totals = if stale { [0, 0] } else { [*count, *zero_count] };
                totals.iter().for_each(|&total| write_unsigned(bits, total));
                bits.write(sum, 64);
                let mut buckets = Vec::new();
                if !stale {
                    buckets.reserve_exact(positive.len() + negative.len());
                    buckets.extend(positive.iter().chain(negative).map(|&b| IntValue::new(b)));
                    buckets.iter().for_each(|bucket| write_signed(bits, bucket.value));
                }
                let [count, zero_count] = totals.map(|total| IntValue::new(total as i64));
                Self::Integer { count, zero_count, buckets }
            }
            Counts::Float { count, zero_count, positive, negative } => {
                let totals = if stale { [0.0, 0.0] } else { [*count, *zero_count] };
                totals.iter().for_each(|total| bits.write(total.to_bits(), 64));
                bits.write(sum, 64);
                let mut buckets = Vec::new();
                if !stale {
                    buckets.reserve_exact(positive.len() + negative.len());
                    buckets.extend(positive.iter().chain(negative).map(|&b| XorValue::new(b)));
                    buckets.iter().for_each(|bucket| bits.write(bucket.value, 64));
                }
                let [count, zero_count] = totals.map(XorValue::new);
                Self::Float { count, zero_count, buckets }
            }
        }
    }

    /// Writes the part of a later histogram behind its time. It must have the same kind.
    pub(super) fn write(
        &mut self,
        bits: &mut BitWriter,
        sum: &mut XorValue,
        histogram: &Histogram,
    ) {
        let stale = histogram.is_stale();
        match (self, &histogram.counts) {
            (
                Self::Integer { count, zero_count, buckets },
                Counts::Integer { count: c, zero_count: z, positive, negative },
            ) => {
                if stale {
                    bits.write(0b00, 2);
                    return sum.write(bits, histogram.sum);
                }
                count.write(bits, *c as i64);
                zero_count.write(bits, *z as i64);
                sum.write(bits, histogram.sum);
                for (bucket, &value) in buckets.iter_mut().zip(positive.iter().chain(negative)) {
                    bucket.write(bits, value);
                }
            }
            (
                Self::Float { count, zero_count, buckets },
                Counts::Float { count: c, zero_count: z, positive, negative },
            ) => {
                let [c, z] = if stale { [0.0, 0.0] } else { [*c, *z] };
                count.write(bits, c);
                zero_count.write(bits, z);
                sum.write(bits, histogram.sum);
                if stale {
                    return;
                }
                for (bucket, &value) in buckets.iter_mut().zip(positive.iter().chain(negative)) {
                    bucket.write(bits, value);
                }
            }
            _ => {}
        }
    }

    /// Whether a counter of the same layout decreased. `positive` is the number of positive
    /// buckets.
    pub(super) fn reset_before(&self, next: &Counts, positive: u64) -> bool {
        match (self, next) {
            (
                Self::Integer { count, zero_count, buckets },
                Counts::Integer { count: c, zero_count: z, positive: p, negative: n },
            ) => {
                let (before_p, before_n) = buckets.split_at(buckets.len().min(positive as usize));
                *c < count.value as u64
                    || *z < zero_count.value as u64
                    || deltas_fell(before_p, p)
                    || deltas_fell(before_n, n)
            }
            (
                Self::Float { count, zero_count, buckets },
                Counts::Float { count: c, zero_count: z, positive: p, negative: n },
            ) => {
                let fell = |(before, next): (&XorValue, &f64)| *next < f64::from_bits(before.value);
                fell((count, c))
                    || fell((zero_count, z))
                    || buckets.iter().zip(p.iter().chain(n)).any(fell)
            }
            _ => false,
        }
    }

    /// Reads the part of the first histogram behind its time.
    pub(super) fn read_first(
        &mut self,
        bits: &mut BitReader<'_>,
        sum: &mut XorValue,
        number: u64,
    ) -> Result<(), ChunkError> {
        match self {
            Self::Integer { count, zero_count, buckets } => {
                count.value = read_unsigned(bits)? as i64;
                zero_count.value = read_unsigned(bits)? as i64;
                *sum = XorValue::read_raw(bits)?;
                if !sum.is_stale() {
                    buckets.reserve_exact(bounded(number, bits.remaining())?);
                    for _ in 0..number {
                        buckets.push(IntValue::new(read_signed(bits)?));
                    }
                }
            }
            Self::Float { count, zero_count, buckets } => {
                *count = XorValue::read_raw(bits)?;
                *zero_count = XorValue::read_raw(bits)?;
                *sum = XorValue::read_raw(bits)?;
                if !sum.is_stale() {
                    buckets.reserve_exact(bounded(number, bits.remaining() / 64)?);
                    for _ in 0..number {
                        buckets.push(XorValue::read_raw(bits)?);
                    }
                }
            }
        }
        Ok(())
    }

    /// Reads the part of a later histogram behind its time.
    pub(super) fn read_next(
        &mut self,
        bits: &mut BitReader<'_>,
        sum: &mut XorValue,
    ) -> Result<(), ChunkError> {
        let was_stale = sum.is_stale();
        match self {
            Self::Integer { count, zero_count, buckets } => {
                count.read(bits)?;
                zero_count.read(bits)?;
                sum.read(bits)?;
                if !sum.is_stale() && !was_stale {
                    for bucket in buckets {
                        bucket.read(bits)?;
                    }
                }
            }
            Self::Float { count, zero_count, buckets } => {
                count.read(bits)?;
                zero_count.read(bits)?;
                sum.read(bits)?;
                if !sum.is_stale() && !was_stale {
                    for bucket in buckets {
                        bucket.read(bits)?;
                    }
                }
            }
        }
        if was_stale && !sum.is_stale() {
            return Err(ChunkError::Field("histogram after a stale marker"));
        }
        Ok(())
    }

    /// The counts of the last histogram. `positive` is the number of positive buckets.
    pub(super) fn counts(&self, positive: u64) -> Counts {
        match self {
            Self::Integer { count, zero_count, buckets } => {
                let (positive, negative) = buckets.split_at(buckets.len().min(positive as usize));
                Counts::Integer {
                    count: count.value as u64,
                    zero_count: zero_count.value as u64,
                    positive: positive.iter().map(|bucket| bucket.value).collect(),
                    negative: negative.iter().map(|bucket| bucket.value).collect(),
                }
            }
            Self::Float { count, zero_count, buckets } => {
                let (positive, negative) = buckets.split_at(buckets.len().min(positive as usize));
                let float = |bucket: &XorValue| f64::from_bits(bucket.value);
                Counts::Float {
                    count: float(count),
                    zero_count: float(zero_count),
                    positive: positive.iter().map(float).collect(),
                    negative: negative.iter().map(float).collect(),
                }
            }
        }
    }
}

/// Whether a count (the sum of its deltas) decreased.
fn deltas_fell(before: &[IntValue], next: &[i64]) -> bool {
    let (mut old, mut new) = (0i64, 0i64);
    before.iter().zip(next).any(|(before, next)| {
        old = old.wrapping_add(before.value);
        new = new.wrapping_add(*next);
        new < old
    })
}

fn bounded(number: u64, most: usize) -> Result<usize, ChunkError> {
    usize::try_from(number).ok().filter(|&number| number <= most).ok_or(ChunkError::Truncated)
}
