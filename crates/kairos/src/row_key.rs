//! The partition key of `data_points`, which is also `column1` of the legacy `row_key_index`.
//!
//! ```text
//! ┌───────────────┬──────┬──────────────────────┬──────┬────────┬───────────┬────────────┐
//! │ metric, UTF-8 │ 0x00 │ row time, i64 BE, ms │ 0x00 │ length │ data type │ tag string │
//! └───────────────┴──────┴──────────────────────┴──────┴────────┴───────────┴────────────┘
//!                                               └── not for kairos_legacy ──┘
//! ```
//!
//! Invariant: a decoded key encodes to the same bytes.

use super::reader::Reader;
use super::{DataType, DecodeError, EncodeError, RowTime, Tags};

/// Maximum bytes of a partition key in Cassandra.
pub const MAX_KEY_BYTES: usize = 65_535;

/// A row: one series, one data type, one row time.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RowKey {
    /// Name of the metric.
    pub metric: Box<str>,
    /// Start of the row.
    pub row_time: RowTime,
    /// The data type of its cells.
    pub data_type: DataType,
    /// All other labels.
    pub tags: Tags,
}

impl RowKey {
    /// The bytes of `key`. Fails for a key that cannot be encoded or that Cassandra refuses.
    pub fn encode(&self) -> Result<Vec<u8>, EncodeError> {
        let mut out = Vec::with_capacity(128);
        push_start(&mut out, &self.metric, self.row_time)?;
        if self.data_type == DataType::Legacy {
            if let Some((name, _)) = self.tags.iter().next().filter(|(n, _)| n.starts_with('\0')) {
                return Err(EncodeError::LegacyTagName(name.into()));
            }
        } else {
            let name = self.data_type.as_str();
            let len =
                u8::try_from(name.len()).map_err(|_| EncodeError::DataTypeTooLong(name.len()))?;
            out.extend_from_slice(&[0, len]);
            out.extend_from_slice(name.as_bytes());
        }
        self.tags.encode(&mut out);
        if out.len() > MAX_KEY_BYTES {
            return Err(EncodeError::KeyTooLong { bytes: out.len(), limit: MAX_KEY_BYTES });
        }
        Ok(out)
    }

    /// Reads the bytes of `key`.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let nul = bytes.iter().position(|b| *b == 0).ok_or(DecodeError::NoMetric)?;
        if nul == 0 {
            return Err(DecodeError::NoMetric);
        }
        let (metric, rest) = bytes.split_at(nul);
        let mut reader = Reader::new(&rest[1..], "row key");
        let row_time = RowTime::from_stored(i64::from_be_bytes(reader.array()?));
        let data_type = if reader.peek() == Some(0) {
            let [_, len] = reader.array()?;
            let name = utf8(reader.bytes(len.into())?, "data type")?;
            match DataType::parse(name) {
                // This type is written without its name, so the key is invalid.
                DataType::Legacy => return Err(DecodeError::OutOfRange("data type")),
                other => other,
            }
        } else {
            DataType::Legacy
        };
        Ok(Self {
            metric: utf8(metric, "metric name")?.into(),
            row_time,
            data_type,
            tags: Tags::decode(utf8(reader.rest(), "tag string")?)?,
        })
    }
}

/// Appends the part that all keys of a metric and row time start with.
pub(super) fn push_start(
    out: &mut Vec<u8>,
    metric: &str,
    row_time: RowTime,
) -> Result<(), EncodeError> {
    if metric.is_empty() {
        return Err(EncodeError::EmptyMetric);
    }
    if metric.contains('\0') {
        return Err(EncodeError::NulInMetric);
    }
    out.extend_from_slice(metric.as_bytes());
    out.push(0);
    out.extend_from_slice(&row_time.millis().to_be_bytes());
    Ok(())
}

fn utf8<'a>(bytes: &'a [u8], what: &'static str) -> Result<&'a str, DecodeError> {
    std::str::from_utf8(bytes).map_err(|_| DecodeError::Text(what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(metric: &str, data_type: &str, pairs: &[(&str, &str)]) -> RowKey {
        RowKey {
            metric: metric.into(),
            row_time: RowTime::from_stored(0x0102_0304_0506_0708),
            data_type: DataType::parse(data_type),
            tags: Tags::from_pairs(pairs.iter().copied()).expect("unique names"),
        }
    }

    #[test]
    fn keys_both_ways() {
        let check = |key: RowKey, want: &[u8]| {
            assert_eq!(key.encode().as_deref(), Ok(want));
            assert_eq!(RowKey::decode(want), Ok(key));
        };
        check(key("m", "kairos_legacy", &[]), b"m\0\x01\x02\x03\x04\x05\x06\x07\x08");
        check(key("m", "kairos_legacy", &[("a", "b")]), b"m\0\x01\x02\x03\x04\x05\x06\x07\x08a=b:");
        check(key("m", "x", &[]), b"m\0\x01\x02\x03\x04\x05\x06\x07\x08\0\x01x");
        check(
            key("é", "prom_double", &[("\0", "b")]),
            b"\xc3\xa9\0\x01\x02\x03\x04\x05\x06\x07\x08\0\x0bprom_double\0=b:",
        );
    }

    #[test]
    fn what_no_key_can_hold() {
        let check = |key: RowKey, want: EncodeError| assert_eq!(key.encode(), Err(want));
        check(key("", "x", &[]), EncodeError::EmptyMetric);
        check(key("a\0b", "x", &[]), EncodeError::NulInMetric);
        check(key("a", &"x".repeat(256), &[]), EncodeError::DataTypeTooLong(256));
        let nul = EncodeError::LegacyTagName("\0".into());
        check(key("a", "kairos_legacy", &[("\0", "b")]), nul);
        // "m", NUL, row time, type mark, "x", "a=", ":" are 16 bytes.
        let fits = "v".repeat(MAX_KEY_BYTES - 16);
        assert_eq!(key("m", "x", &[("a", &fits)]).encode().map(|k| k.len()), Ok(MAX_KEY_BYTES));
        let too_long = EncodeError::KeyTooLong { bytes: MAX_KEY_BYTES + 1, limit: MAX_KEY_BYTES };
        check(key("m", "x", &[("a", &(fits + "v"))]), too_long);
    }

    #[test]
    fn damaged_keys() {
        let check = |bytes: &[u8], want| assert_eq!(RowKey::decode(bytes), Err(want));
        check(b"", DecodeError::NoMetric);
        check(b"metric", DecodeError::NoMetric);
        check(b"\0\x01\x02\x03\x04\x05\x06\x07\x08", DecodeError::NoMetric);
        check(b"m\0\x01\x02\x03\x04\x05\x06\x07", DecodeError::Truncated("row key"));
        check(b"m\0\x01\x02\x03\x04\x05\x06\x07\x08\0", DecodeError::Truncated("row key"));
        check(b"m\0\x01\x02\x03\x04\x05\x06\x07\x08\0\x02x", DecodeError::Truncated("row key"));
        check(b"m\0\x01\x02\x03\x04\x05\x06\x07\x08\0\x01\xff", DecodeError::Text("data type"));
        check(b"\xff\0\x01\x02\x03\x04\x05\x06\x07\x08", DecodeError::Text("metric name"));
        check(b"m\0\x01\x02\x03\x04\x05\x06\x07\x08\xff", DecodeError::Text("tag string"));
        check(
            b"m\0\x01\x02\x03\x04\x05\x06\x07\x08\0\x0dkairos_legacy",
            DecodeError::OutOfRange("data type"),
        );
    }

    proptest! {
        #[test]
        fn round_trip(
            metric in "[^\0]{1,8}",
            row_time: i64,
            data_type in ".{0,8}",
            pairs in prop::collection::hash_map("[a:=\u{e000}😀]{1,3}", ".{0,4}", 0..5),
        ) {
            let row_time = RowTime::from_stored(row_time);
            let tags = Tags::from_pairs(pairs).expect("unique names");
            for data_type in [DataType::Legacy, DataType::parse(&data_type)] {
                let (metric, tags) = ((&*metric).into(), tags.clone());
                let key = RowKey { metric, row_time, data_type, tags };
                let bytes = key.encode().expect("a valid key");
                prop_assert_eq!(RowKey::decode(&bytes), Ok(key));
            }
        }

        #[test]
        fn any_bytes_decode_to_an_error_or_to_what_encodes_to_them(
            nuls in 0..12usize,
            tail in prop::collection::vec(
                prop_oneof![any::<u8>(), Just(b':'), Just(b'='), Just(0)],
                0..40,
            ),
        ) {
            let bytes = [&b"m"[..], &vec![0; nuls], &tail].concat();
            if let Ok(key) = RowKey::decode(&bytes) {
                prop_assert_eq!(key.encode(), Ok(bytes));
            }
        }
    }
}
