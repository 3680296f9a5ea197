//! How many series of a selection are read at a time, by their bytes.
//!
//! A reader that works run by run has the chunks of its current runs in memory, whether a series
//! has one sample or a million. A single series is never divided: it may exceed the size of a run.

use std::ops::Range;

use super::select::SeriesReader;
use promkairos_chunk::Chunk;

/// The length of the runs of one selection.
#[derive(Debug)]
pub struct RunLength {
    /// Maximum number of series of a run.
    most: usize,
    /// Approximate bytes of a run.
    bytes: usize,
    /// Series of the next run, if the sizes of series are not known.
    length: usize,
}

impl RunLength {
    /// Runs of at most `most` series and about `bytes` bytes. If the reader does not know the sizes of series, the
    /// first run has `first` series, and later ones are adapted to the bytes that were read.
    pub fn new(most: usize, bytes: usize, first: usize) -> Self {
        let most = most.max(1);
        Self { most, bytes, length: first.clamp(1, most) }
    }

    /// The run that begins at the series `first` of `total`; at least one series if any is left.
    pub fn run(&self, reader: &dyn SeriesReader, first: usize, total: usize) -> Range<usize> {
        let (mut end, mut bytes) = (first, 0usize);
        while end < total {
            let expected = reader.expected_bytes(end);
            let most = if expected.is_some() { self.most } else { self.length };
            bytes = bytes.saturating_add(expected.unwrap_or(0));
            if end > first && (end - first >= most || bytes > self.bytes) {
                break;
            }
            end += 1;
        }
        first..end
    }

    /// Notes that a run of `series` series brought `bytes` bytes.
    pub fn note(&mut self, series: usize, bytes: usize) {
        let fitting = self.bytes / (bytes / series.max(1)).max(1);
        // Grows slowly, because the next series may be larger; shrinks at once.
        self.length = fitting.clamp(1, (self.length * 4).min(self.most));
    }
}

/// Bytes of chunks in memory, by series.
pub fn chunk_bytes(chunks: &[Vec<Chunk>]) -> usize {
    chunks.iter().flatten().map(bytes_of_chunk).sum()
}

/// Bytes of a chunk in memory.
pub fn bytes_of_chunk(chunk: &Chunk) -> usize {
    size_of::<Chunk>() + chunk.data.len() + chunk.side.len() + chunk.stamps.len()
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;

    use super::*;
    use crate::{Forecast, StoreError};
    use promkairos_model::TimeRange;

    /// A reader that may know the sizes of its series.
    struct Knowing(Option<Vec<usize>>);

    #[async_trait]
    impl SeriesReader for Knowing {
        async fn read(&self, _: Range<usize>) -> Result<Vec<Vec<Chunk>>, StoreError> {
            Ok(Vec::new())
        }

        async fn forecast(&self, _: TimeRange) -> Result<Forecast, StoreError> {
            Ok(Forecast::default())
        }

        fn expected_bytes(&self, series: usize) -> Option<usize> {
            self.0.as_ref().map(|bytes| bytes[series])
        }
    }

    #[test]
    fn a_run_ends_before_it_has_too_many_bytes() {
        let reader = Knowing(Some(vec![10, 10, 10, 200, 5, 90, 6, 1, 1, 1, 1, 1]));
        let length = RunLength::new(4, 100, 1);
        let (mut runs, mut first) = (Vec::new(), 0);
        while first < 12 {
            let run = length.run(&reader, first, 12);
            first = run.end;
            runs.push(run);
        }
        assert_eq!(runs, [0..3, 3..4, 4..6, 6..10, 10..12]);
        assert_eq!(length.run(&reader, 12, 12), 12..12);
    }

    #[test]
    fn where_nobody_knows_it_follows_what_was_read() {
        let reader = Knowing(None);
        let mut length = RunLength::new(40, 100, 2);
        let mut next = |series, bytes| {
            length.note(series, bytes);
            length.run(&reader, 0, 1_000).end
        };
        assert_eq!([next(2, 2), next(8, 8), next(32, 32)], [8, 32, 40]);
        assert_eq!([next(40, 4_000), next(1, 900), next(1, 0)], [1, 1, 4]);
        assert_eq!(length.run(&reader, 999, 1_000), 999..1_000);
    }
}
