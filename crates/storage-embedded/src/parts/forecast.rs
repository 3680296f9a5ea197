//! Estimates the points of a selection from the rows of the series tables and a few frames.
//!
//! A row has the first and last time of a series in a part, but not the number of points. A few
//! frames, spread over the selection, give the density of points and the size of histograms; other
//! frames are assumed to be like them.

use std::sync::Arc;

use promkairos_model::TimeRange;
use promkairos_storage::forecast::{Expected, Forecast, HistogramSizes, length, of_chunks};
use promkairos_storage::{Basis, StoreError, frame};

use super::frame_locations::{FrameLocation, FramesBySeries};
use super::part::Part;

/// Most frames that are read for one forecast.
const FRAMES: usize = 64;
/// Approximate limit for the bytes of frames that are read; the first frame is always read.
const BYTES: u64 = 1 << 20;
/// Step to the next frame, as a share of all frames: it spreads any number of frames evenly.
const STRIDE: f64 = 0.618_033_988_749_894_9;

/// What was found in the frames that were read.
#[derive(Default)]
struct Sample {
    /// By the position of the frame.
    known: Vec<(usize, Expected)>,
    all: Expected,
}

/// Estimates the points of all series in `range`.
pub(super) fn forecast(
    parts: &[Arc<Part>],
    places: &FramesBySeries,
    range: TimeRange,
) -> Result<Forecast, StoreError> {
    let sample = Sample::read(parts, places.all(), range)?;
    let mut series = Vec::with_capacity(places.series());
    let (mut at, mut known) = (0, sample.known.iter().peekable());
    for one in 0..places.series() {
        let mut expected = Expected::default();
        for place in places.of(one) {
            let read = known.next_if(|(position, _)| *position == at);
            let own = place.range(parts[place.part as usize].entry.range);
            match read {
                Some((_, read)) => expected.add(*read),
                None => expected.add(sample.like(own, range)),
            }
            at += 1;
        }
        series.push(expected);
    }
    Ok(Forecast { series, basis: Basis::Stored })
}

impl Sample {
    /// Reads some of these frames.
    fn read(
        parts: &[Arc<Part>],
        places: &[FrameLocation],
        range: TimeRange,
    ) -> Result<Self, StoreError> {
        let mut sample = Self::default();
        let (mut bytes, mut sizes) = (0, HistogramSizes::default());
        for at in spread(places.len()) {
            let place = places[at];
            let part = &parts[place.part as usize];
            if place.range(part.entry.range).intersection(range).is_none() {
                continue;
            }
            bytes += u64::from(place.len);
            if bytes > BYTES && !sample.known.is_empty() {
                break;
            }
            let raw = part.read(&*part.file()?, place.offset, place.len.into())?;
            let chunks = frame::chunks_of(&raw, part.entry.partition)
                .map_err(|damage| part.damage(place.offset, damage))?;
            let found = of_chunks(&chunks, range, &mut sizes);
            sample.all.add(found);
            sample.known.push((at, found));
        }
        sample.known.sort_by_key(|(at, _)| *at);
        Ok(sample)
    }

    /// The estimate for a frame that was not read.
    fn like(&self, own: TimeRange, range: TimeRange) -> Expected {
        let Some(both) = own.intersection(range) else { return Expected::default() };
        let (all, span) = (&self.all, length(both));
        let dense = if all.span > 0.0 { (all.points - all.runs).max(0.0) / all.span } else { 0.0 };
        let points = 1.0 + span * dense;
        let of_points = |what: f64| if all.points > 0.0 { what / all.points * points } else { 0.0 };
        Expected {
            points,
            histograms: of_points(all.histograms),
            words: of_points(all.words),
            span,
            runs: 1.0,
        }
    }
}

/// A sample of `count` positions, each once, spread evenly wherever the reader stops; all of them if there are few.
fn spread(count: usize) -> impl Iterator<Item = usize> {
    let all = count <= FRAMES;
    let mut seen = std::collections::HashSet::new();
    let position = move |step: usize| match all {
        true => step,
        false => ((step as f64 * STRIDE).fract() * count as f64) as usize,
    };
    (0..count.min(FRAMES)).map(position).filter(move |at| seen.insert(*at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_chosen_from_everywhere() {
        assert_eq!(spread(3).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(spread(0).count(), 0);
        for count in [65, 1_000, 1_000_000] {
            let chosen: Vec<usize> = spread(count).collect();
            assert!(chosen.len() > 40 && chosen.iter().all(|at| *at < count), "{chosen:?}");
            for quarter in 0..4 {
                let inside = chosen.iter().filter(|at| **at * 4 / count == quarter).count();
                assert!((8..=24).contains(&inside), "{quarter}: {inside} of {count}");
            }
        }
    }
}
