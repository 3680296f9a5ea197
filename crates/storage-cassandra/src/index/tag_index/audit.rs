//! Compares results of the index with `row_keys`, a part at a time, because no read can prove that a
//! neighbour wrote its index rows.
//!
//! The windows that are read take turns, and so do the pairs of a window, so each pair is compared
//! within a bounded number of rounds (docs/kairosdb.md says how many). A row of `row_keys` that the
//! index lacks, and still lacks after a while, is a gap: the window is not read through the index for
//! that tag until it is built again.

use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;
use std::time::Duration;

use crate::identity::Identity;
use crate::index::series_index::SeriesIndex;
use crate::index::tag_index::audited::Pair;
use crate::index::tag_index::lookup::{identity, owned};
use crate::index::window::WindowKey;
use promkairos_kairos::index::single_tag_pair;
use promkairos_storage::Result;

/// Pairs of tag and value compared of each window in one round.
const PAIRS_A_ROUND: usize = 256;
/// The most rows of these pairs; a single pair may have more.
const ROWS_A_ROUND: usize = 200_000;
/// A neighbour writes its index rows in no fixed order: how long to wait before a second look.
const SECOND_LOOK: Duration = Duration::from_secs(5);

/// Rows that the index should have, by pair.
type Rows = BTreeMap<Pair, Vec<Identity>>;

/// The next pairs in order, with all their rows.
#[derive(Default)]
struct Sample {
    after: Option<Pair>,
    rows: Rows,
    count: usize,
    /// The first pair that did not fit.
    end: Option<Pair>,
}

impl Sample {
    fn after(after: Option<Pair>) -> Self {
        Self { after, ..Self::default() }
    }

    fn add(&mut self, pair: Pair, row: Identity) {
        let is_before = self.after.as_ref().is_some_and(|after| pair <= *after);
        if is_before || self.end.as_ref().is_some_and(|end| pair >= *end) {
            return;
        }
        self.rows.entry(pair).or_default().push(row);
        self.count += 1;
        while self.rows.len() > PAIRS_A_ROUND || self.rows.len() > 1 && self.count > ROWS_A_ROUND {
            // Later rows of this pair, or of pairs behind it, are not added either: no pair is kept in part.
            let Some((pair, rows)) = self.rows.pop_last() else { break };
            self.count -= rows.len();
            self.end = Some(pair);
        }
    }

    /// The pair after which to continue; none = all were compared, and the first is next.
    fn next(&self) -> Option<Pair> {
        let last = self.rows.last_key_value().map(|(pair, _)| pair.clone());
        last.filter(|_| self.end.is_some())
    }
}

impl SeriesIndex {
    /// Audits repeatedly.
    pub(crate) async fn audit_tag_index(&self) {
        let interval = self.options.tag_index.audit_interval;
        if interval.is_zero() {
            return;
        }
        loop {
            tokio::time::sleep(interval).await;
            for (window, after) in self.tags.audited.take() {
                match self.audit(window.key(), after).await {
                    Ok(next) => self.tags.audited.put(window.key(), next),
                    Err(error) => {
                        let metric = &*window.metric;
                        tracing::warn!(metric, %error, "the tag index cannot be audited");
                    }
                }
            }
        }
    }

    /// Compares the pairs of a window after the given one. Returns the pair after which to continue.
    async fn audit(&self, key: WindowKey<'_>, after: Option<Pair>) -> Result<Option<Pair>> {
        let sample = self.sample(key, after).await?;
        let next = sample.next();
        let suspects = self.missing(key, &sample.rows).await?;
        if suspects.is_empty() {
            return Ok(next);
        }
        tokio::time::sleep(SECOND_LOOK).await;
        for ((tag, value), rows) in self.missing(key, &suspects).await? {
            let (row_time, rows) = (key.row_time.millis(), rows.len());
            self.cql.executor.metrics.tag_index_gaps.inc();
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
        Ok(next)
    }

    /// The next pairs of a window, with all its rows that have them.
    async fn sample(&self, key: WindowKey<'_>, after: Option<Pair>) -> Result<Sample> {
        let document = self.tags.view();
        let row_time = key.row_time.millis();
        let mut sample = Sample::after(after);
        self.row_keys(key, |data_type, tags| {
            let row = owned(data_type, tags);
            let found = identity(&row);
            for (tag, value) in row.1 {
                if document.covers(key.metric, &tag, row_time) {
                    sample.add((tag, value), found);
                }
            }
            Ok(ControlFlow::Continue(()))
        })
        .await?;
        Ok(sample)
    }

    /// The rows of a sample that the index lacks.
    async fn missing(&self, key: WindowKey<'_>, sample: &Rows) -> Result<Rows> {
        let mut missing = Rows::new();
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Pairs of some tags, each with this number of rows, in no particular order.
    fn rows(pairs: usize, rows: usize) -> impl Iterator<Item = (Pair, Identity)> {
        (0..rows).flat_map(move |row| {
            (0..pairs).map(move |pair| {
                let pair = (pair * 7919 + row) % pairs;
                let row = Identity::of(&[b"row"]).with(row as i64);
                ((format!("tag{}", pair % 3), format!("value{pair}")), row)
            })
        })
    }

    #[test]
    fn every_pair_has_its_turn_with_all_its_rows() {
        for (pairs, each, rounds) in
            [(0, 1, 1), (1, 3, 1), (256, 2, 1), (257, 2, 2), (1000, 3, 4), (3, 100_000, 2)]
        {
            let (mut after, mut seen) = (None, Vec::new());
            for round in 1..=rounds {
                let mut sample = Sample::after(after.take());
                rows(pairs, each).for_each(|(pair, row)| sample.add(pair, row));
                assert!(sample.rows.values().all(|rows| rows.len() == each), "{pairs} {each}");
                after = sample.next();
                assert_eq!(after.is_none(), round == rounds, "{pairs} {each} {round}");
                seen.extend(sample.rows.into_keys());
            }
            assert_eq!(seen.len(), pairs);
            assert!(seen.is_sorted_by(|a, b| a < b), "none twice");
        }
    }
}
