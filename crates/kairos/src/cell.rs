//! Values of `data_points` cells by data type.
//!
//! ```text
//! kairos_long      zigzag varint, low group first
//! kairos_double    f64 BE
//! kairos_string    u16 BE length, Java's modified UTF-8
//! kairos_legacy    column bit 0 = 0: big-endian integer without leading zero bytes; below
//!                  8 bytes unsigned, 8 bytes signed, empty = 0
//!                  column bit 0 = 1: 0x01, f32 BE · any other byte, f64 BE
//! prom_double      f64 BE, any bits
//! prom_histogram   see histogram.rs
//! prom_exemplar    0x01, f64 BE value, canonical labels (crates/model/src/labels.rs)
//! ```
//!
//! The column of a `prom_exemplar` is longer: the offset, then 8 bytes of label hash.

use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

pub use super::histogram::encode as encode_histogram;
use super::reader::Reader;
use super::{DataType, DecodeError, EncodeError, LegacyKind, Offset, TimeUnit, histogram};
use promkairos_model::varint::push_zigzag;
use promkairos_model::{Histogram, Labels, Value};

const EXEMPLAR_VERSION: u8 = 1;
const LEGACY_FLOAT: u8 = 1;
const LEGACY_DOUBLE: u8 = 2;

/// The value of a cell.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// `kairos_long`, or `kairos_legacy` with an integer.
    Long(i64),
    /// `kairos_double`, `prom_double`, or `kairos_legacy` with a float.
    Double(Double),
    /// `kairos_string`.
    Text(String),
    /// `prom_histogram`.
    Histogram {
        /// The histogram.
        histogram: Histogram,
        /// Start time of the counter, in milliseconds since 1970; 0 = unknown.
        start_timestamp: i64,
    },
    /// `prom_exemplar`.
    Exemplar {
        /// Labels of the exemplar.
        labels: Labels,
        /// The observed value.
        value: Double,
    },
    /// A data type of another plug-in.
    Unknown,
}

/// A double that is compared by its bits.
#[derive(Debug, Clone, Copy)]
pub struct Double(pub f64);

impl PartialEq for Double {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_bits() == other.0.to_bits()
    }
}

impl Cell {
    /// Reads the cell of a row of this type. The offset matters only for `kairos_legacy`. Types of
    /// other plug-ins never fail.
    pub fn decode(data_type: &DataType, offset: Offset, value: &[u8]) -> Result<Self, DecodeError> {
        Ok(match data_type {
            DataType::Long => {
                let mut reader = Reader::new(value, "kairos_long");
                let long = reader.zigzag()?;
                reader.end()?;
                Self::Long(long)
            }
            DataType::Double => Self::Double(decode_double(value, "kairos_double")?),
            DataType::PromDouble => Self::Double(decode_double(value, "prom_double")?),
            DataType::Legacy => decode_legacy(offset.legacy_kind(), value)?,
            DataType::String => Self::Text(decode_string(value)?),
            DataType::PromHistogram => {
                let (histogram, start_timestamp) = histogram::decode(value)?;
                Self::Histogram { histogram, start_timestamp }
            }
            DataType::PromExemplar => decode_exemplar(value)?,
            DataType::Other(_) => Self::Unknown,
        })
    }

    /// The value as a point of a series, with its start timestamp; `None` if it is not a point.
    /// Longs above 2^53 are rounded to the nearest double.
    pub fn into_value(self) -> Option<(Value, i64)> {
        match self {
            Self::Long(long) => Some((Value::Float(long as f64), 0)),
            Self::Double(double) => Some((Value::Float(double.0), 0)),
            Self::Histogram { histogram, start_timestamp } => {
                Some((Value::Histogram(Arc::new(histogram)), start_timestamp))
            }
            Self::Text(_) | Self::Exemplar { .. } | Self::Unknown => None,
        }
    }
}

/// The value of a `kairos_long` cell.
pub fn encode_long(value: i64) -> Vec<u8> {
    let mut out = Vec::with_capacity(10);
    push_zigzag(&mut out, value);
    out
}

/// The value of a `kairos_double` or `prom_double` cell.
pub fn encode_double(value: f64) -> [u8; 8] {
    value.to_bits().to_be_bytes()
}

/// The value of a `prom_exemplar` cell.
pub fn encode_exemplar(labels: &Labels, value: f64) -> Vec<u8> {
    [&[EXEMPLAR_VERSION][..], &encode_double(value), labels.as_bytes()].concat()
}

/// The column of a `prom_exemplar` cell; the hash separates exemplars of the same millisecond.
pub fn exemplar_column(offset: Offset, labels: &Labels) -> [u8; 12] {
    let mut out = [0; 12];
    out[..4].copy_from_slice(&offset.to_bytes());
    out[4..].copy_from_slice(&exemplar_hash(labels).to_be_bytes());
    out
}

/// Reads the column of a `prom_exemplar` cell: the offset and the label hash.
pub fn decode_exemplar_column(column: &[u8], unit: TimeUnit) -> Result<(Offset, u64), DecodeError> {
    let mut reader = Reader::new(column, "prom_exemplar column");
    let offset = Offset::from_bytes(&reader.array::<4>()?, unit)?;
    let hash = u64::from_be_bytes(reader.array()?);
    reader.end()?;
    Ok((offset, hash))
}

/// XXH3 of the labels' canonical encoding, 64 bits, seed 0.
pub fn exemplar_hash(labels: &Labels) -> u64 {
    xxh3_64(labels.as_bytes())
}

/// The value of a `kairos_legacy` cell under a column with [`LegacyKind::Long`].
pub fn encode_legacy_long(value: i64) -> Vec<u8> {
    let zeros = (value.leading_zeros() / 8) as usize;
    value.to_be_bytes()[zeros..].to_vec()
}

/// The value of a `kairos_legacy` cell under a column with [`LegacyKind::Float`], in 5 bytes.
pub fn encode_legacy_float(value: f32) -> [u8; 5] {
    let mut out = [LEGACY_FLOAT; 5];
    out[1..].copy_from_slice(&value.to_bits().to_be_bytes());
    out
}

/// The value of a `kairos_legacy` cell under a column with [`LegacyKind::Float`], in 9 bytes.
pub fn encode_legacy_double(value: f64) -> [u8; 9] {
    let mut out = [LEGACY_DOUBLE; 9];
    out[1..].copy_from_slice(&encode_double(value));
    out
}

/// The value of a `kairos_string` cell. Fails for more than 65,535 bytes.
pub fn encode_string(text: &str) -> Result<Vec<u8>, EncodeError> {
    let mut out = vec![0; 2];
    for unit in text.encode_utf16() {
        let low = |shift: u16| 0x80 | (unit >> shift & 0x3F) as u8;
        match unit {
            1..=0x7F => out.push(unit as u8),
            // NUL takes two bytes too, and each surrogate takes three.
            0 | 0x80..=0x7FF => out.extend([0xC0 | (unit >> 6) as u8, low(0)]),
            0x800.. => out.extend([0xE0 | (unit >> 12) as u8, low(6), low(0)]),
        }
    }
    let len = out.len() - 2;
    let prefix = u16::try_from(len).map_err(|_| EncodeError::StringTooLong(len))?;
    out[..2].copy_from_slice(&prefix.to_be_bytes());
    Ok(out)
}

fn decode_double(value: &[u8], what: &'static str) -> Result<Double, DecodeError> {
    let mut reader = Reader::new(value, what);
    let double = reader.double()?;
    reader.end()?;
    Ok(Double(double))
}

fn decode_legacy(kind: LegacyKind, value: &[u8]) -> Result<Cell, DecodeError> {
    const WHAT: &str = "kairos_legacy";
    match kind {
        LegacyKind::Long => {
            let padding = 8usize
                .checked_sub(value.len())
                .ok_or_else(|| DecodeError::TrailingBytes { what: WHAT, bytes: value.len() - 8 })?;
            let mut bytes = [0; 8];
            bytes[padding..].copy_from_slice(value);
            Ok(Cell::Long(i64::from_be_bytes(bytes)))
        }
        LegacyKind::Float => {
            let mut reader = Reader::new(value, WHAT);
            let double = if reader.byte()? == LEGACY_FLOAT {
                f32::from_bits(u32::from_be_bytes(reader.array()?)).into()
            } else {
                reader.double()?
            };
            reader.end()?;
            Ok(Cell::Double(Double(double)))
        }
    }
}

fn decode_string(value: &[u8]) -> Result<String, DecodeError> {
    const WHAT: &str = "kairos_string";
    let mut reader = Reader::new(value, WHAT);
    let len = u16::from_be_bytes(reader.array()?);
    let mut text = Reader::new(reader.bytes(len.into())?, WHAT);
    reader.end()?;
    let mut units = Vec::with_capacity(len.into());
    while text.peek().is_some() {
        units.push(read_utf16_unit(&mut text)?);
    }
    String::from_utf16(&units).map_err(|_| DecodeError::Text(WHAT))
}

/// One UTF-16 code unit in 1 to 3 bytes.
fn read_utf16_unit(reader: &mut Reader<'_>) -> Result<u16, DecodeError> {
    const BAD: DecodeError = DecodeError::Text("kairos_string");
    let first = reader.byte()?;
    let (mut unit, more) = match first {
        0..0x80 => (u16::from(first), 0),
        0xC0..0xE0 => (u16::from(first & 0x1F), 1),
        0xE0..0xF0 => (u16::from(first & 0x0F), 2),
        _ => return Err(BAD),
    };
    for _ in 0..more {
        let byte = reader.byte()?;
        if byte & 0xC0 != 0x80 {
            return Err(BAD);
        }
        unit = unit << 6 | u16::from(byte & 0x3F);
    }
    Ok(unit)
}

fn decode_exemplar(value: &[u8]) -> Result<Cell, DecodeError> {
    const WHAT: &str = "prom_exemplar";
    let mut reader = Reader::new(value, WHAT);
    let version = reader.byte()?;
    if version != EXEMPLAR_VERSION {
        return Err(DecodeError::Version { what: WHAT, version });
    }
    let value = Double(reader.double()?);
    Ok(Cell::Exemplar { value, labels: Labels::from_bytes(reader.rest())? })
}

#[cfg(test)]
mod tests {
    use super::super::RowSpec;
    use super::*;
    use promkairos_model::{LabelError, STALE_NAN_BITS};
    use proptest::prelude::*;

    fn offset(kind: LegacyKind) -> Offset {
        RowSpec::DEFAULT.split(0).1.with_legacy_kind(kind)
    }

    fn decode(data_type: &DataType, value: &[u8]) -> Result<Cell, DecodeError> {
        Cell::decode(data_type, offset(LegacyKind::Long), value)
    }

    fn double(value: f64) -> Cell {
        Cell::Double(Double(value))
    }

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        Labels::from_pairs(pairs.iter().copied()).expect("valid labels")
    }

    #[test]
    fn doubles_keep_their_bits() {
        for bits in [STALE_NAN_BITS, f64::NAN.to_bits(), (-0.0f64).to_bits(), u64::MAX] {
            let value = f64::from_bits(bits);
            let bytes = encode_double(value);
            assert_eq!(bytes, bits.to_be_bytes());
            for data_type in [DataType::Double, DataType::PromDouble] {
                assert_eq!(decode(&data_type, &bytes), Ok(double(value)));
            }
        }
    }

    #[test]
    fn legacy_longs() {
        let check = |value: i64, bytes: &[u8]| {
            assert_eq!(encode_legacy_long(value), bytes);
            assert_eq!(decode(&DataType::Legacy, bytes), Ok(Cell::Long(value)));
        };
        check(0, b"");
        check(128, b"\x80");
        check(255, b"\xff");
        check(256, b"\x01\0");
        check(0xffff_ffff, b"\xff\xff\xff\xff");
        check(-1, &[0xff; 8]);
        check(i64::MIN, b"\x80\0\0\0\0\0\0\0");
        assert_eq!(decode(&DataType::Legacy, b"\0\x80"), Ok(Cell::Long(128)));
        let nine = DecodeError::TrailingBytes { what: "kairos_legacy", bytes: 1 };
        assert_eq!(decode(&DataType::Legacy, &[0; 9]), Err(nine));
    }

    #[test]
    fn legacy_doubles() {
        let read = |b: &[u8]| Cell::decode(&DataType::Legacy, offset(LegacyKind::Float), b);
        let check = |value: f64, bytes: &[u8]| {
            assert_eq!(encode_legacy_double(value), bytes);
            assert_eq!(read(bytes), Ok(double(value)));
        };
        check(0.1, b"\x02\x3f\xb9\x99\x99\x99\x99\x99\x9a");
        check(f64::from_bits(STALE_NAN_BITS), b"\x02\x7f\xf0\0\0\0\0\0\x02");
        assert_eq!(encode_legacy_float(1.5), *b"\x01\x3f\xc0\0\0");
        assert_eq!(read(b"\x01\x3f\xc0\0\0"), Ok(double(1.5)));
        assert_eq!(read(b"\0\x3f\xf8\0\0\0\0\0\0"), Ok(double(1.5)));
        assert_eq!(read(b""), Err(DecodeError::Truncated("kairos_legacy")));
        assert_eq!(read(b"\x01\0\0\0"), Err(DecodeError::Truncated("kairos_legacy")));
    }

    #[test]
    fn strings_in_modified_utf8() {
        let check = |text: &str, bytes: &[u8]| {
            assert_eq!(encode_string(text).as_deref(), Ok(bytes));
            assert_eq!(decode(&DataType::String, bytes), Ok(Cell::Text(text.into())));
        };
        check("", b"\0\0");
        check("a\0b", b"\0\x04a\xc0\x80b");
        check("😀", b"\0\x06\xed\xa0\xbd\xed\xb8\x80");
        let too_long = "€".repeat(21_846);
        assert_eq!(encode_string(&too_long), Err(EncodeError::StringTooLong(65_538)));
        for bad in [&b"\0\x01\x80"[..], b"\0\x02\xc3a", b"\0\x01\xf0", b"\0\x03\xed\xa0\xbd"] {
            let want = Err(DecodeError::Text("kairos_string"));
            assert_eq!(decode(&DataType::String, bad), want);
        }
    }

    #[test]
    fn an_exemplar() {
        let labels = labels(&[("trace_id", "a1")]);
        let bytes = b"\x01\x3f\xf8\0\0\0\0\0\0\x0a\x0e\x0a\x08trace_id\x12\x02a1";
        assert_eq!(encode_exemplar(&labels, 1.5), bytes);
        let read = decode(&DataType::PromExemplar, bytes);
        assert_eq!(read, Ok(Cell::Exemplar { labels: labels.clone(), value: Double(1.5) }));

        let (_, offset) = RowSpec::DEFAULT.split(7);
        let column = exemplar_column(offset, &labels);
        assert_eq!(column, *b"\0\0\0\x07\x77\x77\x30\x91\xfe\x45\xc2\x4b");
        let read = decode_exemplar_column(&column, TimeUnit::Milliseconds);
        assert_eq!(read, Ok((offset, exemplar_hash(&labels))));
        assert!(decode_exemplar_column(&column[..11], TimeUnit::Milliseconds).is_err());

        let version = DecodeError::Version { what: "prom_exemplar", version: 2 };
        assert_eq!(decode(&DataType::PromExemplar, &[2; 9]), Err(version));
        let junk = [&bytes[..9], b"junk"].concat();
        let want = Err(DecodeError::Labels(LabelError::Malformed));
        assert_eq!(decode(&DataType::PromExemplar, &junk), want);
    }

    #[test]
    fn points_of_a_series() {
        let float = |value| Some((Value::Float(value), 0));
        assert_eq!(Cell::Long(-3).into_value(), float(-3.0));
        assert_eq!(double(f64::INFINITY).into_value(), float(f64::INFINITY));
        assert_eq!(Cell::Text("3".into()).into_value(), None);
        assert_eq!(decode(&DataType::parse("kairos_complex"), b"\xff"), Ok(Cell::Unknown));
        assert_eq!(Cell::Unknown.into_value(), None);
    }

    proptest! {
        #[test]
        fn longs_round_trip(value: i64) {
            let read = decode(&DataType::Long, &encode_long(value));
            prop_assert_eq!(read, Ok(Cell::Long(value)));
            let read = decode(&DataType::Legacy, &encode_legacy_long(value));
            prop_assert_eq!(read, Ok(Cell::Long(value)));
        }

        #[test]
        fn strings_round_trip(text in ".{0,20}") {
            let bytes = encode_string(&text).expect("short");
            prop_assert_eq!(decode(&DataType::String, &bytes), Ok(Cell::Text(text)));
        }

        #[test]
        fn exemplars_round_trip(
            pairs in prop::collection::hash_map(".{1,5}", ".{1,5}", 0..4), bits: u64,
        ) {
            let labels = Labels::from_pairs(pairs).expect("valid labels");
            let value = f64::from_bits(bits);
            let read = decode(&DataType::PromExemplar, &encode_exemplar(&labels, value));
            prop_assert_eq!(read, Ok(Cell::Exemplar { labels, value: Double(value) }));
        }

        #[test]
        fn hostile_bytes_never_panic(bytes: Vec<u8>) {
            for name in ["kairos_long", "kairos_double", "kairos_string", "prom_double",
                         "prom_histogram", "prom_exemplar", "kairos_legacy", "other"] {
                for kind in [LegacyKind::Long, LegacyKind::Float] {
                    let _ = Cell::decode(&DataType::parse(name), offset(kind), &bytes);
                }
            }
            let _ = decode_exemplar_column(&bytes, TimeUnit::Legacy);
        }
    }
}
