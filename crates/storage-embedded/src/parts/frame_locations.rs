//! Where the frames of selected series are, in few bytes each.
//!
//! Invariant: frames are in the order of their series, and those of one series in order of precedence. Reads nothing.

use std::ops::Range;

use super::lookup::SeriesRow;
use promkairos_model::TimeRange;

/// Where one frame of a series is.
#[derive(Debug, Clone, Copy)]
pub(super) struct FrameLocation {
    pub(super) offset: u64,
    pub(super) len: u32,
    /// Position of the part in the state.
    pub(super) part: u32,
    /// First and last point, in steps from the start of the part, see [`step_bits`].
    first: u32,
    last: u32,
}

/// A step is this power of two of milliseconds: the shortest of which `u32` has enough for a part. Of a day it is one
/// millisecond.
fn step_bits(part: TimeRange) -> u32 {
    (u64::BITS - part.end.abs_diff(part.start).leading_zeros()).saturating_sub(u32::BITS)
}

impl FrameLocation {
    /// A row of the part at this position, which has this range.
    pub(super) fn new(part: u32, row: &SeriesRow<'_>, range: TimeRange) -> Self {
        let bits = step_bits(range);
        let steps = |time: i64| {
            let from_start = time.clamp(range.start, range.end).abs_diff(range.start);
            u32::try_from(from_start >> bits).expect("the part has no more steps")
        };
        let (first, last) = (steps(row.range.start), steps(row.range.end));
        Self { offset: row.frame.offset, len: row.frame.len, part, first, last }
    }

    /// A range, within that of the part, from at most a step before its first point to at most a step behind its last.
    pub(super) fn range(&self, part: TimeRange) -> TimeRange {
        let bits = step_bits(part);
        let (first, last) = (u64::from(self.first) << bits, u64::from(self.last) << bits);
        let end = part.start.saturating_add_unsigned(last | ((1 << bits) - 1));
        TimeRange::new(part.start.saturating_add_unsigned(first), end.min(part.end))
    }
}

/// Frames by series.
pub(super) struct FramesBySeries {
    /// Frames of series `i` are `all[starts[i]..starts[i + 1]]`, in order of precedence.
    starts: Vec<usize>,
    all: Vec<FrameLocation>,
}

impl FramesBySeries {
    /// Frames with the numbers of their series, of which there are `series`. Frames of one series keep their order.
    pub(super) fn new(series: usize, mut places: Vec<(u32, FrameLocation)>) -> Self {
        // A stable sort: frames of one series stay in order of precedence.
        places.sort_by_key(|(series, _)| *series);
        let mut starts = vec![0usize; series + 1];
        for (series, _) in &places {
            starts[*series as usize + 1] += 1;
        }
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        Self { starts, all: places.into_iter().map(|(_, place)| place).collect() }
    }

    /// Bytes in memory.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.starts) + size_of_val(&*self.all)
    }

    /// The frames of a series.
    pub(super) fn of(&self, series: usize) -> &[FrameLocation] {
        self.of_run(series..series + 1)
    }

    /// The frames of neighbouring series.
    pub(super) fn of_run(&self, series: Range<usize>) -> &[FrameLocation] {
        &self.all[self.starts[series.start]..self.starts[series.end]]
    }

    /// How many series there are.
    pub(super) fn series(&self) -> usize {
        self.starts.len() - 1
    }

    /// All frames.
    pub(super) fn all(&self) -> &[FrameLocation] {
        &self.all
    }
}

#[cfg(test)]
mod tests {
    use super::super::block_ref::BlockRef;
    use super::*;

    #[test]
    fn a_location_keeps_the_range_of_its_row_in_parts_of_any_length() {
        const DAY: i64 = 86_400_000;
        let day = TimeRange::new(20_000 * DAY, 20_001 * DAY - 1);
        let years = TimeRange::new(-400 * DAY, 40_000 * DAY);
        for part in [day, years, TimeRange::new(7, 7), TimeRange::new(i64::MIN, i64::MAX)] {
            let middle = part.start.saturating_add_unsigned(part.end.abs_diff(part.start) / 2);
            for (start, end) in [(part.start, part.end), (middle, middle), (middle, part.end)] {
                let range = TimeRange::new(start, end);
                let frame = BlockRef { offset: 1, len: 2 };
                let row = SeriesRow { labels: &[], range, frame };
                let kept = FrameLocation::new(0, &row, part).range(part);
                let step = 1u64 << step_bits(part);
                assert!(kept.start <= start && start.abs_diff(kept.start) < step, "{part:?}");
                assert!(kept.end >= end && kept.end.abs_diff(end) < step, "{part:?}");
                assert!(part.contains(kept.start) && part.contains(kept.end), "{part:?}");
            }
        }
        assert_eq!([day, years].map(step_bits), [0, 10]);
    }
}
