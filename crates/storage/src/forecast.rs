//! Estimates of the points of a selection before they are read. The cost of a query is estimated from them.
//!
//! A forecast costs no more than a look at the index and at a few chunks. It is approximate: only decisions about cost
//! may depend on it. Nothing is read here.

use promkairos_chunk::Chunk;
use promkairos_model::{TimeRange, Value};

/// Maximum number of histograms that are examined for one forecast; the others are assumed to be similar.
const HISTOGRAMS: usize = 64;

/// The expected points of one series.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Expected {
    /// Approximate number of points; 0 only if there are no points.
    pub points: f64,
    /// How many of the points are histograms.
    pub histograms: f64,
    /// Buckets, spans and bounds of these histograms in total.
    pub words: f64,
    /// Milliseconds from the first to the last point of each of [`runs`](Self::runs), in total.
    pub span: f64,
    /// Runs in which the points lie.
    pub runs: f64,
}

/// The source of a forecast.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Basis {
    /// Stored data.
    #[default]
    Stored,
    /// The distance between points of these metrics when they were last written or read.
    Seen,
    /// A guess of the distance between points.
    Guessed,
}

/// The expected points of the series of a selection, by position.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Forecast {
    /// One entry for each series.
    pub series: Vec<Expected>,
    /// The weakest source of the entries.
    pub basis: Basis,
}

impl Expected {
    /// Adds the points that another source has of the same series.
    pub fn add(&mut self, other: Self) {
        self.points += other.points;
        self.histograms += other.histograms;
        self.words += other.words;
        self.span += other.span;
        self.runs += other.runs;
    }

    /// Points at intervals of `spacing` milliseconds over all of `range`.
    pub fn evenly(range: TimeRange, spacing: f64) -> Self {
        let span = length(range);
        let points = 1.0 + span / spacing.max(1.0);
        Self { points, span, runs: 1.0, ..Self::default() }
    }

    /// The same number of points, as histograms of `words` words each.
    pub fn as_histograms(self, words: f64) -> Self {
        Self { histograms: self.points, words: self.points * words, ..self }
    }
}

/// The sizes of histograms, learned from the first ones.
#[derive(Debug, Default)]
pub struct HistogramSizes {
    seen: usize,
    words: usize,
}

impl HistogramSizes {
    /// Words of a histogram in this chunk, which must be a chunk of histograms.
    fn words(&mut self, chunk: &Chunk) -> f64 {
        if self.seen < HISTOGRAMS
            && let Some(Ok(point)) = chunk.points().next()
            && let Value::Histogram(histogram) = point.value
        {
            let words = histogram.elements();
            self.seen += 1;
            self.words += words;
            return words as f64;
        }
        self.words as f64 / self.seen.max(1) as f64
    }
}

/// The expected points of these stored chunks in a range.
pub fn of_chunks(chunks: &[Chunk], range: TimeRange, sizes: &mut HistogramSizes) -> Expected {
    let mut all = Expected::default();
    for chunk in chunks {
        let Some((points, span)) = share(chunk.range(), f64::from(chunk.count), range) else {
            continue;
        };
        let floats = Expected { points, span, runs: 1.0, ..Expected::default() };
        all.add(match chunk.kind.is_floats() {
            true => floats,
            false => floats.as_histograms(sizes.words(chunk)),
        });
    }
    // Chunks that follow each other form one run.
    let whole = chunks.iter().map(Chunk::range).reduce(TimeRange::hull);
    if all.points > 0.0
        && let Some(whole) = whole.and_then(|whole| whole.intersection(range))
    {
        (all.span, all.runs) = (length(whole), 1.0);
    }
    all
}

/// The number of `points`, evenly spread over `own`, that are in `range`, and the milliseconds that these points span.
pub fn share(own: TimeRange, points: f64, range: TimeRange) -> Option<(f64, f64)> {
    let both = own.intersection(range)?;
    let (all, part) = (length(own), length(both));
    let points = if all > 0.0 { 1.0 + (points - 1.0).max(0.0) * part / all } else { points };
    Some((points, part))
}

/// Milliseconds from the start of the range to its end.
pub fn length(range: TimeRange) -> f64 {
    range.end.saturating_sub(range.start).max(0) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use promkairos_chunk::encode_points;
    use promkairos_model::Point;

    fn floats(times: impl Iterator<Item = i64>) -> Vec<Chunk> {
        let point = |timestamp| Point { timestamp, start_timestamp: 0, value: Value::Float(1.0) };
        encode_points(&times.map(point).collect::<Vec<_>>())
    }

    #[test]
    fn chunks_give_the_points_of_a_range() {
        let chunks = floats((0..1000).map(|at| at * 10));
        let expected = |start, end| {
            of_chunks(&chunks, TimeRange::new(start, end), &mut HistogramSizes::default())
        };
        let all = expected(i64::MIN, i64::MAX);
        assert_eq!((all.points, all.span, all.runs), (1000.0, 9990.0, 1.0));
        assert_eq!((all.histograms, all.words), (0.0, 0.0));
        let half = expected(0, 4_999);
        assert!((490.0..=512.0).contains(&half.points), "{half:?}");
        assert_eq!(half.span, 4_999.0);
        assert_eq!(expected(9_991, 20_000), Expected::default());
        let one = expected(9_990, 20_000);
        assert_eq!((one.points, one.span), (1.0, 0.0));
    }
}
