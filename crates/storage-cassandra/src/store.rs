//! The store: opens the parts of a keyspace, and composes them. A write is ensure, then put (`write`, `ingest_flush`).
//! A select is find, then read. A delete is find, remove, forget (`delete`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures::future::{BoxFuture, try_join};
use parking_lot::Mutex;
use tokio::task::{JoinHandle, JoinSet, spawn_blocking};

use crate::cql::connection::Cql;
use crate::cql::durability::{Durability, Risk};
use crate::cql::prepared::{Prepared, Preparer};
use crate::cql::{session, stamp};
use crate::delete::deletes::Deletes;
use crate::index::routing;
use crate::index::series_index::SeriesIndex;
use crate::lifetime::{Lifetimes, check};
use crate::metadata::MetadataStore;
use crate::node_starts::Nodes;
use crate::options::{Options, Role};
use crate::points::cached_reader::CachedPoints;
use crate::points::epochs::EpochLog;
use crate::points::point_store::PointStore;
use crate::points::series_reader::CassandraReader;
use crate::quarantine::Quarantine;
use crate::refused_writes::{Brings, RefusedWrites};
use crate::schema;
use promkairos_kairos::{DataType, RowSpec};
use promkairos_model::{
    Labels, Matcher, Metadata, TimeRange, WriteBatch, WriteOutcome, sorted_by_labels,
};
use promkairos_storage::disk::Disk;
use promkairos_storage::{
    DeleteCost, ExemplarList, Flush, FlushOutcome, Limited, Result, SelectHints, Selection,
    SeriesQuery, Starts, Stats, Store, StoreError, Unsynced,
};
use promkairos_telemetry::CassandraMetrics;

/// How often the clock skew is measured.
const CLOCK_INTERVAL: Duration = Duration::from_secs(30);

/// An opened keyspace in KairosDB's schema.
pub struct CassandraStore {
    cluster: String,
    pub(crate) cql: Arc<Cql>,
    pub(crate) index: Arc<SeriesIndex>,
    pub(crate) points: Arc<PointStore>,
    /// The points behind the read cache.
    pub(crate) cached: Arc<CachedPoints>,
    pub(crate) epochs: Arc<EpochLog>,
    pub(crate) metadata: MetadataStore,
    pub(crate) quarantine: Option<Quarantine>,
    deletes: Deletes,
    nodes: Arc<Nodes>,
    /// The names of the tables of the keyspace.
    tables: Prepared,
    clock_watch: JoinHandle<()>,
    tasks: Mutex<JoinSet<()>>,
    /// For readiness: recent refusals of writes that wait for Cassandra.
    refused: RefusedWrites,
}

impl CassandraStore {
    /// Connects, verifies the keyspace or creates it, and prepares every statement.
    ///
    /// Returns `StoreError::Unavailable` when Cassandra does not answer, `StoreError::Denied`
    /// when it refuses the login, and `StoreError::Invalid` when a setting is not valid or the
    /// keyspace is not KairosDB's. Nothing is written then.
    ///
    /// The public futures of this crate are boxed: the code of others is compiled once more in each crate that awaits
    /// them, with all that they await of the driver.
    pub fn open(options: Options, metrics: CassandraMetrics) -> BoxFuture<'static, Result<Self>> {
        Box::pin(Self::prepare(options, metrics))
    }

    async fn prepare(options: Options, metrics: CassandraMetrics) -> Result<Self> {
        check(&options)?;
        let session = session::connect(&options).await?;
        let cluster = session::cluster_name(&session, &options).await?;
        let mut lifetimes = Lifetimes::new(&options)?;
        lifetimes.ask(&session, stamp::now_ms() / 1000).await?;
        let found = schema::open(&session, &options).await?;
        lifetimes.cut_by(found.row_spec);
        let cql = Arc::new(Cql::new(session, metrics, &options).await?);
        let session = &cql.executor.session;
        let on = Preparer { session, options: &options };
        let points = Arc::new(PointStore::prepare(&cql, &on, found.row_spec).await?);
        let index = Arc::new(SeriesIndex::prepare(&cql, &on, &found, lifetimes).await?);
        let metadata = MetadataStore::prepare(&cql, &on, &found.missing).await?;
        let tables = schema::prepare_tables(&on).await?;
        let epochs = Arc::new(EpochLog::prepare(&cql, &on, &found.missing).await?);
        let cached = Arc::new(CachedPoints::new(&points, &epochs, options.read_cache.clone()));
        let durability = Durability::ask(session, &options).await;
        warn_of_loss(&durability, &options);
        cql.measure_skew().await?;
        let mut tasks = JoinSet::new();
        if index.takes_part() {
            index.join_tag_index().await?;
            let [watched, worked, audited, ahead] = std::array::from_fn(|_| Arc::clone(&index));
            tasks.spawn(async move { watched.watch_tag_index().await });
            tasks.spawn(async move { worked.work_on_tag_index().await });
            tasks.spawn(async move { audited.audit_tag_index().await });
            tasks.spawn(async move { ahead.write_ahead().await });
        }
        let quarantine = options.quarantine.clone();
        let quarantine = quarantine.map(|path| Quarantine::new(path, Arc::new(Disk)));
        let nodes = Arc::new(Nodes { index: Arc::clone(&index), durability });
        Ok(Self {
            cluster,
            deletes: Deletes::new(&index, &points, &epochs),
            cql,
            index,
            points,
            cached,
            epochs,
            metadata,
            quarantine,
            clock_watch: tokio::spawn(watch_clock(Arc::clone(&nodes))),
            nodes,
            tables,
            tasks: Mutex::new(tasks),
            refused: RefusedWrites::default(),
        })
    }

    /// Replaces the list of indexed tags; the format is that of
    /// [`TagIndexOptions::metrics`](crate::TagIndexOptions::metrics).
    pub fn configure_tag_index(&self, metrics: BTreeMap<String, BTreeSet<String>>) {
        self.index.tags.configure(metrics);
    }

    /// Sets the time to live of data written to Cassandra from now on: `ttl_seconds` after acceptance (0
    /// = for ever), or the value of `ttl_by_metric` for metrics that match (see
    /// [`Options::ttl_by_metric`]). Data that waits in a log gets the new TTL too; stored data keeps its
    /// own. Returns `StoreError::Invalid` for a value that Cassandra would refuse; nothing changes
    /// then.
    pub fn set_lifetimes(&self, ttl_seconds: u32, ttl_by_metric: &[(String, u32)]) -> Result<()> {
        let now = stamp::now_ms() / 1000;
        let renewed = self.index.lifetimes().renewed(ttl_seconds, ttl_by_metric, now);
        self.index.set_lifetimes(renewed?);
        Ok(())
    }

    /// The name of the cluster.
    pub fn cluster(&self) -> &str {
        &self.cluster
    }

    /// How the keyspace cuts time into rows.
    pub fn row_spec(&self) -> RowSpec {
        self.index.spec
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

async fn watch_clock(nodes: Arc<Nodes>) {
    let mut starts = Starts::new();
    loop {
        nodes.forget_after_restart(&mut starts).await;
        tokio::time::sleep(CLOCK_INTERVAL).await;
        // An error is ignored here: the statements of others report that Cassandra is away.
        let _ = nodes.index.cql.measure_skew().await;
    }
}

#[async_trait]
impl Store for CassandraStore {
    async fn write(&self, batch: WriteBatch<'_>) -> Result<WriteOutcome> {
        let brings = if batch.series.is_empty() { Brings::Metadata } else { Brings::Points };
        let written = self.write_batch(batch).await;
        self.refused.note(brings, &written, Instant::now());
        written
    }

    async fn series(&self, query: &SeriesQuery) -> Result<Limited<Labels>> {
        self.index.series(query).await
    }

    async fn label_names(&self, query: &SeriesQuery) -> Result<Limited<String>> {
        self.index.label_names(query).await
    }

    async fn label_values(&self, name: &str, query: &SeriesQuery) -> Result<Limited<String>> {
        self.index.label_values(name, query).await
    }

    async fn select(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        hints: &SelectHints,
    ) -> Result<Selection> {
        let wanted: fn(&DataType) -> bool = DataType::holds_points;
        let route = routing::route(matchers);
        let names = self.index.names(&route.metrics).await?;
        let metrics = self.index.candidates(&names, range);
        let find = self.index.find_among(&metrics, &route, range, wanted, hints);
        // A selection without series does not wait for epochs. Without epochs, the series are still returned.
        let epochs = async { Ok(self.cached.epochs_ahead(&metrics, range).await) };
        let (mut found, epochs) = try_join(find, epochs).await?;
        if hints.sorted {
            found = sorted_by_labels(found, |found| found.labels.as_ref());
        }
        let cached = self.cached.open(&found, range, epochs).await;
        let (series, rows) = found.into_iter().map(|found| (found.labels, found.rows)).unzip();
        let most_bytes = hints.max_series_bytes;
        let points = Arc::clone(&self.points);
        let reader = CassandraReader { points, range, rows, cached, most_bytes };
        Ok(Selection { series, reader: Box::new(reader) })
    }

    async fn exemplars(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        max_bytes: usize,
    ) -> Result<ExemplarList> {
        let wanted = |data_type: &DataType| *data_type == DataType::PromExemplar;
        let found = self.index.find(matchers, range, wanted, max_bytes).await?;
        self.points.exemplars(found, range, max_bytes).await
    }

    async fn metadata(
        &self,
        family: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, Metadata)>> {
        self.metadata.read(family, limit).await
    }

    async fn delete(&self, matchers: &[Matcher], range: TimeRange) -> Result<()> {
        self.deletes.delete(matchers, range).await
    }

    async fn delete_cost(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
    ) -> Result<Option<DeleteCost>> {
        self.deletes.cost(matchers, range).await.map(Some)
    }

    async fn delete_accepted(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        accepted: i64,
    ) -> Result<()> {
        self.deletes.delete_points(matchers, range, accepted).await
    }

    async fn ingest_flush(&self, flush: Flush<'_>) -> Result<FlushOutcome> {
        self.flush(flush).await
    }

    async fn unsynced(&self) -> Option<Arc<dyn Unsynced>> {
        Some(Arc::clone(&self.nodes) as Arc<dyn Unsynced>)
    }

    async fn relieve(&self) -> Result<()> {
        let (index, points) = (Arc::clone(&self.index), Arc::clone(&self.points));
        let cached = Arc::clone(&self.cached);
        let relieved = spawn_blocking(move || {
            index.relieve();
            points.relieve();
            cached.relieve();
        });
        relieved.await.map_err(|error| StoreError::backend("giving up memory", error))
    }

    async fn ready(&self) -> Result<()> {
        self.cql.measure_skew().await?;
        self.cql.skew.check()?;
        schema::check_tables(&self.cql.executor, &self.tables, &self.cql.keyspace).await?;
        self.refused.check(Instant::now())
    }

    /// A clock that is far off refuses every write until an operator sets it.
    fn failing(&self) -> Option<String> {
        self.cql.skew.check().err().map(|error| error.to_string())
    }

    async fn close(&self) -> Result<()> {
        self.clock_watch.abort();
        self.deletes.wait().await;
        self.tasks.lock().abort_all();
        if !self.index.takes_part() {
            return Ok(());
        }
        if let Err(error) = self.index.leave_tag_index().await {
            // The others count this process as running for a while.
            tracing::warn!(%error, "the end of this adapter was not recorded for the others");
        }
        Ok(())
    }

    async fn stats(&self) -> Result<Stats> {
        // Cassandra cannot count cheaply, so this is the number of index rows that this process remembers.
        Ok(Stats { series: self.index.memory.len() as u64, ..Stats::default() })
    }
}
