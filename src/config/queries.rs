//! The settings of queries: their limits, and which parts of PromQL are enabled.

use std::time::Duration;

use super::error::ConfigError;
use super::memory::MemoryConfig;
use super::raw::Raw;

/// How queries are evaluated.
#[derive(Debug, Clone)]
pub struct QueryConfig {
    /// Longest time of a query, including the wait for a permit.
    pub timeout: Duration,
    /// Replaces `timeout` unless it is 0.
    pub max_duration: Duration,
    /// Most series of all selectors of a query; 0 = any number.
    pub max_series: u64,
    /// Most samples that a query may read; 0 = any number.
    pub max_samples_read: u64,
    /// Most samples that a query may hold in memory at a time.
    pub max_samples: usize,
    /// Most bytes of labels and points that a query may hold in memory at a time.
    pub max_memory: usize,
    /// Queries that are evaluated at a time.
    pub max_concurrency: usize,
    /// Queries that may wait.
    pub max_queue: usize,
    /// Deepest nesting of an expression.
    pub max_depth: usize,
    /// How long a point counts as the newest one of its series.
    pub lookback_delta: Duration,
    /// Queries that take longer are logged.
    pub slow: Duration,
    /// Which parts of the language are enabled.
    pub language: Language,
    /// Whether metric names are removed at the end of a query instead of at each operation.
    pub delayed_names: bool,
    /// Whether start timestamps mark resets of counters.
    pub start_timestamps: bool,
    /// Whether names without quotes may have letters of all scripts, and dots.
    pub unquoted_names: bool,
}

/// Which parts of PromQL are enabled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// What Prometheus offers without any flag.
    Stable,
    /// Also what is experimental in Prometheus.
    Experimental,
}

impl QueryConfig {
    pub(super) fn from_raw(raw: &Raw, memory: &MemoryConfig) -> Result<Self, ConfigError> {
        let experimental = raw.switch("promql-experimental")?;
        let or_experimental = |name| match raw.get(name) {
            Some(_) => raw.switch(name),
            None => Ok(experimental),
        };
        let max_memory = memory.size_or(raw, "query-max-memory", memory.query(), 1)?;
        Ok(Self {
            timeout: raw.positive("query-timeout")?,
            max_duration: raw.duration("query-max-duration")?,
            max_series: raw.number::<u64>("query-max-series", 0)?,
            max_samples_read: raw.number::<u64>("query-max-samples-read", 0)?,
            max_samples: raw.count("query-max-samples", 1)?,
            max_memory: usize::try_from(max_memory).unwrap_or(usize::MAX),
            max_concurrency: raw.count("query-max-concurrency", 1)?,
            max_queue: raw.count("query-max-queue", 0)?,
            max_depth: raw.count("query-max-depth", 1)?,
            lookback_delta: raw.positive("query-lookback-delta")?,
            slow: match raw.duration("slow-query-log")? {
                Duration::ZERO => Duration::MAX,
                slow => slow,
            },
            language: match experimental {
                true => Language::Experimental,
                false => Language::Stable,
            },
            delayed_names: or_experimental("promql-delayed-name-removal")?,
            start_timestamps: or_experimental("use-start-timestamps")?,
            unquoted_names: raw.switch("promql-unquoted-utf8-names")?,
        })
    }
}
