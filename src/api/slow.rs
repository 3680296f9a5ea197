//! The log of slow requests: what was asked and what it took, of remote read, federation, series, labels,
//! exemplars, metadata and cardinality. Of PromQL queries `query` says more.
//!
//! A request lasts until its answer is whole, a remote read that is streamed until the client has taken
//! it or went away.

use std::time::{Duration, Instant};

use super::AppState;

/// Characters of a question in the log and in a trace.
const LONGEST_SHOWN: usize = 2_000;

/// A question under way. If it took long, the log tells when this is dropped.
pub(super) struct Watch {
    slow: Duration,
    start: Instant,
    /// The path and what is asked.
    asked: String,
}

impl Watch {
    /// Begins now.
    pub(super) fn new(
        state: &AppState,
        path: &str,
        asked: impl IntoIterator<Item = String>,
    ) -> Self {
        let mut text = path.to_owned();
        for part in asked {
            if text.len() > LONGEST_SHOWN {
                break;
            }
            text.push(' ');
            text.push_str(&part);
        }
        Self { slow: state.evaluator().slow, start: Instant::now(), asked: shown(&text) }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let took = self.start.elapsed();
        if took > self.slow {
            tracing::warn!(seconds = took.as_secs_f64(), "slow request: {}", self.asked);
        }
    }
}

/// A text as far as it is shown.
pub(super) fn shown(text: &str) -> String {
    text.chars().take(LONGEST_SHOWN).collect()
}
