//! Reads the rows of a window through the tag index, where a matcher allows it.
//!
//! The most selective matcher is found by reading a bounded number of rows for each; a complete
//! read is the answer. Every row found passes all matchers. A row that is stored twice, under two
//! hashes, is returned once.

use std::collections::HashSet;
use std::ops::ControlFlow;

use futures::FutureExt;

use crate::cql::concurrent::all;
use crate::cql::failure::Failure;
use crate::cql::rows::Rows;
use crate::identity::Identity;
use crate::index::index_row::each_row;
use crate::index::routing::Route;
use crate::index::series_index::SeriesIndex;
use crate::index::tag_index::route::{Candidate, candidates};
use crate::index::window::WindowKey;
use promkairos_kairos::DataType;
use promkairos_kairos::index::single_tag_pair;
use promkairos_storage::Result;

/// Rows read of each value to find the most selective matcher.
const PROBE_ROWS: usize = 256;
/// Values looked up at the same time.
const READS_AT_ONCE: usize = 16;

/// The cost of a look-up in a window.
pub(crate) struct Looked {
    /// The tag and the values that were looked up.
    pub(crate) tag: String,
    pub(crate) values: Vec<String>,
    /// Partitions of the index that were read.
    pub(crate) partitions: usize,
    /// Rows of the index that were read.
    pub(crate) rows: usize,
}

/// A row of an index as it was found.
pub(crate) type TagRow = (DataType, Vec<(String, String)>);

impl SeriesIndex {
    /// The rows of a window that pass all matchers of tags, through the tag index. None when the
    /// index cannot be relied on for this window and these matchers.
    pub(crate) async fn look_up(
        &self,
        key: WindowKey<'_>,
        route: &Route,
    ) -> Result<Option<(Vec<TagRow>, Looked)>> {
        let only_looks = self.only_looks();
        let document = match only_looks {
            true if route.tags.is_empty() || self.statements.tags.rows.is_none() => {
                return Ok(None);
            }
            true => self.recorded().await?.document.into(),
            false if !self.is_leased() => return Ok(None),
            false => self.tags.view(),
        };
        let row_time = key.row_time.millis();
        let is_wanted = |tag: &str| !only_looks || self.tags.is_configured(key.metric, tag);
        let covers = |tag: &str| is_wanted(tag) && document.covers(key.metric, tag, row_time);
        let candidates = candidates(&route.tags, covers);
        let Some(mut best) = candidates.first() else { return Ok(None) };
        if !only_looks {
            self.tags.audited.note(key);
        }
        let mut reading = Reading { key, route, index: self, partitions: 0, read: 0 };
        if let [_, _, ..] = &candidates[..] {
            let mut probed = Vec::with_capacity(candidates.len());
            for candidate in &candidates {
                let before = reading.read;
                let (found, complete) = reading.read(candidate, Some(PROBE_ROWS)).await?;
                if complete {
                    return Ok(Some(reading.finish(candidate, found)));
                }
                probed.push((reading.read - before, candidate));
            }
            // Each has more rows than were read; the one with the fewest is as good as any.
            let fewest = probed.into_iter().min_by_key(|(rows, _)| *rows);
            best = fewest.map_or(best, |(_, candidate)| candidate);
        }
        let (found, _) = reading.read(best, None).await?;
        Ok(Some(reading.finish(best, found)))
    }

    /// Type and tags of the rows of one value, at most `limit`. Where a server gives up on that read, all rows, some
    /// of them twice.
    pub(crate) async fn rows_of_pair(
        &self,
        key: WindowKey<'_>,
        pair: &str,
        limit: Option<usize>,
        mut take: impl FnMut(DataType, &[(&str, &str)]),
    ) -> Result<()> {
        let (metric, table_name, row_time) = key.values();
        let statements = self.statements.tag_rows()?;
        let mut visit = |page: &Rows| {
            each_row(page, |data_type, tags| {
                take(data_type, tags);
                Ok(ControlFlow::Continue(()))
            })
            .map(|_| ())
        };
        if let Some(limit) = limit {
            let limit = i32::try_from(limit).unwrap_or(i32::MAX);
            let values = (metric, table_name, row_time, pair, limit);
            let mut pages = self.cql.pages(&statements.probe, values);
            loop {
                match pages.next().await {
                    Ok(Some(page)) => visit(&page)?,
                    Ok(None) => return Ok(()),
                    // Finding the first rows costs as much as reading all of them.
                    Err(Failure::Unread(_)) => break,
                    Err(error) => return Err(error.into()),
                }
            }
        }
        let mut pages = self.index_pages(&statements.select, key.pair_columns(pair));
        while let Some(page) = pages.next().await? {
            visit(&page)?;
        }
        Ok(())
    }
}

/// The reads of one window.
struct Reading<'a> {
    key: WindowKey<'a>,
    route: &'a Route,
    index: &'a SeriesIndex,
    partitions: usize,
    read: usize,
}

impl Reading<'_> {
    /// The matching rows of a candidate, and whether these are all.
    async fn read(
        &mut self,
        candidate: &Candidate<'_>,
        limit: Option<usize>,
    ) -> Result<(Vec<TagRow>, bool)> {
        let (key, route, index) = (self.key, self.route, self.index);
        let read = |value: &&str| {
            let pair = single_tag_pair(candidate.tag, value);
            async move {
                let (mut rows, mut read) = (Vec::new(), 0);
                index
                    .rows_of_pair(key, &pair, limit.map(|limit| limit + 1), |data_type, tags| {
                        read += 1;
                        if route.passes(tags) {
                            rows.push(owned(data_type, tags));
                        }
                    })
                    .await?;
                Ok((rows, read))
            }
            .boxed()
        };
        let reads = all(READS_AT_ONCE, Box::new(candidate.values.iter().map(read))).await?;
        self.partitions += reads.len();
        self.read += reads.iter().map(|(_, read)| read).sum::<usize>();
        let complete = limit.is_none_or(|limit| reads.iter().all(|(_, read)| *read <= limit));
        let mut seen = HashSet::new();
        let mut rows: Vec<TagRow> = reads.into_iter().flat_map(|(rows, _)| rows).collect();
        rows.retain(|row| seen.insert(identity(row)));
        Ok((rows, complete))
    }

    fn finish(self, candidate: &Candidate<'_>, rows: Vec<TagRow>) -> (Vec<TagRow>, Looked) {
        let values = candidate.values.iter().map(|value| (*value).to_owned()).collect();
        let tag = candidate.tag.to_owned();
        (rows, Looked { tag, values, partitions: self.partitions, rows: self.read })
    }
}

/// A row that outlives its page.
pub(crate) fn owned(data_type: DataType, tags: &[(&str, &str)]) -> TagRow {
    let tags = tags.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    (data_type, tags.collect())
}

/// The identity of a row within its window.
pub(crate) fn identity((data_type, tags): &TagRow) -> Identity {
    let tags = tags.iter().flat_map(|(name, value)| [name.as_bytes(), value.as_bytes()]);
    let parts: Vec<&[u8]> = std::iter::once(data_type.as_str().as_bytes()).chain(tags).collect();
    Identity::of(&parts)
}
