//! Cuts the chunks of a series to a closed range of time.
//!
//! No chunk that is sent has a point outside of the range. The protocol does not fix chunk boundaries, so a chunk that
//! crosses an end of the range is encoded anew.

use promkairos_chunk::{Chunk, ChunkError, ChunkKind, encode_points};
use promkairos_model::{Point, ResetHint, TimeRange, Value};
use promkairos_promql::histogram::FloatHistogram;

/// How far outside of a range points are read, in milliseconds: enough to find the neighbouring sample of a
/// series unless its samples are rare.
const REACH: i64 = 5 * 60 * 1000;

/// The chunks that overlap `range`; `chunks` rise in time.
pub(super) fn overlapping(chunks: &[Chunk], range: TimeRange) -> &[Chunk] {
    let start = chunks.partition_point(|chunk| chunk.max_time < range.start);
    let end = chunks.partition_point(|chunk| chunk.min_time <= range.end);
    chunks.get(start..end).unwrap_or_default()
}

/// The points in `range`, in chunks of kinds that the protocol knows; `chunks` rise in time.
pub(super) fn of_protocol(chunks: &[Chunk], range: TimeRange) -> Result<Vec<Chunk>, ChunkError> {
    let chunks = overlapping(chunks, range);
    let mut sent: Vec<Chunk> = Vec::with_capacity(chunks.len());
    for chunk in chunks {
        let whole = range.contains(chunk.min_time) && range.contains(chunk.max_time);
        if whole && chunk.kind != ChunkKind::Packed {
            let chunk = as_compared(chunk, sent.last())?;
            sent.push(chunk);
        } else {
            sent.extend(encode_points(&points_in(chunk, range)?));
        }
    }
    // Prometheus gives no reset hint for the newest chunk either, because it is still being written.
    if let Some(last) = sent.last_mut() {
        *last = last.without_reset_before();
    }
    Ok(sent)
}

fn points_in(chunk: &Chunk, range: TimeRange) -> Result<Vec<Point>, ChunkError> {
    let inside = |point: &Result<Point, _>| match point {
        Ok(point) => point.timestamp <= range.end,
        Err(_) => true,
    };
    let points = chunk.points().take_while(inside);
    points.filter(|point| !matches!(point, Ok(point) if point.timestamp < range.start)).collect()
}

/// The chunk, with the hint "counter reset" only if that holds against the chunk that is sent before it.
fn as_compared(chunk: &Chunk, before: Option<&Chunk>) -> Result<Chunk, ChunkError> {
    let is_true = match (chunk.reset_before(), before) {
        (ResetHint::Unknown | ResetHint::Gauge, _) => true,
        (ResetHint::Reset, Some(before)) => {
            let last = before.points().last().transpose()?;
            let first = chunk.points().next().transpose()?;
            match (last.as_ref().and_then(histogram), first.as_ref().and_then(histogram)) {
                (Some(last), Some(first)) => first.is_reset_after(&last),
                _ => false,
            }
        }
        (ResetHint::Reset | ResetHint::NotReset, _) => false,
    };
    Ok(if is_true { chunk.clone() } else { chunk.without_reset_before() })
}

fn histogram(point: &Point) -> Option<FloatHistogram> {
    match &point.value {
        Value::Histogram(histogram) => Some(FloatHistogram::from(&**histogram)),
        Value::Float(_) => None,
    }
}

/// The range to read for the samples of `asked`. It begins earlier, because the hint of the first sample refers to the
/// sample before. If `asked` ends before it starts, the range covers all between and [`REACH`] more at both ends.
pub(super) fn around(asked: TimeRange) -> TimeRange {
    match asked.is_empty() {
        true => TimeRange::new(asked.end.saturating_sub(REACH), asked.start.saturating_add(REACH)),
        false => TimeRange::new(asked.start.saturating_sub(REACH), asked.end),
    }
}

/// The reset hint of the first histogram in a range. `before` is the time of the previous sample in its chunk. If
/// that sample is missing or before the range [`around`] `asked`, another may lie between, and the hint is dropped.
pub(super) fn first_hint(said: ResetHint, before: Option<i64>, asked: TimeRange) -> ResetHint {
    let is_known = before.is_some_and(|before| before >= around(asked).start);
    if is_known { said } else { said.alone() }
}

/// Whether a series begins before the end of a range that ends before it starts, and continues until the start.
/// Prometheus returns such a series, without samples. `chunks` were read [`around`] the range.
pub(super) fn reaches_over(chunks: &[Chunk], reversed: TimeRange) -> bool {
    let (first, last) = (chunks.first(), chunks.last());
    first.is_some_and(|chunk| chunk.min_time <= reversed.end)
        && last.is_some_and(|chunk| chunk.max_time >= reversed.start)
}

/// Whether any of the `chunks` has a point in the range.
pub(super) fn has_point(chunks: &[Chunk], range: TimeRange) -> Result<bool, ChunkError> {
    for chunk in chunks {
        if chunk.has_point_in(range)? {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use promkairos_chunk::{Floats, pack};
    use promkairos_model::{CUSTOM_BUCKETS_SCHEMA, Counts, Histogram, Sample, Span};

    fn chunk(times: &[i64]) -> Chunk {
        let points: Vec<Point> = times
            .iter()
            .map(|&timestamp| Sample { timestamp, start_timestamp: 0, value: 1.0 }.into())
            .collect();
        let mut chunks = encode_points(&points);
        assert_eq!(chunks.len(), 1);
        chunks.remove(0)
    }

    #[test]
    fn a_range_cuts_whole_chunks_only() {
        let chunks = [chunk(&[10, 20, 30]), chunk(&[40, 60]), chunk(&[70])];
        let check = |start, end, want: &[i64], found: bool| {
            let range = TimeRange::new(start, end);
            let inside = overlapping(&chunks, range);
            let starts: Vec<i64> = inside.iter().map(|chunk| chunk.min_time).collect();
            assert_eq!((starts.as_slice(), has_point(inside, range)), (want, Ok(found)));
        };
        check(0, 100, &[10, 40, 70], true);
        check(30, 40, &[10, 40], true);
        check(31, 39, &[], false);
        check(20, 20, &[10], true);
        check(21, 29, &[10], false);
        check(41, 59, &[40], false);
        check(70, i64::MAX, &[70], true);
        check(i64::MIN, 9, &[], false);
        check(50, 10, &[], false);
    }

    #[test]
    fn a_range_that_ends_before_it_starts_is_within_a_series() {
        let chunks = [chunk(&[10, 20, 30]), chunk(&[40, 60])];
        let check = |start, end, want| {
            assert_eq!(reaches_over(&chunks, TimeRange::new(start, end)), want, "{start} {end}");
        };
        check(30, 20, true);
        check(60, 10, true);
        check(25, 24, true);
        check(61, 60, false);
        check(10, 9, false);
        assert!(!reaches_over(&[], TimeRange::new(2, 1)));
        let all = around(TimeRange::new(i64::MAX, i64::MIN));
        assert_eq!((all.start, all.end), (i64::MIN, i64::MAX));
    }

    #[test]
    fn the_first_of_a_range_speaks_of_a_sample_that_was_read() {
        use ResetHint::{Gauge, NotReset, Unknown};
        let asked = TimeRange::new(REACH, REACH + 9);
        for (said, before, want) in [
            (NotReset, Some(0), NotReset),
            (NotReset, Some(-1), Unknown),
            (NotReset, None, Unknown),
            (Gauge, Some(-1), Gauge),
            (Unknown, Some(0), Unknown),
        ] {
            assert_eq!(first_hint(said, before, asked), want, "{said:?} {before:?}");
        }
    }

    /// The points that are sent of `chunks`; checks their order, their range, and the times of each chunk.
    fn sent(chunks: &[Chunk], range: TimeRange) -> Vec<Point> {
        let sent = of_protocol(chunks, range).expect("own bytes");
        let mut points: Vec<Point> = Vec::new();
        for chunk in &sent {
            assert_eq!(chunk.validate(), Ok(()));
            assert!(chunk.kind != ChunkKind::Packed);
            assert!(range.contains(chunk.min_time) && range.contains(chunk.max_time));
            let own = chunk.points().collect::<Result<Vec<_>, _>>().expect("own bytes");
            let reset = match (points.last().and_then(histogram), histogram(&own[0])) {
                (Some(last), Some(first)) => first.is_reset_after(&last),
                _ => false,
            };
            let says = chunk.reset_before();
            assert!(says != ResetHint::NotReset && (says != ResetHint::Reset || reset));
            points.extend(own);
        }
        points
    }

    fn histogram_point(timestamp: i64, count: u64, kind: u8) -> Point {
        let (positive, negative) = (vec![count as i64], vec![]);
        let counts = match kind % 2 {
            0 => Counts::Integer { count, zero_count: 0, positive, negative },
            _ => {
                let positive = vec![count as f64];
                Counts::Float { count: count as f64, zero_count: 0.0, positive, negative: vec![] }
            }
        };
        let custom = kind >= 2;
        let histogram = Histogram {
            schema: if custom { CUSTOM_BUCKETS_SCHEMA } else { 0 },
            zero_threshold: 0.0,
            sum: count as f64,
            reset_hint: ResetHint::Unknown,
            positive_spans: vec![Span { offset: 0, length: 1 }],
            negative_spans: vec![],
            custom_values: if custom { vec![1.0] } else { vec![] },
            counts,
        };
        Point { timestamp, start_timestamp: 0, value: Value::Histogram(Arc::new(histogram)) }
    }

    proptest! {
        #[test]
        fn nothing_is_sent_of_times_outside_of_the_range(
            runs in prop::collection::vec((0u8..6, prop::collection::vec((1i64..4, 0u64..9), 1..9)), 1..6),
            start in -2i64..90,
            length in 0i64..90,
        ) {
            let (mut time, mut all, mut chunks) = (0, Vec::new(), Vec::new());
            for (kind, steps) in runs {
                let mut run = Vec::new();
                for (step, number) in steps {
                    time += step;
                    run.push(match kind {
                        0..4 => histogram_point(time, number, kind),
                        _ => Sample { timestamp: time, start_timestamp: 0, value: number as f64 }.into(),
                    });
                }
                let encoded = encode_points(&run);
                match kind {
                    5 => {
                        let floats = Floats::of(&encoded).expect("own bytes");
                        chunks.push(pack(&floats, 0..run.len()).expect("decimal numbers"));
                    }
                    _ => chunks.extend(encoded),
                }
                all.extend(run);
            }
            let range = TimeRange::new(start, start + length);
            let bare = |points: Vec<Point>| -> Vec<(i64, Value)> {
                let bare = |mut point: Point| {
                    if let Value::Histogram(histogram) = &mut point.value {
                        Arc::make_mut(histogram).reset_hint = ResetHint::Unknown;
                    }
                    (point.timestamp, point.value)
                };
                points.into_iter().map(bare).collect()
            };
            all.retain(|point: &Point| range.contains(point.timestamp));
            prop_assert_eq!(bare(sent(&chunks, range)), bare(all));
        }
    }

    #[test]
    fn a_reset_is_told_of_the_chunk_that_is_sent_before() {
        let run = [(1, 9), (2, 1), (3, 2), (4, 0)];
        let run = run.map(|(time, count)| histogram_point(time, count, 0));
        let chunks = encode_points(&run);
        let says = |chunks: &[Chunk], range: TimeRange| -> Vec<ResetHint> {
            let sent = of_protocol(chunks, range).expect("own bytes");
            sent.iter().map(Chunk::reset_before).collect()
        };
        use ResetHint::{Reset, Unknown};
        assert_eq!(says(&chunks, TimeRange::new(1, 4)), [Unknown, Reset, Unknown]);
        assert_eq!(says(&chunks, TimeRange::new(2, 4)), [Unknown; 2], "nothing is sent before");
        let late = encode_points(&[histogram_point(1, 0, 0)]);
        let chunks = [late[0].clone(), chunks[1].clone(), chunks[2].clone()];
        assert_eq!(says(&chunks, TimeRange::new(1, 4)), [Unknown; 3], "another was before");
    }
}
