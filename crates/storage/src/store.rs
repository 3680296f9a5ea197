//! The trait [`Store`], its contract, and the data that it takes and returns.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;

use super::day_counts::DayCounts;
use super::delete_cost::DeleteCost;
use super::error::StoreError;
use super::exemplars::ExemplarList;
use super::limited::Limited;
use super::rate_pacer::RatePacer;
use super::select::{SelectHints, Selection, SeriesQuery};
use super::unsynced::Unsynced;
use promkairos_chunk::Chunk;
use promkairos_model::{Exemplar, Labels, Matcher, Metadata, TimeRange, WriteBatch, WriteOutcome};

/// A shared handle to a store.
pub type SharedStore = Arc<dyn Store>;

/// A store of samples.
///
/// **Writing.** `Ok` from [`write`](Store::write) means that everything counted in the outcome is durable *and*
/// findable (data and index); a read that starts later sees it. Data that is refused for good is reported in the
/// outcome, never as an error. An error promises nothing; the same batch may be sent again without harm. Points may
/// have any age and come in any order. A series has one point per timestamp, of any kind: the last write wins; within
/// one batch a float wins over a histogram, and otherwise the later entry wins. Values keep their bits, and
/// integers stay integers.
///
/// **Reading.** Ranges are closed. All matchers must pass; a missing label has the empty value; no matchers select
/// everything. `series`, `label_names` and `label_values` answer for series that may have points in the range: the
/// result may contain too many, but none may be missing. With a limit they return the first results and say whether
/// there are more.
///
/// **Deleting.** After `Ok` from [`delete`](Store::delete) no read returns the points that were acknowledged before
/// the call; points written afterwards are not touched.
///
/// **Flushing.** [`ingest_flush`](Store::ingest_flush) takes whole runs from a head in front; `Ok` means durable.
///
/// **Cancellation.** Every future may be dropped at any time. A dropped write may or may not happen; if it leaves
/// something half-visible, a repetition repairs it.
///
/// **Errors** name the thing at fault; callers decide by the variant, never by the text.
#[async_trait]
pub trait Store: Send + Sync {
    /// Stores a batch.
    async fn write(&self, batch: WriteBatch<'_>) -> Result<WriteOutcome, StoreError>;

    /// Label sets of the matching series, sorted.
    async fn series(&self, query: &SeriesQuery) -> Result<Limited<Labels>, StoreError>;

    /// Label names of the matching series, sorted.
    async fn label_names(&self, query: &SeriesQuery) -> Result<Limited<String>, StoreError>;

    /// Values of the label `name` of the matching series, sorted, without the empty value.
    async fn label_values(
        &self,
        name: &str,
        query: &SeriesQuery,
    ) -> Result<Limited<String>, StoreError>;

    /// Selects the matching series, with a reader of their points.
    async fn select(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        hints: &SelectHints,
    ) -> Result<Selection, StoreError>;

    /// Exemplars in the range, by series; series sorted by labels, exemplars by time and then by
    /// labels. An exemplar is identified by series, labels and time. A result of more than about
    /// `max_bytes` of memory is [`StoreError::Limit`]; half of the range may fit.
    async fn exemplars(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        max_bytes: usize,
    ) -> Result<ExemplarList, StoreError>;

    /// Metadata of one family or, without a name, of the first `limit` families; sorted by name.
    async fn metadata(
        &self,
        family: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, Metadata)>, StoreError>;

    /// Deletes points and exemplars of the matching series.
    async fn delete(&self, matchers: &[Matcher], range: TimeRange) -> Result<(), StoreError>;

    /// What [`delete`](Store::delete) would leave behind; `None` if nothing. Changes nothing.
    async fn delete_cost(
        &self,
        _matchers: &[Matcher],
        _range: TimeRange,
    ) -> Result<Option<DeleteCost>, StoreError> {
        Ok(None)
    }

    /// As [`delete`](Store::delete), for a head in front that accepted the delete at `accepted`
    /// (milliseconds since 1970) and may repeat it later. Points that the head accepted after that
    /// time and flushes with their own stamps must not be hidden. Differs from `delete` only in a
    /// store that keeps write stamps.
    async fn delete_accepted(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        _accepted: i64,
    ) -> Result<(), StoreError> {
        self.delete(matchers, range).await
    }

    /// Takes the flush of a head. The data is durable and findable before `Ok`; repeating a flush is harmless.
    async fn ingest_flush(&self, flush: Flush<'_>) -> Result<FlushOutcome, StoreError>;

    /// The writes that the store's servers acknowledge but may lose; `None` if there are none or it is not known yet.
    async fn unsynced(&self) -> Option<Arc<dyn Unsynced>> {
        None
    }

    /// Frees memory that is not essential: caches, and points that can be written out early. May
    /// take long; loses no data.
    async fn relieve(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Whether `series` lists a series for every time between its first and last point, even where
    /// it has no point. Callers that need points must read them.
    fn lists_spans(&self) -> bool {
        false
    }

    /// Whether writes can be accepted and their promise kept right now.
    async fn ready(&self) -> Result<(), StoreError>;

    /// The background work that keeps failing, and why. Answers at once, without a request to a server.
    fn failing(&self) -> Option<String> {
        None
    }

    /// Finishes background work and releases files. No call may follow.
    async fn close(&self) -> Result<(), StoreError>;

    /// As [`close`](Store::close), but gives up work that would last beyond `by`, if a log keeps its data.
    async fn close_by(&self, _by: Instant) -> Result<(), StoreError> {
        self.close().await
    }

    /// Counts for status pages.
    async fn stats(&self) -> Result<Stats, StoreError>;
}

/// The data that a head passes to the store below.
pub struct Flush<'a> {
    /// Position in the head's log: everything accepted up to it, inclusive, is in this or an
    /// earlier flush. A store that keeps it returns it in [`Stats::flushed_through`].
    pub through: u64,
    /// Runs sorted by labels; one label set occurs once.
    pub runs: Box<dyn Iterator<Item = SeriesRun> + Send + 'a>,
    /// Exemplars by series.
    pub exemplars: Vec<(Labels, Vec<Exemplar>)>,
    /// Approximate number of points by day.
    pub days: DayCounts,
    /// Metadata by family that was received since the last flush, whether it changed or not.
    pub metadata: Vec<(String, Metadata)>,
    /// How fast the runs are written. A store that is not shared with other programs need not spread them.
    pub pace: RatePacer,
}

/// Points of one series, in order of acceptance: chunks may overlap, and at equal timestamps the later chunk wins.
pub struct SeriesRun {
    /// The series.
    pub labels: Labels,
    /// Its chunks, in order of acceptance.
    pub chunks: Vec<Chunk>,
}

/// The outcome of a flush.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FlushOutcome {
    /// Points stored.
    pub points: u64,
    /// Points that the store can never take; they are put into quarantine.
    pub refused: u64,
    /// Reasons for the first refused points, shortened.
    pub reasons: Vec<String>,
}

/// Counts of a store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    /// Series with points in memory or in the newest time partition.
    pub series: u64,
    /// Number of points, if the store can count cheaply.
    pub points: Option<u64>,
    /// Chunks in memory, if there are any.
    pub chunks: u64,
    /// Earliest and latest timestamp, if the store can find them cheaply.
    pub time_range: Option<TimeRange>,
    /// `through` of the last durable [`Flush`]; 0 = none.
    pub flushed_through: u64,
    /// Bytes on disk, if the store knows them.
    pub disk_bytes: Option<u64>,
}
