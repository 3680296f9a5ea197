//! How far a copy has come, and what it has counted so far.
//!
//! Everything before the place that it names is acknowledged by the target. The form is kept in
//! files: a field is never given another meaning.

use serde::{Deserialize, Serialize};

use super::CopyError;
use super::compare::Comparison;
use super::plan::Plan;
use crate::model::Labels;

/// The place from which a copy goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// What is copied, with all before it.
    #[serde(flatten)]
    pub(super) position: Position,
    /// Whether everything is copied.
    pub(super) is_done: bool,
    /// What was copied.
    pub totals: Totals,
    /// The days to copy; none = nobody has looked. A version before 0.2 wrote none.
    #[serde(default)]
    pub(super) plan: Option<Plan>,
    /// How far the comparison is that follows.
    #[serde(default)]
    pub(super) comparison: Box<Comparison>,
}

impl Progress {
    /// The beginning of a copy.
    pub fn start() -> Self {
        Self {
            position: Position::default(),
            is_done: false,
            totals: Totals::default(),
            plan: None,
            comparison: Box::default(),
        }
    }

    /// Whether everything is copied.
    pub fn is_done(&self) -> bool {
        self.is_done
    }
}

/// A place in the order of all that is looked at: days, in each the selectors, in each the series.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Position {
    /// Number of the day, from that of 1970-01-01; none = the first.
    pub(super) day: Option<i64>,
    /// Position of the selector.
    pub(super) selector: usize,
    /// The last series of it that is done on that day, by names and values; none = not even one.
    after: Option<Vec<(String, String)>>,
}

impl Position {
    /// The series after which the day goes on.
    pub(super) fn after(&self) -> Result<Option<Labels>, CopyError> {
        let after = self.after.as_ref();
        let after = after.map(|pairs| Labels::from_pairs(pairs.iter().cloned())).transpose();
        after.map_err(|error| CopyError::State(error.to_string()))
    }

    /// A series is done, and all before it.
    pub(super) fn done(&mut self, last: &Labels) {
        let pair = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        self.after = Some(last.iter().map(pair).collect());
    }

    /// A selector is done as a whole.
    pub(super) fn next_selector(&mut self) {
        self.selector = self.selector.saturating_add(1);
        self.after = None;
    }

    /// The next day is this one; nothing changes where it has begun.
    pub(super) fn enter_day(&mut self, day: i64) {
        if self.day != Some(day) {
            *self = Self { day: Some(day), ..Self::default() };
        }
    }

    /// The day is done.
    pub(super) fn end_day(&mut self) {
        *self = Self { day: self.day.map(|day| day.saturating_add(1)), ..Self::default() };
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
    /// It is looked for days with anything to copy or to compare.
    Planning {
        /// Found so far.
        days: u64,
    },
    /// Points and exemplars are copied.
    Copying {
        /// Days done.
        done: u64,
        /// Of how many.
        days: u64,
    },
    /// Both sides are compared.
    Comparing {
        /// Days done.
        done: u64,
        /// Of how many.
        days: u64,
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
