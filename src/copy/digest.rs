//! Counts and checksums of points that do not depend on how a store keeps the points.
//!
//! A float is hashed by its bits, an integer by its 64 bits. Where one side is a server, which returns integers as
//! floats, an integer is hashed as the nearest float. A native histogram is hashed by its nonempty buckets and their
//! positions, because a chunk adds empty buckets. Its hint about counter resets is left out, because it follows from
//! earlier points; whether it is a gauge is hashed. Stale markers are all the same. The sum over points does not depend
//! on their order.

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::endpoint::Starts;
use crate::chunk::{Chunk, ChunkError, StampedPoint};
use crate::model::{Counts, Histogram, Point, ResetHint, Span, TimeRange, Value, counts_of};

/// Number and checksum of points.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Digest {
    /// Number of points.
    pub(super) points: u64,
    /// Sum of the hashes of the points.
    pub(super) checksum: u64,
}

impl Digest {
    /// The digest of the points of a series in a range, and the number of those whose start timestamp is not kept.
    pub(super) fn of(
        chunks: &[Chunk],
        range: TimeRange,
        starts: Starts,
    ) -> Result<(Self, u64), ChunkError> {
        let (mut digest, mut starts_left_out) = (Self::default(), 0);
        each(chunks, range, starts, |point, hash| {
            digest.points += 1;
            digest.checksum = digest.checksum.wrapping_add(hash);
            starts_left_out += u64::from(starts.kept(point) != point.start_timestamp);
        })?;
        Ok((digest, starts_left_out))
    }

    /// Adds another digest. Values from a file may be arbitrary; counts saturate.
    pub(super) fn add(&mut self, more: Self) {
        self.points = self.points.saturating_add(more.points);
        self.checksum = self.checksum.wrapping_add(more.checksum);
    }
}

/// Times and hashes of the points of a series in a range.
pub(super) fn hashes(
    chunks: &[Chunk],
    range: TimeRange,
    starts: Starts,
) -> Result<Vec<(i64, u64)>, ChunkError> {
    let mut all = Vec::new();
    each(chunks, range, starts, |point, hash| all.push((point.timestamp, hash)))?;
    Ok(all)
}

fn each(
    chunks: &[Chunk],
    range: TimeRange,
    starts: Starts,
    mut visit: impl FnMut(&Point, u64),
) -> Result<(), ChunkError> {
    let mut bytes = Vec::new();
    for chunk in chunks {
        for entry in chunk.stamped_points() {
            let entry = entry?;
            if range.contains(entry.point.timestamp) {
                bytes.clear();
                put_point(&mut bytes, &entry, starts);
                visit(&entry.point, xxh3_64(&bytes));
            }
        }
    }
    Ok(())
}

fn put_point(out: &mut Vec<u8>, entry: &StampedPoint, starts: Starts) {
    let StampedPoint { point, long, .. } = entry;
    out.extend_from_slice(&point.timestamp.to_le_bytes());
    out.extend_from_slice(&starts.kept(point).to_le_bytes());
    // Only a server keeps no start timestamps at all, and it returns integers as floats.
    match (&point.value, long.filter(|_| starts != Starts::None)) {
        (Value::Float(_), Some(long)) => {
            out.push(3);
            put(out, long.cast_unsigned());
        }
        (Value::Float(value), None) => {
            out.push(0);
            put(out, value.to_bits());
        }
        (Value::Histogram(histogram), _) if histogram.is_stale() => out.push(1),
        (Value::Histogram(histogram), _) => {
            out.push(2);
            put_histogram(out, histogram);
        }
    }
}

fn put_histogram(out: &mut Vec<u8>, histogram: &Histogram) {
    out.push(u8::from(histogram.reset_hint == ResetHint::Gauge));
    out.extend_from_slice(&histogram.schema.to_le_bytes());
    put(out, histogram.zero_threshold.to_bits());
    put(out, histogram.sum.to_bits());
    put(out, histogram.custom_values.len() as u64);
    histogram.custom_values.iter().for_each(|bound| put(out, bound.to_bits()));
    let spans = [&histogram.positive_spans, &histogram.negative_spans];
    match &histogram.counts {
        Counts::Integer { count, zero_count, positive, negative } => {
            out.push(0);
            put(out, *count);
            put(out, *zero_count);
            for (spans, deltas) in spans.into_iter().zip([positive, negative]) {
                put_buckets(out, spans, counts_of(deltas).map(i64::cast_unsigned));
            }
        }
        Counts::Float { count, zero_count, positive, negative } => {
            out.push(1);
            put(out, count.to_bits());
            put(out, zero_count.to_bits());
            for (spans, counts) in spans.into_iter().zip([positive, negative]) {
                put_buckets(out, spans, counts.iter().map(|count| count.to_bits()));
            }
        }
    }
}

/// Position and count of each nonempty bucket, and the number of these buckets.
fn put_buckets(out: &mut Vec<u8>, spans: &[Span], counts: impl Iterator<Item = u64>) {
    let mut end = 0_i64;
    let places = spans.iter().flat_map(|span| {
        let start = end + i64::from(span.offset);
        end = start + i64::from(span.length);
        start..end
    });
    let mut filled = 0;
    for (place, count) in places.zip(counts).filter(|(_, count)| *count != 0) {
        put(out, place.cast_unsigned());
        put(out, count);
        filled += 1;
    }
    put(out, filled);
}

fn put(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::chunk::encode_points;
    use crate::model::{STALE_NAN_BITS, Sample};

    fn float(timestamp: i64, start_timestamp: i64, value: f64) -> Point {
        Sample { timestamp, start_timestamp, value }.into()
    }

    fn histogram(timestamp: i64, spans: &[(i32, u32)], deltas: &[i64]) -> Point {
        let span = |&(offset, length): &(i32, u32)| Span { offset, length };
        let (positive, negative) = (deltas.to_vec(), vec![]);
        let histogram = Histogram {
            schema: 3,
            zero_threshold: 0.001,
            sum: 5.0,
            reset_hint: ResetHint::Unknown,
            positive_spans: spans.iter().map(span).collect(),
            negative_spans: vec![],
            custom_values: vec![],
            counts: Counts::Integer { count: 9, zero_count: 1, positive, negative },
        };
        Point { timestamp, start_timestamp: 0, value: Value::Histogram(Arc::new(histogram)) }
    }

    fn digest(points: &[Point], starts: Starts) -> Digest {
        Digest::of(&encode_points(points), TimeRange::ALL, starts).expect("own bytes").0
    }

    #[test]
    fn every_bit_of_a_float_counts() {
        let base = digest(&[float(1, 0, 0.0), float(2, 0, 1.0)], Starts::All);
        assert_eq!(base.points, 2);
        let nan = f64::from_bits(STALE_NAN_BITS);
        for other in [-0.0, f64::NAN, nan, f64::MIN_POSITIVE] {
            let other = digest(&[float(1, 0, other), float(2, 0, 1.0)], Starts::All);
            assert_ne!(other, base);
        }
        assert_ne!(
            digest(&[float(1, 0, nan)], Starts::All),
            digest(&[float(1, 0, f64::NAN)], Starts::All)
        );
        assert_ne!(digest(&[float(1, 0, 1.0), float(2, 0, 0.0)], Starts::All), base);
    }

    #[test]
    fn start_timestamps_count_where_both_sides_keep_them() {
        let (with, without) = ([float(5, 3, 1.0)], [float(5, 0, 1.0)]);
        assert_ne!(digest(&with, Starts::All), digest(&without, Starts::All));
        assert_eq!(digest(&with, Starts::Histograms), digest(&without, Starts::Histograms));
        let chunks = encode_points(&with);
        for (starts, want) in [(Starts::All, 0), (Starts::Histograms, 1), (Starts::None, 1)] {
            let (_, left) = Digest::of(&chunks, TimeRange::ALL, starts).expect("own bytes");
            assert_eq!(left, want);
        }
        let with = Point { start_timestamp: 3, ..histogram(5, &[(0, 1)], &[1]) };
        let without = histogram(5, &[(0, 1)], &[1]);
        let both = [with, without];
        let [with, without] = [&both[..1], &both[1..]];
        assert_ne!(digest(with, Starts::Histograms), digest(without, Starts::Histograms));
        assert_eq!(digest(with, Starts::None), digest(without, Starts::None));
    }

    #[test]
    fn empty_buckets_do_not_count_but_places_do() {
        let base = digest(&[histogram(1, &[(0, 2)], &[2, 1])], Starts::All);
        // 2, 3, 0 and 0, 2, 3 in the same positions, and in two spans.
        for same in [
            histogram(1, &[(0, 3)], &[2, 1, -3]),
            histogram(1, &[(-1, 3)], &[0, 2, 1]),
            histogram(1, &[(0, 1), (0, 1)], &[2, 1]),
        ] {
            assert_eq!(digest(&[same], Starts::All), base);
        }
        for other in [
            histogram(1, &[(1, 2)], &[2, 1]),
            histogram(1, &[(0, 2)], &[2, 2]),
            histogram(1, &[(0, 1), (1, 1)], &[2, 1]),
        ] {
            assert_ne!(digest(&[other], Starts::All), base);
        }
    }

    #[test]
    fn a_range_cuts_points() {
        let chunks = encode_points(&[float(1, 0, 1.0), float(2, 0, 2.0), float(3, 0, 3.0)]);
        let range = TimeRange::new(2, 2);
        let found = hashes(&chunks, range, Starts::All).expect("own bytes");
        assert_eq!(found.iter().map(|(time, _)| *time).collect::<Vec<_>>(), [2]);
        let (digest, left) = Digest::of(&chunks, range, Starts::All).expect("own bytes");
        assert_eq!(left, 0);
        assert_eq!(digest, Digest { points: 1, checksum: found[0].1 });
    }
}
