//! Epochs of metrics: how caches of settled points learn that a promkairos wrote or deleted such
//! points.
//!
//! A metric is a partition of `service_index`, in which each process has its own row with a number
//! that only rises. All rows together are the epoch. Only one process writes to a row, so only the
//! clock of that process orders its numbers. A process that writes or deletes settled points raises
//! its number before it touches the first and again after the last, before it answers. A reader that
//! read the epoch after the answer, and finds it equal to the epoch before some rows were read, has
//! rows with the change. The number is raised after a failure too. `late_write_tracker`
//! says when a write raises it.
//!
//! The rows expire long after everything that was read under another epoch. KairosDB ignores them. A
//! keyspace without `service_index` (one that is only read) has no epochs, and nothing is cached.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use futures::FutureExt;

use crate::cql::concurrent::all;
use crate::cql::connection::Cql;
use crate::cql::executor::Deadline;
use crate::cql::failure::Failure;
use crate::cql::prepared::{Prepared, Preparer, unless_missing};
use crate::cql::stamp::now_ms;
use crate::identity::Identity;
use crate::index::mtime::random;
use crate::options::read_cache::MOST_CACHE_AGE;
use promkairos_storage::Result;

/// `service` of the rows; `service_key` is the metric, `key` the process.
const SERVICE: &str = "prometheus_read_cache";
/// How long a row lasts: longer than a cache uses what was read before it was written.
const LASTS: Duration = Duration::from_secs(3 * MOST_CACHE_AGE.as_secs());
/// Lists of metrics read at the same time.
const READS_AT_ONCE: usize = 32;
/// Rows written at the same time.
const ROWS_AT_ONCE: usize = 64;

/// The combined rows of a metric.
pub(crate) type Epoch = Identity;

/// Epochs by metric.
pub(crate) type EpochsByMetric = HashMap<String, Epoch>;

/// The epochs of a keyspace. Without the table nothing is raised, and no epoch is read.
pub(crate) struct EpochLog {
    pub(super) cql: Arc<Cql>,
    /// The key of this process.
    key: String,
    /// The last number of this process.
    last: AtomicI64,
    /// None where the table is missing.
    statements: Option<EpochStatements>,
}

/// On `service_index`.
struct EpochStatements {
    /// metric
    select: Prepared,
    /// metrics
    select_many: Prepared,
    /// metric, key, number as text, number, ttl
    raise: Prepared,
}

impl EpochStatements {
    async fn prepare(on: &Preparer<'_>) -> Result<Self> {
        let table = on.table("service_index");
        let rows = format!("{table} WHERE service = '{SERVICE}' AND service_key");
        let select = format!("SELECT key, value FROM {rows} = ?");
        let select_many = format!("SELECT service_key, key, value FROM {rows} IN ?");
        let raise = format!(
            "INSERT INTO {table} (service, service_key, key, value) \
             VALUES ('{SERVICE}', ?, ?, ?) USING TIMESTAMP ? AND TTL ?"
        );
        Ok(Self {
            select: on.read("select_epoch", select).await?,
            select_many: on.read("select_epochs", select_many).await?,
            raise: on.write("raise_epoch", raise).await?,
        })
    }
}

impl EpochLog {
    /// The epochs, without statements where the table is `missing`.
    pub(crate) async fn prepare(
        cql: &Arc<Cql>,
        on: &Preparer<'_>,
        missing: &[&str],
    ) -> Result<Self> {
        let statements = EpochStatements::prepare(on);
        let statements = unless_missing(missing, "service_index", statements).await?;
        let key = format!("{:016x}", random());
        Ok(Self { cql: Arc::clone(cql), key, last: AtomicI64::new(0), statements })
    }

    /// Whether the keyspace has the table.
    pub(crate) fn is_kept(&self) -> bool {
        self.statements.is_some()
    }

    /// Changes the epochs of metrics whose settled points change; the list has each metric once.
    pub(crate) async fn raise(&self, metrics: &[&str], deadline: Deadline) -> Result<()> {
        let Some(statements) = &self.statements else { return Ok(()) };
        let ttl = i32::try_from(LASTS.as_secs()).unwrap_or(i32::MAX);
        let raise = move |metric: &&str| {
            let (metric, number) = ((*metric).to_owned(), self.next());
            async move {
                let values = (metric, &*self.key, number.to_string(), number, ttl);
                self.cql.executor.run(&statements.raise, values, deadline).await?;
                Ok(())
            }
            .boxed()
        };
        all(ROWS_AT_ONCE, Box::new(metrics.iter().map(raise))).await.map(drop)
    }

    /// A number above all earlier ones.
    fn next(&self) -> i64 {
        let now = now_ms();
        let next = |last: i64| Some(now.max(last + 1));
        let last = self.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        last.map_or(now, |last| now.max(last + 1))
    }

    /// Reads the epochs of metrics.
    pub(crate) async fn read(&self, metrics: BTreeSet<&str>) -> Result<EpochsByMetric> {
        let Some(statements) = &self.statements else { return Ok(EpochsByMetric::new()) };
        let metrics: Vec<&str> = metrics.into_iter().collect();
        let read =
            |part: Vec<String>| async move { self.read_part(statements, part).await }.boxed();
        let parts = self.cql.executor.key_lists.parts(&metrics);
        let parts = parts.map(|part| part.iter().map(|&metric| metric.to_owned()).collect());
        let read = all(READS_AT_ONCE, Box::new(parts.map(read))).await?;
        Ok(read.into_iter().flatten().collect())
    }

    async fn read_part(
        &self,
        statements: &EpochStatements,
        part: Vec<String>,
    ) -> Result<Vec<(String, Epoch)>> {
        let together = self.read_many(statements, &part);
        if let Some(read) = self.cql.executor.key_lists.together(part.len(), together).await? {
            return Ok(read);
        }
        let mut read = Vec::with_capacity(part.len());
        for metric in part {
            let epoch = self.read_one(statements, &metric).await?;
            read.push((metric, epoch));
        }
        Ok(read)
    }

    async fn read_many(
        &self,
        statements: &EpochStatements,
        metrics: &[String],
    ) -> Result<Vec<(String, Epoch)>, Failure> {
        let mut epochs: BTreeMap<&str, Epoch> =
            metrics.iter().map(|metric| (metric.as_str(), Identity::of(&[]))).collect();
        let rows = self.cql.rows(&statements.select_many, (metrics,)).await?;
        type Row<'f> = (&'f str, &'f str, Option<&'f str>);
        // The rows of a metric come in the order of their keys.
        for row in rows.iter::<Row<'_>>()? {
            let (metric, key, value) = row?;
            if let Some(epoch) = epochs.get_mut(metric) {
                *epoch = with_row(*epoch, key, value);
            }
        }
        Ok(epochs.into_iter().map(|(metric, epoch)| (metric.to_owned(), epoch)).collect())
    }

    async fn read_one(&self, statements: &EpochStatements, metric: &str) -> Result<Epoch> {
        let mut epoch = Identity::of(&[]);
        let mut pages = self.cql.pages(&statements.select, (metric,));
        while let Some(page) = pages.next().await? {
            // The rows come in the order of their keys.
            for row in page.iter::<(&str, Option<&str>)>()? {
                let (key, value) = row?;
                epoch = with_row(epoch, key, value);
            }
        }
        Ok(epoch)
    }
}

/// An epoch with one more row; rows are added in the order of their keys.
fn with_row(epoch: Epoch, key: &str, value: Option<&str>) -> Epoch {
    epoch.and(&[key.as_bytes(), value.unwrap_or_default().as_bytes()])
}
