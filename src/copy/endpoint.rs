//! A side of a copy: a store, or a server that is read over HTTP.
//!
//! Both answer the same queries; only a store can be written to.

use serde::Serialize;

use super::error::CopyError;
use super::job::Selector;
use super::remote::Remote;
use super::runs::Runs;
use crate::limits::PARTITION_MS;
use crate::model::{Labels, METRIC_NAME, MatchOp, Matcher, Metadata, Point, TimeRange, Value};
use crate::storage::{ExemplarList, ListSize, SelectHints, SeriesQuery, SharedStore, StoreError};

/// Most names that a store is queried for one by one, and most bytes of them.
const FEW_NAMES: usize = 200;
const FEW_BYTES: usize = 16 << 10;

/// Most days that are checked one by one instead of reading points.
const FEW_DAYS: i64 = 32;

/// Whether a range has more than a few days.
fn is_long(range: TimeRange) -> bool {
    range.end.saturating_sub(range.start) > FEW_DAYS * PARTITION_MS
}

/// The points for which a side keeps, or transfers, start timestamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Starts {
    /// No points.
    None,
    /// Native histograms: a `kairos_double` cell has no room for a start timestamp.
    Histograms,
    /// All points.
    All,
}

impl Starts {
    /// The start timestamp that is kept for a point; 0 = none.
    pub(super) fn kept(self, point: &Point) -> i64 {
        match (self, &point.value) {
            (Self::All, _) | (Self::Histograms, Value::Histogram(_)) => point.start_timestamp,
            _ => 0,
        }
    }
}

/// A store that takes part in a copy.
#[derive(Clone)]
pub struct StoreEndpoint {
    /// Its name in messages.
    pub name: String,
    /// The store.
    pub store: SharedStore,
    /// The start timestamps that it keeps.
    pub starts: Starts,
}

/// A side to read from.
#[derive(Clone)]
pub enum Endpoint {
    /// From a store.
    Store(StoreEndpoint),
    /// From a server, by remote read.
    Remote(Remote),
}

impl Endpoint {
    /// Its name in messages.
    pub fn name(&self) -> &str {
        match self {
            Self::Store(side) => &side.name,
            Self::Remote(remote) => remote.url(),
        }
    }

    /// The start timestamps that it transfers.
    pub fn starts(&self) -> Starts {
        match self {
            Self::Store(side) => side.starts,
            Self::Remote(_) => Starts::None,
        }
    }

    /// The names that a selector selects in the range, if they are few and knowing them saves work:
    /// without them a store goes through all of its names in each query.
    pub(super) async fn few_names(
        &self,
        selector: &Selector,
        range: TimeRange,
    ) -> Result<Option<Vec<String>>, CopyError> {
        let Self::Store(side) = self else { return Ok(None) };
        let matchers = names_of(selector);
        if matchers.iter().any(|matcher| matcher.literals().is_some()) {
            return Ok(None);
        }
        let query = SeriesQuery { matchers, range, limit: ListSize::items(FEW_NAMES + 1) };
        let found = side.store.label_values(METRIC_NAME, &query).await;
        let names = found.map_err(|source| self.failed(source))?.items;
        let is_short = names.iter().map(String::len).sum::<usize>() <= FEW_BYTES;
        Ok((names.len() <= FEW_NAMES && is_short).then_some(names))
    }

    /// Whether there may be points in the range. A store looks only at metrics, not at every
    /// series; with `names`, which must be all that the selector selects, only at these. A store
    /// that lists spans of time is read for points if the range is long: otherwise a series with a
    /// point in each of two distant years would be copied day by day between them.
    pub(super) async fn may_have(
        &self,
        selector: &Selector,
        names: Option<&[String]>,
        range: TimeRange,
    ) -> Result<bool, CopyError> {
        let found = match self {
            Self::Store(side) => {
                let mut matchers = names_of(selector);
                match names.map(one_of) {
                    Some(Some(one_of)) => matchers = vec![one_of],
                    Some(None) if names.is_some_and(<[_]>::is_empty) => return Ok(false),
                    _ => {}
                }
                let query = SeriesQuery { matchers, range, limit: ListSize::items(1) };
                let found = side.store.label_values(METRIC_NAME, &query).await;
                match found {
                    Ok(found) if found.items.is_empty() => Ok(false),
                    Ok(_) if is_long(range) && side.store.lists_spans() => {
                        return self.has_points(selector, range).await;
                    }
                    found => found.map(|_| true),
                }
            }
            Self::Remote(remote) => remote.may_have(&selector.text, range).await,
        };
        found.map_err(|source| self.failed(source))
    }

    async fn has_points(&self, selector: &Selector, range: TimeRange) -> Result<bool, CopyError> {
        let mut runs = self.runs(selector, range, None).await?;
        while let Some(run) = runs.next().await? {
            for (labels, chunks) in run {
                for chunk in chunks {
                    let found = chunk.has_point_in(range);
                    if found.map_err(|why| CopyError::chunk(self.name(), &labels, why))? {
                        return Ok(true);
                    }
                }
            }
        }
        Ok(false)
    }

    /// The series that one selector selects, sorted, with the chunks that overlap the range; series
    /// up to and including `after` are skipped.
    pub(super) async fn runs(
        &self,
        selector: &Selector,
        range: TimeRange,
        after: Option<Labels>,
    ) -> Result<Runs, CopyError> {
        match self {
            Self::Store(side) => {
                let hints = SelectHints { sorted: true, ..SelectHints::default() };
                let selection = side.store.select(&selector.matchers, range, &hints).await;
                let selection = selection.map_err(|source| self.failed(source))?;
                Ok(Runs::of_selection(side.name.clone(), selection, after))
            }
            Self::Remote(remote) => {
                let frames = remote.read(&selector.matchers, range);
                Ok(Runs::of_frames(remote.url().to_owned(), frames, after))
            }
        }
    }

    /// Exemplars in the range, by series. [`StoreError::Limit`] if they have more bytes, or a server reports too many.
    pub(super) async fn exemplars(
        &self,
        selector: &Selector,
        range: TimeRange,
        max_bytes: usize,
    ) -> Result<ExemplarList, CopyError> {
        let found = match self {
            Self::Store(side) => side.store.exemplars(&selector.matchers, range, max_bytes).await,
            Self::Remote(remote) => remote.exemplars(&selector.text, range, max_bytes).await,
        };
        found.map_err(|source| self.failed(source))
    }

    /// Metadata of all families.
    pub(super) async fn metadata(&self) -> Result<Vec<(String, Metadata)>, CopyError> {
        let found = match self {
            Self::Store(side) => side.store.metadata(None, usize::MAX).await,
            Self::Remote(remote) => remote.metadata().await,
        };
        found.map_err(|source| self.failed(source))
    }

    fn failed(&self, source: StoreError) -> CopyError {
        CopyError::Store { side: self.name().to_owned(), source }
    }
}

/// The matchers of a selector for the metric name.
fn names_of(selector: &Selector) -> Vec<Matcher> {
    let of_name = selector.matchers.iter().filter(|matcher| matcher.name() == METRIC_NAME);
    of_name.cloned().collect()
}

/// A matcher for these names; `None` if there are none, or if they make no valid regular expression.
fn one_of(names: &[String]) -> Option<Matcher> {
    let escaped: Vec<String> = names.iter().map(|name| regex_syntax::escape(name)).collect();
    let all = (!escaped.is_empty()).then(|| escaped.join("|"))?;
    Matcher::new(MatchOp::Regex, METRIC_NAME, &all).ok()
}
