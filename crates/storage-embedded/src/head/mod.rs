//! A write-ahead log, and recent samples in memory, in front of any store.
//!
//! A write is acknowledged after its record is on disk ([`wal`]) and its points are in memory
//! ([`applier`]), in this order. Flushes hand points to the store below in long runs ([`flush`]).
//! Reads merge memory and the store below ([`read`]). One short lock gives a write the same
//! position in the log, in memory and in precedence.
//!
//! Invariant: all records up to the checkpoint are in the store below; all others are in the log
//! and in memory, and memory has nothing that the log does not have. Of the store below the head
//! knows only the width of a partition.

mod applier;
mod byte_budget;
mod closing;
mod deletes;
mod flush;
mod handing_down;
mod map;
mod memory;
mod open;
mod order;
mod prepared;
mod read;
mod repeater;
mod series;
mod size;
mod unsynced_records;
pub mod wal;
mod wal_prefetch;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use tracing::{Instrument, info_span};

use promkairos_model::limits::{FULL_RETRY_AFTER, LEAST_FLUSH_RETRY, MOST_FLUSH_RETRY, REFUSE_AT};
use promkairos_model::{
    Body, Labels, Matcher, Metadata, Protocol, Rejections, ShownSize, Target, TimeRange,
    WriteBatch, WriteOutcome,
};
use promkairos_storage::clock::now_ms;
use promkairos_storage::disk::Disk;
use promkairos_storage::failures::Failures;
use promkairos_storage::log_files::LogFiles;
use promkairos_storage::{
    DeleteCost, ExemplarList, Flush, FlushOutcome, Limited, Pressure, SelectHints, Selection,
    SeriesQuery, SharedStore, Stats, Store, StoreError,
};
use promkairos_telemetry::HeadMetrics;

use applier::{Answered, Applier, Step, answered};
use flush::{Flusher, WhenEmpty};
use memory::{Memory, Resolved};
use prepared::Judge;
use unsynced_records::UnsyncedRecords;
use wal::{Mark, Record, Wal};

pub use prepared::Refuse;

/// Whether every point keeps its acceptance time, for a store below that writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stamps {
    /// Points keep their acceptance time.
    Kept,
    /// Points do not keep it.
    Dropped,
}

impl Stamps {
    /// The acceptance time that a point keeps; 0 = none.
    fn kept(self, accepted: i64) -> i64 {
        match self {
            Self::Kept => accepted,
            Self::Dropped => 0,
        }
    }
}

/// Settings of a head.
#[derive(Clone)]
pub struct Options {
    /// Folder of the log; created if absent.
    pub dir: PathBuf,
    /// Whether a file beside the folder says that the log has acknowledged records.
    pub mark: Mark,
    /// Most bytes of the log; beyond them writes are refused until a flush succeeds.
    pub wal_limit: u64,
    /// Size of a segment file of the log, in bytes.
    pub segment_bytes: u64,
    /// How often samples go to the store below.
    pub flush_interval: Duration,
    /// Time over which a flush is spread if only the interval started it.
    pub flush_spread: Duration,
    /// First and longest wait after a failed flush; it ends early if the store below is back.
    pub flush_backoff: (Duration, Duration),
    /// Approximate bytes of points in memory that start a flush early, also while the log is read
    /// back. At [`REFUSE_AT`] times this size writes are refused.
    pub flush_memory: u64,
    /// How long a series stays in memory at least after its last write, however many flushes
    /// follow.
    pub series_stay: Duration,
    /// Whether points keep their acceptance times.
    pub stamps: Stamps,
    /// Series that the store below can never take are refused at once.
    pub refuse: Option<Refuse>,
    /// Memory of the process; no new series are taken while it is short.
    pub pressure: Arc<Pressure>,
    /// The file layer of the log.
    pub disk: Arc<dyn LogFiles>,
}

impl Options {
    /// Default settings, with the log in `dir`.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            mark: Mark::None,
            wal_limit: 8 << 30,
            segment_bytes: 128 << 20,
            flush_interval: Duration::from_secs(2 * 3600),
            flush_spread: Duration::from_secs(3600),
            flush_backoff: (LEAST_FLUSH_RETRY, MOST_FLUSH_RETRY),
            flush_memory: 512 << 20,
            series_stay: Duration::ZERO,
            stamps: Stamps::Dropped,
            refuse: None,
            pressure: Arc::default(),
            disk: Arc::new(Disk),
        }
    }
}

/// A store with a log and recent samples in front of another store.
pub struct Head {
    inner: Arc<Inner>,
}

struct Inner {
    options: Options,
    wal: Arc<Wal>,
    memory: Arc<Memory>,
    /// Locked while a record gets its position in the log and among the steps to be applied.
    order: Mutex<Order>,
    flusher: Flusher,
    /// Wakes the task that flushes.
    wake: Arc<Notify>,
    below: SharedStore,
    metrics: HeadMetrics,
    /// Records that the store below has and may still lose.
    held: Arc<UnsyncedRecords>,
    /// Failures of flushes since the last success.
    failures: Failures,
}

struct Order {
    /// The last acceptance time, in milliseconds since 1970. It never falls: if the clock jumps
    /// ahead and back, it stays until the clock has reached it. No order is lost: the time must
    /// differ only before and after a delete or the beginning of a flush, and both raise it by one.
    /// Within a flush the order of the log decides, and a store without stamps knows only that
    /// order. Such a jump has a cost in Cassandra: points with these times live longer by the jump,
    /// and until then they hide what others write at the same points.
    stamp: i64,
    applier: Applier,
}

impl Order {
    fn next_stamp(&mut self) -> i64 {
        self.stamp = self.stamp.max(now_ms());
        self.stamp
    }

    /// A time that no later write shares: at equal times a delete would win.
    fn stamp_of_delete(&mut self) -> i64 {
        let stamp = self.next_stamp();
        self.stamp = stamp + 1;
        stamp
    }
}

/// A write on its way to the log and to memory.
struct Accepted {
    rejections: Rejections,
    answered: Answered<WriteOutcome>,
}

impl Head {
    /// Opens the log in front of `below`, reads back records that are not in `below` yet, and
    /// starts flushes in the background. Fails if acknowledged records are damaged.
    pub async fn open(
        options: Options,
        below: SharedStore,
        metrics: HeadMetrics,
    ) -> Result<Self, StoreError> {
        let inner = Arc::new(open::open(options, below, metrics).await?);
        flush::spawn(&inner);
        unsynced_records::spawn(&inner);
        Ok(Self { inner })
    }

    /// Hands everything accepted so far to the store below.
    pub async fn flush(&self) -> Result<(), StoreError> {
        self.inner.flush(WhenEmpty::Skip, Duration::ZERO).await
    }
}

impl Drop for Head {
    fn drop(&mut self) {
        // A flush in progress holds the log until its end, so it is not spread any more.
        self.inner.flusher.hurry_for_ever();
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Wakes the background tasks, which then see that the head is gone.
        self.wake.notify_one();
        self.held.more.notify_one();
    }
}

impl Inner {
    /// Checks that the log may grow by `bytes`. An error has the setting that was reached.
    fn check_limit(&self, bytes: usize) -> Result<(), (&'static str, StoreError)> {
        let (used, limit) = (self.wal.used_bytes(), self.options.wal_limit);
        // A small log can have many points.
        let (points, most) = (self.memory.bytes(), self.options.flush_memory * REFUSE_AT);
        let (setting, what) = if used + bytes as u64 > limit {
            let (used, limit) = (ShownSize::of(used), ShownSize::of(limit));
            let what = format!(
                "the log has {used} of at most {limit} not in the store below yet, which is the \
                 setting wal-limit"
            );
            ("wal-limit", what)
        } else if points > most {
            let (points, most) = (ShownSize::of(points), ShownSize::of(most));
            let what = format!(
                "{points} of points wait for a flush, and at most {most} may, which is \
                 {REFUSE_AT} times the setting flush-memory"
            );
            ("flush-memory", what)
        } else {
            return Ok(());
        };
        self.wake.notify_one();
        Err((setting, StoreError::Unavailable { what, retry_after: FULL_RETRY_AFTER }))
    }

    /// Gives the batch its position in the log and among the steps to be applied. Synchronous, so
    /// that no lock is held over an await.
    fn accept(
        &self,
        room: wal::Admission,
        mut batch: WriteBatch<'_>,
        encoded: &[u8],
    ) -> Result<Accepted, StoreError> {
        let body = batch.body;
        let mut rejections = std::mem::take(&mut batch.rejections);
        let judge = Judge::Accept { refuse: self.options.refuse, pressure: &self.options.pressure };
        let resolved = self.memory.resolve(batch, judge);
        let Resolved { write, judged, map: _map } = resolved;
        rejections.extend(judged.rejections);
        let record = match &body {
            Some(body) => {
                let rejected = rejections.targets().to_vec();
                Record::Write { protocol: body.protocol, rejected, body: body.compressed }
            }
            None => {
                // A batch without a body is encoded in its order, so positions stay.
                let rejected = judged.left_out.into_iter().map(Target::Series).collect();
                Record::Write { protocol: Protocol::V2, rejected, body: encoded }
            }
        };
        let (answer, answered) = oneshot::channel();
        let mut order = self.order.lock();
        let accepted = order.next_stamp();
        let commit = self.wal.append(room, accepted, record)?;
        let stamp = self.options.stamps.kept(accepted);
        order.applier.push(Step::Write { commit, write, stamp, answer });
        Ok(Accepted { rejections, answered })
    }

    fn wake_if_full(&self) {
        if self.is_log_half_full() || self.memory.unflushed_bytes() > self.options.flush_memory {
            self.wake.notify_one();
        }
    }

    fn is_log_half_full(&self) -> bool {
        self.wal.used_bytes() > self.options.wal_limit / 2
    }
}

/// Encodes a body for a batch without one.
fn encode(batch: &WriteBatch<'_>) -> Result<Vec<u8>, StoreError> {
    let raw = promkairos_wire::encode_v2(batch);
    let body = promkairos_wire::snappy::compress(&raw)
        .map_err(|error| StoreError::Invalid(error.to_string()))?;
    promkairos_wire::snappy::declared_len(&body)
        .map_err(|error| StoreError::Limit(error.to_string()))?;
    Ok(body)
}

#[async_trait]
impl Store for Head {
    async fn write(&self, batch: WriteBatch<'_>) -> Result<WriteOutcome, StoreError> {
        let encoded = match batch.body {
            Some(Body { .. }) => Vec::new(),
            None => encode(&batch)?,
        };
        let bytes = batch.body.map_or(encoded.len(), |body| body.compressed.len());
        self.inner.check_limit(bytes).map_err(|(setting, error)| {
            self.inner.metrics.limits.reached(setting);
            error
        })?;
        let room = self.inner.wal.admit(bytes + prepared::waiting_bytes(&batch));
        let room = room.instrument(info_span!("wait")).await;
        let accepted =
            info_span!("look-up").in_scope(|| self.inner.accept(room, batch, &encoded))?;
        let Accepted { rejections, answered: answer } = accepted;
        let outcome = answered(answer).instrument(info_span!("log")).await??;
        self.inner.wake_if_full();
        Ok(WriteOutcome { rejections, ..outcome })
    }

    async fn series(&self, query: &SeriesQuery) -> Result<Limited<Labels>, StoreError> {
        self.inner.series(query).await
    }

    async fn label_names(&self, query: &SeriesQuery) -> Result<Limited<String>, StoreError> {
        self.inner.label_names(query).await
    }

    async fn label_values(
        &self,
        name: &str,
        query: &SeriesQuery,
    ) -> Result<Limited<String>, StoreError> {
        self.inner.label_values(name, query).await
    }

    async fn select(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        hints: &SelectHints,
    ) -> Result<Selection, StoreError> {
        self.inner.select(matchers, range, hints).await
    }

    async fn exemplars(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        max_bytes: usize,
    ) -> Result<ExemplarList, StoreError> {
        self.inner.exemplars(matchers, range, max_bytes).await
    }

    async fn metadata(
        &self,
        family: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, Metadata)>, StoreError> {
        self.inner.metadata(family, limit).await
    }

    async fn delete(&self, matchers: &[Matcher], range: TimeRange) -> Result<(), StoreError> {
        self.inner.delete(matchers, range).await
    }

    /// In the store below, a delete that was accepted here removes only points.
    async fn delete_cost(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
    ) -> Result<Option<DeleteCost>, StoreError> {
        let cost = self.inner.below.delete_cost(matchers, range).await?;
        Ok(cost.map(DeleteCost::of_points_alone))
    }

    async fn ingest_flush(&self, _flush: Flush<'_>) -> Result<FlushOutcome, StoreError> {
        Err(StoreError::Invalid("a head takes writes, not the flush of another head".into()))
    }

    async fn relieve(&self) -> Result<(), StoreError> {
        self.inner.below.relieve().await?;
        if self.inner.flusher.has_failed() {
            // The background task tries the flush again.
            return Ok(());
        }
        self.inner.flush(WhenEmpty::Flush, Duration::ZERO).await
    }

    fn lists_spans(&self) -> bool {
        self.inner.below.lists_spans()
    }

    async fn ready(&self) -> Result<(), StoreError> {
        self.inner.wal.ready()?;
        // Not ready if the next request of usual size would be refused.
        let some = (self.inner.options.wal_limit / 64) as usize;
        self.inner.check_limit(some).map_err(|(_, error)| error)?;
        match self.failing() {
            Some(what) => Err(StoreError::Unavailable { what, retry_after: FULL_RETRY_AFTER }),
            None => Ok(()),
        }
    }

    fn failing(&self) -> Option<String> {
        self.inner.failures.standing().or_else(|| self.inner.below.failing())
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.inner.close(None).await
    }

    async fn close_by(&self, by: Instant) -> Result<(), StoreError> {
        self.inner.close(Some(by)).await
    }

    async fn stats(&self) -> Result<Stats, StoreError> {
        let below = self.inner.below.stats().await?;
        let wal = self.inner.wal.used_bytes();
        let memory = self.inner.memory.clone();
        let (chunks, range) = blocking(move || memory.extent()).await?;
        Ok(Stats {
            series: below.series.max(self.inner.memory.series_count() as u64),
            // Points in memory may be in the store below too; a count of both is not cheap.
            points: None,
            chunks,
            time_range: memory::hull(below.time_range, range),
            disk_bytes: below.disk_bytes.map(|bytes| bytes + wal),
            ..below
        })
    }
}

/// Runs long work on a thread that does not answer requests.
async fn blocking<R: Send + 'static>(
    work: impl FnOnce() -> R + Send + 'static,
) -> Result<R, StoreError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| StoreError::Backend {
        what: "a task of the head ended early".into(),
        source: Box::new(error),
    })
}
