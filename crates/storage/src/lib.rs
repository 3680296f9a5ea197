//! The interface between the stores and all code above them: the trait [`Store`].
//!
//! It speaks of series, not of rows or files, because stores differ most in how they select series
//! by label matchers. The contract is documented at the trait.

pub mod clock;
pub mod clusters;
pub mod codec;
mod day_counts;
mod delete_cost;
pub mod disk;
pub mod exemplars;
pub mod failures;
mod folder_lock;
pub mod forecast;
pub mod frame;
pub mod index;
pub mod limited;
pub mod log_files;
pub mod memory;
pub mod merge;
mod pressure;
mod rate_pacer;
pub mod run_length;
mod unsynced;

use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;

pub use self::clock::Clock;
pub use self::day_counts::DayCounts;
pub use self::delete_cost::{DeleteCost, Tombstones};
pub use self::exemplars::{
    ExemplarList, Gathered as GatheredExemplars, Pieces as ExemplarPieces,
    bytes_of as exemplar_bytes, merged as merged_exemplars,
};
pub use self::folder_lock::{FolderLock, NotLocked};
pub use self::forecast::{Basis, Expected, Forecast};
pub use self::limited::{Limited, ListSize, Listed};
pub use self::pressure::{Level, MEMORY_LIMIT, Pressure, Refused, SeriesRoom};
pub use self::rate_pacer::RatePacer;
pub use self::run_length::{RunLength, bytes_of_chunk, chunk_bytes};
pub use self::unsynced::{Since, Starts, Unsynced};
use promkairos_chunk::Chunk;
use promkairos_model::{
    Exemplar, Labels, Matcher, Metadata, ShownSize, TimeRange, WriteBatch, WriteOutcome,
};

/// A shared handle to a store.
pub type SharedStore = Arc<dyn Store>;

/// A store of samples.
///
/// **Writing.** `Ok` from [`write`](Store::write) means that everything counted in the outcome is durable *and*
/// findable (data and index); a read that starts later sees it. Data that is refused for good is reported in the
/// outcome, never as an error. An error promises nothing; the same batch may be sent again without harm. Points may
/// have any age and come in any order. A series has one point per timestamp, of any kind: the last write wins; within
/// one batch a float wins over a histogram, and otherwise the later entry wins. Values keep their bits.
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

/// Which series a label endpoint asks for.
#[derive(Debug, Clone)]
pub struct SeriesQuery {
    /// All must pass; empty = everything.
    pub matchers: Vec<Matcher>,
    /// Series with points in this range.
    pub range: TimeRange,
    /// Maximum number and bytes of results; if there are more, the first ones are returned.
    pub limit: ListSize,
}

/// The options of [`Store::select`].
#[derive(Debug, Clone)]
pub struct SelectHints {
    /// Whether series are sorted by labels; otherwise in any order.
    pub sorted: bool,
    /// Maximum bytes that the label sets may have in memory; more is [`StoreError::Limit`].
    pub max_label_bytes: usize,
    /// Maximum bytes of label sets plus [what the reader holds](SeriesReader::held_bytes); more is
    /// [`StoreError::Limit`] too.
    pub max_bytes: usize,
    /// Maximum bytes of points from reading one series. More is [`StoreError::Limit`] if the store does not [know the
    /// size before](SeriesReader::expected_bytes); otherwise the caller has to check.
    pub max_series_bytes: usize,
}

impl SelectHints {
    /// Maximum bytes of label sets if the reader holds nothing.
    pub fn most_label_bytes(&self) -> usize {
        self.max_label_bytes.min(self.max_bytes)
    }
}

/// Fails if the label sets of a selection have more than `limit` bytes, the limit of its hints.
pub fn check_label_bytes(bytes: usize, limit: usize) -> Result<(), StoreError> {
    if bytes > limit {
        let limit = ShownSize::of(limit);
        return Err(StoreError::Limit(format!("label sets of more than {limit} selected")));
    }
    Ok(())
}

/// Fails if a selection has more than `limit` bytes, its [`SelectHints::max_bytes`].
pub fn check_bytes(bytes: usize, limit: usize) -> Result<(), StoreError> {
    if bytes > limit {
        let what = format!(
            "label sets and what is kept to read their points of more than {} selected",
            ShownSize::of(limit)
        );
        return Err(StoreError::Limit(what));
    }
    Ok(())
}

/// Fails if reading a series brings more than `limit` bytes of points, its [`SelectHints::max_series_bytes`].
pub fn check_series_bytes(labels: &Labels, bytes: usize, limit: usize) -> Result<(), StoreError> {
    if bytes > limit {
        let limit = ShownSize::of(limit);
        let what = format!("{labels} has points of more than {limit} in this range");
        return Err(StoreError::Limit(what));
    }
    Ok(())
}

impl Default for SelectHints {
    fn default() -> Self {
        let (max_bytes, max_series_bytes) = (usize::MAX, usize::MAX);
        Self { sorted: true, max_label_bytes: 1 << 30, max_bytes, max_series_bytes }
    }
}

/// Selected series. The label sets are unique.
///
/// The reader returns all points of these series that were acknowledged before the selection and
/// not deleted since. Whether it sees writes, deletes and expiry between selection and reading
/// depends on the store: the Cassandra store reads rows in their current state, series by series,
/// and may see a write in one series and not in another.
pub struct Selection {
    /// Label sets.
    pub series: Vec<Labels>,
    /// Reads the points of series by their position in `series`.
    pub reader: Box<dyn SeriesReader>,
}

/// Reads the points of a selection. Several workers may call it at once, each with a run of its own.
#[async_trait]
pub trait SeriesReader: Send + Sync {
    /// The chunks of the series at these positions, one list per series. In a list the points
    /// strictly rise in time from chunk to chunk. A chunk may hold points outside the selected
    /// range; a list may be empty.
    async fn read(&self, series: Range<usize>) -> Result<Vec<Vec<Chunk>>, StoreError>;

    /// The expected points of all series in `range`, a part of the selected range. Reads no points, or few.
    async fn forecast(&self, range: TimeRange) -> Result<Forecast, StoreError>;

    /// Approximate bytes of points that the reader keeps in memory until it is dropped.
    fn held_bytes(&self) -> usize {
        0
    }

    /// Approximate bytes that reading the series at this position adds to what the reader holds; `None` = unknown.
    fn expected_bytes(&self, series: usize) -> Option<usize> {
        let _ = series;
        None
    }
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

/// Why a store failed. Each variant needs a different answer to the client.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The store cannot be reached or cannot keep its promise now; retry after the given time.
    #[error("{what}")]
    Unavailable {
        /// What is unavailable, and why.
        what: String,
        /// When to retry.
        retry_after: Duration,
    },
    /// The backend denies access or an operation. This may pass while it starts; otherwise a
    /// setting or a permission has to change.
    #[error("{0}")]
    Denied(String),
    /// The request exceeds a limit. Names the limit.
    #[error("{0}")]
    Limit(String),
    /// The request makes no sense to this store.
    #[error("{0}")]
    Invalid(String),
    /// Bytes on disk or in a row differ from what was written.
    #[error("{path}: damaged at byte {offset}: {what}", path = path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Where in the file.
        offset: u64,
        /// What is wrong.
        what: String,
    },
    /// A file operation failed.
    #[error("{}", file_failed(path, source))]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The backend returned an error other than unavailability.
    #[error("{what}: {source}")]
    Backend {
        /// What was being done.
        what: String,
        /// The backend's error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// The text of a failed file operation. If there is no room, the folder comes first, because the
/// operator has to act on its file system and not on the file.
pub fn file_failed(path: &Path, source: &io::Error) -> String {
    let folder = path.parent().unwrap_or(path).display();
    let full = match source.kind() {
        ErrorKind::StorageFull => format!("the file system of {folder} is full, make room there: "),
        ErrorKind::QuotaExceeded => format!("the quota for {folder} is used up, make room there: "),
        _ => String::new(),
    };
    format!("{full}{}: {source}", path.display())
}
