//! How long cached points are used. They are used for seconds at first, then twice as long each time that a new read
//! finds them unchanged. So points of writers that raise no epoch, such as KairosDB, are seen that soon. Pure.
//!
//! Invariant: no millisecond is used for longer than its own points have earned. Points that were read for the first
//! time start at the first age, even beside points that were read before.

use std::time::Duration;

use promkairos_chunk::{Chunk, ChunkError, StampedPoint, encode_stamped};
use promkairos_model::{ResetHint, TimeRange, Value};

/// The most parts of one read. More parts are more to choose from, and to read again together.
const MOST_PARTS: usize = 4;

/// The first and the last age.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ages {
    pub(super) first: Duration,
    pub(super) last: Duration,
}

impl Ages {
    /// The age in milliseconds after this number of doublings.
    pub(super) fn millis(self, doublings: u8) -> u64 {
        let millis = |age: Duration| u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
        let factor = 1_u64.checked_shl(doublings.into()).unwrap_or(u64::MAX);
        millis(self.first).saturating_mul(factor).min(millis(self.last))
    }

    /// One doubling more, unless that changes nothing.
    pub(super) fn next(self, doublings: u8) -> u8 {
        match self.millis(doublings) < self.millis(u8::MAX) {
            true => doublings.saturating_add(1),
            false => doublings,
        }
    }
}

/// A kept piece that overlaps a new read.
pub(super) struct Before {
    /// Within the range of the new read.
    pub(super) range: TimeRange,
    /// They may reach beyond the range.
    pub(super) chunks: Vec<Chunk>,
    /// The doublings earned if the points are the same.
    pub(super) doublings: u8,
}

/// A part of a read, as it is kept.
#[derive(Debug, PartialEq)]
pub(super) struct Part {
    pub(super) range: TimeRange,
    pub(super) chunks: Vec<Chunk>,
    pub(super) doublings: u8,
}

/// Cuts a read by what its parts have earned, compared with the pieces kept `before`, of which no two overlap.
pub(super) fn parts(range: TimeRange, chunks: Vec<Chunk>, mut before: Vec<Before>) -> Vec<Part> {
    let whole = |doublings, chunks| vec![Part { range, chunks, doublings }];
    match &before[..] {
        [] => return whole(0, chunks),
        [one] if one.range == range && one.chunks == chunks => return whole(one.doublings, chunks),
        _ => {}
    }
    before.sort_by_key(|before| before.range.start);
    let Ok(points) = points_of(&chunks, range) else { return whole(0, chunks) };
    let mut cuts: Vec<(TimeRange, u8)> = Vec::new();
    let mut from = Some(range.start);
    for Before { range: part, chunks, doublings } in &before {
        if let Some(start) = from
            && start < part.start
        {
            cuts.push((TimeRange::new(start, part.start - 1), 0));
        }
        let is_same =
            points_of(chunks, *part).is_ok_and(|old| is_same(&old, within(&points, *part)));
        cuts.push((*part, if is_same { *doublings } else { 0 }));
        from = part.end.checked_add(1);
    }
    if let Some(start) = from
        && start <= range.end
    {
        cuts.push((TimeRange::new(start, range.end), 0));
    }
    let part = |(range, doublings)| {
        let chunks = encode_stamped(within(&points, range));
        Part { range, chunks, doublings }
    };
    match &joined(cuts)[..] {
        [(_, doublings)] => whole(*doublings, chunks),
        cuts => cuts.iter().copied().map(part).collect(),
    }
}

/// Joins neighbouring cuts: first those of one age, then those that differ least, at the age of the younger.
fn joined(mut cuts: Vec<(TimeRange, u8)>) -> Vec<(TimeRange, u8)> {
    loop {
        let difference = |at: usize| cuts[at].1.abs_diff(cuts[at + 1].1);
        let nearest = (0..cuts.len().saturating_sub(1)).min_by_key(|at| difference(*at));
        match nearest {
            Some(at) if difference(at) == 0 || cuts.len() > MOST_PARTS => {
                let (range, doublings) = cuts.remove(at + 1);
                cuts[at] = (cuts[at].0.hull(range), cuts[at].1.min(doublings));
            }
            _ => return cuts,
        }
    }
}

fn points_of(chunks: &[Chunk], range: TimeRange) -> Result<Vec<StampedPoint>, ChunkError> {
    let points = chunks.iter().flat_map(Chunk::stamped_points);
    let is_inside = |entry: &Result<StampedPoint, _>| {
        entry.as_ref().map_or(true, |entry| range.contains(entry.point.timestamp))
    };
    points.filter(is_inside).collect()
}

/// The points in a range; `points` rise in time.
fn within(points: &[StampedPoint], range: TimeRange) -> &[StampedPoint] {
    let start = points.partition_point(|entry| entry.point.timestamp < range.start);
    let end = points.partition_point(|entry| entry.point.timestamp <= range.end);
    &points[start..end.max(start)]
}

/// Whether both have the same points, bit by bit, except for the reset hints of histograms.
fn is_same(one: &[StampedPoint], other: &[StampedPoint]) -> bool {
    let same = |(one, other): (&StampedPoint, &StampedPoint)| {
        let (a, b) = (&one.point, &other.point);
        let values = match (&a.value, &b.value) {
            (Value::Float(a), Value::Float(b)) => a.to_bits() == b.to_bits(),
            (Value::Histogram(a), Value::Histogram(b)) => {
                let plain = |histogram: &promkairos_model::Histogram| promkairos_model::Histogram {
                    sum: 0.0,
                    reset_hint: ResetHint::Unknown,
                    ..histogram.clone()
                };
                a.sum.to_bits() == b.sum.to_bits() && plain(a) == plain(b)
            }
            _ => false,
        };
        values
            && one.long == other.long
            && (a.timestamp, a.start_timestamp) == (b.timestamp, b.start_timestamp)
    };
    one.len() == other.len() && one.iter().zip(other).all(same)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use promkairos_chunk::encode_points;
    use promkairos_model::Point;

    fn chunks(times: &[i64], value: f64) -> Vec<Chunk> {
        let point =
            |&timestamp: &i64| Point { timestamp, start_timestamp: 0, value: Value::Float(value) };
        encode_points(&times.iter().map(point).collect::<Vec<_>>())
    }

    fn before((start, end): (i64, i64), doublings: u8, chunks: Vec<Chunk>) -> Before {
        Before { range: TimeRange::new(start, end), chunks, doublings }
    }

    fn check(before: Vec<Before>, want: &[(i64, i64, u8)]) {
        let times: Vec<i64> = (0..100).collect();
        let parts = parts(TimeRange::new(0, 99), chunks(&times, 0.5), before);
        let found: Vec<_> =
            parts.iter().map(|part| (part.range.start, part.range.end, part.doublings)).collect();
        assert_eq!(found, want);
        let all = parts.iter().flat_map(|part| points_of(&part.chunks, part.range));
        let all: Vec<i64> = all.flatten().map(|entry| entry.point.timestamp).collect();
        assert_eq!(all, times, "nothing is lost");
    }

    #[test]
    fn ages_double_up_to_the_last() {
        let ages = Ages { first: Duration::from_secs(10), last: Duration::from_secs(3_600) };
        let mut doublings = 0;
        let mut found = Vec::new();
        for _ in 0..11 {
            found.push(ages.millis(doublings) / 1_000);
            doublings = ages.next(doublings);
        }
        assert_eq!(found, [10, 20, 40, 80, 160, 320, 640, 1_280, 2_560, 3_600, 3_600]);
        assert_eq!(doublings, 9);
        let short = Ages { last: Duration::from_secs(2), ..ages };
        assert_eq!((short.millis(0), short.next(0)), (2_000, 0));
    }

    #[test]
    fn what_is_unchanged_is_older_than_what_is_new() {
        let all: Vec<i64> = (-20..120).collect();
        let same = || chunks(&all, 0.5);
        check(vec![], &[(0, 99, 0)]);
        check(vec![before((0, 99), 3, same())], &[(0, 99, 3)]);
        check(vec![before((0, 99), 3, chunks(&all, 0.25))], &[(0, 99, 0)]);
        // One is missing, one is new.
        check(vec![before((0, 99), 3, chunks(&all[1..60], 0.5))], &[(0, 99, 0)]);
        let late: Vec<i64> = (0..100).filter(|time| *time != 7).collect();
        check(vec![before((0, 99), 3, chunks(&late, 0.5))], &[(0, 99, 0)]);
        // The range slides.
        check(vec![before((0, 79), 3, same())], &[(0, 79, 3), (80, 99, 0)]);
        check(
            vec![before((80, 89), 1, same()), before((0, 69), 4, same())],
            &[(0, 69, 4), (70, 79, 0), (80, 89, 1), (90, 99, 0)],
        );
        // Parts of one age are joined.
        check(vec![before((0, 49), 4, same()), before((50, 99), 4, same())], &[(0, 99, 4)]);
    }

    proptest! {
        #[test]
        fn parts_are_few_and_no_millisecond_is_older_than_it_was(
            lens in prop::collection::vec((1i64..9, 0u8..12, any::<bool>()), 0..30),
        ) {
            let all: Vec<i64> = (0..100).collect();
            let (mut at, mut old) = (0, Vec::new());
            let mut earned = [0_u8; 100];
            for (len, doublings, is_known) in lens {
                let end = (at + len - 1).min(99);
                if is_known && at <= end {
                    earned[at as usize..=end as usize].fill(doublings);
                    old.push(before((at, end), doublings, chunks(&all, 0.5)));
                }
                at += len;
            }
            let parts = parts(TimeRange::new(0, 99), chunks(&all, 0.5), old);
            prop_assert!(parts.len() <= MOST_PARTS);
            let mut next = 0;
            for part in parts {
                prop_assert_eq!(part.range.start, next);
                next = part.range.end + 1;
                for time in part.range.start..=part.range.end {
                    prop_assert!(part.doublings <= earned[time as usize]);
                }
            }
            prop_assert_eq!(next, 100);
        }
    }
}
