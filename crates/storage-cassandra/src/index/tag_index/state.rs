//! The state of the tag index in this process: the configured tags, the document that reads and writes act by, and the
//! lease under which they may.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;

use crate::index::mtime::random;
use crate::index::tag_index::audited::Audited;
use crate::schema::tag_index_document::{Configured, Document, has_tag};

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
