//! The settings of requests. Their defaults are those of [`promkairos_model::limits`] and of Prometheus.
//!
//! Users and rights are in `access::settings`, origins in `allowed_origins`. No text is parsed here: the caller fills
//! these types, and refuses values that no limit can have.

use std::time::Duration;

use promkairos_ingest::WriteLimits;
use promkairos_model::Labels;
use promkairos_model::limits;

/// Limits of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitsConfig {
    /// Requests that are answered at a time. Changes while the server runs.
    pub requests: usize,
    /// Longest time for a body to arrive.
    pub body_timeout: Duration,
    /// How long a client may read nothing of a streamed answer.
    pub answer_timeout: Duration,
    /// Concurrent remote reads.
    pub reads: usize,
    /// Limits of requests for labels, series and the like.
    pub lists: ListLimits,
    /// Limits of remote writes.
    pub writes: WriteLimits,
}

impl Default for LimitsConfig {
    /// The values of `promkairos_model::limits`.
    fn default() -> Self {
        Self {
            requests: limits::MAX_CONCURRENT_REQUESTS,
            body_timeout: limits::BODY_TIMEOUT,
            answer_timeout: limits::ANSWER_STALL,
            reads: limits::MAX_CONCURRENT_READS,
            lists: ListLimits::default(),
            writes: WriteLimits::default(),
        }
    }
}

/// Limits of requests for labels, series and the like, whose answers are held in memory as a whole.
/// Changes while the server runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListLimits {
    /// Names, values or series in the answer of a label endpoint.
    pub results: usize,
    /// Bytes of these results.
    pub bytes: usize,
    /// Requests that are answered at a time.
    pub at_once: usize,
    /// Longest wait for a permit.
    pub wait: Duration,
}

impl Default for ListLimits {
    /// The values of `promkairos_model::limits`.
    fn default() -> Self {
        Self {
            results: limits::MAX_LABEL_RESULTS,
            bytes: limits::MAX_LIST_BYTES,
            at_once: limits::MAX_CONCURRENT_LISTS,
            wait: limits::LIST_WAIT,
        }
    }
}

/// The memory limit of the process, and the bytes that requests may hold of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestMemory {
    /// Bytes that the process may take.
    pub limit: u64,
    /// Bytes that all queries may hold together.
    pub queries: u64,
    /// Bytes of the compiled patterns of all requests under way.
    pub patterns: u64,
    /// Bytes of compressed bodies being received, for writes, remote reads and forms each.
    pub bodies: u64,
    /// Bytes of decoded bodies, likewise.
    pub decoded: u64,
    /// Bytes of a remote read's answer that is not streamed.
    pub read_answer: u64,
}

/// How queries are evaluated. Changes while the server runs.
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

/// The section `global` of a Prometheus. Changes while the server runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GlobalConfig {
    /// Labels added to series that leave the server, unless they have a label of that name.
    pub external_labels: Labels,
    /// How often the senders scrape.
    pub scrape_interval: Duration,
    /// How often the senders evaluate rules.
    pub evaluation_interval: Duration,
}

impl Default for GlobalConfig {
    /// The defaults of Prometheus.
    fn default() -> Self {
        let minute = Duration::from_secs(60);
        let external_labels = Labels::default();
        Self { external_labels, scrape_interval: minute, evaluation_interval: minute }
    }
}

/// Whether the type and unit of remote write 2.0 become labels of the series, so that queries can
/// tell counters apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TypeAndUnitLabels {
    /// They become labels.
    Enabled,
    /// They are only metadata.
    Disabled,
}

/// Whether the admin API is enabled: deletes, builds and drops of the tag index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdminApi {
    /// It answers.
    Enabled,
    /// It refuses every request.
    Disabled,
}
