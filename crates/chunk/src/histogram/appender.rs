//! Writes histograms, and decides which of them fit into one chunk.
//!
//! A chunk has one kind, one layout and no counter reset inside. Histograms are not validated here.

use super::columns::Columns;
use super::hint::flags;
use crate::bits::BitWriter;
use crate::chunk::{Chunk, ChunkKind, SideKind};
use crate::column::ColumnBytes;
use crate::layout::Layout;
use crate::varbit::write_signed;
use crate::xor::XorValue;
use promkairos_model::{Histogram, ResetHint};

/// The result of adding a point to an open chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Appended {
    /// The point was added.
    Yes,
    /// A new chunk is needed: this one is full, has another kind or layout, or does not end before the point.
    Cut,
    /// A new chunk is needed, because the counter was reset.
    Reset,
}

/// An open chunk of histograms. All histograms must be valid.
#[derive(Debug, Clone)]
pub struct HistogramAppender {
    bits: BitWriter,
    layout: Layout,
    hint: ResetHint,
    count: u16,
    min_time: i64,
    time: i64,
    time_delta: i64,
    sum: XorValue,
    columns: Columns,
}

impl HistogramAppender {
    /// A chunk with one histogram.
    pub fn new(timestamp: i64, histogram: &Histogram) -> Self {
        let layout = if histogram.is_stale() { Layout::default() } else { Layout::of(histogram) };
        // `NotReset` refers to the previous histogram of the sender, which may not be in the previous chunk.
        let hint = match histogram.reset_hint {
            ResetHint::NotReset => ResetHint::Unknown,
            known => known,
        };
        let mut bits = BitWriter::default();
        layout.write(&mut bits);
        write_signed(&mut bits, timestamp);
        let columns = Columns::first(&mut bits, histogram);
        Self {
            bits,
            layout,
            hint,
            count: 1,
            min_time: timestamp,
            time: timestamp,
            time_delta: 0,
            sum: XorValue::new(histogram.sum),
            columns,
        }
    }

    /// Adds a histogram later than all before, or returns why it needs a new chunk. The chunk must
    /// have fewer than 65,535.
    pub fn append(&mut self, timestamp: i64, histogram: &Histogram) -> Appended {
        let fit = self.fit(histogram);
        if fit != Appended::Yes {
            return fit;
        }
        let delta = timestamp.wrapping_sub(self.time);
        write_signed(&mut self.bits, delta.wrapping_sub(self.time_delta));
        self.columns.write(&mut self.bits, &mut self.sum, histogram);
        self.time = timestamp;
        self.time_delta = delta;
        self.count += 1;
        Appended::Yes
    }

    fn fit(&self, histogram: &Histogram) -> Appended {
        if histogram.is_float() != (self.columns.kind() == ChunkKind::FloatHistogram) {
            return Appended::Cut;
        }
        if histogram.is_stale() {
            return Appended::Yes;
        }
        let gauge = histogram.reset_hint == ResetHint::Gauge;
        if histogram.reset_hint == ResetHint::Reset {
            Appended::Reset
        } else if gauge != (self.hint == ResetHint::Gauge)
            || self.sum.is_stale()
            || !self.layout.fits(histogram)
        {
            Appended::Cut
        } else if !gauge && self.columns.reset_before(&histogram.counts, self.layout.buckets().0) {
            Appended::Reset
        } else {
            Appended::Yes
        }
    }

    /// Records that the counter was reset before the first histogram, if its hint is unknown.
    pub(crate) fn mark_reset(&mut self) {
        if self.hint == ResetHint::Unknown {
            self.hint = ResetHint::Reset;
        }
    }

    /// The number of histograms.
    pub fn count(&self) -> usize {
        usize::from(self.count)
    }

    /// Timestamp of the first histogram, in milliseconds.
    pub fn min_time(&self) -> i64 {
        self.min_time
    }

    /// Timestamp of the last histogram, in milliseconds.
    pub fn max_time(&self) -> i64 {
        self.time
    }

    /// The histograms so far. The appender stays usable.
    pub fn to_chunk(&self) -> Chunk {
        let [high, low] = self.count.to_be_bytes();
        Chunk {
            kind: self.columns.kind(),
            count: self.count,
            min_time: self.min_time,
            max_time: self.time,
            data: self.bits.snapshot(&[high, low, flags(self.hint)]),
            side: ColumnBytes::default(),
            side_kind: SideKind::Starts,
            stamps: ColumnBytes::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{T, float, integer, stale};
    use super::*;

    #[test]
    fn what_fits() {
        use Appended::{Cut, Reset, Yes};
        let base = integer(4, 5.0, &[1, 1, -1]);
        let gauge = Histogram { reset_hint: ResetHint::Gauge, ..base.clone() };
        let bounds = |bound| Histogram {
            custom_values: vec![bound, 0.25, 1.0, 1e9],
            ..float(6.0, 1.5, &[1.0, 2.0, 3.0])
        };
        let cases = [
            (base.clone(), base.clone(), Yes),
            (base.clone(), integer(5, 5.0, &[1, 1, 0]), Yes),
            (base.clone(), integer(3, 5.0, &[1, 1, -1]), Reset),
            // The second bucket falls from 2 to 1, although the third rises by more.
            (base.clone(), integer(5, 5.0, &[1, 0, 2]), Reset),
            (base.clone(), integer(6, 5.0, &[1, 1, -1, 1]), Cut),
            (base.clone(), Histogram { schema: 1, ..base.clone() }, Cut),
            (base.clone(), Histogram { zero_threshold: 0.5, ..base.clone() }, Cut),
            (base.clone(), gauge.clone(), Cut),
            (gauge.clone(), base.clone(), Cut),
            (gauge.clone(), Histogram { sum: 1.0, ..gauge.clone() }, Yes),
            (base.clone(), Histogram { reset_hint: ResetHint::Reset, ..base.clone() }, Reset),
            (base.clone(), Histogram { reset_hint: ResetHint::NotReset, ..base.clone() }, Yes),
            (base.clone(), float(6.0, 1.5, &[1.0, 2.0, 3.0]), Cut),
            (base.clone(), stale(&base), Yes),
            (gauge.clone(), stale(&base), Yes),
            (stale(&base), base.clone(), Cut),
            (stale(&base), stale(&base), Yes),
            (bounds(0.1), bounds(0.1), Yes),
            (bounds(0.1), bounds(0.2), Cut),
            (bounds(0.1), float(7.0, 1.5, &[1.0, 2.0, 2.5]), Reset),
        ];
        for (i, (first, second, expected)) in cases.iter().enumerate() {
            let mut appender = HistogramAppender::new(T, first);
            assert_eq!(appender.append(T + 1, second), *expected, "case {i}");
        }
        let falling = Histogram { reset_hint: ResetHint::Gauge, ..integer(1, 5.0, &[0, 1, -1]) };
        assert_eq!(HistogramAppender::new(T, &gauge).append(T + 1, &falling), Yes);
    }
}
