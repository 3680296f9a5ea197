//! The settings of queries: their limits, and which parts of PromQL are enabled.

use std::time::Duration;

use super::error::ConfigError;
use super::memory::MemoryConfig;
use super::raw::Raw;
use crate::api::{Language, QueryConfig};

pub(super) fn from_raw(raw: &Raw, memory: &MemoryConfig) -> Result<QueryConfig, ConfigError> {
    let experimental = raw.switch("promql-experimental")?;
    let or_experimental = |name| match raw.get(name) {
        Some(_) => raw.switch(name),
        None => Ok(experimental),
    };
    Ok(QueryConfig {
        timeout: raw.positive("query-timeout")?,
        max_duration: raw.duration("query-max-duration")?,
        max_series: raw.number::<u64>("query-max-series", 0)?,
        max_samples_read: raw.number::<u64>("query-max-samples-read", 0)?,
        max_samples: raw.count("query-max-samples", 1)?,
        max_memory: memory.size_or(raw, "query-max-memory", memory.query(), 1)?,
        max_concurrency: raw.count("query-max-concurrency", 1)?,
        max_queue: raw.count("query-max-queue", 0)?,
        max_depth: raw.count("query-max-depth", 1)?,
        lookback_delta: raw.positive("query-lookback-delta")?,
        slow: match raw.duration("slow-query-log")? {
            Duration::ZERO => Duration::MAX,
            slow => slow,
        },
        language: if experimental { Language::Experimental } else { Language::Stable },
        delayed_names: or_experimental("promql-delayed-name-removal")?,
        start_timestamps: or_experimental("use-start-timestamps")?,
        unquoted_names: raw.switch("promql-unquoted-utf8-names")?,
    })
}
