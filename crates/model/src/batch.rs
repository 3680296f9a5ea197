//! A batch of writes, as a parser makes it of a request, and its outcome.
//!
//! A batch borrows from the request body: the labels of a series are a slice of it, so a known
//! series costs no allocation. Points are in flat vectors; each series has ranges into them.
//! Refused parts are not in the batch but in its [`Rejections`], by position in the request.
//!
//! The log keeps a body of remote write as received, together with these positions; a replay skips exactly them. A
//! batch without a body, such as one of another protocol, is encoded for the log as remote write 2.0.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::shown_units::ShownDuration;
use super::{
    Exemplar, Histogram, HistogramError, LabelError, Metadata, MetricType, Point, RawLabels,
    Sample, ShownTime, Value,
};
use crate::limits::{MAX_EXEMPLAR_CHARS, MAX_METADATA_TEXT_BYTES, NO_SETTING};

/// The setting for how far in the future a sample may be.
pub const MAX_SAMPLE_LEAD: &str = "max-sample-lead";

/// The message in a body, and how its series get their labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Protocol {
    /// `prometheus.WriteRequest`
    V1 = 1,
    /// `io.prometheus.write.v2.Request`
    V2 = 2,
    /// The same message as `V2`; the type and unit of a series become labels.
    V2Typed = 3,
    /// The same message as `V2`; its samples may be integers. Only the log uses it.
    V2Longs = 4,
}

/// A request body as received: a snappy block.
#[derive(Debug, Clone, Copy)]
pub struct Body<'a> {
    /// The message inside.
    pub protocol: Protocol,
    /// Snappy block.
    pub compressed: &'a [u8],
}

/// A native histogram at a timestamp.
#[derive(Debug, Clone, PartialEq)]
pub struct HistogramSample {
    /// Milliseconds since 1970.
    pub timestamp: i64,
    /// Start time of the counter, in milliseconds since 1970; 0 = unknown.
    pub start_timestamp: i64,
    /// The histogram.
    pub histogram: Histogram,
}

/// One series of a batch: its labels, and the ranges of its points in the flat vectors.
#[derive(Debug, Clone)]
pub struct SeriesEntry<'a> {
    /// Labels as received: they may be unsorted or invalid.
    pub labels: RawLabels<'a>,
    /// Position of the series among all series of the request, counted from 0.
    pub index: u32,
    /// Range in [`WriteBatch::samples`].
    pub samples: Range<u32>,
    /// Range in [`WriteBatch::histograms`].
    pub histograms: Range<u32>,
    /// Range in [`WriteBatch::exemplars`].
    pub exemplars: Range<u32>,
}

impl SeriesEntry<'_> {
    /// The number of floats and histograms.
    pub fn points(&self) -> u64 {
        (self.samples.len() + self.histograms.len()) as u64
    }

    /// Whether nothing is written to the series, not even an exemplar.
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty() && self.histograms.is_empty() && self.exemplars.is_empty()
    }
}

/// An exemplar of a series.
#[derive(Debug, Clone)]
pub struct ExemplarEntry<'a> {
    /// Labels as received; may be empty.
    pub labels: RawLabels<'a>,
    /// The observed value.
    pub value: f64,
    /// Milliseconds since 1970.
    pub timestamp: i64,
}

/// The metadata of a metric family.
#[derive(Debug, Clone, Copy)]
pub struct MetadataEntry<'a> {
    /// Name of the family.
    pub family: &'a str,
    /// Its type.
    pub kind: MetricType,
    /// Help text; empty = none.
    pub help: &'a str,
    /// Unit; empty = none.
    pub unit: &'a str,
}

impl MetadataEntry<'_> {
    /// The metadata without the family.
    pub fn to_metadata(&self) -> Metadata {
        Metadata { kind: self.kind, help: self.help.to_owned(), unit: self.unit.to_owned() }
    }
}

impl ExemplarEntry<'_> {
    /// The exemplar, if its labels are valid.
    pub fn to_exemplar(&self) -> Result<Exemplar, LabelError> {
        let labels = self.labels.to_labels()?;
        Ok(Exemplar { labels, value: self.value, timestamp: self.timestamp })
    }
}

impl From<HistogramSample> for Point {
    fn from(sample: HistogramSample) -> Self {
        let HistogramSample { timestamp, start_timestamp, histogram } = sample;
        Self { timestamp, start_timestamp, value: Value::Histogram(Arc::new(histogram)) }
    }
}

/// The samples of a series, by its range in [`WriteBatch::samples`], each with its integer if it is one. `longs` is
/// [`WriteBatch::longs`].
pub fn samples_with_longs<'a>(
    samples: &'a [Sample],
    longs: &'a [(u32, i64)],
    range: &Range<u32>,
) -> impl Iterator<Item = (&'a Sample, Option<i64>)> {
    let first = longs.partition_point(|(position, _)| *position < range.start);
    let mut longs = longs[first..].iter();
    let mut next = longs.next();
    samples[positions(range)].iter().zip(range.start..).map(move |(sample, position)| {
        let long = next.filter(|(at, _)| *at == position).map(|(_, long)| *long);
        if long.is_some() {
            next = longs.next();
        }
        (sample, long)
    })
}

/// The positions in a flat vector, from a range of a [`SeriesEntry`].
pub fn positions(range: &Range<u32>) -> Range<usize> {
    range.start as usize..range.end as usize
}

/// A batch of writes. If a request has several points of one series at one timestamp, a float wins
/// over a histogram, and otherwise the later point wins.
#[derive(Debug, Clone, Default)]
pub struct WriteBatch<'a> {
    /// The body that this batch was decoded from. Only remote write has one: the log can decode it again.
    pub body: Option<Body<'a>>,
    /// Series in the order of the request; one label set may occur several times.
    pub series: Vec<SeriesEntry<'a>>,
    /// Floats of all series. An integer is here as the nearest float.
    pub samples: Vec<Sample>,
    /// The samples that are integers (KairosDB's type `long`): their positions, which rise, and the integers.
    pub longs: Vec<(u32, i64)>,
    /// Histograms of all series.
    pub histograms: Vec<HistogramSample>,
    /// Exemplars of all series.
    pub exemplars: Vec<ExemplarEntry<'a>>,
    /// Metadata of families.
    pub metadata: Vec<MetadataEntry<'a>>,
    /// The target to report if an entry is refused; empty if the batch did not come from a request.
    pub metadata_targets: Vec<Target>,
    /// Floats and histograms of series without metadata in a request of version 2.
    pub without_metadata: u64,
    /// The parts that the decoder refused.
    pub rejections: Rejections,
}

/// A refused part of a request. Numbers count over the whole request from 0, including refused
/// parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Target {
    /// A series with all its points.
    Series(u32),
    /// One float.
    Sample(u32),
    /// One histogram.
    Histogram(u32),
    /// One exemplar.
    Exemplar(u32),
    /// One metadata entry.
    Metadata(u32),
    /// All metadata of a family in a request of version 2, by the number of the first series that has it.
    Family(u32),
}

/// Why a part of a request can never be accepted.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RejectReason {
    /// The label set is not valid.
    #[error("{0}")]
    Labels(#[from] LabelError),
    /// A symbol reference beyond the end of the table.
    #[error("symbol reference {reference} is out of range, the table has {symbols} symbols")]
    SymbolOutOfRange {
        /// The reference.
        reference: u64,
        /// Length of the symbol table.
        symbols: usize,
    },
    /// Label references come in pairs of name and value.
    #[error("odd number of label references ({0})")]
    OddLabelRefs(usize),
    /// Neither samples nor histograms, and no exemplars.
    #[error("series has neither samples nor histograms")]
    NoPoints,
    /// Outside the years 1 to 9999.
    #[error("timestamp {0} is outside the years 1 to 9999; {NO_SETTING}")]
    TimestampOutOfRange(i64),
    /// Older than a setting allows.
    #[error(
        "timestamp {} is more than {} old, which is the setting {setting}",
        ShownTime(*timestamp),
        ShownDuration(*most),
    )]
    TooOld {
        /// Milliseconds since 1970.
        timestamp: i64,
        /// The value of the setting.
        most: Duration,
        /// Its name.
        setting: &'static str,
    },
    /// Further in the future than a setting allows.
    #[error(
        "timestamp {} is more than {} in the future, which is the setting {setting}",
        ShownTime(*timestamp),
        ShownDuration(*most),
        setting = MAX_SAMPLE_LEAD
    )]
    TooFarAhead {
        /// Milliseconds since 1970.
        timestamp: i64,
        /// The setting.
        most: Duration,
    },
    /// A histogram that contradicts itself.
    #[error("{0}")]
    Histogram(#[from] HistogramError),
    /// More than 128 characters of exemplar labels.
    #[error("exemplar labels have {0} characters, and may have {MAX_EXEMPLAR_CHARS}; {NO_SETTING}")]
    ExemplarTooLong(usize),
    /// Invalid metadata.
    #[error("metadata {0}")]
    Metadata(&'static str),
    /// A family name, a help or a unit that is too long.
    #[error(
        "metadata has a text of {0} bytes, and may have {MAX_METADATA_TEXT_BYTES}; {NO_SETTING}"
    )]
    MetadataTooLong(usize),
    /// Beyond a limit that is a setting.
    #[error("{what}, and the setting {setting} is {most}")]
    Limit {
        /// The value that exceeds the limit.
        what: String,
        /// The setting.
        setting: &'static str,
        /// The value of the setting, formatted for display.
        most: String,
    },
    /// The store cannot represent it.
    #[error("{0}")]
    Store(String),
}

impl RejectReason {
    /// The words of [`RejectReason::as_str`] that are not settings.
    pub const WORDS: [&str; 8] = [
        "labels",
        "symbols",
        "no_points",
        "timestamp",
        "histogram",
        "exemplar",
        "metadata",
        "store",
    ];

    /// A short fixed word for metrics: the name of the setting, if there is one.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Labels(LabelError::TooMany { .. }) => "max-labels-per-series",
            Self::Labels(LabelError::NameTooLong { .. }) => "max-label-name-size",
            Self::Labels(LabelError::ValueTooLong { .. }) => "max-label-value-size",
            Self::Labels(LabelError::TooLong { .. }) => "max-labels-size",
            Self::Labels(_) => "labels",
            Self::SymbolOutOfRange { .. } | Self::OddLabelRefs(_) => "symbols",
            Self::NoPoints => "no_points",
            Self::TimestampOutOfRange(_) => "timestamp",
            Self::TooOld { setting, .. } => setting,
            Self::TooFarAhead { .. } => MAX_SAMPLE_LEAD,
            Self::Histogram(_) => "histogram",
            Self::ExemplarTooLong(_) => "exemplar",
            Self::Metadata(_) | Self::MetadataTooLong(_) => "metadata",
            Self::Limit { setting, .. } => setting,
            Self::Store(_) => "store",
        }
    }
}

/// One refused part, and the reason.
#[derive(Debug, Clone, PartialEq)]
pub struct Reject {
    /// The refused part.
    pub target: Target,
    /// The reason.
    pub reason: RejectReason,
    /// The series as text; empty if it cannot be formatted.
    pub series: String,
}

impl fmt::Display for Reject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.reason)?;
        if !self.series.is_empty() {
            write!(f, " for series {}", self.series)?;
        }
        Ok(())
    }
}

/// Everything refused in a request: all targets, but reasons only for the first
/// [`Rejections::KEPT`], so that a hostile request stays cheap.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rejections {
    targets: Vec<Target>,
    kept: Vec<Reject>,
    counts: Vec<(&'static str, u64)>,
    points: Vec<(&'static str, u64)>,
}

impl Rejections {
    /// Maximum number of reasons that are kept.
    pub const KEPT: usize = 16;

    /// Adds one part. `series` is called only if its text is kept.
    pub fn push(&mut self, target: Target, reason: RejectReason, series: impl FnOnce() -> String) {
        if matches!(target, Target::Sample(_) | Target::Histogram(_)) {
            add(&mut self.points, reason.as_str(), 1);
        }
        self.targets.push(target);
        add(&mut self.counts, reason.as_str(), 1);
        if self.kept.len() < Self::KEPT {
            let series = series();
            self.kept.push(Reject { target, reason, series });
        }
    }

    /// Adds a series by its index, with the number of its points that were not refused before.
    pub fn push_series(
        &mut self,
        index: u32,
        points: u64,
        reason: RejectReason,
        series: impl FnOnce() -> String,
    ) {
        add(&mut self.points, reason.as_str(), points);
        self.push(Target::Series(index), reason, series);
    }

    /// Adds all of `other`.
    pub fn extend(&mut self, other: Self) {
        self.targets.extend(other.targets);
        for (reason, count) in other.counts {
            add(&mut self.counts, reason, count);
        }
        for (reason, count) in other.points {
            add(&mut self.points, reason, count);
        }
        let room = Self::KEPT.saturating_sub(self.kept.len());
        self.kept.extend(other.kept.into_iter().take(room));
    }

    /// Sets the series of all kept reasons from index `from` on.
    pub fn name_series(&mut self, from: usize, series: &str) {
        for reject in self.kept.iter_mut().skip(from) {
            reject.series = series.into();
        }
    }

    /// Replaces the texts of the kept reasons. Their words for metrics stay the same.
    pub fn reword(&mut self, words: impl Fn(&RejectReason) -> Option<RejectReason>) {
        for reject in &mut self.kept {
            if let Some(reason) = words(&reject.reason) {
                debug_assert_eq!(reason.as_str(), reject.reason.as_str());
                reject.reason = reason;
            }
        }
    }

    /// The number of refusals for each [`RejectReason::as_str`].
    pub fn counts(&self) -> &[(&'static str, u64)] {
        &self.counts
    }

    /// The number of refused floats and histograms for each reason, including those of refused series.
    pub fn points(&self) -> &[(&'static str, u64)] {
        &self.points
    }

    /// All targets, in order of refusal.
    pub fn targets(&self) -> &[Target] {
        &self.targets
    }

    /// The first refused parts, with reasons.
    pub fn kept(&self) -> &[Reject] {
        &self.kept
    }

    /// The number of refused parts.
    pub fn len(&self) -> usize {
        self.targets.len()
    }

    /// Whether nothing was refused.
    pub fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }
}

fn add(counts: &mut Vec<(&'static str, u64)>, reason: &'static str, more: u64) {
    match counts.iter_mut().find(|(known, _)| *known == reason) {
        Some((_, count)) => *count += more,
        None => counts.push((reason, more)),
    }
}

/// The outcome of a batch: the number of stored items of each kind (an item that was stored before
/// counts as stored), and the refused parts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WriteOutcome {
    /// Floats.
    pub samples: u64,
    /// Histograms.
    pub histograms: u64,
    /// Exemplars.
    pub exemplars: u64,
    /// Metadata entries.
    pub metadata: u64,
    /// The parts refused by the decoder and by the store.
    pub rejections: Rejections,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LabelError;

    #[test]
    fn words_are_those_of_the_reasons() {
        let reasons = [
            RejectReason::Labels(LabelError::NoMetricName),
            RejectReason::OddLabelRefs(1),
            RejectReason::NoPoints,
            RejectReason::TimestampOutOfRange(0),
            RejectReason::ExemplarTooLong(1),
            RejectReason::Metadata("odd"),
            RejectReason::Store(String::new()),
        ];
        for reason in reasons {
            assert!(RejectReason::WORDS.contains(&reason.as_str()), "{reason}");
        }
    }
}
