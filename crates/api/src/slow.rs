//! The log of slow requests with their parameters and duration: remote read, federation, series, labels,
//! exemplars, metadata, cardinality and KairosDB's queries. `query` logs PromQL queries in more detail.
//!
//! A request lasts until its answer is complete; a streamed remote read until the client has received it
//! or disconnected.

use std::time::{Duration, Instant};

use super::AppState;

/// Most characters of a request in the log and in a trace.
const LONGEST_SHOWN: usize = 2_000;

/// A running request. If it took long, it is logged when this is dropped.
pub(super) struct Watch {
    slow: Duration,
    start: Instant,
    /// The path and the parameters.
    asked: String,
}

impl Watch {
    /// Starts the clock.
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

/// A text, shortened for the log.
pub(super) fn shown(text: &str) -> String {
    text.chars().take(LONGEST_SHOWN).collect()
}
