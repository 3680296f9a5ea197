//! Names of settings, for errors that name the exceeded limit.

pub(crate) const MAX_SAMPLES: &str = "query-max-samples";
pub(crate) const MAX_BYTES: &str = "query-max-memory";
pub(crate) const TIMEOUT: &str = "query-timeout";
pub(crate) const MAX_DEPTH: &str = "query-max-depth";
pub(crate) const MAX_CONCURRENCY: &str = "query-max-concurrency";
pub(crate) const MAX_QUEUE: &str = "query-max-queue";
pub(crate) const MAX_SERIES: &str = "query-max-series";
pub(crate) const MAX_SAMPLES_READ: &str = "query-max-samples-read";
pub(crate) const MAX_DURATION: &str = "query-max-duration";
