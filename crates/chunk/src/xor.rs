//! Chunks of kind 1: floats.
//!
//! ```text
//! 2 bytes  number of samples, big endian
//! bits     sample 0: zigzag varint of the time, 64 bits of the value
//!          sample 1: varint of the time's delta, value
//!          others:   delta of delta of the time, value
//! delta of delta   0 | 10 + 14 bits | 110 + 17 | 1110 + 20 | 1111 + 64
//! value            xor with the value before: 0 when equal; 10 + the bits in the
//!                  window used before; 11 + 5 bits of leading zeros + 6 bits of
//!                  length + the bits
//! ```
//!
//! All arithmetic on times wraps: any two `i64` have a delta.

use super::bits::{BitReader, BitSlice, BitWriter};
use super::chunk::{Chunk, ChunkKind, SideKind};
use super::column::ColumnBytes;
use super::error::ChunkError;
use super::varbit::{fits, from_field};
use promkairos_model::is_stale;
use promkairos_model::varint::{self, unzigzag, zigzag};

/// Widths of the deltas of deltas, by the number of ones in the prefix.
const TIME_WIDTHS: [u32; 5] = [0, 14, 17, 20, 64];

/// An open chunk of floats. The caller ensures the order and the number of samples.
#[derive(Debug, Clone)]
pub struct XorAppender {
    bits: BitWriter,
    min_time: i64,
    time: i64,
    delta: i64,
    value: u64,
    window: XorWindow,
    count: u16,
}

impl XorAppender {
    /// A chunk with one sample.
    pub fn new(timestamp: i64, value: f64) -> Self {
        let mut bits = BitWriter::default();
        varint::write(zigzag(timestamp), |byte| bits.write(u64::from(byte), 8));
        let value = value.to_bits();
        bits.write(value, 64);
        Self {
            bits,
            min_time: timestamp,
            time: timestamp,
            delta: 0,
            value,
            window: XorWindow::NONE,
            count: 1,
        }
    }

    /// Adds a sample later than all before. The chunk must have fewer than 65,535.
    #[inline]
    pub fn append(&mut self, timestamp: i64, value: f64) {
        let delta = timestamp.wrapping_sub(self.time);
        if self.count == 1 {
            varint::write(delta as u64, |byte| self.bits.write(u64::from(byte), 8));
        } else {
            write_time(&mut self.bits, delta.wrapping_sub(self.delta));
        }
        let value = value.to_bits();
        self.window.write(&mut self.bits, value ^ self.value);
        self.time = timestamp;
        self.delta = delta;
        self.value = value;
        self.count += 1;
    }

    /// The number of samples.
    pub fn count(&self) -> usize {
        usize::from(self.count)
    }

    /// Timestamp of the first sample, in milliseconds.
    pub fn min_time(&self) -> i64 {
        self.min_time
    }

    /// Timestamp of the last sample, in milliseconds.
    pub fn max_time(&self) -> i64 {
        self.time
    }

    /// The last value.
    pub fn last_value(&self) -> f64 {
        f64::from_bits(self.value)
    }

    /// The samples so far. The appender stays usable.
    pub fn to_chunk(&self) -> Chunk {
        Chunk {
            kind: ChunkKind::Xor,
            count: self.count,
            min_time: self.min_time,
            max_time: self.time,
            data: self.bits.snapshot(&self.count.to_be_bytes()),
            side: ColumnBytes::default(),
            side_kind: SideKind::Starts,
            stamps: ColumnBytes::default(),
        }
    }
}

#[inline]
fn write_time(bits: &mut BitWriter, dod: i64) {
    if dod == 0 {
        return bits.write(0, 1);
    }
    for (ones, prefix) in [(1, 0b10), (2, 0b110), (3, 0b1110)] {
        let width = TIME_WIDTHS[ones];
        if fits(dod, width) {
            let field = dod as u64 & ((1 << width) - 1);
            return bits.write(prefix << width | field, ones as u32 + 1 + width);
        }
    }
    bits.write(0b1111, 4);
    bits.write(dod as u64, 64);
}

#[inline]
fn read_time(bits: &mut BitReader<'_>) -> Result<i64, ChunkError> {
    let ones = bits.read_ones(4)?;
    if ones == 0 {
        return Ok(0);
    }
    let width = TIME_WIDTHS[ones as usize];
    Ok(from_field(bits.read(width)?, width))
}

/// The range of significant bits of an xor, as last written.
#[derive(Debug, Clone, Copy)]
pub(super) struct XorWindow {
    leading: u8,
    trailing: u8,
}

impl XorWindow {
    /// No window was written yet; no xor fits.
    pub(super) const NONE: Self = Self { leading: u8::MAX, trailing: 0 };

    /// Writes the xor of a value and the previous one.
    #[inline]
    pub(super) fn write(&mut self, bits: &mut BitWriter, xor: u64) {
        if xor == 0 {
            return bits.write(0, 1);
        }
        // The field has five bits.
        let leading = (xor.leading_zeros() as u8).min(31);
        let trailing = xor.trailing_zeros() as u8;
        if leading >= self.leading && trailing >= self.trailing {
            let length = self.length();
            let field = xor >> self.trailing;
            if length <= 62 {
                return bits.write(0b10 << length | field, length + 2);
            }
            bits.write(0b10, 2);
            return bits.write(field, length);
        }
        *self = Self { leading, trailing };
        let length = self.length();
        // 64 does not fit into six bits and is written as 0, which is not a valid length.
        bits.write(0b11 << 11 | u64::from(leading) << 6 | u64::from(length & 63), 13);
        bits.write(xor >> trailing, length);
    }

    /// Reads an xor written by [`XorWindow::write`].
    #[inline]
    pub(super) fn read(&mut self, bits: &mut BitReader<'_>) -> Result<u64, ChunkError> {
        match bits.read_ones(2)? {
            0 => return Ok(0),
            1 if self.leading == u8::MAX => return Err(ChunkError::Field("xor window")),
            1 => {}
            _ => *self = Self::of_field(bits.read(Self::FIELD)?)?,
        }
        Ok(bits.read(self.length())? << self.trailing)
    }

    /// Bits of the field with a new window.
    const FIELD: u32 = 11;

    /// The window in the lowest bits of `field`.
    #[inline]
    fn of_field(field: u64) -> Result<Self, ChunkError> {
        let leading = (field >> 6 & 31) as u8;
        let length = match (field & 63) as u8 {
            0 => 64,
            length => length,
        };
        let trailing = (64 - leading).checked_sub(length).ok_or(ChunkError::Field("xor window"))?;
        Ok(Self { leading, trailing })
    }

    /// The number of significant bits; there must be a window.
    #[inline]
    fn length(self) -> u32 {
        64 - u32::from(self.leading) - u32::from(self.trailing)
    }
}

/// A float coded by its xor with the previous one.
#[derive(Debug, Clone, Copy)]
pub(super) struct XorValue {
    pub(super) value: u64,
    window: XorWindow,
}

impl XorValue {
    pub(super) fn new(value: f64) -> Self {
        Self { value: value.to_bits(), window: XorWindow::NONE }
    }

    pub(super) fn is_stale(&self) -> bool {
        is_stale(f64::from_bits(self.value))
    }

    pub(super) fn write(&mut self, bits: &mut BitWriter, value: f64) {
        let value = value.to_bits();
        self.window.write(bits, value ^ self.value);
        self.value = value;
    }

    pub(super) fn read(&mut self, bits: &mut BitReader<'_>) -> Result<f64, ChunkError> {
        self.value ^= self.window.read(bits)?;
        Ok(f64::from_bits(self.value))
    }

    pub(super) fn read_raw(bits: &mut BitReader<'_>) -> Result<Self, ChunkError> {
        Ok(Self { value: bits.read(64)?, window: XorWindow::NONE })
    }
}

/// Reads the samples of a chunk.
#[derive(Debug, Clone)]
pub(super) struct XorReader<'a> {
    bits: BitReader<'a>,
    count: u16,
    read: u16,
    time: i64,
    delta: i64,
    value: u64,
    window: XorWindow,
}

impl<'a> XorReader<'a> {
    pub(super) fn new(data: &'a [u8], count: u16) -> Result<Self, ChunkError> {
        let (head, bits) = data.split_first_chunk().ok_or(ChunkError::Truncated)?;
        let found = u16::from_be_bytes(*head);
        if found != count {
            return Err(ChunkError::Count { expected: count, found });
        }
        Ok(Self {
            bits: BitReader::new(bits),
            count,
            read: 0,
            time: 0,
            delta: 0,
            value: 0,
            window: XorWindow::NONE,
        })
    }

    /// The next sample, or `None` after the last.
    #[inline]
    pub(super) fn next_sample(&mut self) -> Result<Option<(i64, f64)>, ChunkError> {
        if self.read >= 2 {
            if self.read == self.count {
                return Ok(None);
            }
            self.delta = self.delta.wrapping_add(read_time(&mut self.bits)?);
            self.step()?;
        } else if !self.read_early()? {
            return Ok(None);
        }
        self.read += 1;
        Ok(Some((self.time, f64::from_bits(self.value))))
    }

    /// Reads one of the first two samples, which have codes of their own.
    fn read_early(&mut self) -> Result<bool, ChunkError> {
        if self.read == self.count {
            return Ok(false);
        }
        let number = varint::read(|| Ok(self.bits.read(8)? as u8), ChunkError::Field("varint"))?;
        if self.read == 0 {
            self.time = unzigzag(number);
            self.value = self.bits.read(64)?;
        } else {
            self.delta = number as i64;
            self.step()?;
        }
        Ok(true)
    }

    #[inline]
    fn step(&mut self) -> Result<(), ChunkError> {
        let time = self.time.wrapping_add(self.delta);
        if time <= self.time {
            return Err(ChunkError::Order);
        }
        self.time = time;
        self.value ^= self.window.read(&mut self.bits)?;
        Ok(())
    }

    /// Bits behind the last sample read.
    pub(super) fn remaining(&self) -> usize {
        self.bits.remaining()
    }
}

/// Passes every sample of a chunk to `visit`, as [`XorReader`] returns them, but twice as fast.
#[inline]
pub(super) fn visit(
    data: &[u8],
    count: u16,
    mut visit: impl FnMut(i64, f64),
) -> Result<(), ChunkError> {
    let mut reader = XorReader::new(data, count)?;
    for _ in 0..2 {
        let Some((time, value)) = reader.next_sample()? else { return Ok(()) };
        visit(time, value);
    }
    let bits = BitSlice(&data[size_of::<u16>()..]);
    let mut place = bits.len() - reader.remaining();
    let XorReader { read, mut time, mut delta, mut value, mut window, .. } = reader;
    let mut left = u32::from(count - read);
    while left > 0 {
        let mut top = bits.word_at(place);
        // A repeated value at the same interval is two zero bits: a constant series has little else.
        if top >> 62 == 0 {
            let alike = left.min(top.leading_zeros().min(BitSlice::AT_ONCE) / 2);
            let end = place + 2 * alike as usize;
            if let Some(last) = last_of(time, delta, alike).filter(|_| end <= bits.len()) {
                let value = f64::from_bits(value);
                (1..=i64::from(alike)).for_each(|at| visit(time + at * delta, value));
                (time, place, left) = (last, end, left - alike);
                continue;
            }
        }
        left -= 1;
        if top >> 63 == 0 {
            // The same interval, as for nearly all samples.
            (place, top) = (place + 1, top << 1);
        } else {
            let ones = top.leading_ones().min(4);
            let width = TIME_WIDTHS[ones as usize];
            place += (ones + 1).min(4) as usize;
            delta = delta.wrapping_add(from_field(bits.field(place, width), width));
            place += width as usize;
            top = bits.word_at(place);
        }
        let next = time.wrapping_add(delta);
        if next <= time {
            return Err(ChunkError::Order);
        }
        time = next;
        // `AT_ONCE` minus one bits of the word are left, which hold most values completely.
        let (mut used, mut length) = (1, 0);
        if top >> 63 == 1 {
            used = 2;
            if top >> 62 == 0b11 {
                used += XorWindow::FIELD;
                window = XorWindow::of_field(top >> (64 - used))?;
            } else if window.leading == u8::MAX {
                return Err(ChunkError::Field("xor window"));
            }
            length = window.length();
            let field = match used + length < BitSlice::AT_ONCE {
                true => top << used >> (64 - length),
                false => bits.field(place + used as usize, length),
            };
            value ^= field << window.trailing;
        }
        place += (used + length) as usize;
        if place > bits.len() {
            return Err(ChunkError::Truncated);
        }
        visit(time, f64::from_bits(value));
    }
    Ok(())
}

/// The last of `count` times after `time`, if they rise.
#[inline]
fn last_of(time: i64, delta: i64, count: u32) -> Option<i64> {
    let reach = delta.checked_mul(i64::from(count)).filter(|_| delta > 0)?;
    time.checked_add(reach)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use promkairos_model::STALE_NAN_BITS;

    fn check(samples: &[(i64, f64)], expected: &str) {
        let mut appender = XorAppender::new(samples[0].0, samples[0].1);
        for &(time, value) in &samples[1..] {
            appender.append(time, value);
        }
        let chunk = appender.to_chunk();
        let hex: String = chunk.data.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, expected);
        let mut reader = XorReader::new(&chunk.data, chunk.count).expect("count");
        for &(time, value) in samples {
            let (t, v) = reader.next_sample().expect("readable").expect("a sample");
            assert_eq!((t, v.to_bits()), (time, value.to_bits()));
        }
        assert_eq!(reader.next_sample(), Ok(None));
        assert!(reader.remaining() < 8);
    }

    #[test]
    fn vectors_of_prometheus() {
        check(
            &[
                (1_700_000_000_000, 1.0),
                (1_700_000_015_000, 1.0),
                (1_700_000_030_000, 2.5),
                (1_700_000_045_001, -3.0),
            ],
            "000480a0abfef9623ff00000000000009875309bffd8001c074006",
        );
        check(
            &[(1_700_000_000_000, 1.0), (1_700_000_015_000, f64::from_bits(STALE_NAN_BITS))],
            "000280a0abfef9623ff00000000000009875c3f40000000000000020",
        );
        check(&[(7_200_000, 12_000.0)], "000180f4ee0640c7700000000000");
    }

    #[test]
    fn the_ends_of_time() {
        let times = [i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX - 1, i64::MAX];
        let mut appender = XorAppender::new(times[0], 0.0);
        for &time in &times[1..] {
            appender.append(time, time as f64);
        }
        let chunk = appender.to_chunk();
        let mut reader = XorReader::new(&chunk.data, chunk.count).expect("count");
        for time in times {
            assert_eq!(reader.next_sample().map(|s| s.map(|s| s.0)), Ok(Some(time)));
        }
    }

    /// Values for each code: unchanged, within the previous window, and with a new window. Some
    /// repeat for a while.
    fn sample_steps() -> impl Strategy<Value = Vec<(i64, f64)>> {
        let step = prop_oneof![4 => Just(15_000), 1 => 1i64..100_000, 1 => 1i64..1 << 50];
        let value = prop_oneof![
            Just(1.0),
            (0u8..50).prop_map(f64::from),
            any::<u64>().prop_map(f64::from_bits)
        ];
        let times = prop_oneof![4 => Just(1), 1 => 2usize..70];
        let alike = |(step, times)| std::iter::repeat_n(step, times);
        prop::collection::vec(((step, value), times), 1..40)
            .prop_map(move |steps| steps.into_iter().flat_map(alike).collect())
    }

    fn one_by_one(data: &[u8], count: u16) -> (Vec<(i64, u64)>, bool) {
        let mut samples = Vec::new();
        let Ok(mut reader) = XorReader::new(data, count) else { return (samples, false) };
        loop {
            match reader.next_sample() {
                Ok(Some((time, value))) => samples.push((time, value.to_bits())),
                Ok(None) => return (samples, true),
                Err(_) => return (samples, false),
            }
        }
    }

    proptest! {
        /// Also for bytes that are cut or changed.
        #[test]
        fn a_visit_sees_what_is_read_one_by_one(
            steps in sample_steps(),
            cut in prop::option::of(0usize..400),
            changed in prop::option::of((2usize..400, any::<u8>())),
        ) {
            let mut time = 0;
            let mut rising = steps.iter().map(|&(step, value)| { time += step; (time, value) });
            let (first, value) = rising.next().expect("at least one");
            let mut appender = XorAppender::new(first, value);
            rising.for_each(|(time, value)| appender.append(time, value));
            let chunk = appender.to_chunk();
            let mut data = chunk.data.to_vec();
            data.truncate(cut.unwrap_or(usize::MAX));
            if let Some((at, bits)) = changed && let Some(byte) = data.get_mut(at) {
                *byte ^= bits;
            }
            let mut samples = Vec::new();
            let whole = visit(&data, chunk.count, |time, value| samples.push((time, value.to_bits())));
            prop_assert_eq!((samples, whole.is_ok()), one_by_one(&data, chunk.count));
        }
    }

    #[test]
    fn constants_beyond_the_end_of_time_are_an_error() {
        let mut appender = XorAppender::new(i64::MAX - 3, 1.0);
        appender.append(i64::MAX - 2, 1.0);
        let mut data = appender.to_chunk().data.to_vec();
        data[..2].copy_from_slice(&10u16.to_be_bytes());
        data.extend([0; 8]);
        let mut times = Vec::new();
        assert_eq!(visit(&data, 10, |time, _| times.push(time)), Err(ChunkError::Order));
        assert_eq!(times, [3, 2, 1, 0].map(|before| i64::MAX - before));
    }

    #[test]
    fn a_small_struct() {
        assert!(size_of::<XorAppender>() <= 72);
    }
}
