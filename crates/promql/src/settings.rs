//! Settings of the engine: the limits of queries and the features that are switched on.

use std::sync::Arc;
use std::time::Duration;

use super::budget::Budget;
use super::query_memory::QueryMemory;
use super::regex_compiler::RegexCompiler;
use super::setting_names::{MAX_DURATION, TIMEOUT};
use promkairos_model::limits::MAX_QUERY_DEPTH;

/// Settings of the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Most samples that a query may hold in memory at a time; a histogram counts for several.
    pub max_samples: usize,
    /// Most bytes of labels and points that a query may hold in memory at a time.
    pub max_bytes: usize,
    /// The memory that all queries hold together, and its limit.
    pub memory: Arc<QueryMemory>,
    /// Compiles the regular expressions of all requests.
    pub regex_compiler: Arc<RegexCompiler>,
    /// Longest time that a query may take, including the time in the queue.
    pub timeout: Duration,
    /// Replaces `timeout`, unless it is 0.
    pub max_duration: Duration,
    /// Most series of all selectors of a query; 0 = any number.
    pub max_series: u64,
    /// Most samples that a query may take from the store; 0 = any number.
    pub max_samples_read: u64,
    /// Deepest nesting of an expression.
    pub max_depth: usize,
    /// Queries that are evaluated at a time; more wait.
    pub max_concurrent: usize,
    /// Queries that may wait; more are refused.
    pub max_queue: usize,
    /// The lookback delta: how long a point counts as the newest of its series.
    pub lookback: Duration,
    /// Step of a subquery that names none.
    pub subquery_step: Duration,
    /// When the metric name is removed.
    pub name_removal: NameRemoval,
    /// Whether start timestamps of points are used to find resets of counters.
    pub start_timestamps: StartTimestamps,
    /// How a metric is recognized as a counter.
    pub counter_sign: CounterSign,
}

/// When the metric name is removed from a result that no longer means the metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameRemoval {
    /// At each operation.
    AtOnce,
    /// At the end, so that operations in between still see it.
    Delayed,
}

/// Whether start timestamps are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartTimestamps {
    /// They are ignored.
    Ignored,
    /// They show counter resets.
    Used,
}

/// How a metric is recognized as a counter. `rate` of any other metric adds an annotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CounterSign {
    /// By the suffix of its name.
    Name,
    /// By its label `__type__`.
    Type,
}

impl Settings {
    /// Longest time that a query may take, and the setting of that limit.
    pub fn longest(&self) -> (Duration, &'static str) {
        match self.max_duration {
            Duration::ZERO => (self.timeout, TIMEOUT),
            longest => (longest, MAX_DURATION),
        }
    }

    /// The budget of a query of which nothing is taken.
    pub(crate) fn budget(&self) -> Arc<Budget> {
        Budget::new(self.max_samples, self.max_bytes, &self.memory)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_samples: 50_000_000,
            max_bytes: 2 << 30,
            memory: Arc::default(),
            regex_compiler: Arc::default(),
            timeout: Duration::from_secs(120),
            max_duration: Duration::ZERO,
            max_series: 0,
            max_samples_read: 0,
            max_depth: MAX_QUERY_DEPTH,
            max_concurrent: 20,
            max_queue: 1000,
            lookback: Duration::from_secs(300),
            subquery_step: Duration::from_secs(60),
            name_removal: NameRemoval::AtOnce,
            start_timestamps: StartTimestamps::Ignored,
            counter_sign: CounterSign::Name,
        }
    }
}
