//! Which functions ask histograms for their buckets, and which for no more than count and sum.

use crate::promql::signature::Function;

/// Whether it asks a histogram for no more than its count and sum.
pub(super) fn asks_totals(function: Function) -> bool {
    use Function::{Absent, HistogramAvg, HistogramCount, HistogramSum, StartTimestamp, Timestamp};
    matches!(
        function,
        Absent | HistogramAvg | HistogramCount | HistogramSum | StartTimestamp | Timestamp
    )
}

/// Whether it asks a histogram for its buckets, whatever is done with the result.
pub(super) fn asks_buckets(function: Function) -> bool {
    use Function::{
        Changes, HistogramFraction, HistogramQuantile, HistogramQuantiles, HistogramStddev,
        HistogramStdvar,
    };
    matches!(
        function,
        Changes
            | HistogramFraction
            | HistogramQuantile
            | HistogramQuantiles
            | HistogramStddev
            | HistogramStdvar
    )
}
