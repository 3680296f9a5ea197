//! Answers of the label endpoints, kept for a short while: a dashboard asks for the same ones repeatedly, and
//! each takes a read for every metric and window.
//!
//! An answer is valid until this process writes, finds or deletes an index row, and for [`OLD`] at most. A new
//! series of another process may stay unseen that long. No I/O here.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

use crate::index::cached_window::OLD;
use promkairos_kairos::RowSpec;
use promkairos_model::{Cache, MatchOp};
use promkairos_storage::{Limited, ListSize, SeriesQuery};

/// The most bytes of all answers.
const MOST_BYTES: usize = 16 << 20;
/// Overhead of an answer, and of a matcher, beside its strings.
const OVERHEAD: usize = 256;

/// A request, as the key of its answer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Asked {
    /// The label whose values are asked for; none = the names of labels.
    label: Option<Box<str>>,
    matchers: Vec<(MatchOp, Box<str>, Box<str>)>,
    /// The first and the last row time: all times within a window get the same answer. None = an empty range.
    windows: Option<[i64; 2]>,
    limit: ListSize,
}

impl Asked {
    pub(crate) fn new(label: Option<&str>, query: &SeriesQuery, spec: RowSpec) -> Self {
        let SeriesQuery { matchers, range, limit } = query;
        let matchers = matchers.iter().map(|m| (m.op(), m.name().into(), m.value().into()));
        let windows = (!range.is_empty()).then(|| {
            [range.start, range.end]
                .map(|time| if time < 0 { time } else { spec.row_time(time).millis() })
        });
        Self { label: label.map(Box::from), matchers: matchers.collect(), windows, limit: *limit }
    }

    /// Bytes of memory, about.
    fn bytes(&self) -> usize {
        let label = self.label.as_ref().map_or(0, |label| label.len());
        let matchers = self.matchers.iter();
        label + matchers.map(|(_, name, value)| name.len() + value.len() + OVERHEAD).sum::<usize>()
    }
}

/// When a read began: the epoch of the index, and the time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Begun {
    epoch: u64,
    at: Instant,
}

struct KeptAnswer {
    begun: Begun,
    bytes: usize,
    strings: Limited<String>,
}

/// The answers in memory.
#[derive(Default)]
pub(crate) struct LabelAnswers {
    /// Rises with every index row that this process writes, finds or deletes.
    epoch: AtomicU64,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    answers: Cache<Asked, KeptAnswer>,
    bytes: usize,
}

impl LabelAnswers {
    /// Called when an index row was added or removed, before anything relies on the change.
    pub(crate) fn outdate(&self) {
        self.epoch.fetch_add(1, Ordering::AcqRel);
    }

    /// To be called before a read.
    pub(crate) fn begin(&self, now: Instant) -> Begun {
        Begun { epoch: self.epoch.load(Ordering::Acquire), at: now }
    }

    /// The answer, if it is still valid for a read that begins now.
    pub(crate) fn get(&self, asked: &Asked, now: Begun) -> Option<Limited<String>> {
        let mut kept = self.kept.lock();
        let answer = kept.answers.get(asked)?;
        let is_young = now.at.saturating_duration_since(answer.begun.at) < OLD;
        (is_young && answer.begun.epoch == now.epoch).then(|| answer.strings.clone())
    }

    /// Forgets all answers.
    pub(crate) fn forget_all(&self) {
        *self.kept.lock() = Kept::default();
    }

    /// Keeps an answer, unless it is too large.
    pub(crate) fn keep(&self, asked: Asked, begun: Begun, strings: &Limited<String>) {
        let bytes =
            strings.items.iter().map(|item| item.len() + size_of::<String>()).sum::<usize>()
                + asked.bytes()
                + OVERHEAD;
        if bytes > MOST_BYTES / 4 {
            return;
        }
        let mut kept = self.kept.lock();
        while kept.bytes + bytes > MOST_BYTES
            && let Some(evicted) = kept.answers.evict()
        {
            kept.bytes -= evicted.bytes;
        }
        kept.bytes += bytes;
        let answer = KeptAnswer { begun, bytes, strings: strings.clone() };
        if let Some(replaced) = kept.answers.insert(asked, answer) {
            kept.bytes -= replaced.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use promkairos_model::{Matcher, TimeRange};

    const DAY: i64 = 86_400_000;

    fn asked(label: Option<&str>, value: &str, range: TimeRange, limit: usize) -> Asked {
        let matchers = vec![Matcher::equal("job", value)];
        let limit = ListSize::items(limit);
        Asked::new(label, &SeriesQuery { matchers, range, limit }, RowSpec::DEFAULT)
    }

    fn strings(bytes: usize) -> Limited<String> {
        Limited { items: vec!["x".repeat(bytes)], truncated: false }
    }

    #[test]
    fn times_of_one_window_are_the_same_question_and_all_else_is_another() {
        let range = TimeRange::new(30 * DAY, 40 * DAY);
        let one = asked(Some("a"), "x", range, 0);
        assert_eq!(one, asked(Some("a"), "x", TimeRange::new(31 * DAY, 41 * DAY), 0));
        for other in [
            asked(None, "x", range, 0),
            asked(Some("b"), "x", range, 0),
            asked(Some("a"), "y", range, 0),
            asked(Some("a"), "x", range, 1),
            asked(Some("a"), "x", TimeRange::new(30 * DAY, 43 * DAY), 0),
            asked(Some("a"), "x", TimeRange::new(20 * DAY, 40 * DAY), 0),
            asked(Some("a"), "x", TimeRange::new(40 * DAY, 30 * DAY), 0),
        ] {
            assert_ne!(one, other);
        }
    }

    #[test]
    fn an_answer_is_good_until_the_index_changes_or_it_is_old() {
        let (answers, start) = (LabelAnswers::default(), Instant::now());
        let one = asked(None, "x", TimeRange::ALL, 0);
        assert_eq!(answers.get(&one, answers.begin(start)), None);
        let begun = answers.begin(start);
        answers.keep(one.clone(), begun, &strings(1));
        let at = |after: Duration| answers.get(&one, answers.begin(start + after));
        assert_eq!(at(OLD - Duration::from_millis(1)), Some(strings(1)));
        assert_eq!(at(OLD), None);
        answers.outdate();
        assert_eq!(at(Duration::ZERO), None);
        // A change during the read may be missing from the answer.
        answers.keep(one.clone(), begun, &strings(1));
        assert_eq!(at(Duration::ZERO), None);
    }

    #[test]
    fn memory_is_bounded() {
        let (answers, start) = (LabelAnswers::default(), Instant::now());
        let begun = answers.begin(start);
        for n in 0..100 {
            let one = asked(Some(&n.to_string()), "x", TimeRange::ALL, 0);
            answers.keep(one.clone(), begun, &strings(1 << 20));
            assert!(answers.get(&one, begun).is_some());
            let kept = answers.kept.lock();
            assert!(kept.answers.values().count() <= 16 && kept.bytes <= MOST_BYTES, "{n}");
        }
        // Requests count too: as few of these fit, although each has an empty answer.
        for n in 0..100 {
            let one = asked(None, &format!("{n}{}", "x".repeat(1 << 20)), TimeRange::ALL, 0);
            answers.keep(one, begun, &Limited { items: Vec::new(), truncated: false });
            assert!(answers.kept.lock().answers.values().count() <= 16, "{n}");
        }
        answers.forget_all();
        {
            let kept = answers.kept.lock();
            assert_eq!((kept.answers.values().count(), kept.bytes), (0, 0));
        }
        let large = asked(Some("large"), "x", TimeRange::ALL, 0);
        answers.keep(large.clone(), begun, &strings(MOST_BYTES));
        assert_eq!(answers.get(&large, begun), None);
    }
}
