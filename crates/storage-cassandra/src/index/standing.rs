//! Reads which index rows of a window exist in Cassandra, and until when. A row whose `value` is null was
//! written by KairosDB; its expiry cannot be known, so it counts as missing and ours is written over it.

use crate::cql::executor::Deadline;
use crate::cql::stamp::now_ms;
use crate::identity::Identity;
use crate::index::index_row::{each_checked_row, row_identity};
use crate::index::memory::{Known, Standing};
use crate::index::series_index::SeriesIndex;
use crate::index::window::WindowKey;
use crate::lifetime::{Expiry, NEVER};
use promkairos_kairos::index::StringIndexRow;
use promkairos_model::{Labels, METRIC_NAME};
use promkairos_storage::Result;

impl SeriesIndex {
    /// Reads the index rows of a window from Cassandra.
    pub(crate) async fn read_window(
        &self,
        key: WindowKey<'_>,
        deadline: Deadline,
    ) -> Result<Known> {
        let name = self.name_is_listed(key, deadline).await?;
        let mut known = Known { name, ..Known::default() };
        let now = now_ms() / 1000;
        let check = &self.statements.row_times.check;
        let rows = self.cql.executor.rows(check, key.values(), deadline).await?;
        if let Some((Some(_), ttl)) = rows.first::<(Option<&str>, Option<i32>)>()? {
            known.row_time = expiry(now, ttl);
        }
        let check = &self.statements.row_keys.check;
        let most = self.options.index_memory_rows;
        // Each page has its own timeout: a large window whose read fails would fail again.
        let mut pages = self.index_pages(check, key.columns());
        while known.row_keys.len() < most
            && let Some(page) = pages.next().await?
        {
            each_checked_row(&page, |row| {
                if let (true, Some(series)) = (row.is_ours, series_identity(key.metric, row.tags)) {
                    let until = Standing::until(expiry(now, row.ttl));
                    known.row_keys.insert(row_identity(series, &row.data_type), until);
                }
            })?;
        }
        Ok(known)
    }

    async fn name_is_listed(&self, key: WindowKey<'_>, deadline: Deadline) -> Result<bool> {
        let check = &self.statements.names.check;
        let values = (StringIndexRow::key(key.table_name), self.names.value(key.metric));
        Ok(!self.cql.executor.rows(check, values, deadline).await?.is_empty())
    }
}

fn expiry(now: i64, ttl: Option<i32>) -> Expiry {
    ttl.map_or(NEVER, |ttl| now + i64::from(ttl))
}

/// The identity of a series that we wrote. None where our rows would have other tags.
fn series_identity(metric: &str, tags: &[(&str, &str)]) -> Option<Identity> {
    if tags.iter().any(|(_, value)| value.is_empty()) {
        return None;
    }
    let labels = Labels::from_pairs(tags.iter().copied().chain([(METRIC_NAME, metric)])).ok()?;
    Some(Identity::of(&[labels.as_bytes()]))
}
