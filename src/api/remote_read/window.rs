//! Which chunks of a series belong to a closed range of time.

use std::borrow::Cow;

use crate::chunk::{Chunk, ChunkError, ChunkKind, encode_points};
use crate::model::TimeRange;

/// The chunks that overlap `range`; `chunks` rise in time.
pub(super) fn overlapping(chunks: &[Chunk], range: TimeRange) -> &[Chunk] {
    let start = chunks.partition_point(|chunk| chunk.max_time < range.start);
    let end = chunks.partition_point(|chunk| chunk.min_time <= range.end);
    chunks.get(start..end).unwrap_or_default()
}

/// The chunks that overlap `range`, all of kinds that the protocol knows; `chunks` rise in time.
pub(super) fn of_protocol(
    chunks: &[Chunk],
    range: TimeRange,
) -> Result<Cow<'_, [Chunk]>, ChunkError> {
    let chunks = overlapping(chunks, range);
    if chunks.iter().all(|chunk| chunk.kind != ChunkKind::Packed) {
        return Ok(chunks.into());
    }
    let mut all = Vec::new();
    for chunk in chunks {
        if chunk.kind == ChunkKind::Packed {
            let points = chunk.points().collect::<Result<Vec<_>, _>>()?;
            all.extend(overlapping(&encode_points(&points), range).iter().cloned());
        } else {
            all.push(chunk.clone());
        }
    }
    Ok(all.into())
}

/// Whether one of the `chunks`, all overlapping `range`, has a point in it.
///
/// Both times of a chunk are those of points. Only a chunk that begins before the range and ends
/// after it has to be decoded, and then it is the only one.
pub(super) fn has_point(chunks: &[Chunk], range: TimeRange) -> Result<bool, ChunkError> {
    for chunk in chunks {
        if range.contains(chunk.min_time) || range.contains(chunk.max_time) {
            return Ok(true);
        }
        for point in chunk.points() {
            let timestamp = point?.timestamp;
            if range.contains(timestamp) {
                return Ok(true);
            }
            if timestamp > range.end {
                break;
            }
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::{Floats, pack};
    use crate::model::{Point, Sample, Value};

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
    fn what_is_packed_is_told_in_chunks_of_the_protocol() {
        let times: Vec<i64> = (0..500).collect();
        let values = times.iter().map(|time| *time as f64 / 4.0).collect();
        let all = Floats { times, values, starts: Vec::new() };
        let chunks = [pack(&all, 0..500).expect("decimal numbers"), chunk(&[600])];
        let told = of_protocol(&chunks, TimeRange::new(130, 600)).expect("own bytes");
        assert!(told.iter().all(|chunk| chunk.kind == ChunkKind::Xor && chunk.max_time >= 130));
        let read: Vec<(i64, Value)> = told
            .iter()
            .flat_map(Chunk::points)
            .map(|point| point.map(|point| (point.timestamp, point.value)).expect("own bytes"))
            .collect();
        let from = read[0].0;
        assert!(from <= 130);
        let mut want: Vec<(i64, Value)> =
            (from..500).map(|time| (time, Value::Float(time as f64 / 4.0))).collect();
        want.push((600, Value::Float(1.0)));
        assert_eq!(read, want);
    }
}
