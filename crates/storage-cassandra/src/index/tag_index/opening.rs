//! The row time from which the tag index leads to every series, when its rows begin to be written.
//!
//! Determined when all adapters write the rows and before any reader uses them: rows that exist then
//! may have no rows in the index, later rows have. So coverage begins behind all existing rows, also
//! where they lie in the future. Only reads; `coordination` opens the index.

use scylla::value::CqlTimestamp;

use crate::cql::failure::{Failure, if_read};
use crate::cql::ring::{RingPages, WHOLE_RING};
use crate::cql::stamp::now_ms;
use crate::index::series_index::SeriesIndex;
use crate::index::window::WindowKey;
use crate::schema::tag_index_document::ALL;
use promkairos_kairos::TableName;
use promkairos_model::TimeRange;
use promkairos_storage::Result;

impl SeriesIndex {
    /// The first row time for which every series was first written by writers that index it.
    pub(crate) async fn first_new_window(&self, metric: &str) -> Result<i64, Failure> {
        match metric {
            ALL => self.first_new_window_of_all().await,
            metric => Ok(self.first_new_window_of(metric).await?),
        }
    }

    async fn first_new_window_of(&self, metric: &str) -> Result<i64> {
        let mut from = i64::MIN;
        for table_name in TableName::ALL {
            let last = &self.statements.tags.last_row_time;
            let read = self.cql.rows(last, (metric, table_name.as_str())).await;
            let time = match if_read(read)? {
                Some(rows) => rows.first::<(CqlTimestamp,)>()?.map(|(time,)| time.0),
                None => {
                    let windows = self.windows_of(metric, table_name, TimeRange::ALL).await?;
                    windows.last().map(|window| window.row_time.millis())
                }
            };
            from = from.max(time.map_or(i64::MIN, |time| time.saturating_add(1)));
            // KairosDB deletes the time index of a live window and leaves `row_keys`.
            let row_time = self.spec.row_time(now_ms());
            let window = WindowKey { metric, table_name, row_time };
            if self.cql.has_rows(&self.statements.row_keys.any, window.values()).await? {
                from = from.max(row_time.millis().saturating_add(1));
            }
        }
        Ok(from)
    }

    /// The first new window of all metrics at once, whether a list has their names or not.
    async fn first_new_window_of_all(&self) -> Result<i64, Failure> {
        let last = self.last_row_time_of_all().await?;
        if last.is_none() && !self.has_any_name().await? && !self.has_any_row_key().await? {
            return Ok(i64::MIN);
        }
        // The time index of a live window may be missing; windows are written ahead, but not
        // further than the next one.
        let next = self.spec.row_time(now_ms() + 2 * self.spec.width()).millis();
        Ok(last.map_or(next, |last| next.max(last.saturating_add(1))))
    }

    /// The last row time of any metric. It may lie in the future, and no clustering order leads to
    /// it: the time index is read as a whole, page by page.
    async fn last_row_time_of_all(&self) -> Result<Option<i64>, Failure> {
        let select = &self.statements.tags.every_row_time;
        let (mut last, mut pages) = (None, RingPages::new(&self.cql.executor, select));
        self.stay().await?;
        while let Some(page) = pages.next().await? {
            for row in page.iter::<(CqlTimestamp,)>()? {
                let (time,) = row?;
                last = last.max(Some(time.0));
            }
            self.stay().await?;
        }
        Ok(last)
    }

    async fn has_any_name(&self) -> Result<bool> {
        for table_name in TableName::ALL {
            let mut pages = self.name_pages(table_name, "");
            while let Some(page) = pages.next().await? {
                if !page.is_empty() {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    async fn has_any_row_key(&self) -> Result<bool> {
        let select = &self.statements.tags.every_window;
        let first = if_read(self.cql.pages(select, WHOLE_RING).next().await)?;
        // Where the page is not read, it is unknown whether a row lives behind the dead ones.
        Ok(first.is_none_or(|page| page.is_some_and(|page| !page.is_empty())))
    }
}
