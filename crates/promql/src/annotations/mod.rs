//! Annotations of a query: warnings and infos that are returned beside its result.
//!
//! Equal notes are merged into one, at the place farthest in the text, however many series and
//! steps caused them; the counts and extremes of equal notes are combined. At most `limit` notes of
//! each kind are returned, sorted, so the same query returns the same annotations.

mod note;

use std::collections::BTreeMap;

pub use note::{HistogramOperation, Note, Severity};

use super::format::{general, general_rounded, rfc3339};
use super::histogram::Monotonicity;
use super::position::Span;

/// The maximum number of warnings, and of infos, in a response.
pub const SHOWN: usize = 10;

/// A note about a place in the query.
#[derive(Debug, Clone)]
pub struct Annotation {
    note: Note,
    details: Details,
}

/// The part of an annotation in which equal notes may differ.
#[derive(Debug, Clone)]
struct Details {
    span: Span,
    times: u64,
    forced: Option<Forced>,
}

/// The range of the counts of classic histograms that were raised, over all samples.
#[derive(Debug, Clone, Copy)]
struct Forced {
    buckets: Monotonicity,
    first: i64,
    last: i64,
}

impl Note {
    /// This note at its place in the query.
    pub fn at(self, span: Span) -> Annotation {
        Annotation { note: self, details: Details { span, times: 1, forced: None } }
    }

    /// The note that counts had to be raised for a sample at `time`.
    pub fn forced_monotonicity(
        metric: String,
        buckets: Monotonicity,
        time: i64,
        span: Span,
    ) -> Annotation {
        let forced = Some(Forced { buckets, first: time, last: time });
        let note = Self::ForcedMonotonicity { metric };
        Annotation { note, details: Details { span, times: 1, forced } }
    }
}

impl Details {
    fn merge(&mut self, other: &Self) {
        if other.span.start > self.span.start {
            self.span = other.span;
        }
        self.times += other.times;
        if let (Some(own), Some(other)) = (&mut self.forced, &other.forced) {
            own.first = own.first.min(other.first);
            own.last = own.last.max(other.last);
            own.buckets.lowest = own.buckets.lowest.min(other.buckets.lowest);
            own.buckets.highest = own.buckets.highest.max(other.buckets.highest);
            own.buckets.difference = own.buckets.difference.max(other.buckets.difference);
        }
    }

    /// The text of `note` with its details and its place in `query`.
    fn text(&self, note: &Note, query: &str) -> String {
        let mut text = note.to_string();
        if let Some(Forced { buckets, first, last }) = &self.forced {
            text += &format!(
                ", from buckets {} to {}, with a max diff of {}, over {} samples from {} to {}",
                general(buckets.lowest),
                general(buckets.highest),
                general_rounded(buckets.difference, 2),
                self.times,
                rfc3339(*first),
                rfc3339(*last),
            );
        }
        if matches!(note, Note::OverlappingStartTime { .. }) && self.times > 1 {
            text += &format!(" ({} occurrences)", self.times);
        }
        text + &format!(" ({})", self.span.line_column(query))
    }
}

/// The annotations of a query, each note once.
#[derive(Debug, Clone, Default)]
pub struct Annotations {
    notes: BTreeMap<Note, Details>,
}

/// The annotations as text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shown {
    /// Warnings.
    pub warnings: Vec<String>,
    /// Infos.
    pub infos: Vec<String>,
}

impl Annotations {
    /// Adds a note.
    pub fn add(&mut self, annotation: Annotation) {
        let Annotation { note, details } = annotation;
        match self.notes.get_mut(&note) {
            Some(held) => held.merge(&details),
            None => {
                self.notes.insert(note, details);
            }
        }
    }

    /// Adds all notes of `other`.
    pub fn merge(&mut self, other: Self) {
        for (note, details) in other.notes {
            self.add(Annotation { note, details });
        }
    }

    /// Whether there are no notes.
    pub fn is_empty(&self) -> bool {
        self.notes.is_empty()
    }

    /// Every note, once, without its place.
    pub fn notes(&self) -> impl Iterator<Item = &Note> {
        self.notes.keys()
    }

    /// The texts with places in `query`: at most `limit` of each kind, then a line with the number
    /// of notes that were omitted.
    pub fn shown(&self, query: &str, limit: usize) -> Shown {
        let of = |severity: Severity, name: &str| {
            let notes = || self.notes.iter().filter(|(note, _)| note.severity() == severity);
            let shown = notes().take(limit).map(|(note, details)| details.text(note, query));
            let more = notes().count().saturating_sub(limit);
            let more = (more > 0).then(|| format!("{more} more {name} annotations omitted"));
            shown.chain(more).collect()
        };
        Shown { warnings: of(Severity::Warning, "warning"), infos: of(Severity::Info, "info") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(start: usize) -> Span {
        Span::new(start, start + 1)
    }

    fn ignored(metric: &str) -> Note {
        Note::HistogramIgnoredInMixedRange { metric: metric.to_owned() }
    }

    #[test]
    fn equal_notes_are_told_once_at_the_last_place() {
        let mut all = Annotations::default();
        for start in [2, 12, 7] {
            all.add(ignored("a\"b").at(at(start)));
        }
        all.add(Note::invalid_quantile(f64::NAN).at(at(0)));
        let shown = all.shown("012345\n89012345", SHOWN);
        assert_eq!(
            shown.infos,
            ["PromQL info: ignored histograms in a range containing both floats and histograms \
              for metric name \"a\\\"b\" (2:6)"]
        );
        assert_eq!(
            shown.warnings,
            ["PromQL warning: quantile value should be between 0 and 1, got NaN (1:1)"]
        );
    }

    #[test]
    fn of_many_only_some_are_shown() {
        let mut all = Annotations::default();
        for i in 0..13 {
            all.add(ignored(&format!("m{i:02}")).at(at(0)));
        }
        let shown = all.shown("x", SHOWN);
        assert_eq!((shown.infos.len(), shown.warnings.len()), (11, 0));
        assert_eq!(shown.infos[10], "3 more info annotations omitted");
    }

    #[test]
    fn monotonicity_sums_up_over_samples() {
        let forced = |lowest, highest, difference, time| {
            let buckets = Monotonicity { lowest, highest, difference };
            Note::forced_monotonicity("m".to_owned(), buckets, time, at(0))
        };
        let mut all = Annotations::default();
        all.add(forced(0.1, 0.5, 2.0, 60_000));
        let mut more = Annotations::default();
        more.add(forced(0.2, 1.0, 123.0, 0));
        all.merge(more);
        assert_eq!(
            all.shown("x", SHOWN).infos,
            ["PromQL info: input to histogram_quantile needed to be fixed for monotonicity (see \
              https://prometheus.io/docs/prometheus/latest/querying/functions/#histogram_quantile\
              ) for metric name \"m\", from buckets 0.1 to 1, with a max diff of 1.2e+02, over 2 \
              samples from 1970-01-01T00:00:00Z to 1970-01-01T00:01:00Z (1:1)"]
        );
    }

    #[test]
    fn names_are_left_out_where_there_is_none() {
        let texts = |metric: &str| {
            let metric = metric.to_owned();
            Note::BadBucketLabel { le: "x".to_owned(), metric }.to_string()
        };
        let start =
            "PromQL warning: bucket label \"le\" is missing or has a malformed value of \"x\"";
        assert_eq!(texts(""), start);
        assert_eq!(texts("m"), format!("{start} for metric name \"m\""));
    }
}
