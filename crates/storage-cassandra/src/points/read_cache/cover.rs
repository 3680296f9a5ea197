//! Chooses the pieces of the cache that answer a range, and what is left to be read. Pure.
//!
//! No two chosen pieces overlap, and none overlaps what is left: every millisecond of the range
//! comes from exactly one place. What is left is one range, so that it costs one read.

use promkairos_model::TimeRange;

/// The most pieces that answer a range. Points in more pieces are read again as one.
pub(super) const MOST_PIECES: usize = 8;

/// How a range is answered.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Cover {
    /// Positions of the chosen pieces, in order of time.
    pub(super) chosen: Vec<usize>,
    /// The range that no chosen piece has.
    pub(super) missing: Option<TimeRange>,
}

impl Cover {
    /// Chooses among pieces with these ranges. `wanted` is not empty.
    pub(super) fn of(wanted: TimeRange, pieces: &[TimeRange]) -> Self {
        let clipped = |(at, piece): (usize, &TimeRange)| Some((at, piece.intersection(wanted)?));
        let mut order: Vec<(usize, TimeRange)> =
            pieces.iter().enumerate().filter_map(clipped).collect();
        order.sort_by_key(|(_, piece)| std::cmp::Reverse(piece.end.abs_diff(piece.start)));
        let mut chosen: Vec<(usize, TimeRange)> = Vec::with_capacity(order.len().min(MOST_PIECES));
        for (at, piece) in order {
            let is_free = chosen.iter().all(|(_, other)| !other.overlaps(&piece));
            if is_free && chosen.len() < MOST_PIECES {
                chosen.push((at, piece));
            }
        }
        chosen.sort_by_key(|(_, piece)| piece.start);
        let missing = gaps(wanted, chosen.iter().map(|(_, piece)| *piece));
        if let Some(missing) = missing {
            chosen.retain(|(_, piece)| !piece.overlaps(&missing));
        }
        Self { chosen: chosen.into_iter().map(|(at, _)| at).collect(), missing }
    }
}

/// From the start of the first gap between `pieces`, which rise, to the end of the last gap.
fn gaps(wanted: TimeRange, pieces: impl Iterator<Item = TimeRange>) -> Option<TimeRange> {
    let mut missing: Option<TimeRange> = None;
    let mut from = Some(wanted.start);
    let ends = pieces.map(|piece| (piece.start.checked_sub(1), piece.end.checked_add(1)));
    for (before, after) in ends.chain([(Some(wanted.end), None)]) {
        if let (Some(start), Some(end)) = (from, before)
            && start <= end
        {
            let gap = TimeRange::new(start, end);
            missing = Some(missing.map_or(gap, |missing| missing.hull(gap)));
        }
        from = after;
    }
    missing
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(
        wanted: (i64, i64),
        pieces: &[(i64, i64)],
        chosen: &[usize],
        missing: Option<(i64, i64)>,
    ) {
        let range = |(start, end)| TimeRange::new(start, end);
        let pieces: Vec<TimeRange> = pieces.iter().copied().map(range).collect();
        let want = Cover { chosen: chosen.to_vec(), missing: missing.map(range) };
        assert_eq!(Cover::of(range(wanted), &pieces), want, "{wanted:?} of {pieces:?}");
    }

    #[test]
    fn what_is_there_is_used_and_the_rest_is_one_range() {
        check((0, 9), &[], &[], Some((0, 9)));
        check((0, 9), &[(0, 9)], &[0], None);
        check((0, 9), &[(-5, 20), (0, 9)], &[0], None);
        check((0, 9), &[(10, 20), (-9, -1)], &[], Some((0, 9)));
        // A range that slides.
        check((5, 14), &[(0, 9)], &[0], Some((10, 14)));
        check((-5, 4), &[(0, 9)], &[0], Some((-5, -1)));
        check((0, 20), &[(15, 30), (-3, 4)], &[1, 0], Some((5, 14)));
        // A piece between two gaps is read again.
        check((0, 20), &[(3, 4), (6, 18)], &[], Some((0, 20)));
        check((0, 20), &[(0, 4), (6, 7), (9, 20)], &[0, 2], Some((5, 8)));
        // Overlaps: the piece with more of the range is chosen.
        check((0, 9), &[(0, 6), (4, 9)], &[0], Some((7, 9)));
        check((0, 9), &[(5, 9), (0, 6)], &[1], Some((7, 9)));
        check((i64::MIN, i64::MAX), &[(i64::MIN, 0), (1, i64::MAX)], &[0, 1], None);
        check((i64::MIN, i64::MAX), &[(0, 5)], &[], Some((i64::MIN, i64::MAX)));
    }

    #[test]
    fn of_many_pieces_a_part_is_read_again() {
        let pieces: Vec<(i64, i64)> = (0..12).map(|at| (at * 10, at * 10 + 9)).collect();
        check((0, 79), &pieces, &[0, 1, 2, 3, 4, 5, 6, 7], None);
        check((0, 119), &pieces, &[0, 1, 2, 3, 4, 5, 6, 7], Some((80, 119)));
    }

    proptest! {
        #[test]
        fn every_time_comes_from_one_place(
            start in 0i64..40,
            length in 0i64..40,
            pieces in prop::collection::vec((0i64..80, 0i64..30), 0..14),
        ) {
            let wanted = TimeRange::new(start, start + length);
            let pieces: Vec<TimeRange> =
                pieces.into_iter().map(|(start, more)| TimeRange::new(start, start + more)).collect();
            let cover = Cover::of(wanted, &pieces);
            prop_assert!(cover.chosen.len() <= MOST_PIECES);
            prop_assert!(cover.chosen.is_sorted_by_key(|at| pieces[*at].start));
            for time in wanted.start..=wanted.end {
                let chosen = cover.chosen.iter().filter(|at| pieces[**at].contains(time)).count();
                let missing = cover.missing.is_some_and(|missing| missing.contains(time));
                prop_assert_eq!(chosen + usize::from(missing), 1, "{} in {:?}", time, cover);
            }
            if let Some(missing) = cover.missing {
                prop_assert!(wanted.start <= missing.start && missing.end <= wanted.end);
                prop_assert!(!missing.is_empty());
            }
            // One piece that has all is enough.
            let whole = pieces.iter().any(|p| p.start <= wanted.start && wanted.end <= p.end);
            prop_assert!(!whole || cover.missing.is_none());
        }
    }
}
