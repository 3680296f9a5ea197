//! An open connection to a keyspace: what every part of the store needs to run statements and to stamp writes.
//!
//! It owns the stamps and the skew of this process. Which statements there are is not known here, except for the clock.

use scylla::client::session::Session;
use scylla::serialize::row::SerializeRow;
use scylla::statement::Consistency;
use scylla::value::CqlValue;

use crate::cql::clock::Skew;
use crate::cql::executor::Executor;
use crate::cql::failure::{Failure, if_read};
use crate::cql::pages::Pages;
use crate::cql::prepared::{Prepared, Preparer};
use crate::cql::rows::Rows;
use crate::cql::stamp::Stamps;
use crate::options::{Keyspace, Options};
use promkairos_storage::Result;
use promkairos_telemetry::CassandraMetrics;

/// An open connection to a keyspace.
pub(crate) struct Cql {
    pub(crate) executor: Executor,
    pub(crate) keyspace: Keyspace,
    pub(crate) stamps: Stamps,
    pub(crate) skew: Skew,
    /// Milliseconds since 1970 by the coordinator's clock.
    clock: Prepared,
}

impl Cql {
    /// Takes over a session. The skew is not measured yet.
    pub(crate) async fn new(
        session: Session,
        metrics: CassandraMetrics,
        options: &Options,
    ) -> Result<Self> {
        let clock = "SELECT toUnixTimestamp(now()) FROM system.local".into();
        let on = Preparer { session: &session, options };
        let clock = on.prepare("clock", clock, Consistency::One).await?;
        Ok(Self {
            executor: Executor::new(session, metrics, options),
            keyspace: options.keyspace.clone(),
            stamps: Stamps::default(),
            skew: Skew::default(),
            clock,
        })
    }

    /// Measures the difference between our clock and Cassandra's. Fails when Cassandra does not answer.
    pub(crate) async fn measure_skew(&self) -> Result<()> {
        self.skew.measure(&self.executor, &self.clock).await
    }

    /// Runs a statement without rows, within the time of a request that begins now.
    pub(crate) async fn run(
        &self,
        prepared: &Prepared,
        values: impl SerializeRow,
    ) -> Result<(), Failure> {
        self.executor.run(prepared, values, self.executor.deadline()).await.map(drop)
    }

    /// Runs a SELECT whose rows fit one answer, within the time of a request that begins now.
    pub(crate) async fn rows(
        &self,
        select: &Prepared,
        values: impl SerializeRow,
    ) -> Result<Rows, Failure> {
        self.executor.rows(select, values, self.executor.deadline()).await
    }

    /// Begins a SELECT that is read page by page.
    pub(crate) fn pages<'a, V: SerializeRow>(
        &'a self,
        select: &'a Prepared,
        values: V,
    ) -> Pages<'a, V> {
        Pages::new(&self.executor, select, values)
    }

    /// Whether a SELECT of one column finds a row. A read that a server gives up on counts as found.
    pub(crate) async fn has_rows(
        &self,
        select: &Prepared,
        values: impl SerializeRow,
    ) -> Result<bool> {
        let Some(rows) = if_read(self.rows(select, values).await)? else { return Ok(true) };
        // A partition of `row_keys` without rows keeps `mtime`, and returns one row of nulls.
        let first = rows.first::<(Option<CqlValue>,)>()?;
        Ok(first.is_some_and(|(column,)| column.is_some()))
    }
}
