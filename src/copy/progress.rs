//! How far a copy has come, and what it has counted so far.
//!
//! Everything before the place that it names is acknowledged by the target. The form is kept in
//! files: a field is never given another meaning.

use serde::{Deserialize, Serialize};

use crate::model::{LabelError, Labels};

/// The place from which a copy goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Number of the day, from that of 1970-01-01; none = the first.
    pub(super) day: Option<i64>,
    /// Position of the selector.
    pub(super) selector: usize,
    /// The last series of it that is copied on that day, by names and values; none = not even one.
    pub(super) after: Option<Vec<(String, String)>>,
    /// Whether everything is copied.
    pub(super) is_done: bool,
    /// What was copied.
    pub totals: Totals,
}

impl Progress {
    /// The beginning of a copy.
    pub fn start() -> Self {
        let totals = Totals::default();
        Self { day: None, selector: 0, after: None, is_done: false, totals }
    }

    /// Whether everything is copied.
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// The series after which the day goes on.
    pub(super) fn after(&self) -> Result<Option<Labels>, LabelError> {
        self.after.as_ref().map(|pairs| Labels::from_pairs(pairs.iter().cloned())).transpose()
    }

    /// A series is copied, and all before it.
    pub(super) fn copied(&mut self, last: &Labels) {
        let pair = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        self.after = Some(last.iter().map(pair).collect());
    }

    /// A selector is copied as a whole.
    pub(super) fn next_selector(&mut self) {
        self.selector += 1;
        self.after = None;
    }

    /// This day is the next.
    pub(super) fn begin_day(&mut self, day: i64) {
        (self.day, self.selector, self.after) = (Some(day), 0, None);
    }
}

/// What was copied.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Floats.
    pub floats: u64,
    /// Native histograms.
    pub histograms: u64,
    /// Exemplars.
    pub exemplars: u64,
    /// Metric families whose metadata the target did not have.
    pub metadata: u64,
    /// Start timestamps that the target has no room for.
    pub starts_left_out: u64,
    /// Points, exemplars and metadata that the target refuses for good.
    pub refused: u64,
    /// Why, for the first of them.
    pub reasons: Vec<String>,
}

impl Totals {
    /// Most reasons that are kept.
    const REASONS: usize = 16;

    /// Points of both kinds.
    pub fn points(&self) -> u64 {
        self.floats.saturating_add(self.histograms)
    }

    /// Counts that a file says may be any; they end at the largest.
    pub(super) fn add(&mut self, more: Self) {
        for (count, more) in [
            (&mut self.floats, more.floats),
            (&mut self.histograms, more.histograms),
            (&mut self.exemplars, more.exemplars),
            (&mut self.metadata, more.metadata),
            (&mut self.starts_left_out, more.starts_left_out),
            (&mut self.refused, more.refused),
        ] {
            *count = count.saturating_add(more);
        }
        let room = Self::REASONS.saturating_sub(self.reasons.len());
        self.reasons.extend(more.reasons.into_iter().take(room));
    }
}

/// What is being done, and how far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Points and exemplars are copied.
    Copying {
        /// Days done.
        done: usize,
        /// Of how many.
        days: usize,
    },
    /// Both sides are compared.
    Comparing {
        /// Days done.
        done: usize,
        /// Of how many.
        days: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_survives_its_file() {
        let labels = Labels::from_pairs([("__name__", "up"), ("a", "\"\n\u{1f600}")]);
        let labels = labels.expect("valid");
        let mut progress = Progress::start();
        assert_eq!(progress.after(), Ok(None));
        progress.begin_day(-7);
        progress.next_selector();
        progress.copied(&labels);
        let text = serde_json::to_string(&progress).expect("JSON");
        let read: Progress = serde_json::from_str(&text).expect("its own");
        assert_eq!(read, progress);
        assert_eq!(read.after(), Ok(Some(labels)));
        assert_eq!((read.day, read.selector), (Some(-7), 1));
    }

    #[test]
    fn few_reasons_are_kept() {
        let mut totals = Totals::default();
        for _ in 0..30 {
            totals.add(Totals { refused: 2, reasons: vec!["no".into()], ..Totals::default() });
        }
        assert_eq!((totals.refused, totals.reasons.len()), (60, 16));
    }
}
