//! The tag index, `tag_indexed_row_keys`: written for the configured tags, read for the windows
//! that are known to be covered.
//!
//! Coverage is recorded in the keyspace (`document`), changes in steps that all running adapters
//! follow (`steps`, `coordination`), and is never guessed: a window that is not covered is read
//! from `row_keys`. Each write and each read acts by one version of the record.

pub(crate) mod audit;
pub(crate) mod coordination;
pub(crate) mod coverage;
pub(crate) mod delete;
pub mod document;
pub(crate) mod lookup;
pub(crate) mod opening;
pub(crate) mod route;
pub(crate) mod statements;
pub(crate) mod steps;
pub(crate) mod writer;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::index::mtime::random;
use crate::index::tag_index::audit::Audited;
use crate::index::tag_index::document::{Configured, Document, has_tag};

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

/// The state of the tag index in this process.
pub(crate) struct TagIndex {
    /// Id of this process among the adapters.
    pub(crate) id: String,
    pub(crate) configured: Mutex<Configured>,
    /// The document that reads and writes act by.
    pub(crate) view: Mutex<Arc<Document>>,
    /// Start of the last successful look at the keyspace.
    pub(crate) leased: Mutex<Option<Instant>>,
    /// Held by the task that looks.
    pub(crate) looking: tokio::sync::Mutex<()>,
    /// Wakes the task that looks.
    pub(crate) wake: tokio::sync::Notify,
    /// Wakes the task that runs jobs.
    pub(crate) work: tokio::sync::Notify,
    pub(crate) audited: Audited,
}

impl TagIndex {
    pub(crate) fn new(configured: Configured) -> Self {
        Self {
            id: format!("{}-{:016x}", std::process::id(), random()),
            configured: Mutex::new(configured),
            view: Mutex::default(),
            leased: Mutex::default(),
            looking: tokio::sync::Mutex::default(),
            wake: tokio::sync::Notify::new(),
            work: tokio::sync::Notify::new(),
            audited: Audited::default(),
        }
    }

    /// The document that reads and writes act by now.
    pub(crate) fn view(&self) -> Arc<Document> {
        Arc::clone(&self.view.lock())
    }

    /// Whether the configuration has a tag of a metric.
    pub(crate) fn is_configured(&self, metric: &str, tag: &str) -> bool {
        has_tag(&self.configured.lock(), metric, tag)
    }

    /// Configures other tags; the next look at the keyspace acts by them.
    pub(crate) fn configure(&self, metrics: Configured) {
        let mut configured = self.configured.lock();
        if *configured != metrics {
            tracing::info!(indexed = ?metrics, "the list of indexed tags has changed");
            *configured = metrics;
        }
        drop(configured);
        self.wake.notify_one();
    }
}
