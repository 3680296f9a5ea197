//! A batch of writes, as remote write brings it, and what became of it.
//!
//! A batch borrows from the request body: the labels of a series are a slice of
//! it, so that a known series costs no allocation. Points lie in flat vectors;
//! each series has ranges into them. What was refused is not in the batch but in
//! its [`Rejections`], by position in the request: the log keeps the body as it
//! came together with those positions, and a replay leaves out exactly them.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use super::sample_times::MAX_SAMPLE_LEAD;
use super::shown_units::ShownDuration;
use super::{Histogram, HistogramError, LabelError, MetricType, RawLabels, Sample, ShownTime};
use crate::limits::{MAX_EXEMPLAR_CHARS, MAX_METADATA_TEXT_BYTES, NO_SETTING};

/// Which message a body holds, and how its series get their labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Protocol {
    /// `prometheus.WriteRequest`
    V1 = 1,
    /// `io.prometheus.write.v2.Request`
    V2 = 2,
    /// The same; the type and unit of a series are labels of it.
    V2Typed = 3,
}

/// A request body as it came: a snappy block.
#[derive(Debug, Clone, Copy)]
pub struct Body<'a> {
    /// The message inside.
    pub protocol: Protocol,
    /// Snappy block.
    pub compressed: &'a [u8],
}

/// A native histogram at a time.
#[derive(Debug, Clone, PartialEq)]
pub struct HistogramSample {
    /// Milliseconds since 1970.
    pub timestamp: i64,
    /// When the counter began, in milliseconds; 0 = unknown.
    pub start_timestamp: i64,
    /// The histogram.
    pub histogram: Histogram,
}

/// One series of a batch: its labels, and where its points lie in the flat vectors.
#[derive(Debug, Clone)]
pub struct SeriesEntry<'a> {
    /// Labels as they came: not yet known to be sorted or valid.
    pub labels: RawLabels<'a>,
    /// Position of the series in the request, counted from 0 over all series of it.
    pub index: u32,
    /// Range in [`WriteBatch::samples`].
    pub samples: Range<u32>,
    /// Range in [`WriteBatch::histograms`].
    pub histograms: Range<u32>,
    /// Range in [`WriteBatch::exemplars`].
    pub exemplars: Range<u32>,
}

impl SeriesEntry<'_> {
    /// How many floats and histograms there are.
    pub fn points(&self) -> u64 {
        (self.samples.len() + self.histograms.len()) as u64
    }

    /// Whether nothing is written to the series, no exemplar either.
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty() && self.histograms.is_empty() && self.exemplars.is_empty()
    }
}

/// An exemplar of a series.
#[derive(Debug, Clone)]
pub struct ExemplarEntry<'a> {
    /// Labels as they came; may be empty.
    pub labels: RawLabels<'a>,
    /// The observed value.
    pub value: f64,
    /// Milliseconds since 1970.
    pub timestamp: i64,
}

/// What a metric family is.
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

/// A batch of writes. Within one request, of two points of one series at one
/// timestamp a float wins over a histogram, and otherwise the later one.
#[derive(Debug, Clone, Default)]
pub struct WriteBatch<'a> {
    /// The body this batch was decoded from, if it came over the wire.
    pub body: Option<Body<'a>>,
    /// Series in the order of the request; one label set may occur several times.
    pub series: Vec<SeriesEntry<'a>>,
    /// Floats of all series.
    pub samples: Vec<Sample>,
    /// Histograms of all series.
    pub histograms: Vec<HistogramSample>,
    /// Exemplars of all series.
    pub exemplars: Vec<ExemplarEntry<'a>>,
    /// Metadata of families.
    pub metadata: Vec<MetadataEntry<'a>>,
    /// What each of these entries is called when it is refused; of a batch that is no request there are none.
    pub metadata_targets: Vec<Target>,
    /// Floats and histograms of series without metadata, of a request of version 2.
    pub without_metadata: u64,
    /// What the decoder refused already.
    pub rejections: Rejections,
}

/// What of a request is refused. Numbers count over the whole request, from 0,
/// refused ones included.
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
    /// All that a request of version 2 says of a family, by the number of the first series that says it.
    Family(u32),
}

/// Why a part of a request can never be accepted.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RejectReason {
    /// The label set is not valid.
    #[error("{0}")]
    Labels(#[from] LabelError),
    /// A symbol reference beyond the table.
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
    /// Metadata that is none.
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
        /// What there is.
        what: String,
        /// The setting.
        setting: &'static str,
        /// Its value, as people read it.
        most: String,
    },
    /// The store below cannot represent it.
    #[error("{0}")]
    Store(String),
}

impl RejectReason {
    /// The words of [`RejectReason::as_str`] that are not names of settings.
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

    /// A short fixed word for metrics: the name of the setting where there is one.
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

/// One refused part and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Reject {
    /// What is refused.
    pub target: Target,
    /// Why.
    pub reason: RejectReason,
    /// The series, printed; empty where it cannot be.
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

/// Everything refused of a request: every target, but only the first
/// [`Rejections::KEPT`] with their reasons, so that a hostile request stays cheap.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rejections {
    targets: Vec<Target>,
    kept: Vec<Reject>,
    counts: Vec<(&'static str, u64)>,
    points: Vec<(&'static str, u64)>,
}

impl Rejections {
    /// How many reasons are kept.
    pub const KEPT: usize = 16;

    /// Adds one. `series` is called only when the text is kept.
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

    /// Adds the series of this number, with so many floats and histograms that are not refused already.
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

    /// Sets the series of the reasons kept from the one numbered `from` on.
    pub fn name_series(&mut self, from: usize, series: &str) {
        for reject in self.kept.iter_mut().skip(from) {
            reject.series = series.into();
        }
    }

    /// Says the reasons that are kept in other words. The metrics' word of each stays.
    pub fn reword(&mut self, words: impl Fn(&RejectReason) -> Option<RejectReason>) {
        for reject in &mut self.kept {
            if let Some(reason) = words(&reject.reason) {
                debug_assert_eq!(reason.as_str(), reject.reason.as_str());
                reject.reason = reason;
            }
        }
    }

    /// How many were refused for each [`RejectReason::as_str`].
    pub fn counts(&self) -> &[(&'static str, u64)] {
        &self.counts
    }

    /// How many floats and histograms were refused for each of them, those of refused series included.
    pub fn points(&self) -> &[(&'static str, u64)] {
        &self.points
    }

    /// All targets, in the order they were refused.
    pub fn targets(&self) -> &[Target] {
        &self.targets
    }

    /// The first ones, with reasons.
    pub fn kept(&self) -> &[Reject] {
        &self.kept
    }

    /// How many were refused.
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

/// What became of a batch: how many of each kind are stored (a repetition of
/// what was there counts as stored), and what was refused.
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
    /// Refused parts: those of the batch and those the store added.
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
