//! The state of the tag index, for operators.

use std::collections::BTreeMap;

use futures::future::BoxFuture;

use crate::admin::job::Job;
use crate::store::CassandraStore;
use promkairos_storage::Result;

/// The state of the whole index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TagIndexStatus {
    /// Version of the record.
    pub version: u64,
    /// Running adapters, and the version that each acts by.
    pub adapters: BTreeMap<String, u64>,
    /// The tags.
    pub tags: Vec<TagStatus>,
    /// Jobs by metric; finished jobs stay visible for a day.
    pub jobs: BTreeMap<String, Job>,
}

/// One tag of one metric; `*` = all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TagStatus {
    /// The metric.
    pub metric: String,
    /// The tag.
    pub tag: String,
    /// `writing`, `building`, `readable` or `retiring`.
    pub state: &'static str,
    /// The first row time that is covered.
    pub from: Option<i64>,
    /// Windows that are out of use.
    pub gaps: Vec<i64>,
}

impl CassandraStore {
    /// The state of the tag index.
    pub fn tag_index_status(&self) -> BoxFuture<'_, Result<TagIndexStatus>> {
        Box::pin(self.recorded_status())
    }

    async fn recorded_status(&self) -> Result<TagIndexStatus> {
        let document = self.index.recorded().await?.document;
        let adapters =
            self.index.adapters().await?.into_iter().map(|(id, adapter)| (id, adapter.seen));
        let mut all = Vec::new();
        for (metric, tags) in &document.metrics {
            all.extend(tags.iter().map(|(tag, entry)| TagStatus {
                metric: metric.clone(),
                tag: tag.clone(),
                state: entry.state.as_str(),
                from: entry.from,
                gaps: entry.gaps.iter().copied().collect(),
            }));
        }
        let (version, adapters) = (document.version, adapters.collect());
        Ok(TagIndexStatus { version, adapters, tags: all, jobs: self.index.jobs().await? })
    }
}
