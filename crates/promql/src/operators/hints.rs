//! What stored histograms say of counter resets, as queries see it.
//!
//! A histogram in a chunk says that it is no reset, as it was compared with the one before in that chunk; the first
//! one says nothing, whatever its sender said. Where only counts and sums of histograms are asked for, Prometheus
//! finds resets while it reads, and so the hints are those that it found; what a query tells about them
//! depends on it. What it gives then has no buckets.

use std::sync::Arc;

use crate::histogram::FloatHistogram;
use crate::plan::ResetHints;
use promkairos_model::{Histogram, ResetHint};

/// Reads the histograms of one series by rising time.
#[derive(Debug)]
pub(crate) struct HistogramReader {
    hints: ResetHints,
    /// The histogram before, with its buckets.
    last: Option<FloatHistogram>,
}

impl HistogramReader {
    /// For one series.
    pub(crate) fn new(hints: ResetHints) -> Self {
        Self { hints, last: None }
    }

    /// The next histogram.
    pub(crate) fn read(&mut self, stored: &Histogram) -> Arc<FloatHistogram> {
        let mut histogram = FloatHistogram::from(stored);
        if self.hints == ResetHints::AsStored {
            return Arc::new(histogram);
        }
        if let (ResetHint::Unknown, Some(last)) = (histogram.reset_hint, &self.last) {
            let reset = histogram.is_reset_after(last);
            histogram.reset_hint = if reset { ResetHint::Reset } else { ResetHint::NotReset };
        }
        let totals = Arc::new(histogram.totals());
        self.last = Some(histogram);
        totals
    }

    /// The next histogram is not compared with the ones before.
    pub(crate) fn forget(&mut self) {
        self.last = None;
    }
}
