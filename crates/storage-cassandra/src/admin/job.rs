//! A build or a drop as it is recorded in the keyspace, and its effect on the record of covered
//! windows. Pure; docs/FORMAT.md fixes the layout.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::schema::tag_index_document::{ALL, Document, Entry, FORMAT, TagState};

/// The kind of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobKind {
    /// Writes the index rows of windows that are older than the configuration.
    Build,
    /// Deletes all index rows.
    Drop,
}

/// The progress of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobState {
    /// In progress, or waiting for a process.
    Running,
    /// Ended well.
    Done,
    /// Ended with an error.
    Failed,
}

/// A build or a drop, as it is recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    pub(crate) format: u32,
    /// The kind of the job.
    pub kind: JobKind,
    /// The state of the job.
    pub state: JobState,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Windows done.
    pub windows_done: u64,
    /// Windows in all, as far as they are counted.
    pub windows: u64,
    /// Rows of `row_keys` done.
    pub rows: u64,
    /// Rows of the index that a drop has deleted.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub deleted: u64,
    /// Rows of the index that promkairos wrote and a drop left, in partitions that another writer has rows in
    /// too: at most 10,000 rows of such a partition are deleted.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left: u64,
    /// The most rows per second.
    pub rows_per_second: u32,
    pub(crate) owner: String,
    /// When its process last recorded that it works on the job, in milliseconds since 1970.
    pub(crate) touched: i64,
    /// The last window done: metric, table name, row time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) position: Option<(String, String, i64)>,
    /// The last window that was begun. A drop takes no second portion of a window that is begun again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) begun: Option<(String, String, i64)>,
    /// Windows that were out of use when the job began.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) gaps: BTreeSet<i64>,
    /// Windows with a row that was refused.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) refused: BTreeSet<i64>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Job {
    pub(crate) fn new(kind: JobKind, rows_per_second: u32) -> Self {
        Self {
            format: FORMAT,
            kind,
            state: JobState::Running,
            error: None,
            windows_done: 0,
            windows: 0,
            rows: 0,
            deleted: 0,
            left: 0,
            rows_per_second,
            owner: String::new(),
            touched: 0,
            position: None,
            begun: None,
            gaps: BTreeSet::new(),
            refused: BTreeSet::new(),
        }
    }
}

impl Document {
    /// The entries of a metric, or the entries of all metrics where the metric has no entry.
    pub(crate) fn entries_of(&self, metric: &str) -> impl Iterator<Item = &Entry> {
        let tags = self.metrics.get(metric).or_else(|| self.metrics.get(ALL));
        tags.into_iter().flat_map(BTreeMap::values)
    }

    /// Marks the tags of a metric as being built. Returns whether anything changed.
    pub(crate) fn begin_build(&mut self, metric: &str) -> bool {
        let version = self.version;
        if let (None, Some(all)) = (self.metrics.get(metric), self.metrics.get(ALL)) {
            // A build of one metric says nothing about the others.
            let all = all.clone();
            self.metrics.insert(metric.to_owned(), all);
        }
        let tags = self.metrics.get_mut(metric).into_iter().flat_map(BTreeMap::values_mut);
        let readable = tags.filter(|entry| entry.state == TagState::Readable);
        let marked =
            readable.map(|entry| (entry.state, entry.since) = (TagState::Building, version));
        marked.count() > 0
    }

    /// Marks what was built as covered in all windows, except those with refused rows.
    pub(crate) fn end_build(
        &mut self,
        metric: &str,
        rebuilt: &BTreeSet<i64>,
        refused: &BTreeSet<i64>,
    ) -> bool {
        let version = self.version;
        let tags = self.metrics.get_mut(metric).into_iter().flat_map(BTreeMap::values_mut);
        let built = tags.filter(|entry| entry.state == TagState::Building);
        let marked = built.map(|entry| {
            (entry.state, entry.since, entry.from) = (TagState::Readable, version, Some(i64::MIN));
            entry.gaps.retain(|gap| !rebuilt.contains(gap));
            entry.gaps.extend(refused);
        });
        marked.count() > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::tag_index_document::{decode, encode};

    #[test]
    fn a_job_without_newer_fields_is_read() {
        let old = "{\"format\":1,\"kind\":\"drop\",\"state\":\"running\",\"windows_done\":1,\
                   \"windows\":4,\"rows\":7,\"deleted\":3,\"rows_per_second\":5,\"owner\":\"a\",\
                   \"touched\":9}";
        let mut job: Job = decode(old).expect("valid");
        assert_eq!((job.deleted, job.left), (3, 0));
        assert_eq!(encode(&job), old);
        job.left = 2;
        job.begun = Some(("m".to_owned(), "data_points".to_owned(), 5));
        assert_eq!(decode::<Job>(&encode(&job)), Ok(job));
    }
}
