//! Stores series in the KairosDB schema over CQL, in a keyspace that KairosDB may use too.
//!
//! A write is durable and findable when it is acknowledged: index rows first, then data, each at the write
//! consistency. Cassandra holds everything that must outlive the process, except the quarantine file.
//! Memory holds the known index rows and the series of windows (both save work and are checked again), the
//! last write stamp, and the clock skew. Decisions are pure (`plan`, `routing`, `retry`, `concurrency`,
//! `stamp`, `index_memory`, `series_cache`, `cached_window`); the other files carry them out.
//!
//! Not stored: start timestamps of floats, for which a `kairos_double` cell has no room.

mod admin;
mod cql;
mod cut;
mod delete;
pub mod doctor;
mod identity;
mod index;
mod ingest_flush;
mod lifetime;
mod metadata;
mod node_starts;
mod options;
mod points;
pub mod quarantine;
mod refused_writes;
mod schema;
mod shared;
mod skipped;
mod statements;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures::future::try_join;
use parking_lot::Mutex;
use tokio::sync::RwLock;
use tokio::task::{JoinHandle, JoinSet, spawn_blocking};

pub use crate::admin::explain::{Explanation, LegacyExplanation, WindowExplanation, WindowPath};
pub use crate::admin::job::{Job, JobKind, JobState};
pub use crate::admin::status::{TagIndexStatus, TagStatus};
pub use crate::index::tag_index::document as tag_index_document;
pub use crate::options::KeepUnsynced;
pub use crate::options::certificates::{Certificates, Tls};
pub use crate::options::credentials::Credentials;
pub use crate::options::read_cache::{LEAST_SETTLED_AFTER, MOST_CACHE_AGE, ReadCacheOptions};
pub use crate::options::tag_index::{TagIndexOptions, TagIndexTrust};
pub use crate::options::{ExpectedCluster, Keyspace, Options, OptionsError, Replication, Role};
pub use crate::quarantine::Quarantine;
pub use crate::skipped::{LeftOut, LeftOutByReason, Skipped};
pub use scylla::client::Compression;
pub use scylla::statement::Consistency;

use crate::cql::clock::Skew;
use crate::cql::durability::{Durability, Risk};
use crate::cql::executor::Executor;
use crate::cql::prepared::Preparer;
use crate::cql::session;
use crate::cql::stamp;
use crate::index::label_answers::LabelAnswers;
use crate::index::legacy::LegacyIndex;
use crate::index::memory::IndexMemory;
use crate::index::mtime::Mtimes;
use crate::index::pages::IndexCuts;
use crate::index::routing;
use crate::index::series_cache::SeriesCache;
use crate::index::tag_index::state::TagIndex;
use crate::lifetime::Lifetimes;
use crate::node_starts::Nodes;
use crate::points::dead_cells::DeadCells;
use crate::points::epochs::Epochs;
use crate::points::plan;
use crate::points::read_cache::ReadCache;
use crate::points::series_reader::CassandraReader;
use crate::points::spacing::Spacings;
use crate::refused_writes::{Brings, RefusedWrites};
use crate::shared::Shared;
use crate::statements::Statements;
use promkairos_kairos::{DataType, RowSpec};
use promkairos_model::{
    Labels, LabelsRef, Matcher, Metadata, RejectReason, TimeRange, WriteBatch, WriteOutcome,
    sorted_by_labels,
};
use promkairos_storage::disk::Disk;
use promkairos_storage::{
    DeleteCost, ExemplarList, Flush, FlushOutcome, Limited, SelectHints, Selection, SeriesQuery,
    Starts, Stats, Store, StoreError, Unsynced,
};
use promkairos_telemetry::CassandraMetrics;

/// How often the clock skew is measured.
const CLOCK_INTERVAL: Duration = Duration::from_secs(30);

/// An opened keyspace in KairosDB's schema.
pub struct CassandraStore {
    shared: Arc<Shared>,
    cluster: String,
    clock_watch: JoinHandle<()>,
    tasks: Mutex<JoinSet<()>>,
    /// For readiness: recent refusals of writes that wait for Cassandra.
    refused: RefusedWrites,
}

impl CassandraStore {
    /// Connects, verifies the keyspace or creates it, and prepares every statement.
    ///
    /// Returns [`StoreError::Unavailable`] when Cassandra does not answer, [`StoreError::Denied`]
    /// when it refuses the login, and [`StoreError::Invalid`] when a setting is not valid or the
    /// keyspace is not KairosDB's. Nothing is written then.
    pub async fn open(options: Options, metrics: CassandraMetrics) -> Result<Self, StoreError> {
        check(&options)?;
        let session = session::connect(&options).await?;
        let cluster = session::cluster_name(&session, &options).await?;
        let mut lifetimes = Lifetimes::new(&options).map_err(refused_option)?;
        lifetimes.ask(&session, stamp::now_ms() / 1000).await.map_err(refused_option)?;
        let found = schema::open(&session, &options).await?;
        lifetimes.cut_by(found.row_spec);
        let statements =
            Statements::prepare(&session, &options, (&found.missing, found.names)).await?;
        let on = Preparer { session: &session, options: &options };
        let epochs = Epochs::prepare(&on, &found.missing).await?;
        let read_cache = options.read_cache.clone().filter(|_| epochs.is_some());
        let read_cache = read_cache.map(|cache| ReadCache::new(cache, metrics.clone()));
        let series = SeriesCache::new(options.series_cache_bytes, metrics.clone());
        let durability = Durability::ask(&session, &options).await;
        warn_of_loss(&durability, &options);
        let executor = Executor::new(session, metrics, &options);
        let shared = Arc::new(Shared {
            executor,
            statements,
            spec: found.row_spec,
            lifetimes: parking_lot::RwLock::new(Arc::new(lifetimes)),
            names: found.names,
            stamps: stamp::Stamps::default(),
            memory: IndexMemory::new(options.index_memory_rows),
            series,
            answers: LabelAnswers::default(),
            mtimes: Mtimes::default(),
            legacy: LegacyIndex::default(),
            spacings: Spacings::default(),
            dead_cells: DeadCells::default(),
            index_cuts: IndexCuts::default(),
            skew: Skew::default(),
            index_gate: RwLock::default(),
            index_delete: Arc::default(),
            quarantine: options
                .quarantine
                .clone()
                .map(|path| Quarantine::new(path, Arc::new(Disk))),
            tags: TagIndex::new(options.tag_index.metrics.clone()),
            durability,
            epochs,
            read_cache: read_cache.map(Arc::new),
            options,
        });
        shared.skew.measure(&shared.executor, &shared.statements.clock).await?;
        let mut tasks = JoinSet::new();
        if shared.takes_part() {
            shared.join_tag_index().await?;
            let [watched, worked, audited, ahead] = std::array::from_fn(|_| Arc::clone(&shared));
            tasks.spawn(async move { watched.watch_tag_index().await });
            tasks.spawn(async move { worked.work_on_tag_index().await });
            tasks.spawn(async move { audited.audit_tag_index().await });
            tasks.spawn(async move { ahead.write_ahead().await });
        }
        let clock_watch = tokio::spawn(watch_clock(Arc::clone(&shared)));
        let refused = RefusedWrites::default();
        Ok(Self { shared, cluster, clock_watch, tasks: Mutex::new(tasks), refused })
    }

    /// Explains how a selection is carried out, by running its reads of the index.
    pub async fn explain(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
    ) -> Result<Explanation, StoreError> {
        self.shared.explain(matchers, range).await
    }

    /// Replaces the list of indexed tags; the format is that of [`TagIndexOptions::metrics`].
    pub fn configure_tag_index(&self, metrics: BTreeMap<String, BTreeSet<String>>) {
        self.shared.tags.configure(metrics);
    }

    /// Sets the time to live of data written to Cassandra from now on: `ttl_seconds` after acceptance (0
    /// = for ever), or the value of `ttl_by_metric` for metrics that match (see
    /// [`Options::ttl_by_metric`]). Data that waits in a log gets the new TTL too; stored data keeps its
    /// own. Returns [`StoreError::Invalid`] for a value that Cassandra would refuse; nothing changes
    /// then.
    pub fn set_lifetimes(
        &self,
        ttl_seconds: u32,
        ttl_by_metric: &[(String, u32)],
    ) -> Result<(), StoreError> {
        let now = stamp::now_ms() / 1000;
        let renewed = self.shared.lifetimes().renewed(ttl_seconds, ttl_by_metric, now);
        *self.shared.lifetimes.write() = Arc::new(renewed.map_err(refused_option)?);
        Ok(())
    }

    /// The state of the tag index.
    pub async fn tag_index_status(&self) -> Result<TagIndexStatus, StoreError> {
        self.shared.tag_index_status().await
    }

    /// Starts to build or drop the index of a metric (`*` = of all), at most `rows_per_second` rows
    /// per second. The job runs in the background; see [`CassandraStore::tag_index_status`].
    pub async fn begin_tag_index_job(
        &self,
        metric: &str,
        kind: JobKind,
        rows_per_second: u32,
    ) -> Result<(), StoreError> {
        self.shared.begin_job(metric, kind, rows_per_second.max(1)).await
    }

    /// The name of the cluster.
    pub fn cluster(&self) -> &str {
        &self.cluster
    }

    /// How the keyspace cuts time into rows.
    pub fn row_spec(&self) -> RowSpec {
        self.shared.spec
    }
}

impl Drop for CassandraStore {
    fn drop(&mut self) {
        self.clock_watch.abort();
    }
}

/// Warns at the start when a kill of Cassandra would lose acknowledged data that no log keeps.
fn warn_of_loss(durability: &Durability, options: &Options) {
    let has_log = options.quarantine.is_some();
    let is_kept = has_log && !durability.period(options.keep_unsynced).is_zero();
    match durability.risk() {
        Some(risk) if options.role == Role::Write && (!is_kept || risk == Risk::NoCommitLog) => {
            tracing::warn!(keyspace = %options.keyspace, "{risk}");
        }
        _ => {}
    }
}

async fn watch_clock(shared: Arc<Shared>) {
    let mut starts = Starts::new();
    loop {
        node_starts::forget_after_restart(&shared, &mut starts).await;
        tokio::time::sleep(CLOCK_INTERVAL).await;
        // An error is ignored here: the statements of others report that Cassandra is away.
        let _ = shared.skew.measure(&shared.executor, &shared.statements.clock).await;
    }
}

/// Refuses settings that are known to be wrong without asking Cassandra: the times to live.
pub fn check(options: &Options) -> Result<(), StoreError> {
    Lifetimes::new(options).map(drop).map_err(refused_option)
}

fn refused_option(error: OptionsError) -> StoreError {
    StoreError::Invalid(error.to_string())
}

/// Why no row can hold a series; known before a log in front acknowledges it.
pub fn refuse(labels: LabelsRef<'_>) -> Option<RejectReason> {
    plan::planner::refusal(&labels.to_owned()).map(|error| RejectReason::Store(error.to_string()))
}

#[async_trait]
impl Store for CassandraStore {
    async fn write(&self, batch: WriteBatch<'_>) -> Result<WriteOutcome, StoreError> {
        let brings = if batch.series.is_empty() { Brings::Metadata } else { Brings::Points };
        let written = self.shared.write(batch).await;
        self.refused.note(brings, &written, Instant::now());
        written
    }

    async fn series(&self, query: &SeriesQuery) -> Result<Limited<Labels>, StoreError> {
        self.shared.series(query).await
    }

    async fn label_names(&self, query: &SeriesQuery) -> Result<Limited<String>, StoreError> {
        self.shared.label_names(query).await
    }

    async fn label_values(
        &self,
        name: &str,
        query: &SeriesQuery,
    ) -> Result<Limited<String>, StoreError> {
        self.shared.label_values(name, query).await
    }

    async fn select(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        hints: &SelectHints,
    ) -> Result<Selection, StoreError> {
        let wanted: fn(&DataType) -> bool = DataType::holds_points;
        let route = routing::route(matchers);
        let names = self.shared.names(&route.metrics).await?;
        let metrics = self.shared.candidates(&names, range);
        let find = self.shared.find_among(&metrics, &route, range, wanted, hints);
        // A selection without series does not wait for epochs. Without epochs, the series are still returned.
        let epochs = async { Ok(self.shared.epochs_ahead(&metrics, range).await) };
        let (mut found, epochs) = try_join(find, epochs).await?;
        if hints.sorted {
            found = sorted_by_labels(found, |found| found.labels.as_ref());
        }
        let cached = self.shared.cached(&found, range, epochs).await;
        let (series, rows) = found.into_iter().map(|found| (found.labels, found.rows)).unzip();
        let most_bytes = hints.max_series_bytes;
        let shared = Arc::clone(&self.shared);
        let reader = CassandraReader { shared, range, rows, cached, most_bytes };
        Ok(Selection { series, reader: Box::new(reader) })
    }

    async fn exemplars(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        max_bytes: usize,
    ) -> Result<ExemplarList, StoreError> {
        self.shared.exemplars(matchers, range, max_bytes).await
    }

    async fn metadata(
        &self,
        family: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, Metadata)>, StoreError> {
        self.shared.metadata(family, limit).await
    }

    async fn delete(&self, matchers: &[Matcher], range: TimeRange) -> Result<(), StoreError> {
        self.shared.delete(matchers, range).await
    }

    async fn delete_cost(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
    ) -> Result<Option<DeleteCost>, StoreError> {
        self.shared.delete_cost(matchers, range).await.map(Some)
    }

    async fn delete_accepted(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        accepted: i64,
    ) -> Result<(), StoreError> {
        self.shared.delete_points(matchers, range, accepted).await
    }

    async fn ingest_flush(&self, flush: Flush<'_>) -> Result<FlushOutcome, StoreError> {
        self.shared.ingest_flush(flush).await
    }

    async fn unsynced(&self) -> Option<Arc<dyn Unsynced>> {
        Some(Arc::new(Nodes(Arc::clone(&self.shared))))
    }

    async fn relieve(&self) -> Result<(), StoreError> {
        let shared = Arc::clone(&self.shared);
        let relieved = spawn_blocking(move || shared.relieve()).await;
        relieved.map_err(|error| StoreError::Backend {
            what: "giving up memory".into(),
            source: Box::new(error),
        })
    }

    async fn ready(&self) -> Result<(), StoreError> {
        self.shared.skew.measure(&self.shared.executor, &self.shared.statements.clock).await?;
        self.shared.skew.check()?;
        let Shared { executor, statements, options, .. } = &*self.shared;
        schema::check_tables(executor, &statements.tables, &options.keyspace).await?;
        self.refused.check(Instant::now())
    }

    /// A clock that is far off refuses every write until an operator sets it.
    fn failing(&self) -> Option<String> {
        self.shared.skew.check().err().map(|error| error.to_string())
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.clock_watch.abort();
        drop(self.shared.index_delete.lock().await);
        self.tasks.lock().abort_all();
        if !self.shared.takes_part() {
            return Ok(());
        }
        if let Err(error) = self.shared.leave_tag_index().await {
            // The others count this process as running for a while.
            tracing::warn!(%error, "the end of this adapter was not recorded for the others");
        }
        Ok(())
    }

    async fn stats(&self) -> Result<Stats, StoreError> {
        // Cassandra cannot count cheaply, so this is the number of index rows that this process remembers.
        Ok(Stats { series: self.shared.memory.len() as u64, ..Stats::default() })
    }
}

#[cfg(test)]
#[path = "../../storage/src/counting.rs"]
mod counting;
