//! The counter reset hints of stored histograms, as queries see them.
//!
//! A histogram in a chunk is marked as no reset if it was compared with the one before in that
//! chunk. The first histogram of a chunk has no hint, whatever its sender set. If a query needs only
//! counts and sums of histograms, Prometheus detects resets while it reads, and the hints are what
//! it detected; the notes of a query depend on this. The histograms then have no buckets.

use std::sync::Arc;

use crate::histogram::FloatHistogram;
use crate::plan::ResetHints;
use promkairos_model::{Histogram, ResetHint};

/// Reads the histograms of one series by rising time.
#[derive(Debug)]
pub(crate) struct HistogramReader {
    hints: ResetHints,
    /// The previous histogram, with its buckets.
    last: Option<FloatHistogram>,
}

impl HistogramReader {
    /// A reader for one series.
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

    /// The next histogram is not compared with the previous ones.
    pub(crate) fn forget(&mut self) {
        self.last = None;
    }
}
