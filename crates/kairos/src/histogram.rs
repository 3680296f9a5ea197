//! The value of a `prom_histogram` cell: a native histogram. Fixed in `docs/FORMAT.md`.
//!
//! ```text
//! ┌──────┬───────┬────────┬────────────────┬───────┬─────────────────┐
//! │ 0x01 │ flags │ schema │ zero threshold │ sum   │ start timestamp │ if flag 0x10
//! │      │ u8    │ zigzag │ f64 BE         │ f64 BE│ zigzag          │
//! ├──────┴─┬─────┴────────┴─┬──────────────┴─┬─────┴─────────────────┤
//! │ spans  │ positive spans │ negative spans │ custom values         │ if flag 0x08
//! ├────────┼────────────────┼────────────────┼───────────────────────┤
//! │ count  │ zero count     │ positive       │ negative buckets      │
//! └────────┴────────────────┴────────────────┴───────────────────────┘
//! flags   0x01 float counts, 0x06 reset hint, 0x08 custom values, 0x10 start timestamp
//! spans   varint number, then for each: zigzag offset, varint length
//! custom  varint number, then f64 BE each
//! counts  integer: varint count and zero count, zigzag deltas; float: f64 BE throughout
//! ```
//!
//! The spans give the number of buckets. Invariant: a decoded histogram is valid.

use super::reader::Reader;
use super::{DecodeError, EncodeError};
use promkairos_model::varint::{push as push_varint, push_zigzag};
use promkairos_model::{Counts, Histogram, ResetHint, Span};

const VERSION: u8 = 1;
const FLOAT: u8 = 0x01;
const HINT_SHIFT: u8 = 1;
const CUSTOM: u8 = 0x08;
const START: u8 = 0x10;
const ALL_FLAGS: u8 = 0x1F;

/// The value of a `prom_histogram` cell. `start_timestamp` is in milliseconds; 0 = unknown. Fails
/// if spans and buckets do not agree.
pub fn encode(histogram: &Histogram, start_timestamp: i64) -> Result<Vec<u8>, EncodeError> {
    let h = histogram;
    let (positive, negative) = match &h.counts {
        Counts::Integer { positive, negative, .. } => (positive.len(), negative.len()),
        Counts::Float { positive, negative, .. } => (positive.len(), negative.len()),
    };
    if span_buckets(&h.positive_spans) != positive as u64
        || span_buckets(&h.negative_spans) != negative as u64
    {
        return Err(EncodeError::HistogramShape);
    }
    let mut out = Vec::with_capacity(64);
    out.extend_from_slice(&[VERSION, flags(h, start_timestamp)]);
    push_zigzag(&mut out, h.schema.into());
    push_doubles(&mut out, &[h.zero_threshold, h.sum]);
    if start_timestamp != 0 {
        push_zigzag(&mut out, start_timestamp);
    }
    for spans in [&h.positive_spans, &h.negative_spans] {
        push_varint(&mut out, spans.len() as u64);
        for span in spans {
            push_zigzag(&mut out, span.offset.into());
            push_varint(&mut out, span.length.into());
        }
    }
    if !h.custom_values.is_empty() {
        push_varint(&mut out, h.custom_values.len() as u64);
        push_doubles(&mut out, &h.custom_values);
    }
    push_counts(&mut out, &h.counts);
    Ok(out)
}

/// Reads the value of a cell: the histogram and its start timestamp.
pub(super) fn decode(bytes: &[u8]) -> Result<(Histogram, i64), DecodeError> {
    const WHAT: &str = "prom_histogram";
    let mut reader = Reader::new(bytes, WHAT);
    let [version] = reader.array()?;
    if version != VERSION {
        return Err(DecodeError::Version { what: WHAT, version });
    }
    let [flags] = reader.array()?;
    if flags & !ALL_FLAGS != 0 {
        return Err(DecodeError::Flags { what: WHAT, flags });
    }
    let schema = narrow(reader.zigzag()?)?;
    let zero_threshold = reader.double()?;
    let sum = reader.double()?;
    let start_timestamp = if flags & START != 0 { reader.zigzag()? } else { 0 };
    let positive_spans = read_spans(&mut reader)?;
    let negative_spans = read_spans(&mut reader)?;
    let custom_values = if flags & CUSTOM != 0 {
        let number = reader.varint()?;
        read_doubles(&mut reader, number)?
    } else {
        Vec::new()
    };
    let buckets = [span_buckets(&positive_spans), span_buckets(&negative_spans)];
    let counts = if flags & FLOAT != 0 {
        read_float_counts(&mut reader, buckets)?
    } else {
        read_integer_counts(&mut reader, buckets)?
    };
    reader.end()?;
    let histogram = Histogram {
        schema,
        zero_threshold,
        sum,
        reset_hint: ResetHint::from_number(u64::from(flags >> HINT_SHIFT & 3)),
        positive_spans,
        negative_spans,
        custom_values,
        counts,
    };
    histogram.validate()?;
    Ok((histogram, start_timestamp))
}

fn flags(histogram: &Histogram, start_timestamp: i64) -> u8 {
    let mut flags = (histogram.reset_hint as u8) << HINT_SHIFT;
    if histogram.is_float() {
        flags |= FLOAT;
    }
    if !histogram.custom_values.is_empty() {
        flags |= CUSTOM;
    }
    if start_timestamp != 0 {
        flags |= START;
    }
    flags
}

fn push_counts(out: &mut Vec<u8>, counts: &Counts) {
    match counts {
        Counts::Integer { count, zero_count, positive, negative } => {
            push_varint(out, *count);
            push_varint(out, *zero_count);
            for delta in positive.iter().chain(negative) {
                push_zigzag(out, *delta);
            }
        }
        Counts::Float { count, zero_count, positive, negative } => {
            push_doubles(out, &[*count, *zero_count]);
            push_doubles(out, positive);
            push_doubles(out, negative);
        }
    }
}

fn push_doubles(out: &mut Vec<u8>, values: &[f64]) {
    for value in values {
        out.extend_from_slice(&value.to_bits().to_be_bytes());
    }
}

fn read_integer_counts(reader: &mut Reader<'_>, buckets: [u64; 2]) -> Result<Counts, DecodeError> {
    let count = reader.varint()?;
    let zero_count = reader.varint()?;
    let mut deltas = |number| -> Result<Vec<i64>, DecodeError> {
        // Every delta takes at least one byte.
        let number = reader.at_most(number, 1)?;
        (0..number).map(|_| reader.zigzag()).collect()
    };
    let positive = deltas(buckets[0])?;
    let negative = deltas(buckets[1])?;
    Ok(Counts::Integer { count, zero_count, positive, negative })
}

fn read_float_counts(reader: &mut Reader<'_>, buckets: [u64; 2]) -> Result<Counts, DecodeError> {
    Ok(Counts::Float {
        count: reader.double()?,
        zero_count: reader.double()?,
        positive: read_doubles(reader, buckets[0])?,
        negative: read_doubles(reader, buckets[1])?,
    })
}

fn read_doubles(reader: &mut Reader<'_>, number: u64) -> Result<Vec<f64>, DecodeError> {
    let number = reader.at_most(number, 8)?;
    (0..number).map(|_| reader.double()).collect()
}

fn read_spans(reader: &mut Reader<'_>) -> Result<Vec<Span>, DecodeError> {
    let number = reader.varint()?;
    let number = reader.at_most(number, 2)?;
    (0..number)
        .map(|_| {
            let offset = narrow(reader.zigzag()?)?;
            let length = u32::try_from(reader.varint()?)
                .map_err(|_| DecodeError::OutOfRange("span length"))?;
            Ok(Span { offset, length })
        })
        .collect()
}

fn narrow(value: i64) -> Result<i32, DecodeError> {
    i32::try_from(value).map_err(|_| DecodeError::OutOfRange("prom_histogram"))
}

fn span_buckets(spans: &[Span]) -> u64 {
    spans.iter().map(|span| u64::from(span.length)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use promkairos_model::{CUSTOM_BUCKETS_SCHEMA, HistogramError, STALE_NAN_BITS};
    use proptest::prelude::*;

    fn integer() -> Histogram {
        Histogram {
            schema: 3,
            zero_threshold: 0.5,
            sum: -1.0,
            reset_hint: ResetHint::NotReset,
            positive_spans: vec![Span { offset: -2, length: 2 }, Span { offset: 1, length: 1 }],
            negative_spans: vec![Span { offset: 0, length: 1 }],
            custom_values: vec![],
            counts: Counts::Integer {
                count: 236,
                zero_count: 1,
                positive: vec![2, -1, 226],
                negative: vec![5],
            },
        }
    }

    fn custom_float() -> Histogram {
        Histogram {
            schema: CUSTOM_BUCKETS_SCHEMA,
            zero_threshold: 0.0,
            sum: 2.0,
            reset_hint: ResetHint::Gauge,
            positive_spans: vec![Span { offset: 0, length: 1 }],
            negative_spans: vec![],
            custom_values: vec![1.0],
            counts: Counts::Float {
                count: 0.5,
                zero_count: 0.0,
                positive: vec![0.5],
                negative: vec![],
            },
        }
    }

    fn check(histogram: &Histogram, start_timestamp: i64, want: &[u8]) {
        assert_eq!(encode(histogram, start_timestamp).as_deref(), Ok(want));
        assert_eq!(decode(want), Ok((histogram.clone(), start_timestamp)));
    }

    #[test]
    fn an_integer_histogram() {
        let want = [
            &[0x01, 0x04, 0x06][..],
            &0.5f64.to_be_bytes(),
            &(-1.0f64).to_be_bytes(),
            &[2, 3, 2, 2, 1],
            &[1, 0, 1],
            &[0xec, 0x01, 1],
            &[4, 1, 0xc4, 0x03, 10],
        ];
        check(&integer(), 0, &want.concat());
    }

    #[test]
    fn a_float_histogram_with_custom_values_and_a_start() {
        let want = [
            &[0x01, 0x1f, 105][..],
            &[0; 8],
            &2.0f64.to_be_bytes(),
            &[20],
            &[1, 0, 1],
            &[0],
            &[1],
            &1.0f64.to_be_bytes(),
            &0.5f64.to_be_bytes(),
            &[0; 8],
            &0.5f64.to_be_bytes(),
        ];
        check(&custom_float(), 10, &want.concat());
    }

    #[test]
    fn a_stale_marker_keeps_its_bits() {
        let stale = Histogram { sum: f64::from_bits(STALE_NAN_BITS), ..integer() };
        let bytes = encode(&stale, 0).expect("valid");
        let (read, _) = decode(&bytes).expect("just written");
        assert!(read.is_stale());
        assert_eq!(read, stale);
    }

    #[test]
    fn what_is_refused() {
        let mut odd = integer();
        odd.positive_spans.pop();
        assert_eq!(encode(&odd, 0), Err(EncodeError::HistogramShape));

        let good = encode(&integer(), 0).expect("valid");
        let with = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            decode(&bytes)
        };
        let what = "prom_histogram";
        assert_eq!(with(0, 2), Err(DecodeError::Version { what, version: 2 }));
        assert_eq!(with(1, 0x84), Err(DecodeError::Flags { what, flags: 0x84 }));
        let count = HistogramError::CountMismatch { buckets: 236, count: 235 };
        assert_eq!(with(27, 0xeb), Err(DecodeError::Histogram(count)));
        let longer = [&good[..], &[0]].concat();
        assert_eq!(decode(&longer), Err(DecodeError::TrailingBytes { what, bytes: 1 }));
        for len in 0..good.len() {
            assert_eq!(decode(&good[..len]), Err(DecodeError::Truncated(what)), "{len}");
        }
    }

    #[test]
    fn declared_lengths_are_not_believed() {
        let mut bytes = vec![1, 0, 0];
        bytes.extend_from_slice(&[0; 16]);
        let huge = [0xff, 0xff, 0xff, 0xff, 0x0f];
        // A span of 2^32 - 1 buckets, and the same number of spans.
        let span = [&bytes[..], &[1, 0], &huge, &[0, 0, 0]].concat();
        assert_eq!(decode(&span), Err(DecodeError::Truncated("prom_histogram")));
        let spans = [&bytes[..], &huge].concat();
        assert_eq!(decode(&spans), Err(DecodeError::Truncated("prom_histogram")));
    }

    fn spans(lengths: &[(i32, u32)]) -> Vec<Span> {
        lengths.iter().map(|&(offset, length)| Span { offset, length }).collect()
    }

    /// The number of counts that the spans need, from a supply that is repeated.
    fn counts_for(spans: &[Span], supply: &[u32]) -> Vec<u32> {
        let number = span_buckets(spans) as usize;
        supply.iter().copied().cycle().take(number).collect()
    }

    fn deltas(counts: &[u32]) -> Vec<i64> {
        let before = std::iter::once(&0).chain(counts);
        counts.iter().zip(before).map(|(b, a)| i64::from(*b) - i64::from(*a)).collect()
    }

    fn integer_counts(zero: u32, positive: &[u32], negative: &[u32]) -> Counts {
        let all = positive.iter().chain(negative).chain([&zero]);
        Counts::Integer {
            count: all.map(|count| u64::from(*count)).sum(),
            zero_count: zero.into(),
            positive: deltas(positive),
            negative: deltas(negative),
        }
    }

    fn float_counts(zero: u32, positive: &[u32], negative: &[u32]) -> Counts {
        let halves = |counts: &[u32]| counts.iter().map(|c| f64::from(*c) / 2.0).collect();
        Counts::Float {
            count: f64::NAN,
            zero_count: f64::from(zero) / 2.0,
            positive: halves(positive),
            negative: halves(negative),
        }
    }

    fn any_histogram() -> impl Strategy<Value = Histogram> {
        use prop::collection::vec;
        let side = || vec((0..50i32, 0..5u32), 0..4);
        (side(), side(), -9..50i32, vec(any::<u32>(), 1..9), any::<(u64, u32, bool, bool)>())
            .prop_map(|(positive, negative, first, supply, (sum, zero, float, custom))| {
                let (mut positive, mut negative) = (spans(&positive), spans(&negative));
                let mut custom_values = Vec::new();
                let mut zero = zero;
                if custom {
                    (negative, zero) = (Vec::new(), 0);
                    let extent: u32 =
                        positive.iter().map(|s| s.offset.unsigned_abs() + s.length).sum();
                    custom_values = (0..extent).map(|bound| f64::from(bound) - 7.5).collect();
                } else if let Some(span) = positive.first_mut() {
                    span.offset = first;
                }
                let buckets = (counts_for(&positive, &supply), counts_for(&negative, &supply));
                let counts = if float { float_counts } else { integer_counts };
                Histogram {
                    schema: if custom { CUSTOM_BUCKETS_SCHEMA } else { first.clamp(-4, 8) },
                    zero_threshold: if custom { 0.0 } else { f64::from(zero) },
                    sum: f64::from_bits(sum),
                    reset_hint: ResetHint::from_number(sum & 3),
                    counts: counts(zero, &buckets.0, &buckets.1),
                    positive_spans: positive,
                    negative_spans: negative,
                    custom_values,
                }
            })
    }

    proptest! {
        #[test]
        fn round_trip(histogram in any_histogram(), start_timestamp: i64) {
            prop_assert_eq!(histogram.validate(), Ok(()));
            let bytes = encode(&histogram, start_timestamp).expect("spans and buckets agree");
            prop_assert_eq!(decode(&bytes), Ok((histogram, start_timestamp)));
        }

        #[test]
        fn hostile_bytes(flags in 0..0x20u8, tail in prop::collection::vec(0..4u8, 0..80)) {
            let _ = decode(&tail);
            let _ = decode(&[&[1, flags][..], &tail].concat());
        }

        #[test]
        fn damage(
            histogram in any_histogram(), at: prop::sample::Index, byte: u8,
        ) {
            let mut bytes = encode(&histogram, 0).expect("spans and buckets agree");
            let at = at.index(bytes.len());
            bytes[at] = byte;
            if let Ok((read, start)) = decode(&bytes) {
                prop_assert_eq!(read.validate(), Ok(()));
                prop_assert!(encode(&read, start).is_ok());
            }
        }
    }
}
