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
//! The hint belongs to the first histogram and was determined when the chunk was written. It refers to the chunk
//! before, which may have changed since, so the first histogram is read as unknown, or as a gauge. The other
//! histograms were compared with their predecessors: they are read as not reset, or as gauges. So a chunk ends where
//! the counter was reset. A stale marker keeps only its time and sum: it is read as an empty histogram with the
//! unknown hint, and only stale markers may follow.

mod appender;
mod columns;
mod hint;
mod reader;

pub use appender::{Appended, HistogramAppender};
pub(super) use reader::HistogramReader;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::Chunk;
    use promkairos_model::{
        CUSTOM_BUCKETS_SCHEMA, Counts, Histogram, ResetHint, STALE_NAN_BITS, Span,
    };

    pub(super) const T: i64 = 1_700_000_000_000;

    pub(super) fn spans(spans: &[(i32, u32)]) -> Vec<Span> {
        spans.iter().map(|&(offset, length)| Span { offset, length }).collect()
    }

    pub(super) fn integer(count: u64, sum: f64, positive: &[i64]) -> Histogram {
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

    pub(super) fn float(count: f64, sum: f64, positive: &[f64]) -> Histogram {
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

    /// The histogram as read from any position but the first of a chunk.
    fn later(histogram: Histogram) -> Histogram {
        Histogram { reset_hint: ResetHint::NotReset, ..histogram }
    }

    pub(super) fn stale(of: &Histogram) -> Histogram {
        Histogram { sum: f64::from_bits(STALE_NAN_BITS), ..of.clone() }
    }

    /// A stale marker as read.
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
    fn what_the_first_says_of_another_chunk_is_not_read() {
        let (a, b) = (integer(4, 5.0, &[1, 1, -1]), integer(6, 6.0, &[2, 1, -2]));
        for (hint, flags, read_back) in [
            (ResetHint::Unknown, 0x00, [ResetHint::Unknown, ResetHint::NotReset]),
            (ResetHint::Reset, 0x80, [ResetHint::Unknown, ResetHint::NotReset]),
            (ResetHint::NotReset, 0x00, [ResetHint::Unknown, ResetHint::NotReset]),
            (ResetHint::Gauge, 0xc0, [ResetHint::Gauge, ResetHint::Gauge]),
        ] {
            let a = Histogram { reset_hint: hint, ..a.clone() };
            let gauge = hint == ResetHint::Gauge;
            let hint_b = if gauge { ResetHint::Gauge } else { ResetHint::Unknown };
            let b = Histogram { reset_hint: hint_b, ..b.clone() };
            let chunk = encode(&[(T, &a), (T + 1, &b)]);
            assert_eq!(chunk.data[2], flags);
            let read: Vec<_> = decode(&chunk).into_iter().map(|(_, h)| h.reset_hint).collect();
            assert_eq!(read, read_back);
            // As written by versions that trusted the hint of the sender.
            let mut data = chunk.data.to_vec();
            if hint != ResetHint::Gauge {
                data[2] = 0x40;
            }
            let old = Chunk { data: data.into(), ..chunk };
            let read: Vec<_> = decode(&old).into_iter().map(|(_, h)| h.reset_hint).collect();
            assert_eq!(read, read_back);
        }
    }
}
