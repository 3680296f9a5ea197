//! The seam between everything above and the stores below: the trait [`Store`].
//!
//! It speaks of series, not of rows or files, because selecting series by label
//! matchers is where the stores differ most. See the trait for the contract.

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
mod pace;
mod pressure;
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
pub use self::pace::Pace;
pub use self::pressure::{Level, MEMORY_LIMIT, Pressure, Refused, SeriesRoom};
pub use self::run_length::{RunLength, bytes_of_chunk, chunk_bytes};
pub use self::unsynced::{Since, Starts, Unsynced};
use promkairos_chunk::Chunk;
use promkairos_model::{
    Exemplar, Labels, Matcher, Metadata, ShownSize, TimeRange, WriteBatch, WriteOutcome,
};

/// A shared handle to a store.
pub type SharedStore = Arc<dyn Store>;

/// Where samples live.
///
/// **Writing.** `Ok` from [`write`](Store::write) means durable *and* findable, data and index, for all that the
/// outcome counts; a read that starts after it sees it. What is refused for good is in the outcome and never an
/// error; an error means that nothing is promised, and that the same batch may be sent
/// again without harm. Any age and any order is welcome. A series has one
/// point at a timestamp, whatever its kind: the last write wins, and within one batch a float
/// wins over a histogram and otherwise the later entry. Values keep their bits.
///
/// **Reading.** Ranges are closed. All matchers must pass; a missing label has the
/// empty value; no matchers at all means everything. `series`, `label_names` and `label_values` answer
/// for series that may have points in the range; a coarse answer (too many) is
/// allowed, a missing one is not. With a limit they give the first ones and say that there are more.
///
/// **Deleting.** After `Ok` from [`delete`](Store::delete) the points that were acknowledged before the call are
/// gone from every read; what is written afterwards is not touched.
///
/// **Flushing.** [`absorb`](Store::absorb) takes whole runs from a head in front; `Ok` means durable.
///
/// **Cancellation.** Every future may be dropped at any time. A dropped write may or may
/// not happen; nothing is left half-visible in a way that a repetition would not mend.
///
/// **Errors** name the thing at fault; a caller decides by the variant, never by the text.
#[async_trait]
pub trait Store: Send + Sync {
    /// Stores a batch.
    async fn write(&self, batch: WriteBatch<'_>) -> Result<WriteOutcome, StoreError>;

    /// Label sets of the series that match, sorted.
    async fn series(&self, query: &SeriesQuery) -> Result<Limited<Labels>, StoreError>;

    /// Names of labels of the series that match, sorted.
    async fn label_names(&self, query: &SeriesQuery) -> Result<Limited<String>, StoreError>;

    /// Values of the label `name` of the series that match, sorted, without the empty one.
    async fn label_values(
        &self,
        name: &str,
        query: &SeriesQuery,
    ) -> Result<Limited<String>, StoreError>;

    /// The series that match, and a reader of their points.
    async fn select(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        hints: &SelectHints,
    ) -> Result<Selection, StoreError>;

    /// Exemplars in the range, by series; series sorted by labels, exemplars by time and then
    /// by labels. An exemplar is identified by series, labels and time. What would take more than `max_bytes` of
    /// memory, about, is [`StoreError::Limit`]: half of the range may be less.
    async fn exemplars(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        max_bytes: usize,
    ) -> Result<ExemplarList, StoreError>;

    /// Metadata of one family or, without a name, of the first ones by name, so many at most; sorted by name.
    async fn metadata(
        &self,
        family: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, Metadata)>, StoreError>;

    /// Deletes points and exemplars of the series that match.
    async fn delete(&self, matchers: &[Matcher], range: TimeRange) -> Result<(), StoreError>;

    /// What [`delete`](Store::delete) would leave behind; none where that is nothing. Nothing is changed.
    async fn delete_cost(
        &self,
        _matchers: &[Matcher],
        _range: TimeRange,
    ) -> Result<Option<DeleteCost>, StoreError> {
        Ok(None)
    }

    /// As [`delete`](Store::delete), for a head in front that accepted the delete at `accepted`
    /// (milliseconds since 1970) and may repeat it later: points accepted after that time, which
    /// it flushes with their own stamps, must not be hidden. Only a store that keeps write
    /// stamps differs from `delete`.
    async fn delete_accepted(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        _accepted: i64,
    ) -> Result<(), StoreError> {
        self.delete(matchers, range).await
    }

    /// Takes what a head flushes. The data becomes durable and findable before `Ok`; taking the same again is harmless.
    async fn absorb(&self, flush: Flush<'_>) -> Result<Absorbed, StoreError>;

    /// What its servers acknowledge and may lose; none where that is nothing, or where it is not known yet.
    async fn unsynced(&self) -> Option<Arc<dyn Unsynced>> {
        None
    }

    /// Gives up memory that it can do without: what is remembered only to be fast, and points that can go down
    /// early. May take long, and loses nothing.
    async fn relieve(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Whether `series` lists a series for every time between its first and last point, even where it has no point. A
    /// caller that needs points must read them.
    fn lists_spans(&self) -> bool {
        false
    }

    /// Whether writes can be accepted and their promise kept right now.
    async fn ready(&self) -> Result<(), StoreError>;

    /// What fails again and again in the background, and why. Known at once: nobody is asked.
    fn failing(&self) -> Option<String> {
        None
    }

    /// Finishes background work and releases files. No call may follow.
    async fn close(&self) -> Result<(), StoreError>;

    /// As [`close`](Store::close), but work that would take longer than until `by` is given up where a log keeps
    /// what it was for.
    async fn close_by(&self, _by: Instant) -> Result<(), StoreError> {
        self.close().await
    }

    /// Counts for status pages.
    async fn stats(&self) -> Result<Stats, StoreError>;
}

/// Which series a label endpoint asks for.
#[derive(Debug, Clone)]
pub struct SeriesQuery {
    /// All must pass; none = everything.
    pub matchers: Vec<Matcher>,
    /// Series with points in here.
    pub range: TimeRange,
    /// How many results, and bytes of them, there may be; the first ones, if there are more.
    pub limit: ListSize,
}

/// What the caller of [`Store::select`] wishes.
#[derive(Debug, Clone)]
pub struct SelectHints {
    /// Series sorted by labels; otherwise in any order.
    pub sorted: bool,
    /// Most bytes that the label sets may have in memory; more is [`StoreError::Limit`].
    pub max_label_bytes: usize,
    /// Most bytes that they may have together with [what the reader holds](SeriesReader::held_bytes); more is
    /// [`StoreError::Limit`] too.
    pub max_bytes: usize,
    /// Most bytes of points that reading one series may bring; more is [`StoreError::Limit`] where the store does not
    /// [know them before](SeriesReader::expected_bytes), and else left to the caller.
    pub max_series_bytes: usize,
}

impl SelectHints {
    /// Most bytes of label sets where the reader holds nothing.
    pub fn most_label_bytes(&self) -> usize {
        self.max_label_bytes.min(self.max_bytes)
    }
}

/// Fails when the label sets of a selection have more bytes than `limit`, as its hints have it.
pub fn check_label_bytes(bytes: usize, limit: usize) -> Result<(), StoreError> {
    if bytes > limit {
        let limit = ShownSize::of(limit);
        return Err(StoreError::Limit(format!("label sets of more than {limit} selected")));
    }
    Ok(())
}

/// Fails when a selection has more bytes than `limit`, its [`SelectHints::max_bytes`].
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

/// Fails when reading a series brings more bytes of points than `limit`, its [`SelectHints::max_series_bytes`].
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
/// The reader gives all points of these series that were acknowledged before the selection and not
/// deleted since. Whether it sees what is written, deleted or expires between selection and reading
/// depends on the store: one over Cassandra reads the rows as they are when it comes to them,
/// series by series, and may see a write in one series and not in another.
pub struct Selection {
    /// Label sets.
    pub series: Vec<Labels>,
    /// Reads the points of series by their position in `series`.
    pub reader: Box<dyn SeriesReader>,
}

/// Reads the points of a selection. Any number of workers may call it, each with its own run.
#[async_trait]
pub trait SeriesReader: Send + Sync {
    /// The chunks of the series at these positions, one list a series. In a list
    /// the points strictly rise in time from chunk to chunk. A chunk may hold points outside
    /// the selected range; a list may be empty.
    async fn read(&self, series: Range<usize>) -> Result<Vec<Vec<Chunk>>, StoreError>;

    /// What is expected of the points in `range`, a part of the selected one, of all series. Points are not read
    /// for it, or few.
    async fn forecast(&self, range: TimeRange) -> Result<Forecast, StoreError>;

    /// Bytes of points, about, that it keeps in memory until it goes.
    fn held_bytes(&self) -> usize {
        0
    }

    /// Bytes, about, that reading the series at this position will bring, beside what it holds; `None` = it is not
    /// known before.
    fn expected_bytes(&self, series: usize) -> Option<usize> {
        let _ = series;
        None
    }
}

/// What a head hands to the store below.
pub struct Flush<'a> {
    /// Position in the head's log up to which, inclusive, everything accepted is in this
    /// or an earlier flush. A store that keeps it gives it back in [`Stats::flushed_through`].
    pub through: u64,
    /// Runs sorted by labels; one label set occurs once.
    pub runs: Box<dyn Iterator<Item = SeriesRun> + Send + 'a>,
    /// Exemplars by series.
    pub exemplars: Vec<(Labels, Vec<Exemplar>)>,
    /// How its points lie in days, about.
    pub days: DayCounts,
    /// Metadata by family that was told since the flush before, whether it changed or not.
    pub metadata: Vec<(String, Metadata)>,
    /// How fast the runs should go down. A store that nobody else uses need not spread them.
    pub pace: Pace,
}

/// Points of one series, in order of acceptance: chunks may overlap, and at equal timestamps the later chunk wins.
pub struct SeriesRun {
    /// The series.
    pub labels: Labels,
    /// Its chunks, earlier accepted ones first.
    pub chunks: Vec<Chunk>,
}

/// What became of a flush.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Absorbed {
    /// Points stored.
    pub points: u64,
    /// Points that the store can never take; they were put into quarantine.
    pub refused: u64,
    /// Why, for the first of them; shortened.
    pub reasons: Vec<String>,
}

/// Counts of a store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    /// Series with points in memory or in the newest time partition.
    pub series: u64,
    /// Points, where the store can tell cheaply.
    pub points: Option<u64>,
    /// Chunks in memory, where there are any.
    pub chunks: u64,
    /// Earliest and latest timestamp, where the store can tell cheaply.
    pub time_range: Option<TimeRange>,
    /// `through` of the last durable [`Flush`]; 0 = none.
    pub flushed_through: u64,
    /// Bytes on disk, where the store can tell.
    pub disk_bytes: Option<u64>,
}

/// Why a store failed. Every variant asks for another answer to the client.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The store cannot be reached or cannot keep its promise now; try again after the time given.
    #[error("{what}")]
    Unavailable {
        /// What is away and why.
        what: String,
        /// When to try again.
        retry_after: Duration,
    },
    /// The backend does not let us in, or not do what is asked. It may while it starts, else a setting
    /// or a permission has to change.
    #[error("{0}")]
    Denied(String),
    /// A limit of the request was passed. Names the limit.
    #[error("{0}")]
    Limit(String),
    /// The request makes no sense to this store.
    #[error("{0}")]
    Invalid(String),
    /// Bytes on disk or in a row that are not what was written.
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
    /// The backend answered with an error that is not one of availability.
    #[error("{what}: {source}")]
    Backend {
        /// What was being done.
        what: String,
        /// The backend's error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// That a file operation failed. Where there is no room the folder comes first: it is not the file
/// that somebody can do something about.
pub fn file_failed(path: &Path, source: &io::Error) -> String {
    let folder = path.parent().unwrap_or(path).display();
    let full = match source.kind() {
        ErrorKind::StorageFull => format!("the file system of {folder} is full, make room there: "),
        ErrorKind::QuotaExceeded => format!("the quota for {folder} is used up, make room there: "),
        _ => String::new(),
    };
    format!("{full}{}: {source}", path.display())
}
