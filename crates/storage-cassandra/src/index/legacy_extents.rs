//! What is remembered of the legacy index: whether its table has rows, and the first and last column of each metric.
//! Bounded; no I/O.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::identity::Identity;
use promkairos_kairos::index::LegacySlice;

/// The most metrics that are remembered.
const MOST_METRICS: usize = 200_000;

/// What is remembered of the legacy index.
#[derive(Default)]
pub(crate) struct LegacyExtents {
    /// None: not looked up yet.
    pub(crate) table: Mutex<Option<Looked<bool>>>,
    pub(crate) metrics: Mutex<HashMap<Identity, Looked<Option<Arc<Extent>>>>>,
}

/// A result, and when it was looked up.
#[derive(Clone)]
pub(crate) struct Looked<T> {
    pub(crate) at: Instant,
    pub(crate) found: T,
}

impl<T> Looked<T> {
    pub(crate) fn new(found: T) -> Self {
        Self { at: Instant::now(), found }
    }

    pub(crate) fn is_fresh(&self, recheck: Duration) -> bool {
        self.at.elapsed() < recheck
    }
}

/// The first and the last column of a partition.
pub(crate) struct Extent {
    pub(crate) first: Vec<u8>,
    pub(crate) last: Vec<u8>,
}

impl Extent {
    pub(crate) fn overlaps(&self, slice: &LegacySlice) -> bool {
        slice.start <= self.last && self.first <= slice.end
    }
}

impl LegacyExtents {
    /// Remembers the extent of a metric.
    pub(crate) fn keep(&self, metric: Identity, found: Option<Arc<Extent>>) {
        let mut metrics = self.metrics.lock();
        if metrics.len() >= MOST_METRICS {
            metrics.clear();
        }
        metrics.insert(metric, Looked::new(found));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use promkairos_kairos::RowSpec;
    use promkairos_model::TimeRange;

    #[test]
    fn only_slices_with_something_in_them_are_read() {
        let bytes = |time: i64| [b"m\0", &time.to_be_bytes()[..], b"a=b:"].concat();
        let width = RowSpec::DEFAULT.width();
        let check = |extent: (i64, i64), range: (i64, i64), want: usize| {
            let extent = Extent { first: bytes(extent.0), last: bytes(extent.1) };
            let range = TimeRange::new(range.0, range.1);
            let slices = LegacySlice::of(RowSpec::DEFAULT, "m", range).expect("valid");
            let read = slices.iter().filter(|slice| extent.overlaps(slice)).count();
            assert_eq!(read, want, "{range:?}");
        };
        check((width, 3 * width), (width + 5, width + 6), 1);
        check((width, 3 * width), (4 * width, 5 * width), 0);
        check((width, 3 * width), (0, width - 1), 0);
        check((width, 3 * width), (i64::MIN, i64::MAX), 1);
        // Negative times sort last: this partition spans 1970.
        check((width, -10), (i64::MIN, i64::MAX), 2);
        check((width, -10), (-5, -1), 1);
    }
}
