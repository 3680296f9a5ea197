//! Runs statements: a bound on statements in flight, retries up to a deadline, metrics.
//!
//! All attempts of a request share one deadline, waits for permits included, so a slow Cassandra costs
//! callers a bounded wait and the process bounded memory. Work of many statements may have a later deadline,
//! so that the statements which get their permits last have time too. When no node can be reached, a
//! statement fails after a moment. Index statements never take all permits, so a burst of new series does not
//! hold up the data of known ones. Statements that write points take no more permits than the servers keep up
//! with (`write_permits`). This file knows no table.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicI32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use scylla::client::session::Session;
use scylla::errors::ExecutionError;
use scylla::response::PagingState;
use scylla::response::query_result::QueryResult;
use scylla::serialize::row::SerializeRow;
use tracing::field::Empty;
use tracing::{Span, info_span};

use crate::cql::cause;
use crate::cql::concurrency::Reply;
use crate::cql::failure::Failure;
use crate::cql::key_lists::KeyLists;
use crate::cql::prepared::{Batches, Lane, Prepared};
use crate::cql::retry::{self, Verdict};
use crate::cql::rows::Rows;
use crate::cql::write_permits::WritePermits;
use crate::options::Options;
use crate::skipped::LeftOut;
use promkairos_storage::{NoPermit, Permit, Permits, StoreError};
use promkairos_telemetry::{CASSANDRA_STATEMENT, CassandraMetrics, InFlight, StatementOutcome};

/// How long a statement waits for a connection when there is none. It bridges a reconnect; the
/// sender of the request retries anyway.
const UNREACHED_PATIENCE: Duration = Duration::from_secs(1);
/// The setting for the number of permits.
const IN_FLIGHT: &str = "cassandra-max-in-flight";
/// Statements of [`Lane::Index`] may have the number of permits divided by this.
const INDEX_SHARE: usize = 2;
/// The most nodes named in an error.
const NODES_NAMED: usize = 3;

/// Runs statements on a session.
pub(crate) struct Executor {
    pub(crate) session: Session,
    pub(crate) metrics: CassandraMetrics,
    permits: Permits,
    index_permits: Permits,
    points: WritePermits,
    pub(crate) key_lists: KeyLists,
    left_out: Option<Arc<LeftOut>>,
    /// The most rows of a page: less than a statement asks for where an operator has set a limit.
    most_rows: AtomicI32,
    patience: Duration,
    contact_points: String,
}

/// When to give up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    /// The end for all statements together, including those that wait for a permit.
    end: Instant,
    /// The longest time of one statement, retries included, from its first permit on.
    each: Duration,
}

impl Deadline {
    /// The end of a statement that gets its first permit now.
    fn of_one(self, now: Instant) -> Instant {
        self.end.min(now + self.each)
    }
}

impl Executor {
    pub(crate) fn new(session: Session, metrics: CassandraMetrics, options: &Options) -> Self {
        Self {
            session,
            points: WritePermits::new(Permits::new(IN_FLIGHT, options.in_flight), metrics.clone()),
            key_lists: KeyLists::default(),
            left_out: options.left_out.clone(),
            most_rows: AtomicI32::new(i32::MAX),
            metrics,
            permits: Permits::new(IN_FLIGHT, options.in_flight),
            index_permits: Permits::new(IN_FLIGHT, options.in_flight / INDEX_SHARE),
            patience: options.request_timeout,
            contact_points: options.contact_points.join(", "),
        }
    }

    /// Counts something that a read skipped; `what` identifies it to people.
    pub(crate) fn skip<T: fmt::Display>(&self, reason: &'static str, what: impl FnOnce() -> T) {
        self.metrics.skip(reason, 1);
        if let Some(left_out) = &self.left_out {
            left_out.note(reason, &what().to_string());
        }
    }

    /// The deadline of a request that begins now.
    pub(crate) fn deadline(&self) -> Deadline {
        self.deadline_of_many(self.patience)
    }

    /// The deadline of work of many statements that may take `together`: each of them has at most the
    /// request timeout from its first permit on.
    pub(crate) fn deadline_of_many(&self, together: Duration) -> Deadline {
        Deadline { end: Instant::now() + together, each: self.patience }
    }

    /// The nodes that an error is about: those without a connection, or else the contact points.
    fn hosts(&self) -> String {
        let cluster = self.session.get_cluster_state();
        let lost = cluster.get_nodes_info().iter().filter(|node| !node.is_connected());
        let lost: Vec<String> = lost.map(|node| node.address.to_string()).collect();
        match lost.len() {
            0 => self.contact_points.clone(),
            1..=NODES_NAMED => lost.join(", "),
            all => format!("{} and {} more", lost[..NODES_NAMED].join(", "), all - NODES_NAMED),
        }
    }

    fn away(&self, why: &str) -> Failure {
        Failure::Store(StoreError::unavailable(format!("Cassandra at {}: {why}", self.hosts())))
    }

    /// Runs a statement without rows, or whose rows fit one answer.
    pub(crate) async fn run(
        &self,
        prepared: &Prepared,
        values: impl SerializeRow,
        deadline: Deadline,
    ) -> Result<QueryResult, Failure> {
        let mut attempts = Attempts::new(self, prepared, deadline);
        loop {
            let attempt = attempts.begin().await?;
            let result = self.session.execute_unpaged(&prepared.statement, &values);
            let result = attempts.within(result).await;
            if let Some(result) = attempts.end(attempt, result).await? {
                self.metrics.count_warnings(result.warnings());
                return Ok(result);
            }
        }
    }

    /// Inserts rows, all in one batch if the server accepts it. Otherwise one by one, because one bad
    /// row fails a batch. Returns the positions of the rows that the server refuses for good, and why.
    pub(crate) async fn insert(
        &self,
        insert: &Batches,
        rows: &[impl SerializeRow],
        deadline: Deadline,
    ) -> Result<Vec<(usize, String)>, StoreError> {
        if rows.len() > 1 {
            match self.batch(insert, rows, deadline).await {
                Ok(()) => return Ok(Vec::new()),
                Err(Failure::Refused(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let mut refused = Vec::new();
        for (at, row) in rows.iter().enumerate() {
            match self.run(&insert.one, row, deadline).await {
                Ok(_) => {}
                Err(Failure::Refused(why)) => refused.push((at, why)),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(refused)
    }

    /// Runs an unlogged batch.
    async fn batch(
        &self,
        insert: &Batches,
        rows: &[impl SerializeRow],
        deadline: Deadline,
    ) -> Result<(), Failure> {
        let batch = insert.of(rows.len());
        let mut attempts = Attempts::new(self, &insert.one, deadline);
        attempts.rows = rows.len();
        loop {
            let attempt = attempts.begin().await?;
            let result = attempts.within(self.session.batch(batch, rows)).await;
            if attempts.end(attempt, result).await?.is_some() {
                return Ok(());
            }
        }
    }

    /// Runs a SELECT whose rows fit one answer.
    pub(crate) async fn rows(
        &self,
        select: &Prepared,
        values: impl SerializeRow,
        deadline: Deadline,
    ) -> Result<Rows, Failure> {
        let answer = self.run(select, values, deadline).await?;
        Ok(Rows::of(select.name, answer)?)
    }

    /// Runs a SELECT for one page, and returns where the next one begins, if there is one.
    pub(crate) async fn page(
        &self,
        prepared: &Prepared,
        values: impl SerializeRow,
        state: &PagingState,
    ) -> Result<(Rows, Option<PagingState>), Failure> {
        let mut attempts = Attempts::new(self, prepared, self.deadline());
        loop {
            let rows = prepared.statement.get_page_size().min(self.most_rows.load(Relaxed));
            let mut statement = Cow::Borrowed(&prepared.statement);
            if rows < statement.get_page_size() {
                statement.to_mut().set_page_size(rows);
            }
            let attempt = attempts.begin().await?;
            let page = self.session.execute_single_page(&statement, &values, state.clone());
            let page = attempts.within(page).await;
            match attempts.end(attempt, page).await {
                Ok(Some((answer, next))) => {
                    self.metrics.count_warnings(answer.warnings());
                    let next = next.into_paging_control_flow().continue_value();
                    return Ok((Rows::of(prepared.name, answer)?, next));
                }
                Ok(None) => {}
                Err(Failure::Refused(why)) => match retry::rows_of_page(&why) {
                    Some(most) if most < rows => {
                        tracing::info!(most, "Cassandra limits the rows of a page");
                        self.most_rows.fetch_min(most, Relaxed);
                    }
                    _ => return Err(Failure::Refused(why)),
                },
                Err(failure) => return Err(failure),
            }
        }
    }
}

/// The attempts of one statement.
struct Attempts<'a> {
    executor: &'a Executor,
    prepared: &'a Prepared,
    /// How many rows the statement writes, if any.
    rows: usize,
    deadline: Deadline,
    /// The end of this statement, known once it has had a permit.
    end: Instant,
    number: u32,
    /// Since when no node could be reached.
    unreached: Option<Instant>,
    /// How long the attempts waited for permits.
    waited: Duration,
    /// The span of the attempts in a trace.
    span: Span,
}

impl Drop for Attempts<'_> {
    fn drop(&mut self) {
        self.span.record("attempts", i64::from(self.number));
        self.span.record("waited_seconds", self.waited.as_secs_f64());
    }
}

/// One attempt: counted as in flight until it is dropped.
struct Attempt {
    /// The permit of the lane of the statement, where the lane has permits of its own.
    lane: Option<Permit>,
    _permit: Permit,
    _in_flight: InFlight,
    start: Instant,
}

impl<'a> Attempts<'a> {
    fn new(executor: &'a Executor, prepared: &'a Prepared, deadline: Deadline) -> Self {
        let span = info_span!(
            CASSANDRA_STATEMENT,
            otel.name = prepared.name,
            otel.kind = "client",
            db.system.name = "cassandra",
            attempts = Empty,
            waited_seconds = Empty,
            otel.status_description = Empty,
        );
        Self {
            executor,
            prepared,
            rows: 1,
            deadline,
            end: deadline.end,
            number: 0,
            unreached: None,
            waited: Duration::ZERO,
            span,
        }
    }

    /// The statement and its table.
    fn what(&self) -> String {
        let name = self.prepared.name;
        match self.prepared.statement.get_table_spec() {
            Some(table) => {
                format!("Cassandra: {name} on {}.{}", table.ks_name(), table.table_name())
            }
            None => format!("Cassandra: {name}"),
        }
    }

    /// Gives an attempt at most half of the timeout, so that a node that hangs leaves time for another. The
    /// error names the whole timeout, because it becomes the statement's error when no attempt is left.
    async fn within<T>(
        &self,
        attempt: impl Future<Output = Result<T, ExecutionError>>,
    ) -> Result<T, ExecutionError> {
        let patience = self.executor.patience;
        let end = self.end.min(Instant::now() + patience / 2);
        match tokio::time::timeout_at(end.into(), attempt).await {
            Ok(result) => result,
            Err(_) => Err(ExecutionError::RequestTimeout(patience)),
        }
    }

    /// Waits for the permits of the next attempt.
    async fn begin(&mut self) -> Result<Attempt, Failure> {
        self.number += 1;
        let begin = Instant::now();
        let lane = match self.prepared.lane {
            Lane::Common => None,
            Lane::Index => Some(self.permit(&self.executor.index_permits).await?),
            Lane::Points => Some(self.permit(&self.executor.points.permits).await?),
        };
        let permit = self.permit(&self.executor.permits).await?;
        let in_flight = InFlight::enter(&self.executor.metrics.in_flight);
        let start = Instant::now();
        self.waited += start - begin;
        if self.number == 1 {
            self.end = self.deadline.of_one(start);
        }
        Ok(Attempt { lane, _permit: permit, _in_flight: in_flight, start })
    }

    async fn permit(&self, of: &Permits) -> Result<Permit, Failure> {
        of.take(1, self.end.into()).await.map_err(|NoPermit { setting }| {
            self.executor.metrics.limits.reached(setting);
            let why = format!(
                "too many statements wait: the setting {setting} says how many are under way"
            );
            self.executor.away(&why)
        })
    }

    /// Returns the permits of an attempt, `took` after they were taken.
    fn leave<T>(&self, attempt: Attempt, took: Duration, result: &Result<T, ExecutionError>) {
        let Attempt { lane: Some(lane), .. } = attempt else { return };
        if self.prepared.lane == Lane::Points {
            let answer = match result {
                Ok(_) | Err(ExecutionError::RequestTimeout(_)) => Reply::Done(self.rows, took),
                Err(error) if retry::is_overload(error) => Reply::Overload,
                Err(_) => Reply::Other,
            };
            self.executor.points.end(lane, answer);
        }
    }

    /// Judges a result; None means that another attempt is due.
    async fn end<T>(
        &mut self,
        attempt: Attempt,
        result: Result<T, ExecutionError>,
    ) -> Result<Option<T>, Failure> {
        let (metrics, took) = (&self.executor.metrics, attempt.start.elapsed());
        self.leave(attempt, took, &result);
        let error = match result {
            Ok(result) => {
                metrics.attempt(self.prepared.name, StatementOutcome::Ok, took);
                return Ok(Some(result));
            }
            Err(error) => error,
        };
        let pause = retry::pause(self.number);
        let verdict = retry::judge(&error);
        let mut end = self.end;
        if verdict == Verdict::Unreached {
            let since = *self.unreached.get_or_insert_with(Instant::now);
            end = end.min(since + UNREACHED_PATIENCE);
        }
        let (outcome, failure) = match verdict {
            Verdict::Again | Verdict::Unreached if Instant::now() + pause < end => {
                metrics.attempt(self.prepared.name, StatementOutcome::Retried, took);
                tracing::debug!(statement = self.prepared.name, %error, "trying again");
                tokio::time::sleep(pause).await;
                return Ok(None);
            }
            Verdict::Again | Verdict::Unreached => {
                let cause = cause::of_execution(&error);
                tracing::debug!(statement = self.prepared.name, %error, "gave up");
                (StatementOutcome::Unavailable, self.executor.away(&cause))
            }
            Verdict::Refused => {
                (StatementOutcome::Refused, Failure::Refused(cause::of_execution(&error)))
            }
            Verdict::Unread => {
                metrics.reads_given_up.inc();
                let cause = cause::of_execution(&error);
                let what = format!(
                    "{}: {cause}: as a rule, more of what is read was deleted or has expired than the server's setting \
                     tombstone_failure_threshold allows, and is not compacted away yet",
                    self.what()
                );
                (StatementOutcome::GivenUp, Failure::Unread(what))
            }
            Verdict::Denied => {
                let what = format!("{}: {}", self.what(), cause::of_execution(&error));
                (StatementOutcome::Failed, Failure::Store(StoreError::Denied(what)))
            }
            Verdict::Broken => {
                let error = StoreError::backend(self.what(), cause::of_execution(&error));
                (StatementOutcome::Failed, Failure::Store(error))
            }
        };
        metrics.attempt(self.prepared.name, outcome, took);
        promkairos_telemetry::fail(&self.span, &error);
        Err(failure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_whose_permit_comes_late_has_its_time_within_that_of_all() {
        let (begin, second) = (Instant::now(), Duration::from_secs(1));
        let end_of = |together: u32, permit: u32| {
            let deadline = Deadline { end: begin + second * together, each: second * 10 };
            deadline.of_one(begin + second * permit) - begin
        };
        // One request: its statements share its time.
        assert_eq!([0, 4, 9].map(|permit| end_of(10, permit)), [second * 10; 3]);
        // Many batches: the last ones have their own time, and all end together.
        let ends = [0, 4, 15, 20, 29].map(|permit| end_of(30, permit));
        assert_eq!(ends, [10, 14, 25, 30, 30].map(|end| second * end));
    }
}
