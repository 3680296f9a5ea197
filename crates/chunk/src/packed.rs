//! Chunks of kind 4: floats that are decimal numbers with few digits, in blocks that are written
//! once and read as a whole.
//!
//! ```text
//! u8       digits after the point, 0 to 15
//! column   times above the first
//! column   values × 10^digits
//! varint   values that are no such number, then each: varint: how many lie between it and the
//!          one before · 8 bytes: its bits, little-endian
//! ```
//!
//! Columns are encoded by `integers`. A decimal number of at most 15 digits and its quotient by a power of ten up to
//! 10^22 are the same float, so every bit is restored. Other values, such as stale markers and infinities, are listed
//! at the end. Only files of the embedded store have such chunks: no protocol knows them.

use super::chunk::{Chunk, ChunkKind, SideKind};
use super::column::{Column, ColumnBytes, ColumnValues};
use super::error::ChunkError;
use super::integers;
use promkairos_model::{TimeRange, varint};

/// The powers of ten that a value may be multiplied by.
const POWERS: [f64; 16] =
    [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];
/// 1.5 × 2^52: adding and subtracting it rounds numbers below [`MOST`].
const ROUNDS: f64 = 6_755_399_441_055_744.0;
/// 2^51: integers below it are rounded exactly.
const MOST: f64 = 2_251_799_813_685_248.0;
/// At most one in this number of values may be no decimal number.
const OTHERS: usize = 4;

/// Times and values of floats in columns; times rise strictly.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Floats {
    /// Milliseconds since 1970.
    pub times: Vec<i64>,
    /// One value for each time.
    pub values: Vec<f64>,
    /// The side column, one entry for each time; empty if all are 0.
    pub side: Vec<i64>,
    /// The kind of the side column.
    pub side_kind: SideKind,
}

impl Floats {
    /// The floats of chunks that follow each other in time and have one kind of side column; histogram chunks have
    /// none.
    pub fn of(chunks: &[Chunk]) -> Result<Self, ChunkError> {
        let beside = chunks.iter().find(|chunk| !chunk.side.is_empty());
        let side_kind = beside.map(|chunk| chunk.side_kind).unwrap_or_default();
        let mut floats = Self { side_kind, ..Self::default() };
        for chunk in chunks {
            chunk.visit_floats(|time, value| {
                floats.times.push(time);
                floats.values.push(value);
            })?;
        }
        if beside.is_some() {
            for chunk in chunks {
                if !chunk.side.is_empty() && chunk.side_kind != side_kind {
                    return Err(ChunkError::Field("kind of a side column"));
                }
                for entry in ColumnValues::new(&chunk.side, chunk.count) {
                    floats.side.push(entry?);
                }
            }
        }
        Ok(floats)
    }
}

/// Packs the floats of `range` into one chunk. `None` if too many of them are not decimal numbers.
pub fn pack(floats: &Floats, range: std::ops::Range<usize>) -> Option<Chunk> {
    let (times, values) = (floats.times.get(range.clone())?, &floats.values[range.clone()]);
    let (&min_time, &max_time) = (times.first()?, times.last()?);
    let count = u16::try_from(times.len()).ok()?;
    let digits = digits_of(values)?;
    let (integers, others) = split(values, POWERS[digits])?;
    let mut data = vec![digits as u8];
    let times: Vec<i64> = times.iter().map(|time| time.wrapping_sub(min_time)).collect();
    integers::put(&mut data, &times);
    integers::put(&mut data, &integers);
    varint::push(&mut data, others.len() as u64);
    let mut next = 0;
    for at in others {
        varint::push(&mut data, (at - next) as u64);
        data.extend_from_slice(&values[at].to_bits().to_le_bytes());
        next = at + 1;
    }
    let mut column = Column::default();
    let entries = floats.side.get(range).unwrap_or_default();
    entries.iter().for_each(|entry| column.push(*entry));
    let side = column.to_bytes();
    let side_kind = if side.is_empty() { SideKind::Starts } else { floats.side_kind };
    Some(Chunk {
        kind: ChunkKind::Packed,
        count,
        min_time,
        max_time,
        data: data.into(),
        side,
        side_kind,
        stamps: ColumnBytes::default(),
    })
}

/// The float times a power of ten, if that is an integer that restores the float.
#[inline]
fn integer(value: f64, power: f64) -> Option<i64> {
    let rounded = value * power + ROUNDS - ROUNDS;
    if rounded.abs() < MOST {
        let integer = rounded as i64;
        return (float(integer, power).to_bits() == value.to_bits()).then_some(integer);
    }
    None
}

#[inline]
fn float(integer: i64, power: f64) -> f64 {
    integer as f64 / power
}

/// The number of decimal digits with which the values take about the fewest bits: each digit
/// lengthens every value, but with too few digits some values are not integers.
fn digits_of(values: &[f64]) -> Option<usize> {
    let mut needed = [0; POWERS.len()];
    let (mut others, mut before) = (0, None);
    for &value in values {
        let digits = match before {
            Some((same, digits)) if same == value.to_bits() => digits,
            _ => (0..POWERS.len()).find(|digits| integer(value, POWERS[*digits]).is_some()),
        };
        before = Some((value.to_bits(), digits));
        match digits {
            Some(digits) => needed[digits] += 1,
            None => others += 1,
        }
        if others * OTHERS > values.len() {
            return None;
        }
    }
    let beyond = |digits: usize| others + needed[digits + 1..].iter().sum::<usize>();
    let bits = |digits: usize| digits * values.len() * 10 / 3 + beyond(digits) * 72;
    let candidates = (0..POWERS.len()).filter(|digits| beyond(*digits) * OTHERS <= values.len());
    candidates.min_by_key(|digits| bits(*digits))
}

/// The values as integers, and the positions of other values, which repeat the integer before.
fn split(values: &[f64], power: f64) -> Option<(Vec<i64>, Vec<usize>)> {
    let (mut integers, mut others) = (Vec::with_capacity(values.len()), Vec::new());
    let mut last = values.iter().find_map(|value| integer(*value, power))?;
    for (at, &value) in values.iter().enumerate() {
        match integer(value, power) {
            Some(integer) => last = integer,
            None => others.push(at),
        }
        integers.push(last);
    }
    (others.len() * OTHERS <= values.len()).then_some((integers, others))
}

/// Times and values of a packed chunk.
#[derive(Debug)]
pub(super) struct Unpacked {
    pub(super) times: Vec<i64>,
    pub(super) values: Vec<f64>,
    /// Bytes behind the last value.
    pub(super) trailing: usize,
}

impl Unpacked {
    /// The samples of `chunk`.
    pub(super) fn of(chunk: &Chunk) -> Result<Self, ChunkError> {
        let count = usize::from(chunk.count);
        let (&digits, rest) = chunk.data.split_first().ok_or(ChunkError::Truncated)?;
        let power = POWERS.get(usize::from(digits)).ok_or(ChunkError::Field("number of digits"))?;
        let (mut times, mut integers) = (Vec::new(), Vec::new());
        let rest = integers::take(rest, count, &mut times)?;
        let mut before = None;
        for time in &mut times {
            *time = time.wrapping_add(chunk.min_time);
            if before.is_some_and(|before| *time <= before) {
                return Err(ChunkError::Order);
            }
            before = Some(*time);
        }
        let mut rest = integers::take(rest, count, &mut integers)?;
        let mut values: Vec<f64> = match digits {
            0 => integers.iter().map(|&integer| integer as f64).collect(),
            _ => integers.iter().map(|&integer| float(integer, *power)).collect(),
        };
        let mut next = 0;
        for _ in 0..integers::take_varint(&mut rest)? {
            let skipped = usize::try_from(integers::take_varint(&mut rest)?).ok();
            let at = skipped.and_then(|skipped| skipped.checked_add(next));
            let at = at.filter(|at| *at < count).ok_or(ChunkError::Field("place of a value"))?;
            let (bits, others) = rest.split_first_chunk().ok_or(ChunkError::Truncated)?;
            values[at] = f64::from_bits(u64::from_le_bytes(*bits));
            rest = others;
            next = at + 1;
        }
        Ok(Self { times, values, trailing: rest.len() })
    }

    /// The times and values in the range.
    pub(super) fn within(&self, range: TimeRange) -> (&[i64], &[f64]) {
        let first = self.times.partition_point(|time| *time < range.start);
        let end = self.times.partition_point(|time| *time <= range.end).max(first);
        (&self.times[first..end], &self.values[first..end])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::xor::XorAppender;
    use super::*;
    use promkairos_model::STALE_NAN_BITS;

    fn floats(values: Vec<f64>) -> Floats {
        let times = (0..values.len() as i64).map(|at| 1_700_000_000_000 + at * 15_000).collect();
        Floats { times, values, ..Floats::default() }
    }

    fn bits(values: &[f64]) -> Vec<u64> {
        values.iter().map(|value| value.to_bits()).collect()
    }

    fn round_trip(floats: &Floats) -> Option<usize> {
        let chunk = pack(floats, 0..floats.times.len())?;
        let unpacked = Unpacked::of(&chunk).expect("own bytes");
        assert_eq!((&unpacked.times, unpacked.trailing), (&floats.times, 0));
        assert_eq!(bits(&unpacked.values), bits(&floats.values));
        assert_eq!(chunk.validate(), Ok(()));
        let starts: Vec<i64> =
            chunk.points().map(|p| p.expect("own bytes").start_timestamp).collect();
        assert!(floats.side.is_empty() || starts == floats.side);
        Some(chunk.data.len())
    }

    #[test]
    fn sizes() {
        assert!(round_trip(&floats(vec![17.25; 960])).expect("packed") <= 16);
        let walk = |at: i64| (at * 7919 % 2000) as f64 / 1000.0;
        let len = round_trip(&floats((0..960).map(walk).collect())).expect("packed");
        assert!(len <= 960 * 11 / 8 + 30, "{len}");
        // Values that are not decimal numbers are left to other encodings.
        assert_eq!(round_trip(&floats((1..960).map(|at| f64::from(at).sqrt()).collect())), None);
        assert_eq!(round_trip(&floats(vec![f64::NAN; 5])), None);
    }

    #[test]
    fn floats_of_a_range_are_visited() {
        let floats = floats((0..500).map(f64::from).collect());
        let chunk = pack(&floats, 0..500).expect("packed");
        let mut open = XorAppender::new(floats.times[0], floats.values[0]);
        for (&time, &value) in floats.times.iter().zip(&floats.values).skip(1) {
            open.append(time, value);
        }
        let xor = open.to_chunk();
        let time = |at: usize| floats.times[at];
        for (start, end, want) in [
            (time(10), time(12), 10..13),
            (time(10) + 1, time(12) - 1, 11..12),
            (i64::MIN, time(0), 0..1),
            (time(499), i64::MAX, 499..500),
            (time(499) + 1, i64::MAX, 0..0),
            (time(12), time(10), 0..0),
        ] {
            let mut seen = Vec::new();
            let range = TimeRange { start, end };
            chunk.visit_floats_in(range, |time, value| seen.push((time, value))).expect("own");
            let want: Vec<_> = want.map(|at| (time(at), at as f64)).collect();
            assert_eq!(seen, want, "{range:?}");
            for chunk in [&chunk, &xor] {
                let (mut times, mut values) = (Vec::new(), Vec::new());
                let columns = |own: &[i64], others: &[f64]| {
                    times.extend_from_slice(own);
                    values.extend_from_slice(others);
                };
                chunk.visit_float_columns_in(range, columns).expect("own");
                let seen: Vec<_> = times.into_iter().zip(values).collect();
                assert_eq!(seen, want, "{range:?}");
            }
        }
    }

    #[test]
    fn every_bit_comes_back() {
        let special = [
            -0.0,
            f64::NAN,
            f64::from_bits(STALE_NAN_BITS),
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::MIN_POSITIVE,
            5e-324,
            f64::MAX,
            0.1 + 0.2,
            1e22,
            1e-15,
            2_251_799_813_685_247.0,
            2_251_799_813_685_248.0,
            -9e15,
            1e-7,
        ];
        for value in special {
            let mut values = vec![0.5, 1.25, -3.0, 1e6, 17.0];
            values.insert(2, value);
            assert!(round_trip(&floats(values)).is_some(), "{value:e}");
        }
    }

    proptest! {
        #[test]
        fn decimals_come_back(
            digits in 0i32..=15,
            integers in prop::collection::vec((any::<bool>(), -1_000_000i64..1_000_000, any::<u64>()), 1..200),
            gaps in prop::collection::vec(1i64..100_000, 200),
            started in any::<bool>(),
        ) {
            let value = |&(other, integer, raw): &(bool, i64, u64)| {
                if other && raw % 7 == 0 { f64::from_bits(raw) } else { integer as f64 / 10f64.powi(digits) }
            };
            let mut all = floats(integers.iter().map(value).collect());
            let mut time = -50_000;
            for (at, gap) in all.times.iter_mut().zip(gaps) {
                time += gap;
                *at = time;
            }
            if started {
                all.side = all.times.iter().map(|time| time / 1_000_000).collect();
            }
            let is_packed = round_trip(&all).is_some();
            prop_assert!(is_packed || integers.iter().any(|(other, ..)| *other));
        }

        #[test]
        fn hostile_bytes(data in prop::collection::vec(any::<u8>(), 0..80), count: u16, min_time: i64) {
            let (none, max_time) = (ColumnBytes::default(), min_time);
            let (data, side) = (data.into(), none.clone());
            let kind = ChunkKind::Packed;
            let side_kind = SideKind::default();
            let chunk =
                Chunk { kind, count, min_time, max_time, data, side, side_kind, stamps: none };
            prop_assert!(chunk.points().count() <= usize::from(count) + 1);
            let _ = chunk.validate();
        }
    }
}
