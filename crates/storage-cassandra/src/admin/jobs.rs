//! Builds and drops of the index of one metric, or of all: recorded in the keyspace, carried out by one process at a
//! time, one window after the other, at a bounded rate.
//!
//! Repeating a window is harmless, so a job whose process has ended is taken over by any other from the last window
//! that was recorded. A build ends with the older windows being readable, except those with a row that Cassandra
//! refused. A job that waits for Cassandra does not delay the others.
//!
//! A drop deletes no rows of a metric that the recorded state says to write: a drop of one metric is then refused or
//! fails, a drop of all metrics skips that metric.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::BoxFuture;

use crate::admin::drop::Dropped;
use crate::admin::job::{Job, JobKind, JobState};
use crate::cql::ring::RingPages;
use crate::cql::rows::Rows;
use crate::cql::stamp::now_ms;
use crate::index::index_row::each_checked_row;
use crate::index::series_index::SeriesIndex;
use crate::index::tag_index::lookup::{TagRow, owned};
use crate::index::tag_index::writer::Tagged;
use crate::index::window::{Window, WindowKey};
use crate::schema::tag_index_document::{ALL, Entry, JOBS, TagState, decode, encode};
use crate::store::CassandraStore;
use promkairos_kairos::TableName;
use promkairos_kairos::index::single_tag_pair;
use promkairos_model::TimeRange;
use promkairos_storage::{Result, StoreError};

/// A running job that was not touched for this time has lost its process.
const STALE: Duration = Duration::from_secs(15);
/// A running job is touched at least this often.
const TOUCH: Duration = Duration::from_secs(2);
/// How long a finished job stays visible, in seconds.
const KEPT_SECONDS: i32 = 24 * 3600;
/// How often jobs of others are looked for.
const LOOK: Duration = Duration::from_secs(5);

/// A row of `row_keys` as it was read, and its TTL.
type RowToDo = (TagRow, i32);

impl CassandraStore {
    /// Starts to build or drop the index of a metric (`*` = of all), at most `rows_per_second` rows
    /// per second. The job runs in the background; see [`CassandraStore::tag_index_status`].
    pub fn begin_tag_index_job<'a>(
        &'a self,
        metric: &'a str,
        kind: JobKind,
        rows_per_second: u32,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.index.begin_job(metric, kind, rows_per_second.max(1)))
    }
}

impl SeriesIndex {
    /// Records a job for this process; a running job of the same kind continues.
    pub(crate) async fn begin_job(
        &self,
        metric: &str,
        kind: JobKind,
        rows_per_second: u32,
    ) -> Result<()> {
        self.look().await?;
        let document = self.tags.view();
        let is_indexed = document.entries_of(metric).any(|entry| entry.state != TagState::Retiring);
        // A drop of all metrics skips metrics that are written, so it waits until retiring tags are removed.
        let is_retiring = metric == ALL && document.count(TagState::Retiring) > 0;
        match kind {
            JobKind::Build if !is_indexed => {
                let what = format!("{metric} is not in tag_indexed_row_key_lookup_metrics");
                return Err(StoreError::Invalid(what));
            }
            JobKind::Drop if is_retiring || document.written(metric).is_some() => {
                let what = format!(
                    "{metric} is in tag_indexed_row_key_lookup_metrics of a running promkairos, or \
                     not all have seen that it is not: its index cannot be dropped"
                );
                return Err(StoreError::Invalid(what));
            }
            JobKind::Build | JobKind::Drop => {}
        }
        let known = self.jobs().await?.remove(metric);
        let job = match known.filter(|job| job.state == JobState::Running) {
            Some(job) if job.kind != kind => {
                return Err(StoreError::Invalid(format!("{metric}: another job is under way")));
            }
            Some(job) => Job { rows_per_second, ..job },
            None => Job::new(kind, rows_per_second),
        };
        self.keep_job(metric, job).await?;
        self.tags.work.notify_one();
        Ok(())
    }

    /// The recorded jobs by metric.
    pub(crate) async fn jobs(&self) -> Result<BTreeMap<String, Job>> {
        let mut jobs = BTreeMap::new();
        for (metric, value) in self.state_rows(JOBS).await? {
            match decode(&value) {
                Ok(job) => drop(jobs.insert(metric, job)),
                Err(error) => tracing::warn!(metric, error, "a job on the tag index is unreadable"),
            }
        }
        Ok(jobs)
    }

    /// Runs the jobs of this process and of processes that ended, one at a time.
    pub(crate) async fn work_on_tag_index(&self) {
        // When each job that waits for Cassandra was last tried.
        let mut waiting: BTreeMap<String, Instant> = BTreeMap::new();
        loop {
            match self.next_job(&waiting).await {
                Ok(Some((metric, job))) => {
                    if self.do_job(&metric, job).await {
                        waiting.remove(&metric);
                    } else {
                        waiting.insert(metric, Instant::now());
                    }
                }
                Ok(None) => {
                    tokio::select! {
                        () = tokio::time::sleep(LOOK) => {}
                        () = self.tags.work.notified() => {}
                    }
                }
                Err(error) => {
                    tracing::debug!(%error, "jobs on the tag index cannot be looked at");
                    tokio::time::sleep(LOOK).await;
                }
            }
        }
    }

    /// A job that this process can do: one that does not wait, or else the one that was tried first.
    async fn next_job(&self, waiting: &BTreeMap<String, Instant>) -> Result<Option<(String, Job)>> {
        let stale = now_ms() - i64::try_from(STALE.as_millis()).unwrap_or(0);
        let is_ours = |job: &Job| job.owner == self.tags.id || job.touched < stale;
        let jobs = self.jobs().await?.into_iter();
        let jobs = jobs.filter(|(_, job)| job.state == JobState::Running && is_ours(job));
        Ok(jobs.min_by_key(|(metric, _)| waiting.get(metric).copied()))
    }

    /// Does a job. Returns whether it ended, well or not; otherwise Cassandra does not answer now.
    async fn do_job(&self, metric: &str, mut job: Job) -> bool {
        tracing::info!(
            metric,
            kind = ?job.kind,
            windows_done = job.windows_done,
            "a job on the tag index"
        );
        let ended = match job.kind {
            JobKind::Build => self.build(metric, &mut job).await,
            JobKind::Drop => self.do_windows(metric, &mut job).await,
        };
        match ended {
            Ok(()) => job.state = JobState::Done,
            // The job continues when Cassandra is back.
            Err(error @ StoreError::Unavailable { .. }) => {
                tracing::warn!(metric, %error, "a job on the tag index waits");
                tokio::time::sleep(LOOK).await;
                return false;
            }
            Err(error) => {
                tracing::error!(metric, %error, "a job on the tag index failed");
                (job.state, job.error) = (JobState::Failed, Some(error.to_string()));
            }
        }
        if let Err(error) = self.keep_job(metric, job).await {
            tracing::warn!(metric, %error, "the end of a job on the tag index was not recorded");
        }
        true
    }

    async fn build(&self, metric: &str, job: &mut Job) -> Result<()> {
        while self.tags.view().entries_of(metric).any(|entry| entry.state == TagState::Writing) {
            self.touch(metric, job).await?;
            tokio::time::sleep(self.options.tag_index.refresh).await;
            self.look().await?;
        }
        if job.position.is_none() {
            let gaps = |entry: &Entry| entry.gaps.clone();
            job.gaps = self.tags.view().entries_of(metric).flat_map(gaps).collect();
        }
        self.change(|document| document.begin_build(metric)).await?;
        self.do_windows(metric, job).await?;
        let (gaps, refused) = (&job.gaps, &job.refused);
        self.change(|document| document.end_build(metric, gaps, refused)).await?;
        let left =
            self.tags.view().entries_of(metric).any(|entry| entry.state == TagState::Readable);
        if left {
            Ok(())
        } else {
            Err(StoreError::Invalid(format!("{metric} is no longer indexed")))
        }
    }

    /// Does every window after the last one that was done.
    async fn do_windows(&self, metric: &str, job: &mut Job) -> Result<()> {
        let windows = self.all_windows(metric, job).await?;
        job.windows = windows.len() as u64;
        let done = |window: &Window| {
            let Window { metric, table_name, row_time } = window;
            let window = (&**metric, table_name.as_str(), row_time.millis());
            let last = job.position.as_ref();
            last.is_some_and(|(m, table, time)| window <= (m.as_str(), table.as_str(), *time))
        };
        let rest: Vec<Window> = windows.into_iter().skip_while(done).collect();
        job.windows_done = job.windows - rest.len() as u64;
        for window in rest {
            let Window { metric: of, table_name, row_time } = &window;
            let place = (of.to_string(), table_name.as_str().to_owned(), row_time.millis());
            // This drop, or an earlier process, did not reach the end of the window.
            let was_begun = job.begun.as_ref() == Some(&place);
            job.begun = Some(place);
            // Records the end of the last window too.
            self.touch(metric, job).await?;
            self.do_window(metric, window.key(), job, was_begun).await?;
            job.windows_done += 1;
            job.position = job.begun.clone();
        }
        Ok(())
    }

    /// All windows of a metric, or of all metrics, in order.
    async fn all_windows(&self, metric: &str, job: &Job) -> Result<Vec<Window>> {
        let mut windows = match metric {
            ALL => self.every_window(job).await?,
            metric => self.windows_of_metric(metric).await?,
        };
        windows.sort_unstable();
        windows.dedup();
        Ok(windows)
    }

    async fn windows_of_metric(&self, metric: &str) -> Result<Vec<Window>> {
        let window = |table_name, row_time| Window { metric: metric.into(), table_name, row_time };
        let mut windows = Vec::new();
        for table_name in TableName::ALL {
            windows.extend(self.windows_of(metric, table_name, TimeRange::ALL).await?);
            // KairosDB deletes the time index of a live window and leaves `row_keys`.
            for time in [now_ms(), now_ms() + self.spec.width()] {
                let window = window(table_name, self.spec.row_time(time));
                let any = &self.statements.row_keys.any;
                if self.cql.has_rows(any, window.key().values()).await? {
                    windows.push(window);
                }
            }
        }
        Ok(windows)
    }

    /// All windows in `row_keys`. A build of all metrics also covers those that are in no list of
    /// names and in no time index.
    async fn every_window(&self, job: &Job) -> Result<Vec<Window>> {
        let select = &self.statements.tags.every_window;
        let (mut windows, mut pages) = (Vec::new(), RingPages::new(&self.cql.executor, select));
        let mut touched = Instant::now();
        while let Some(page) = pages.next().await? {
            for row in page.iter()? {
                windows.extend(Window::of_columns(row?));
            }
            if touched.elapsed() >= TOUCH {
                self.touch(ALL, job).await?;
                touched = Instant::now();
            }
        }
        Ok(windows)
    }

    async fn do_window(
        &self,
        metric: &str,
        key: WindowKey<'_>,
        job: &mut Job,
        was_begun: bool,
    ) -> Result<()> {
        let mut pages = self.index_pages(&self.statements.row_keys.check, key.columns());
        let mut pairs = BTreeSet::new();
        let mut left = 0;
        let mut touched = Instant::now();
        let mut began = Instant::now();
        while let Some(page) = self.touching(metric, job, &mut touched, pages.next()).await? {
            let rows = Self::rows_to_do(&page)?;
            match job.kind {
                JobKind::Build => self.index_rows(key, &rows, job).await?,
                JobKind::Drop => {
                    let dropped = self.drop_pairs(metric, key, &rows, &mut pairs, was_begun);
                    let dropped = self.touching(metric, job, &mut touched, dropped).await?;
                    job.deleted += dropped.deleted;
                    left += dropped.left;
                }
            }
            job.rows += rows.len() as u64;
            let pace = Duration::from_secs_f64(rows.len() as f64 / f64::from(job.rows_per_second));
            let pause = tokio::time::sleep(pace.saturating_sub(began.elapsed())).map(Ok);
            self.touching(metric, job, &mut touched, pause).await?;
            began = Instant::now();
        }
        // Recorded together with the end of the window, so that rows left in a repeated window count once.
        job.left += left;
        Ok(())
    }

    /// The rows of a page of a window.
    fn rows_to_do(page: &Rows) -> Result<Vec<RowToDo>> {
        let mut rows = Vec::new();
        each_checked_row(page, |row| {
            // A row of KairosDB does not say when it expires: ours must not expire before.
            rows.push((owned(row.data_type, row.tags), row.ttl.unwrap_or(0)));
        })?;
        Ok(rows)
    }

    async fn index_rows(&self, key: WindowKey<'_>, rows: &[RowToDo], job: &mut Job) -> Result<()> {
        let Some(indexed) = self.indexed_tags(key.metric) else {
            return Err(StoreError::Invalid(format!("{} is no longer indexed", key.metric)));
        };
        let rows = (0..).zip(rows).map(|(series, ((data_type, tags), ttl))| {
            let tags = tags.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            Tagged { series, data_type, tags, ttl: *ttl }
        });
        let tagged: Vec<Tagged<'_>> = rows.collect();
        let deadline = self.cql.executor.deadline();
        let refused = self.write_tag_rows(key, &tagged, &indexed, deadline).await?;
        if let Some(why) = refused.values().next() {
            tracing::warn!(metric = key.metric, row_time = %key.row_time, why, "a row was refused");
            job.refused.insert(key.row_time.millis());
        }
        Ok(())
    }

    /// Drops the pairs of these rows that are not `done` yet. `metric` is the metric of the job.
    async fn drop_pairs(
        &self,
        metric: &str,
        key: WindowKey<'_>,
        rows: &[RowToDo],
        done: &mut BTreeSet<Box<str>>,
        was_begun: bool,
    ) -> Result<Dropped> {
        let mut all = Dropped::default();
        if self.indexed_tags(key.metric).is_some() {
            return match metric {
                ALL => Ok(all),
                _ => Err(StoreError::Invalid(format!("{metric} is indexed again"))),
            };
        }
        for (name, value) in rows.iter().flat_map(|((_, tags), _)| tags) {
            let pair = single_tag_pair(name, value);
            if done.contains(&pair) {
                continue;
            }
            let (stamp, _) = self.cql.stamps.for_delete(now_ms());
            let dropped = self.delete_pair(key, &pair, stamp, was_begun).await?;
            all.deleted += dropped.deleted;
            all.left += dropped.left;
            done.insert(pair);
        }
        Ok(all)
    }

    /// Does a part of a job, and touches the job meanwhile. `touched` is the last time of that.
    async fn touching<T>(
        &self,
        metric: &str,
        job: &Job,
        touched: &mut Instant,
        part: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let mut part = pin!(part);
        loop {
            tokio::select! {
                done = &mut part => return done,
                () = tokio::time::sleep(TOUCH.saturating_sub(touched.elapsed())) => {
                    self.touch(metric, job).await?;
                    *touched = Instant::now();
                }
            }
        }
    }

    async fn touch(&self, metric: &str, job: &Job) -> Result<()> {
        self.keep_job(metric, job.clone()).await
    }

    async fn keep_job(&self, metric: &str, mut job: Job) -> Result<()> {
        (job.owner, job.touched) = (self.tags.id.clone(), now_ms());
        let ttl = if job.state == JobState::Running { 0 } else { KEPT_SECONDS };
        self.put_state(JOBS, metric, encode(&job), ttl).await
    }
}
