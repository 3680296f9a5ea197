//! The progress of a copy, and its counts so far.
//!
//! The target has acknowledged everything before the position. The form is stored in files: a field
//! never gets another meaning.

use serde::{Deserialize, Serialize};

use super::comparison::Comparison;
use super::plan::Plan;
use super::position::Position;

/// The position from which a copy resumes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Everything up to this position is copied.
    #[serde(flatten)]
    pub(super) position: Position,
    /// Whether everything is copied.
    pub is_done: bool,
    /// What was copied.
    pub totals: Totals,
    /// The days to copy; none = not searched yet. Versions before 0.2 wrote none.
    #[serde(default)]
    pub(super) plan: Option<Plan>,
    /// The progress of the comparison that follows.
    #[serde(default)]
    pub(super) comparison: Box<Comparison>,
}

/// Counts of what was copied.
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
    /// Start timestamps that the target cannot store.
    pub starts_left_out: u64,
    /// Points, exemplars and metadata that the target refuses permanently.
    pub refused: u64,
    /// Reasons of the first refusals.
    pub reasons: Vec<String>,
}

impl Totals {
    /// Most reasons that are kept.
    const REASONS: usize = 16;

    /// Points of both kinds.
    pub fn points(&self) -> u64 {
        self.floats.saturating_add(self.histograms)
    }

    /// Adds counts. Values from a file may be arbitrary; sums saturate.
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

/// The current stage of a copy and its progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Searching the days with anything to copy or to compare.
    Planning {
        /// Days found so far.
        days: u64,
    },
    /// Copying points and exemplars.
    Copying {
        /// Days done.
        done: u64,
        /// Days in total.
        days: u64,
    },
    /// Comparing both sides.
    Comparing {
        /// Days done.
        done: u64,
        /// Days in total.
        days: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Labels;

    #[test]
    fn a_place_survives_its_file() {
        let labels = Labels::from_pairs([("__name__", "up"), ("a", "\"\n\u{1f600}")]);
        let labels = labels.expect("valid");
        let mut progress = Progress::default();
        assert_eq!(progress.position.after().ok(), Some(None));
        progress.position.enter_day(-7);
        progress.position.next_selector();
        progress.position.done(&labels);
        progress.position.enter_day(-7);
        let text = serde_json::to_string(&progress).expect("JSON");
        let read: Progress = serde_json::from_str(&text).expect("its own");
        assert_eq!(read, progress);
        assert_eq!(read.position.after().ok(), Some(Some(labels)));
        assert_eq!((read.position.day, read.position.selector), (Some(-7), 1));
        // As 0.1 wrote it.
        let old = r#"{"day":-7,"selector":1,"after":[["a","b"]],"is_done":false,"totals":{"floats":5,
            "histograms":0,"exemplars":0,"metadata":0,"starts_left_out":0,"refused":0,"reasons":[]}}"#;
        let read: Progress = serde_json::from_str(old).expect("known");
        assert_eq!((read.position.day, read.totals.floats, read.plan), (Some(-7), 5, None));
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
