//! The settings of the tag index.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What the operator guarantees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TagIndexTrust {
    /// Every writer of the keyspace indexes the same tags.
    Configured,
    /// Nothing: `row_keys` is read as well.
    Verify,
}

/// Settings of the tag index.
#[derive(Debug, Clone)]
pub struct TagIndexOptions {
    /// Tags by metric; no tags = all, the metric `*` = all metrics.
    pub metrics: BTreeMap<String, BTreeSet<String>>,
    /// How far the index is trusted.
    pub trust: TagIndexTrust,
    /// How often this process reads the recorded state and records that it runs.
    pub refresh: Duration,
    /// How often samples of the index are compared with `row_keys`; zero = never.
    pub audit_interval: Duration,
}

impl Default for TagIndexOptions {
    fn default() -> Self {
        Self {
            metrics: BTreeMap::new(),
            trust: TagIndexTrust::Configured,
            refresh: Duration::from_secs(5),
            audit_interval: Duration::from_secs(300),
        }
    }
}
