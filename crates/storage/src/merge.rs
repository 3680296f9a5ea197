//! Merges the chunks of one series, and cuts a time range out of them.
//!
//! Both decode only the chunks that need it: chunks that overlap, or that contain an end of the range. The results
//! strictly rise in time.
//!
//! A reset hint refers to the point before, which may change in a merge or a cut. So reading a chunk returns no hint
//! about the previous chunk, and encoding derives the other hints from the values.

use promkairos_chunk::{Chunk, ChunkError, StampedPoint, encode_stamped};
use promkairos_model::TimeRange;

/// Merges chunks that may overlap, in order of precedence: of two points at one time, the point of
/// the later chunk in the list wins. The result rises in time from chunk to chunk.
pub fn merge(chunks: Vec<Chunk>) -> Result<Vec<Chunk>, ChunkError> {
    if chunks.is_sorted_by(|a, b| a.max_time < b.min_time) {
        return Ok(chunks);
    }
    let mut order: Vec<usize> = (0..chunks.len()).collect();
    order.sort_by_key(|&at| chunks[at].min_time);
    let mut merged = Vec::with_capacity(chunks.len());
    let mut rest = &mut order[..];
    while !rest.is_empty() {
        let (group, others) = rest.split_at_mut(overlapping(rest, &chunks));
        if let [single] = *group {
            // Cheap: the bytes are shared.
            merged.push(chunks[single].clone());
        } else {
            group.sort_unstable();
            let chunks: Vec<&Chunk> = group.iter().map(|&at| &chunks[at]).collect();
            merged.extend(interleave(&chunks)?);
        }
        rest = others;
    }
    Ok(merged)
}

/// Removes all points in `removed`. Chunks may overlap; they keep their order, and empty chunks are
/// removed.
pub fn cut(chunks: Vec<Chunk>, removed: TimeRange) -> Result<Vec<Chunk>, ChunkError> {
    let mut kept = Vec::with_capacity(chunks.len());
    for chunk in chunks {
        let range = chunk.range();
        if removed.is_empty() || !range.overlaps(&removed) {
            kept.push(chunk);
        } else if !(removed.contains(range.start) && removed.contains(range.end)) {
            let mut entries = Vec::with_capacity(usize::from(chunk.count));
            decode(&chunk, &mut entries)?;
            entries.retain(|entry| !removed.contains(entry.point.timestamp));
            kept.extend(encode_stamped(&entries));
        }
    }
    Ok(kept)
}

/// How many of the first chunks in `order` (sorted by first time) form one group of overlapping chunks.
fn overlapping(order: &[usize], chunks: &[Chunk]) -> usize {
    let mut end = chunks[order[0]].max_time;
    let mut count = 1;
    while let Some(&next) = order.get(count) {
        if chunks[next].min_time > end {
            break;
        }
        end = end.max(chunks[next].max_time);
        count += 1;
    }
    count
}

/// Merges chunks in order of precedence, point by point.
fn interleave(chunks: &[&Chunk]) -> Result<Vec<Chunk>, ChunkError> {
    let mut entries = Vec::with_capacity(chunks.iter().map(|c| usize::from(c.count)).sum());
    for chunk in chunks {
        decode(chunk, &mut entries)?;
    }
    // A stable sort keeps the order of precedence at equal times; the last point wins.
    entries.sort_by_key(|entry| entry.point.timestamp);
    entries.dedup_by(|later, kept| {
        let same = later.point.timestamp == kept.point.timestamp;
        if same {
            std::mem::swap(later, kept);
        }
        same
    });
    Ok(encode_stamped(&entries))
}

fn decode(chunk: &Chunk, entries: &mut Vec<StampedPoint>) -> Result<(), ChunkError> {
    for stamped in chunk.stamped_points() {
        entries.push(stamped?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use promkairos_chunk::{ChunkBuilder, encode_points};
    use promkairos_model::{Counts, Histogram, Point, ResetHint, Value};

    fn float(timestamp: i64, value: f64) -> Point {
        Point { timestamp, start_timestamp: 0, value: Value::Float(value) }
    }

    fn histogram(timestamp: i64, count: u64, reset_hint: ResetHint) -> Point {
        let counts =
            Counts::Integer { count, zero_count: count, positive: vec![], negative: vec![] };
        let histogram = Histogram {
            schema: 0,
            zero_threshold: 0.0,
            sum: 1.0,
            reset_hint,
            positive_spans: vec![],
            negative_spans: vec![],
            custom_values: vec![],
            counts,
        };
        Point { timestamp, start_timestamp: 0, value: Value::Histogram(Arc::new(histogram)) }
    }

    fn one(points: &[Point]) -> Chunk {
        let mut chunks = encode_points(points);
        assert_eq!(chunks.len(), 1);
        chunks.remove(0)
    }

    fn points(chunks: &[Chunk]) -> Vec<Point> {
        chunks.iter().flat_map(Chunk::points).collect::<Result<_, _>>().expect("readable")
    }

    fn hints(chunks: &[Chunk]) -> Vec<ResetHint> {
        let hint = |point: Point| match point.value {
            Value::Histogram(histogram) => histogram.reset_hint,
            Value::Float(_) => ResetHint::Unknown,
        };
        points(chunks).into_iter().map(hint).collect()
    }

    #[test]
    fn what_does_not_overlap_is_not_touched() {
        let mut a = one(&[float(1, 1.0), float(2, 1.0)]);
        let mut b = one(&[float(3, 1.0)]);
        // Invalid bytes: decoding them would fail.
        a.data = bytes::Bytes::from_static(b"a");
        b.data = bytes::Bytes::from_static(b"b");
        assert_eq!(merge(vec![b.clone(), a.clone()]), Ok(vec![a.clone(), b.clone()]));
        assert_eq!(cut(vec![a.clone()], TimeRange::new(3, 9)), Ok(vec![a.clone()]));
        assert_eq!(cut(vec![a.clone()], TimeRange::new(2, 1)), Ok(vec![a.clone()]));
        assert_eq!(cut(vec![a.clone(), b.clone()], TimeRange::new(1, 2)), Ok(vec![b.clone()]));
        assert!(cut(vec![a.clone()], TimeRange::new(2, 9)).is_err());
        assert!(merge(vec![a.clone(), a]).is_err());
    }

    #[test]
    fn hints_are_found_out_again() {
        use ResetHint::{NotReset, Reset, Unknown};
        let a = one(&[histogram(1, 10, Reset), histogram(5, 20, NotReset)]);
        let b = one(&[histogram(3, 1, NotReset), histogram(7, 30, NotReset)]);
        let merged = merge(vec![a.clone(), b]).expect("readable");
        assert_eq!(hints(&merged), [Unknown, Unknown, NotReset, NotReset]);
        assert_eq!(merged.len(), 2, "a chunk ends where the counter fell");
        let rest = cut(vec![a], TimeRange::new(0, 4)).expect("readable");
        assert_eq!(hints(&rest), [Unknown]);
    }

    fn any_point() -> impl Strategy<Value = StampedPoint> {
        let time = prop_oneof![9 => -40i64..40, 1 => Just(i64::MIN), 1 => Just(i64::MAX)];
        (time, 0u64..6, 0u64..3, 0..3, 0i64..3).prop_map(|(timestamp, count, hint, kind, stamp)| {
            let point = match kind {
                0 => float(timestamp, count as f64),
                1 => histogram(timestamp, count, ResetHint::from_number(hint * 3)),
                _ => {
                    let long = (1 << 53) + count as i64;
                    return StampedPoint::of_long(timestamp, long, stamp);
                }
            };
            let point = Point { start_timestamp: stamp * 7, ..point };
            StampedPoint { point, long: None, stamp }
        })
    }

    /// Chunks with sorted points each, and the points in them.
    fn any_chunks() -> impl Strategy<Value = (Vec<Chunk>, BTreeMap<i64, StampedPoint>)> {
        let run = prop::collection::vec(any_point(), 1..8);
        prop::collection::vec(run, 0..8).prop_map(|runs| {
            let (mut chunks, mut naive) = (Vec::new(), BTreeMap::new());
            for mut run in runs {
                run.sort_by_key(|entry| entry.point.timestamp);
                run.dedup_by_key(|entry| entry.point.timestamp);
                let mut builder = ChunkBuilder::default();
                for entry in run {
                    builder.push_stamped(&entry);
                    naive.insert(entry.point.timestamp, entry);
                }
                chunks.extend(builder.finish());
            }
            (chunks, naive)
        })
    }

    fn stamped(chunks: &[Chunk]) -> Vec<StampedPoint> {
        let all: Result<Vec<_>, _> = chunks.iter().flat_map(Chunk::stamped_points).collect();
        all.expect("readable").into_iter().map(bare).collect()
    }

    fn bare(mut entry: StampedPoint) -> StampedPoint {
        if let Value::Histogram(histogram) = &mut entry.point.value {
            let histogram = Arc::make_mut(histogram);
            histogram.reset_hint = histogram.reset_hint.alone();
        }
        entry
    }

    proptest! {
        #[test]
        fn as_a_map_would((chunks, naive) in any_chunks()) {
            let merged = merge(chunks).expect("readable");
            prop_assert!(merged.is_sorted_by(|a, b| a.max_time < b.min_time));
            for chunk in &merged {
                prop_assert_eq!(chunk.validate(), Ok(()));
            }
            let naive: Vec<_> = naive.into_values().map(bare).collect();
            prop_assert_eq!(stamped(&merged), naive);
        }

        #[test]
        fn cut_takes_the_range((chunks, naive) in any_chunks(), start in -45i64..45, length in -2i64..50) {
            let removed = TimeRange::new(start, start + length);
            let left = merge(cut(chunks, removed).expect("readable")).expect("readable");
            let naive: Vec<_> = naive
                .into_values()
                .filter(|entry| !removed.contains(entry.point.timestamp))
                .map(bare)
                .collect();
            prop_assert_eq!(stamped(&left), naive);
        }
    }
}
