//! Tests: points are encoded and decoded without loss, and any bytes are read without harm.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use promkairos::chunk::{
    Appended, Chunk, ChunkKind, OpenChunk, SideKind, StampedPoint, XorAppender, encode_points,
    encode_stamped,
};
use promkairos::limits::MAX_CHUNK_POINTS;
use promkairos::model::{
    CUSTOM_BUCKETS_SCHEMA, Counts, Histogram, Point, ResetHint, STALE_NAN_BITS, Span, Value,
};
use proptest::prelude::*;

use crate::support::long;

/// Random bits, small whole numbers, and the special values.
fn floats() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => (0i32..50).prop_map(f64::from),
        2 => any::<u64>().prop_map(f64::from_bits),
        1 => Just(f64::from_bits(STALE_NAN_BITS)),
        1 => prop::sample::select(vec![f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -0.0]),
    ]
}

/// Rising times: even, jittered, and with random jumps.
fn times(most: usize) -> impl Strategy<Value = Vec<i64>> {
    let even = (any::<i32>(), 1i64..100_000, 1..=most, 0i64..20).prop_map(
        |(start, step, count, jitter)| {
            let time = |i| i64::from(start) * 1000 + i * (step + 20) + (i * 7919) % (jitter + 1);
            (0..count as i64).map(time).collect::<BTreeSet<_>>().into_iter().collect()
        },
    );
    let wild = prop::collection::btree_set(
        prop_oneof![any::<i64>(), Just(i64::MIN), Just(i64::MAX), -50i64..50],
        1..=most,
    );
    prop_oneof![even, wild.prop_map(|times| times.into_iter().collect())]
}

fn hints() -> impl Strategy<Value = ResetHint> {
    (0u64..4).prop_map(ResetHint::from_number)
}

/// Histograms of a few layouts, so that neighbours often share one.
fn histograms() -> impl Strategy<Value = Histogram> {
    let counts = prop::collection::vec(0i64..9, 5);
    (0usize..4, any::<bool>(), floats(), hints(), counts).prop_map(
        |(layout, float, sum, reset_hint, counts)| {
            let positive = vec![Span { offset: -3, length: 2 }, Span { offset: 4, length: 1 }];
            let negative = vec![Span { offset: 0, length: 2 }];
            let (schema, zero_threshold, positive_spans, negative_spans) = match layout {
                0 => (3, 0.001, positive, negative),
                1 => (-4, 2f64.powi(-128), positive, vec![]),
                2 => (CUSTOM_BUCKETS_SCHEMA, 0.0, positive, vec![]),
                _ => (0, 0.0, vec![], vec![]),
            };
            let sides = |spans: &[Span]| -> usize { spans.iter().map(|s| s.length as usize).sum() };
            let (p, n) = (sides(&positive_spans), sides(&negative_spans));
            let number = if layout == 2 { 12 } else { 0 };
            let custom_values = (0..number).map(|i| f64::from(i) * 0.7 - 1.0).collect();
            let (total, zero) = (counts.iter().sum::<i64>() as u64, counts[0] as u64);
            let (positive, negative) = (&counts[..p], &counts[p..p + n]);
            let absolute = |side: &[i64]| side.iter().map(|&count| count as f64).collect();
            let counts = if float {
                Counts::Float {
                    count: total as f64,
                    zero_count: zero as f64,
                    positive: absolute(positive),
                    negative: absolute(negative),
                }
            } else {
                Counts::Integer {
                    count: total,
                    zero_count: zero,
                    positive: positive.to_vec(),
                    negative: negative.to_vec(),
                }
            };
            Histogram {
                schema,
                zero_threshold,
                sum,
                reset_hint,
                positive_spans,
                negative_spans,
                custom_values,
                counts,
            }
        },
    )
}

fn values() -> impl Strategy<Value = Value> {
    prop_oneof![
        2 => floats().prop_map(Value::Float),
        3 => histograms().prop_map(|histogram| Value::Histogram(Arc::new(histogram))),
    ]
}

/// Points with acceptance times; some are integers.
fn stamped_points(most: usize) -> impl Strategy<Value = Vec<StampedPoint>> {
    let side = || prop_oneof![3 => Just(0i64), 2 => Just(1_700_000_000_000), 1 => any::<i64>()];
    let long = prop_oneof![-1_000i64..1_000, any::<i64>(), (1i64 << 53)..(1 << 53) + 9];
    let long = prop_oneof![2 => Just(None), 1 => long.prop_map(Some)];
    let rest = prop::collection::vec((values(), side(), side(), long), most);
    (times(most), rest).prop_map(|(times, rest)| {
        let point = |(timestamp, (value, start_timestamp, stamp, long))| match long {
            Some(long) => StampedPoint::of_long(timestamp, long, stamp),
            None => {
                let point = Point { timestamp, start_timestamp, value };
                StampedPoint { point, long: None, stamp }
            }
        };
        times.into_iter().zip(rest).map(point).collect()
    })
}

/// The point without a hint that the chunk does not keep.
fn without_hint(point: &Point) -> Point {
    let Value::Histogram(histogram) = &point.value else { return point.clone() };
    let mut bare = (**histogram).clone();
    let gauge = bare.reset_hint == ResetHint::Gauge;
    bare.reset_hint = if gauge { ResetHint::Gauge } else { ResetHint::Unknown };
    if bare.is_stale() {
        let counts = match bare.counts {
            Counts::Integer { .. } => {
                Counts::Integer { count: 0, zero_count: 0, positive: vec![], negative: vec![] }
            }
            Counts::Float { .. } => {
                Counts::Float { count: 0.0, zero_count: 0.0, positive: vec![], negative: vec![] }
            }
        };
        bare = Histogram {
            schema: 0,
            zero_threshold: 0.0,
            sum: bare.sum,
            reset_hint: ResetHint::Unknown,
            positive_spans: vec![],
            negative_spans: vec![],
            custom_values: vec![],
            counts,
        };
    }
    Point { value: Value::Histogram(Arc::new(bare)), ..*point }
}

fn decode(chunks: &[Chunk]) -> Vec<StampedPoint> {
    chunks.iter().flat_map(Chunk::stamped_points).collect::<Result<_, _>>().expect("readable")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if long() { 4096 } else { 128 }))]

    #[test]
    fn floats_come_back_to_the_bit(
        times in times(300), values in prop::collection::vec(floats(), 300)
    ) {
        let samples: Vec<_> = times.into_iter().zip(values).collect();
        let mut appender = XorAppender::new(samples[0].0, samples[0].1);
        for &(time, value) in &samples[1..] {
            appender.append(time, value);
        }
        let chunk = appender.to_chunk();
        prop_assert_eq!(chunk.validate(), Ok(()));
        let mut read = Vec::new();
        chunk.floats(&mut read).expect("readable");
        let bits = |samples: &[(i64, f64)]| -> Vec<_> {
            samples.iter().map(|&(time, value)| (time, value.to_bits())).collect()
        };
        prop_assert_eq!(bits(&read), bits(&samples));
    }

    #[test]
    fn points_come_back(points in stamped_points(300)) {
        let chunks = encode_stamped(&points);
        for chunk in &chunks {
            prop_assert_eq!(chunk.validate(), Ok(()));
            prop_assert!((1..=MAX_CHUNK_POINTS).contains(&usize::from(chunk.count)));
        }
        prop_assert!(chunks.windows(2).all(|pair| pair[0].max_time < pair[1].min_time));
        let bare = |points: &[StampedPoint]| -> Vec<_> {
            let bare = |entry: &StampedPoint| {
                StampedPoint { point: without_hint(&entry.point), ..entry.clone() }
            };
            points.iter().map(bare).collect()
        };
        prop_assert_eq!(bare(&decode(&chunks)), bare(&points));
    }

    #[test]
    fn an_open_chunk_can_be_read_at_any_time(points in stamped_points(40)) {
        let mut open = OpenChunk::with_stamped(&points[0]);
        let mut first = 0;
        for (i, entry) in points.iter().enumerate().skip(1) {
            if open.push_stamped(entry).is_some() {
                first = i;
            }
            let chunk = open.to_chunk();
            prop_assert_eq!(chunk.validate(), Ok(()));
            prop_assert_eq!(usize::from(chunk.count), i + 1 - first);
            prop_assert_eq!(chunk.max_time, entry.point.timestamp);
        }
    }

    #[test]
    fn damaged_chunks_do_no_harm(
        points in stamped_points(60), at in any::<prop::sample::Index>(), bit in 0u8..8, cut: bool
    ) {
        for mut chunk in encode_stamped(&points) {
            let mut data = chunk.data.to_vec();
            let at = at.index(data.len());
            data[at] ^= 1 << bit;
            if cut {
                data.truncate(at);
            }
            chunk.data = data.into();
            let _ = chunk.validate();
            prop_assert!(chunk.points().count() <= usize::from(chunk.count) + 1);
        }
    }

    #[test]
    fn hostile_bytes_do_no_harm(
        data in prop::collection::vec(any::<u8>(), 0..200), kind in 1u8..4, count: u16, says: bool
    ) {
        let mut data = data;
        if says && data.len() > 2 {
            data[..2].copy_from_slice(&count.to_be_bytes());
        }
        let data = Bytes::from(data);
        let chunk = Chunk {
            kind: ChunkKind::try_from(kind).expect("1 to 3"),
            count,
            min_time: 0,
            max_time: 0,
            side: data.clone().into(),
            side_kind: if count.is_multiple_of(2) { SideKind::Starts } else { SideKind::Longs },
            stamps: data.clone().into(),
            data,
        };
        let _ = chunk.validate();
        prop_assert!(chunk.points().count() <= usize::from(count) + 1);
        prop_assert!(chunk.stamped_points().count() <= usize::from(count) + 1);
        let mut floats = Vec::new();
        let _ = chunk.floats(&mut floats);
        prop_assert!(floats.len() <= usize::from(count));
    }
}

#[test]
fn open_chunks_end_at_the_limit_and_at_repeated_times() {
    let mut open = OpenChunk::with_float(0, 0, 1.0, 0);
    assert_eq!(open.append_float(0, 0, 1.0, 0), Appended::Cut);
    assert_eq!(open.append_float(-1, 0, 1.0, 0), Appended::Cut);
    for i in 1..MAX_CHUNK_POINTS as i64 {
        assert_eq!(open.append_float(i, 0, 1.0, 0), Appended::Yes);
    }
    assert_eq!(open.append_float(1_000_000, 0, 1.0, 0), Appended::Cut);
    assert_eq!(open.count(), MAX_CHUNK_POINTS);
    assert_eq!(open.to_chunk().validate(), Ok(()));
    assert!(size_of::<OpenChunk>() <= 88);
}

#[test]
fn a_detected_reset_marks_the_next_chunk() {
    let histogram = |count| Histogram {
        schema: 0,
        zero_threshold: 0.0,
        sum: 1.0,
        reset_hint: Unknown,
        positive_spans: vec![],
        negative_spans: vec![],
        custom_values: vec![],
        counts: Counts::Integer { count, zero_count: count, positive: vec![], negative: vec![] },
    };
    let points: Vec<_> = [5, 6, 2, 3]
        .into_iter()
        .zip(1..)
        .map(|(count, timestamp)| Point {
            timestamp,
            start_timestamp: 0,
            value: Value::Histogram(Arc::new(histogram(count))),
        })
        .collect();
    let chunks = encode_points(&points);
    let hints: Vec<Vec<_>> = chunks
        .iter()
        .map(|chunk| {
            chunk
                .points()
                .map(|point| match point.expect("readable").value {
                    Value::Histogram(histogram) => histogram.reset_hint,
                    Value::Float(_) => panic!("a histogram was written"),
                })
                .collect()
        })
        .collect();
    use ResetHint::{NotReset, Reset, Unknown};
    assert_eq!(chunks.len(), 2);
    let before: Vec<_> = chunks.iter().map(Chunk::reset_before).collect();
    assert_eq!(before, [Unknown, Reset]);
    // A reader may find another chunk before this one.
    assert_eq!(hints.concat(), [Unknown, NotReset, Unknown, NotReset]);
}
