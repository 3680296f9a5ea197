//! Chunks of kinds 2 and 3: native histograms with integer or with float counts.
//!
//! ```text
//! 2 bytes  number of histograms, big endian
//! 1 byte   reset hint in the two highest bits: 00 unknown · 10 reset · 01 not reset · 11 gauge
//! bits     the layout (see layout.rs), then the histograms
//! kind 2   first: signed time · unsigned count, zero count · 64 bits sum · signed buckets
//!          others: delta of delta of time, count, zero count · xor of sum · deltas of delta
//! kind 3   first: signed time · 64 bits each of count, zero count, sum, buckets
//!          others: delta of delta of time · xor of each, with its own window
//! ```
//!
//! The hint is that of the first histogram; the others read as not reset, or as gauges. So
//! a chunk ends where the counter was reset. A stale marker keeps only its time and sum: it
//! reads as an empty histogram with the unknown hint, and only others of its kind may follow.

use std::sync::Arc;

use bytes::Bytes;

use super::bits::{BitReader, BitWriter};
use super::layout::Layout;
use super::varbit::{IntValue, read_signed, read_unsigned, write_signed, write_unsigned};
use super::xor::XorValue;
use super::{Appended, Chunk, ChunkError, ChunkKind};
use crate::model::{Counts, Histogram, ResetHint, is_stale};

/// An open chunk of histograms. Only histograms that are valid may be given to it.
#[derive(Debug, Clone)]
pub struct HistogramAppender {
    bits: BitWriter,
    layout: Layout,
    hint: ResetHint,
    count: u16,
    min_time: i64,
    time: i64,
    time_delta: i64,
    sum: XorValue,
    columns: Columns,
}

/// The counts of the last histogram, and what the next is coded against.
#[derive(Debug, Clone)]
enum Columns {
    Integer { count: IntValue, zero_count: IntValue, buckets: Vec<IntValue> },
    Float { count: XorValue, zero_count: XorValue, buckets: Vec<XorValue> },
}

impl HistogramAppender {
    /// A chunk with its first histogram.
    pub fn new(timestamp: i64, histogram: &Histogram) -> Self {
        let stale = histogram.is_stale();
        let layout = if stale { Layout::default() } else { Layout::of(histogram) };
        let mut bits = BitWriter::default();
        layout.write(&mut bits);
        write_signed(&mut bits, timestamp);
        let columns = Columns::first(&mut bits, histogram, stale);
        Self {
            bits,
            layout,
            hint: histogram.reset_hint,
            count: 1,
            min_time: timestamp,
            time: timestamp,
            time_delta: 0,
            sum: XorValue::new(histogram.sum),
            columns,
        }
    }

    /// Adds a histogram that is later than all before, or says why it begins another chunk.
    /// There must be fewer than 65,535.
    pub fn append(&mut self, timestamp: i64, histogram: &Histogram) -> Appended {
        let fit = self.fit(histogram);
        if fit != Appended::Yes {
            return fit;
        }
        let delta = timestamp.wrapping_sub(self.time);
        write_signed(&mut self.bits, delta.wrapping_sub(self.time_delta));
        self.columns.write(&mut self.bits, &mut self.sum, histogram);
        self.time = timestamp;
        self.time_delta = delta;
        self.count += 1;
        Appended::Yes
    }

    fn fit(&self, histogram: &Histogram) -> Appended {
        if histogram.is_float() != matches!(self.columns, Columns::Float { .. }) {
            return Appended::Cut;
        }
        if histogram.is_stale() {
            return Appended::Yes;
        }
        let gauge = histogram.reset_hint == ResetHint::Gauge;
        if histogram.reset_hint == ResetHint::Reset {
            Appended::Reset
        } else if gauge != (self.hint == ResetHint::Gauge)
            || is_stale(f64::from_bits(self.sum.value))
            || !self.layout.fits(histogram)
        {
            Appended::Cut
        } else if !gauge && self.columns.reset_before(&histogram.counts, self.layout.buckets().0) {
            Appended::Reset
        } else {
            Appended::Yes
        }
    }

    /// Says that the counter was reset before the first histogram, where nothing else is known.
    pub(super) fn mark_reset(&mut self) {
        if matches!(self.hint, ResetHint::Unknown | ResetHint::NotReset) {
            self.hint = ResetHint::Reset;
        }
    }

    /// How many histograms.
    pub fn count(&self) -> usize {
        usize::from(self.count)
    }

    /// Timestamp of the first histogram, in milliseconds.
    pub fn min_time(&self) -> i64 {
        self.min_time
    }

    /// Timestamp of the last histogram, in milliseconds.
    pub fn max_time(&self) -> i64 {
        self.time
    }

    /// The histograms so far. The appender goes on.
    pub fn to_chunk(&self) -> Chunk {
        let [high, low] = self.count.to_be_bytes();
        Chunk {
            kind: match self.columns {
                Columns::Integer { .. } => ChunkKind::Histogram,
                Columns::Float { .. } => ChunkKind::FloatHistogram,
            },
            count: self.count,
            min_time: self.min_time,
            max_time: self.time,
            data: self.bits.snapshot(&[high, low, flags(self.hint)]),
            starts: Bytes::new(),
            stamps: Bytes::new(),
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let columns = match &self.columns {
            Columns::Integer { buckets, .. } => size_of_val(&buckets[..]),
            Columns::Float { buckets, .. } => size_of_val(&buckets[..]),
        };
        size_of::<Self>() + self.bits.heap_bytes() + columns
    }
}

const fn flags(hint: ResetHint) -> u8 {
    match hint {
        ResetHint::Unknown => 0,
        ResetHint::Reset => 0b1000_0000,
        ResetHint::NotReset => 0b0100_0000,
        ResetHint::Gauge => 0b1100_0000,
    }
}

const fn hint_of(flags: u8) -> ResetHint {
    match flags >> 6 {
        0b00 => ResetHint::Unknown,
        0b10 => ResetHint::Reset,
        0b01 => ResetHint::NotReset,
        _ => ResetHint::Gauge,
    }
}

impl Columns {
    /// Writes what follows the time of the first histogram.
    fn first(bits: &mut BitWriter, histogram: &Histogram, stale: bool) -> Self {
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

    /// Writes what follows the time of a later histogram. The kinds agree.
    fn write(&mut self, bits: &mut BitWriter, sum: &mut XorValue, histogram: &Histogram) {
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

    /// Whether a counter of the same layout went down. `positive` is the number of
    /// buckets of the positive side.
    fn reset_before(&self, next: &Counts, positive: u64) -> bool {
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
}

/// Whether a count, the sum of its deltas, is smaller than before.
fn deltas_fell(before: &[IntValue], next: &[i64]) -> bool {
    let (mut old, mut new) = (0i64, 0i64);
    before.iter().zip(next).any(|(before, next)| {
        old = old.wrapping_add(before.value);
        new = new.wrapping_add(*next);
        new < old
    })
}

/// Reads the histograms of a chunk.
#[derive(Debug, Clone)]
pub(super) struct HistogramReader<'a> {
    bits: BitReader<'a>,
    layout: Layout,
    hint: ResetHint,
    count: u16,
    read: u16,
    time: i64,
    time_delta: i64,
    sum: XorValue,
    columns: Columns,
    stale: bool,
}

impl<'a> HistogramReader<'a> {
    pub(super) fn new(data: &'a [u8], count: u16, kind: ChunkKind) -> Result<Self, ChunkError> {
        let (&[high, low, flags], rest) = data.split_first_chunk().ok_or(ChunkError::Truncated)?;
        let found = u16::from_be_bytes([high, low]);
        if found != count {
            return Err(ChunkError::Count { expected: count, found });
        }
        let mut bits = BitReader::new(rest);
        let layout = Layout::read(&mut bits)?;
        let (int, float) = (IntValue::new(0), XorValue::new(0.0));
        let columns = match kind {
            ChunkKind::FloatHistogram => {
                Columns::Float { count: float, zero_count: float, buckets: Vec::new() }
            }
            _ => Columns::Integer { count: int, zero_count: int, buckets: Vec::new() },
        };
        Ok(Self {
            bits,
            layout,
            hint: hint_of(flags),
            count,
            read: 0,
            time: 0,
            time_delta: 0,
            sum: float,
            columns,
            stale: false,
        })
    }

    /// The next histogram, or none after the last.
    pub(super) fn next_histogram(&mut self) -> Result<Option<(i64, Arc<Histogram>)>, ChunkError> {
        if self.read == self.count {
            return Ok(None);
        }
        if self.read == 0 {
            self.read_first()?;
        } else {
            self.time_delta = self.time_delta.wrapping_add(read_signed(&mut self.bits)?);
            let time = self.time.wrapping_add(self.time_delta);
            if time <= self.time {
                return Err(ChunkError::Order);
            }
            self.time = time;
            self.read_next()?;
        }
        self.read += 1;
        Ok(Some((self.time, Arc::new(self.histogram()))))
    }

    fn read_first(&mut self) -> Result<(), ChunkError> {
        let bits = &mut self.bits;
        self.time = read_signed(bits)?;
        let (_, number) = self.layout.buckets();
        match &mut self.columns {
            Columns::Integer { count, zero_count, buckets } => {
                count.value = read_unsigned(bits)? as i64;
                zero_count.value = read_unsigned(bits)? as i64;
                self.sum = XorValue::read_raw(bits)?;
                self.stale = is_stale(f64::from_bits(self.sum.value));
                if !self.stale {
                    buckets.reserve_exact(bounded(number, bits.remaining())?);
                    for _ in 0..number {
                        buckets.push(IntValue::new(read_signed(bits)?));
                    }
                }
            }
            Columns::Float { count, zero_count, buckets } => {
                *count = XorValue::read_raw(bits)?;
                *zero_count = XorValue::read_raw(bits)?;
                self.sum = XorValue::read_raw(bits)?;
                self.stale = is_stale(f64::from_bits(self.sum.value));
                if !self.stale {
                    buckets.reserve_exact(bounded(number, bits.remaining() / 64)?);
                    for _ in 0..number {
                        buckets.push(XorValue::read_raw(bits)?);
                    }
                }
            }
        }
        Ok(())
    }

    fn read_next(&mut self) -> Result<(), ChunkError> {
        let bits = &mut self.bits;
        let was_stale = self.stale;
        match &mut self.columns {
            Columns::Integer { count, zero_count, buckets } => {
                count.read(bits)?;
                zero_count.read(bits)?;
                self.stale = is_stale(self.sum.read(bits)?);
                if !self.stale && !was_stale {
                    for bucket in buckets {
                        bucket.read(bits)?;
                    }
                }
            }
            Columns::Float { count, zero_count, buckets } => {
                count.read(bits)?;
                zero_count.read(bits)?;
                self.stale = is_stale(self.sum.read(bits)?);
                if !self.stale && !was_stale {
                    for bucket in buckets {
                        bucket.read(bits)?;
                    }
                }
            }
        }
        if was_stale && !self.stale {
            return Err(ChunkError::Field("histogram after a stale marker"));
        }
        Ok(())
    }

    /// The histogram that was just read.
    fn histogram(&self) -> Histogram {
        let positive = self.layout.buckets().0 as usize;
        let sum = f64::from_bits(self.sum.value);
        let counts = match &self.columns {
            Columns::Integer { count, zero_count, buckets } if !self.stale => {
                let (positive, negative) = buckets.split_at(positive.min(buckets.len()));
                Counts::Integer {
                    count: count.value as u64,
                    zero_count: zero_count.value as u64,
                    positive: positive.iter().map(|bucket| bucket.value).collect(),
                    negative: negative.iter().map(|bucket| bucket.value).collect(),
                }
            }
            Columns::Float { count, zero_count, buckets } if !self.stale => {
                let (positive, negative) = buckets.split_at(positive.min(buckets.len()));
                let float = |bucket: &XorValue| f64::from_bits(bucket.value);
                Counts::Float {
                    count: f64::from_bits(count.value),
                    zero_count: f64::from_bits(zero_count.value),
                    positive: positive.iter().map(float).collect(),
                    negative: negative.iter().map(float).collect(),
                }
            }
            Columns::Integer { .. } => {
                Counts::Integer { count: 0, zero_count: 0, positive: vec![], negative: vec![] }
            }
            Columns::Float { .. } => {
                Counts::Float { count: 0.0, zero_count: 0.0, positive: vec![], negative: vec![] }
            }
        };
        let layout = if self.stale { Layout::default() } else { self.layout.clone() };
        Histogram {
            schema: layout.schema,
            zero_threshold: layout.zero_threshold,
            sum,
            reset_hint: self.hint_here(),
            positive_spans: layout.positive_spans,
            negative_spans: layout.negative_spans,
            custom_values: layout.custom_values,
            counts,
        }
    }

    fn hint_here(&self) -> ResetHint {
        match self.hint {
            _ if self.stale => ResetHint::Unknown,
            ResetHint::Gauge => ResetHint::Gauge,
            hint if self.read <= 1 => hint,
            _ => ResetHint::NotReset,
        }
    }

    /// Bits after what was read.
    pub(super) fn remaining(&self) -> usize {
        self.bits.remaining()
    }
}

fn bounded(number: u64, most: usize) -> Result<usize, ChunkError> {
    usize::try_from(number).ok().filter(|&number| number <= most).ok_or(ChunkError::Truncated)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{CUSTOM_BUCKETS_SCHEMA, STALE_NAN_BITS, Span};

    const T: i64 = 1_700_000_000_000;

    fn spans(spans: &[(i32, u32)]) -> Vec<Span> {
        spans.iter().map(|&(offset, length)| Span { offset, length }).collect()
    }

    fn integer(count: u64, sum: f64, positive: &[i64]) -> Histogram {
        Histogram {
            schema: 0,
            zero_threshold: 2f64.powi(-128),
            sum,
            reset_hint: ResetHint::Unknown,
            positive_spans: spans(&[(0, positive.len() as u32)]),
            negative_spans: vec![],
            custom_values: vec![],
            counts: Counts::Integer {
                count,
                zero_count: 0,
                positive: positive.to_vec(),
                negative: vec![],
            },
        }
    }

    fn float(count: f64, sum: f64, positive: &[f64]) -> Histogram {
        Histogram {
            schema: CUSTOM_BUCKETS_SCHEMA,
            zero_threshold: 0.0,
            custom_values: vec![0.1, 0.25, 1.0, 1e9],
            counts: Counts::Float {
                count,
                zero_count: 0.0,
                positive: positive.to_vec(),
                negative: vec![],
            },
            ..integer(0, sum, &[0; 3])
        }
    }

    /// As the reader gives it back when it is not the first of its chunk.
    fn later(histogram: Histogram) -> Histogram {
        Histogram { reset_hint: ResetHint::NotReset, ..histogram }
    }

    fn stale(of: &Histogram) -> Histogram {
        Histogram { sum: f64::from_bits(STALE_NAN_BITS), ..of.clone() }
    }

    /// As the reader gives a stale marker back.
    fn empty_stale() -> Histogram {
        Histogram {
            zero_threshold: 0.0,
            positive_spans: vec![],
            ..integer(0, f64::from_bits(STALE_NAN_BITS), &[])
        }
    }

    fn encode(histograms: &[(i64, &Histogram)]) -> Chunk {
        let mut appender = HistogramAppender::new(histograms[0].0, histograms[0].1);
        for (time, histogram) in &histograms[1..] {
            assert_eq!(appender.append(*time, histogram), Appended::Yes);
        }
        appender.to_chunk()
    }

    fn decode(chunk: &Chunk) -> Vec<(i64, Histogram)> {
        let mut reader =
            HistogramReader::new(&chunk.data, chunk.count, chunk.kind).expect("readable");
        let next = || reader.next_histogram().expect("readable");
        std::iter::from_fn(next).map(|(time, histogram)| (time, (*histogram).clone())).collect()
    }

    #[track_caller]
    fn check(written: &[(i64, &Histogram)], read: &[&Histogram], expected: &str) {
        let chunk = encode(written);
        let hex: String = chunk.data.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, expected);
        let times = written.iter().map(|(time, _)| *time);
        let read: Vec<_> = times.zip(read.iter().map(|&histogram| histogram.clone())).collect();
        assert_eq!(decode(&chunk), read);
    }

    #[test]
    fn integer_vectors_of_prometheus() {
        let (a, b) = (integer(4, 5.0, &[1, 1, -1]), integer(6, 6.0, &[2, 1, -2]));
        check(
            &[(T, &a), (T + 15_000, &b)],
            &[&a, &later(b.clone())],
            "000200744667f0000c5e7f2b40050802800000000000118dfe0ea624d81715c0",
        );
        check(
            &[(T, &a), (T + 15_001, &stale(&a))],
            &[&a, &empty_stale()],
            "000200744667f0000c5e7f2b40050802800000000000118dfe0ea64c5effc8000000000004",
        );
        let four = Histogram {
            schema: 3,
            zero_threshold: 0.001,
            sum: 18.4,
            positive_spans: spans(&[(-5, 2), (1, 2)]),
            negative_spans: spans(&[(0, 2), (1, 2)]),
            counts: Counts::Integer {
                count: 12,
                zero_count: 2,
                positive: vec![1, 1, -1, 0],
                negative: vec![1, 1, -1, 0],
            },
            ..a
        };
        check(
            &[(1_234_567, &four)],
            &[&four],
            "000100ff3f50624dd2f1a9fc9ca5bb946524a3f825ad0f8c92019333333333333463746370",
        );
    }

    #[test]
    fn float_vectors_of_prometheus() {
        let (a, b) = (float(6.0, 1.5, &[1.0, 2.0, 3.0]), float(9.0, 2.5, &[2.0, 3.0, 4.0]));
        check(
            &[(T, &a), (T + 15_000, &b)],
            &[&a, &later(b.clone())],
            "00020000ee5c66538cbcfbf1f490737359400000003f800062f3f95a00100600000000000000000000000000\
             000ffe0000000000000ffc000000000000100000000000000010020000000000003e0ea6350bd6137fff84bf\
             ffb01eb0b0",
        );
    }

    #[test]
    fn hints_of_the_first_decide() {
        let (a, b) = (integer(4, 5.0, &[1, 1, -1]), integer(6, 6.0, &[2, 1, -2]));
        for (hint, flags, second) in [
            (ResetHint::Unknown, 0x00, ResetHint::NotReset),
            (ResetHint::Reset, 0x80, ResetHint::NotReset),
            (ResetHint::NotReset, 0x40, ResetHint::NotReset),
            (ResetHint::Gauge, 0xc0, ResetHint::Gauge),
        ] {
            let a = Histogram { reset_hint: hint, ..a.clone() };
            let gauge = hint == ResetHint::Gauge;
            let hint_b = if gauge { ResetHint::Gauge } else { ResetHint::Unknown };
            let b = Histogram { reset_hint: hint_b, ..b.clone() };
            let chunk = encode(&[(T, &a), (T + 1, &b)]);
            assert_eq!(chunk.data[2], flags);
            let read: Vec<_> = decode(&chunk).into_iter().map(|(_, h)| h.reset_hint).collect();
            assert_eq!(read, [hint, second]);
        }
    }

    #[test]
    fn what_fits() {
        use Appended::{Cut, Reset, Yes};
        let base = integer(4, 5.0, &[1, 1, -1]);
        let gauge = Histogram { reset_hint: ResetHint::Gauge, ..base.clone() };
        let bounds = |bound| Histogram {
            custom_values: vec![bound, 0.25, 1.0, 1e9],
            ..float(6.0, 1.5, &[1.0, 2.0, 3.0])
        };
        let cases = [
            (base.clone(), base.clone(), Yes),
            (base.clone(), integer(5, 5.0, &[1, 1, 0]), Yes),
            (base.clone(), integer(3, 5.0, &[1, 1, -1]), Reset),
            // The second bucket falls from 2 to 1, though its delta is met elsewhere.
            (base.clone(), integer(5, 5.0, &[1, 0, 2]), Reset),
            (base.clone(), integer(6, 5.0, &[1, 1, -1, 1]), Cut),
            (base.clone(), Histogram { schema: 1, ..base.clone() }, Cut),
            (base.clone(), Histogram { zero_threshold: 0.5, ..base.clone() }, Cut),
            (base.clone(), gauge.clone(), Cut),
            (gauge.clone(), base.clone(), Cut),
            (gauge.clone(), Histogram { sum: 1.0, ..gauge.clone() }, Yes),
            (base.clone(), Histogram { reset_hint: ResetHint::Reset, ..base.clone() }, Reset),
            (base.clone(), Histogram { reset_hint: ResetHint::NotReset, ..base.clone() }, Yes),
            (base.clone(), float(6.0, 1.5, &[1.0, 2.0, 3.0]), Cut),
            (base.clone(), stale(&base), Yes),
            (gauge.clone(), stale(&base), Yes),
            (stale(&base), base.clone(), Cut),
            (stale(&base), stale(&base), Yes),
            (bounds(0.1), bounds(0.1), Yes),
            (bounds(0.1), bounds(0.2), Cut),
            (bounds(0.1), float(7.0, 1.5, &[1.0, 2.0, 2.5]), Reset),
        ];
        for (i, (first, second, expected)) in cases.iter().enumerate() {
            let mut appender = HistogramAppender::new(T, first);
            assert_eq!(appender.append(T + 1, second), *expected, "case {i}");
        }
        let falling = Histogram { reset_hint: ResetHint::Gauge, ..integer(1, 5.0, &[0, 1, -1]) };
        assert_eq!(HistogramAppender::new(T, &gauge).append(T + 1, &falling), Yes);
    }

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
