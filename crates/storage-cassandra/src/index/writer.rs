//! Makes sure that the index rows of a plan exist in Cassandra before its data is written.
//!
//! The first write to a window reads its existing rows (`standing`). Only missing rows are
//! written.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use futures::FutureExt;

use crate::cql::concurrent::all;
use crate::cql::executor::Deadline;
use crate::cql::failure::Failure;
use crate::cql::stamp::now_ms;
use crate::identity::Identity;
use crate::index::index_row::{IndexRow, row_identity};
use crate::index::memory::{Asked, Known, KnownWindow, Missing, UNUSED, Used, recheck_since};
use crate::index::series_index::SeriesIndex;
use crate::index::tag_index::writer::Tagged;
use crate::index::window::WindowKey;
use crate::lifetime::{Expiry, Over};
use crate::plan::{Plan, PlannedRow, RefusedSeries};
use promkairos_kairos::index::StringIndexRow;
use promkairos_model::{Labels, METRIC_NAME};
use promkairos_storage::Result;

/// Windows that one write handles at the same time.
const WINDOWS_AT_ONCE: usize = 32;
/// Rows of `row_keys` in one batch, all of one partition.
const ROWS_A_BATCH: usize = 100;
/// Batches of one window at the same time.
const BATCHES_AT_ONCE: usize = 8;

/// The rows of a plan that share a window.
struct Demand<'a> {
    plan: &'a Plan,
    deadline: Deadline,
    key: WindowKey<'a>,
    window: Arc<KnownWindow>,
    /// TTL of its data in seconds; 0 = for ever.
    ttl: u32,
    /// When that data is accepted.
    over: Over,
    rows: Vec<&'a PlannedRow>,
    asked: Vec<Asked>,
}

impl Demand<'_> {
    /// The labels of the series of a row.
    fn labels(&self, row: &PlannedRow) -> &Labels {
        &self.plan.series[row.series as usize].labels
    }
}

impl SeriesIndex {
    /// Ok: every index row of the plan exists, except for refused series. `ttls` has the TTL of
    /// each series.
    pub(crate) async fn ensure(
        &self,
        plan: &Plan,
        ttls: &[u32],
        deadline: Deadline,
    ) -> Result<RefusedSeries> {
        let mut demands = self.demands(plan, ttls, deadline);
        demands.retain(|demand| self.may_miss(demand));
        let ensure = move |demand| self.ensure_window(demand).boxed();
        let refused = all(WINDOWS_AT_ONCE, Box::new(demands.into_iter().map(ensure))).await?;
        self.cql.executor.metrics.index_rows_remembered.set(self.memory.len() as i64);
        Ok(refused.into_iter().flatten().collect())
    }

    /// Ensures index rows of a window that begins in `begins_in` seconds and has no data yet.
    /// Refusals are ignored here; the writes of the data report them.
    pub(crate) async fn ensure_ahead(
        &self,
        key: WindowKey<'_>,
        begins_in: i64,
        rows: Vec<IndexRow>,
    ) -> Result<()> {
        self.cql.skew.check()?;
        let _gate = self.begin_write().await?;
        let rows = rows.into_iter().map(|row| (row.labels, row.series, row.data_type));
        let plan = Plan::of_index_rows(rows, key.row_time);
        let asked = plan.rows.iter().map(|row| asked_for(&plan, row, UNUSED));
        let demand = Demand {
            plan: &plan,
            deadline: self.cql.executor.deadline(),
            key,
            window: self.memory.window(key),
            ttl: self.lifetimes().of(key.metric),
            over: Over::Window { begins_in },
            rows: plan.rows.iter().collect(),
            asked: asked.collect(),
        };
        if self.may_miss(&demand) {
            self.ensure_window(demand).await?;
        }
        Ok(())
    }

    fn may_miss(&self, demand: &Demand<'_>) -> bool {
        let since = recheck_since(self.options.index_recheck);
        let missing = demand.window.missing(&demand.asked, self.needed(demand), since);
        missing.is_none_or(|missing| !missing.is_empty())
    }

    /// Until when the index rows must last.
    fn needed(&self, demand: &Demand<'_>) -> Expiry {
        self.lifetimes().index_needed(demand.ttl, demand.over, now_ms() / 1000)
    }

    fn demands<'a>(&self, plan: &'a Plan, ttls: &[u32], deadline: Deadline) -> Vec<Demand<'a>> {
        let now = self.options.clock.now_ms() / 1000;
        let mut windows: HashMap<Identity, Demand<'a>> = HashMap::new();
        for row in &plan.rows {
            let series = &plan.series[row.series as usize];
            let key = WindowKey {
                metric: series.metric(),
                table_name: row.data_type.table_name(),
                row_time: row.row_time,
            };
            let id = key.identity();
            let demand = windows.entry(id).or_insert_with(|| Demand {
                plan,
                deadline,
                key,
                window: self.memory.window(key),
                ttl: ttls[row.series as usize],
                over: Over::Accepted,
                rows: Vec::new(),
                asked: Vec::new(),
            });
            demand.rows.push(row);
            demand.asked.push(asked_for(plan, row, if row.is_live { now } else { UNUSED }));
        }
        windows.into_values().collect()
    }

    async fn ensure_window(&self, demand: Demand<'_>) -> Result<RefusedSeries> {
        let needed = self.needed(&demand);
        let since = recheck_since(self.options.index_recheck);
        let missing = {
            let _one = demand.window.reading.lock().await;
            match demand.window.missing(&demand.asked, needed, since) {
                Some(missing) => missing,
                None => {
                    let known = match self.memory.is_deleting(demand.key.identity()) {
                        true => Known::default(),
                        false => self.read_window(demand.key, demand.deadline).await?,
                    };
                    self.answers.outdate();
                    demand.window.learn(known);
                    // Readers may not know of a row that counts as written now.
                    self.series.doubt(demand.key.identity());
                    let missing = demand.window.missing(&demand.asked, needed, None);
                    // None: evicted again, because memory is too small. Then all rows are written.
                    missing.unwrap_or_else(|| Missing {
                        row_keys: (0..demand.rows.len()).collect(),
                        row_time: true,
                        name: true,
                    })
                }
            }
        };
        let row_keys = self.write_row_keys(&demand, &missing);
        let leading = self.write_leading(&demand, &missing);
        let written = match demand.over {
            Over::Accepted => futures::try_join!(row_keys, leading).map(|(refused, ())| refused),
            // The tag index takes rows behind the last row time of a metric for new, so no row may
            // be written there before its row time.
            Over::Window { .. } => match leading.await {
                Ok(()) => row_keys.await,
                Err(failure) => Err(failure),
            },
        };
        refused_in_window(demand.rows.iter().map(|row| row.series), written)
    }

    /// Writes the missing rows of `row_keys`, in batches.
    async fn write_row_keys(
        &self,
        demand: &Demand<'_>,
        missing: &Missing,
    ) -> Result<RefusedSeries, Failure> {
        let batches = missing.row_keys.chunks(ROWS_A_BATCH);
        let write = move |rows| self.write_row_key_batch(demand, rows).boxed();
        let refused = all(BATCHES_AT_ONCE, Box::new(batches.map(write))).await?;
        Ok(refused.into_iter().flatten().collect())
    }

    async fn write_row_key_batch(
        &self,
        demand: &Demand<'_>,
        rows: &[usize],
    ) -> Result<RefusedSeries> {
        let (ttl, expiry) = self.lifetimes().of_index(demand.ttl, demand.over, now_ms() / 1000);
        let mut refused = self.write_tags_of(demand, rows, ttl).await?;
        let rows: Vec<usize> = rows
            .iter()
            .copied()
            .filter(|at| !refused.contains_key(&demand.rows[*at].series))
            .collect();
        if rows.is_empty() {
            return Ok(refused);
        }
        let stamp = self.cql.stamps.for_index(now_ms());
        let (metric, table_name, row_time) = demand.key.values();
        let values: Vec<_> = rows
            .iter()
            .map(|at| {
                let row = demand.rows[*at];
                let tags = tags_of(demand.labels(row));
                let mtime = self.mtimes.next(stamp);
                (stamp, ttl, mtime, metric, table_name, row_time, row.data_type.as_str(), tags)
            })
            .collect();
        let insert = &self.statements.row_keys.insert;
        let spoilt: HashMap<usize, String> =
            self.cql.executor.insert(insert, &values, demand.deadline).await?.into_iter().collect();
        let written = rows.iter().enumerate().filter(|(at, _)| !spoilt.contains_key(at));
        let written: Vec<usize> = written.map(|(_, row)| *row).collect();
        self.answers.outdate();
        demand.window.remember_row_keys(written.iter().map(|at| demand.asked[*at]), expiry);
        self.show(demand, &written);
        let metrics = &self.cql.executor.metrics;
        metrics.index_rows_written.inc_by(written.len() as u64);
        if matches!(demand.over, Over::Window { .. }) {
            metrics.index_rows_ahead.inc_by(written.len() as u64);
        }
        refused.extend(spoilt.into_iter().map(|(at, why)| (demand.rows[rows[at]].series, why)));
        Ok(refused)
    }

    /// Writes the tag index rows that some rows need, if their metric is indexed.
    async fn write_tags_of(
        &self,
        demand: &Demand<'_>,
        rows: &[usize],
        ttl: i32,
    ) -> Result<RefusedSeries> {
        let Some(indexed) = self.indexed_tags(demand.key.metric) else {
            return Ok(RefusedSeries::new());
        };
        let tagged: Vec<Tagged<'_>> = rows
            .iter()
            .map(|at| demand.rows[*at])
            .map(|row| {
                let tags = tags_of(demand.labels(row));
                Tagged { series: row.series, data_type: &row.data_type, tags, ttl }
            })
            .collect();
        self.write_tag_rows(demand.key, &tagged, &indexed, demand.deadline).await
    }

    /// Makes written rows visible to readers of this process.
    fn show(&self, demand: &Demand<'_>, rows: &[usize]) {
        let rows = rows.iter().map(|at| {
            let row = demand.rows[*at];
            IndexRow::of_series(demand.labels(row).clone(), row.data_type.clone())
        });
        self.series.add(demand.key.identity(), rows);
    }

    /// Writes the rows that lead to a partition of `row_keys`: time index and name. [`Failure::Refused`] if Cassandra
    /// refuses either row.
    async fn write_leading(&self, demand: &Demand<'_>, missing: &Missing) -> Result<(), Failure> {
        let (metric, table_name, row_time) = demand.key.values();
        let stamp = self.cql.stamps.for_index(now_ms());
        if missing.row_time {
            let (ttl, expiry) = self.lifetimes().of_index(demand.ttl, demand.over, now_ms() / 1000);
            let insert = &self.statements.row_times.insert;
            let values = (stamp, ttl, metric, table_name, row_time);
            self.cql.executor.run(insert, values, demand.deadline).await?;
            self.answers.outdate();
            demand.window.remember_row_time(expiry);
            self.cql.executor.metrics.index_rows_written.inc();
        }
        if missing.name {
            let list = StringIndexRow::key(demand.key.table_name);
            let insert = &self.statements.names.insert;
            let name = self.names.value(metric);
            self.cql.executor.run(insert, (list, name, stamp), demand.deadline).await?;
            self.answers.outdate();
            demand.window.remember_name();
            self.cql.executor.metrics.index_rows_written.inc();
        }
        Ok(())
    }
}

/// The look-up of a row in memory, for data of a time.
fn asked_for(plan: &Plan, row: &PlannedRow, used: Used) -> Asked {
    let series = plan.series[row.series as usize].identity;
    Asked { row: row_identity(series, &row.data_type), used }
}

/// The refused series of a window. All of them, where a row that leads to the window is refused:
/// nothing in it could be found.
fn refused_in_window(
    series: impl Iterator<Item = u32>,
    written: Result<RefusedSeries, Failure>,
) -> Result<RefusedSeries> {
    match written {
        Ok(refused) => Ok(refused),
        Err(Failure::Refused(why)) => Ok(series.map(|series| (series, why.clone())).collect()),
        Err(error) => Err(error.into()),
    }
}

/// Tags as `frozen<map<text, text>>` holds them: in the order of their bytes, like labels.
pub(crate) fn tags_of(labels: &Labels) -> BTreeMap<&str, &str> {
    labels.iter().filter(|(name, _)| *name != METRIC_NAME).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use promkairos_storage::StoreError;

    #[test]
    fn a_refused_window_refuses_its_series_and_nothing_else_fails() {
        let refused = |written| refused_in_window([3, 5].into_iter(), written);
        let all = refused(Err(Failure::Refused("no".into()))).expect("refused, not failed");
        assert_eq!(all, RefusedSeries::from([(3, "no".into()), (5, "no".into())]));
        let one = RefusedSeries::from([(5, "no".into())]);
        assert_eq!(refused(Ok(one.clone())).expect("written"), one);
        let away = StoreError::Limit("x".into());
        assert!(refused(Err(Failure::Store(away))).is_err());
    }
}
