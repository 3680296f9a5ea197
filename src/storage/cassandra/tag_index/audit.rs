//! Compares samples of what is read through the index with `row_keys`, since no read can prove that
//! a neighbour wrote its index rows.
//!
//! A row of `row_keys` that the index does not show, and still does not after a while, is a gap: the
//! window goes out of use for that tag until it is built again.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::time::Duration;

use parking_lot::Mutex;

use super::super::identity::Identity;
use super::super::mtime::random;
use super::super::shared::Shared;
use super::super::window::{Window, WindowKey};
use super::lookup::{identity, owned};
use crate::kairos::index::single_tag_pair;
use crate::storage::StoreError;

/// Windows that are remembered as read through the index.
const MOST_WINDOWS: usize = 1024;
/// Windows compared at a time.
const WINDOWS_AT_ONCE: usize = 4;
/// Pairs of tag and value compared of each window.
const PAIRS: usize = 16;
/// A neighbour writes its index rows without order: how long to wait before a second look.
const SECOND_LOOK: Duration = Duration::from_secs(5);

/// Windows that were read through the index lately, each once.
#[derive(Default)]
pub(super) struct Audited(Mutex<HashSet<Window>>);

impl Audited {
    /// Remembers a window.
    pub(super) fn note(&self, key: WindowKey<'_>) {
        let mut windows = self.0.lock();
        if windows.len() < MOST_WINDOWS {
            windows.insert(key.to_window());
        }
    }

    /// Takes some windows out: in no order, so that each has its turn.
    fn take(&self) -> Vec<Window> {
        let mut windows = self.0.lock();
        let some: Vec<Window> = windows.iter().take(WINDOWS_AT_ONCE).cloned().collect();
        windows.retain(|window| !some.contains(window));
        some
    }
}

/// A row that the index should show, by its tag and value.
type Missing = HashMap<(String, String), Vec<Identity>>;

impl Shared {
    /// Audits again and again.
    pub(in super::super) async fn audit_tag_index(&self) {
        let interval = self.options.tag_index.audit_interval;
        if interval.is_zero() {
            return;
        }
        loop {
            tokio::time::sleep(interval).await;
            for window in self.tags.audited.take() {
                if let Err(error) = self.audit(window.key()).await {
                    tracing::warn!(metric = &*window.metric, %error, "the tag index cannot be audited");
                }
            }
        }
    }

    async fn audit(&self, key: WindowKey<'_>) -> Result<(), StoreError> {
        let sample = self.sample(key).await?;
        if self.missing(key, &sample).await?.is_empty() {
            return Ok(());
        }
        tokio::time::sleep(SECOND_LOOK).await;
        for ((tag, value), rows) in self.missing(key, &sample).await? {
            let (row_time, rows) = (key.row_time.millis(), rows.len());
            self.executor.metrics.tag_index_gaps.inc();
            tracing::warn!(
                metric = key.metric,
                tag,
                value,
                row_time,
                rows,
                "a writer did not write its index rows: this window is read from row_keys until \
                 promkairos index build"
            );
            self.change(|document| document.add_gap(key.metric, &tag, row_time)).await?;
        }
        Ok(())
    }

    /// Some pairs of a window, and all its rows that have them.
    async fn sample(&self, key: WindowKey<'_>) -> Result<Missing, StoreError> {
        let document = self.tags.view();
        let row_time = key.row_time.millis();
        // Other pairs each time.
        let seed = random();
        let mut sample: Missing = HashMap::new();
        self.row_keys(key, |data_type, tags| {
            let row = owned(data_type, tags);
            let found = identity(&row);
            for (tag, value) in row.1 {
                if document.covers(key.metric, &tag, row_time) {
                    sample.entry((tag, value)).or_default().push(found);
                }
            }
            thin(&mut sample, seed);
            Ok(ControlFlow::Continue(()))
        })
        .await?;
        Ok(sample)
    }

    /// What of a sample the index does not show.
    async fn missing(&self, key: WindowKey<'_>, sample: &Missing) -> Result<Missing, StoreError> {
        let mut missing = Missing::new();
        for ((tag, value), rows) in sample {
            let mut shown = HashSet::new();
            let pair = single_tag_pair(tag, value);
            self.rows_of_pair(key, &pair, None, |data_type, tags| {
                shown.insert(identity(&owned(data_type, tags)));
            })
            .await?;
            let lost: Vec<Identity> =
                rows.iter().filter(|row| !shown.contains(row)).copied().collect();
            if !lost.is_empty() {
                missing.insert((tag.clone(), value.clone()), lost);
            }
        }
        Ok(missing)
    }
}

/// Keeps the pairs that a hash with this seed puts first: whatever the order of the rows, a pair
/// that is kept in the end was never dropped.
fn thin(sample: &mut Missing, seed: u64) {
    while sample.len() > PAIRS {
        let place = |(tag, value): &(String, String)| {
            let bytes = [tag.as_bytes(), b"=", value.as_bytes()].concat();
            xxhash_rust::xxh3::xxh3_64_with_seed(&bytes, seed)
        };
        let last = sample.keys().max_by_key(|pair| place(pair)).cloned();
        if let Some(last) = last {
            sample.remove(&last);
        }
    }
}
