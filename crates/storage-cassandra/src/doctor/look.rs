//! Looks at single rows: what leads to a row of data, and what an index row leads to. Where a server gives up on a read
//! because of tombstones, unread rows may exist, so nothing is reported.
//!
//! Every read keeps to the rate of the scan. What leads to a whole window is cached for a while, bounded, because its
//! rows of data lie all over the ring.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use scylla::deserialize::row::DeserializeRow;
use scylla::serialize::row::SerializeRow;

use crate::cql::failure::{Failure, if_read};
use crate::cql::pages::Pages;
use crate::cql::prepared::Prepared;
use crate::cql::rows::Rows;
use crate::cql::stamp::now_ms;
use crate::doctor::check::Doctor;
use crate::doctor::gathered::Indexed;
use crate::doctor::judge::{Cells, Moment, Standing};
use crate::doctor::leads::Leads;
use crate::doctor::pages::{ROWS_A_READ, tombstones};
use crate::identity::Identity;
use crate::index::window::{Window, WindowKey};
use crate::points::dead_cells::{DeadCells, Slices};
use crate::schema::tag_index_coverage::Coverage;
use crate::schema::tag_index_document::{Configured, has_tag};
use promkairos_kairos::index::{IndexedTags, RowKeyRow, StringIndexRow, TagIndexRow};
use promkairos_kairos::{DataType, RowKey, RowTime, TableName, Tags};
use promkairos_model::STALE_NAN_BITS;
use promkairos_storage::Result;

/// Before every column of a row of data.
const FIRST_COLUMN: [u8; 1] = [0];
/// Behind every column of a row of data.
const LAST_COLUMN: [u8; 8] = [u8::MAX; 8];

/// The last column of a page of a row of data, and whether the next page is wanted.
type Visited = (Option<Box<[u8]>>, ControlFlow<()>);
/// `value`, its TTL and its write time.
type StandingRow = (Option<String>, Option<i32>, Option<i64>);
/// Data type, tags, `mtime` in milliseconds; the first two are null in a partition without rows.
type WindowRow = (Option<String>, Option<BTreeMap<String, String>>, Option<i64>);

/// Tags as `frozen<map<text, text>>` holds them.
pub(super) fn map(tags: &Tags) -> BTreeMap<&str, &str> {
    tags.iter().collect()
}

/// The tags that must lead to rows of data: those that the keyspace records. Where it records
/// nothing of a tag: those that existing rows show, or that KairosDB is configured to index.
pub(super) struct Expected<'a> {
    pub(super) recorded: Coverage,
    pub(super) configured: &'a Configured,
    pub(super) shown: &'a Indexed,
}

impl Expected<'_> {
    fn tags(&self, key: &RowKey) -> BTreeSet<Box<str>> {
        let row_time = key.row_time.millis();
        let shown = self.shown.tags(key.data_type.table_name(), &key.metric, key.row_time);
        let is_kairosdb = key.data_type.table_name() == TableName::DataPoints;
        let is_expected = |tag: &str| {
            let recorded = self.recorded.demands(&key.metric, tag, row_time);
            let is_configured = || is_kairosdb && has_tag(self.configured, &key.metric, tag);
            recorded.unwrap_or_else(|| shown.contains(tag) || is_configured())
        };
        let tags = key.tags.iter().map(|(tag, _)| tag);
        tags.filter(|tag| is_expected(tag)).map(Box::from).collect()
    }
}

impl Doctor {
    /// Reads what the keyspace records of its tag index.
    pub(super) async fn coverage(&self) -> Result<Coverage> {
        match self.missing.contains(&"service_index") {
            true => Ok(Coverage::default()),
            false => Coverage::read(&self.cql.executor.session, &self.options.keyspace).await,
        }
    }

    /// Whether a statement finds a row. A read that a server gives up on counts as found.
    pub(super) async fn has_rows(
        &self,
        select: &Prepared,
        values: impl SerializeRow,
    ) -> Result<bool> {
        let rows = if_read(self.rows(select, values).await)?;
        Ok(rows.is_none_or(|rows| !rows.is_empty()))
    }

    /// A small answer.
    async fn rows(&self, select: &Prepared, values: impl SerializeRow) -> Result<Rows, Failure> {
        self.pace.take(1).await;
        self.cql.rows(select, values).await
    }

    /// The rows of a small answer; None where a server gives up on it.
    pub(super) async fn rows_if_read<R>(
        &self,
        select: &Prepared,
        values: impl SerializeRow,
    ) -> Result<Option<Vec<R>>>
    where
        R: for<'f, 'm> DeserializeRow<'f, 'm>,
    {
        let rows = if_read(self.rows(select, values).await)?;
        rows.map(|rows| rows.iter()?.collect()).transpose()
    }

    /// The next page of an answer; None at its end.
    pub(super) async fn next_page(
        &self,
        pages: &mut Pages<'_, impl SerializeRow>,
    ) -> Result<Option<Rows>, Failure> {
        if pages.is_done() {
            return Ok(None);
        }
        self.pace.take(1).await;
        pages.next().await
    }

    /// The row of `row_keys`, if it exists.
    pub(super) async fn row_key(&self, row: &RowKeyRow) -> Result<Option<Standing>> {
        let (metric, table, time) = WindowKey::from(row).values();
        let values = (metric, table, time, row.key.data_type.as_str(), map(&row.key.tags));
        let rows = self.rows(&self.statements.row_keys.get, values).await?;
        Ok(rows.first::<StandingRow>()?.map(standing))
    }

    /// The row of `row_key_time_index`, if it exists.
    pub(super) async fn time(&self, key: WindowKey<'_>) -> Result<Option<Standing>> {
        let identity = key.identity();
        if let Some(known) = self.leads.times.lock().get(&identity) {
            return Ok(*known);
        }
        let rows = self.rows(&self.statements.times.get, key.values()).await?;
        let found = rows.first::<StandingRow>()?.map(standing);
        Leads::keep(&self.leads.times, identity, found);
        Ok(found)
    }

    /// Whether a name is in its list.
    pub(super) async fn is_named(&self, row: &StringIndexRow) -> Result<bool> {
        let list = StringIndexRow::key(row.table_name);
        let identity = Identity::of(&[list, row.metric.as_bytes()]);
        if let Some(known) = self.leads.names.lock().get(&identity) {
            return Ok(*known);
        }
        let values = (list, self.names.value(&row.metric));
        let found = !self.rows(&self.statements.names.get, values).await?.is_empty();
        Leads::keep(&self.leads.names, identity, found);
        Ok(found)
    }

    /// Whether the legacy index leads to a row of data.
    pub(super) async fn is_in_legacy(&self, metric: &str, key: &[u8]) -> Result<bool> {
        let Some(legacy) = &self.statements.legacy else { return Ok(false) };
        let values = (metric.as_bytes(), key);
        Ok(!self.rows(&legacy.get, values).await?.is_empty())
    }

    /// Whether the row has a cell. An unreadable row counts as if it had one.
    pub(super) async fn has_data(&self, key: &[u8]) -> Result<bool> {
        if let Some(rows) = if_read(self.rows(&self.statements.data.any, (key,)).await)? {
            return Ok(!rows.is_empty());
        }
        let mut has_data = false;
        let first = |_: &[u8]| {
            has_data = true;
            ControlFlow::Break(())
        };
        let read = if_read(self.values(key, first).await)?;
        Ok(has_data || read.is_none())
    }

    /// Whether the row of data that an index row leads to has a cell. A key that cannot be encoded
    /// has none.
    pub(super) async fn leads_to_data(&self, key: &RowKey) -> Result<bool> {
        match key.encode() {
            Ok(bytes) => self.has_data(&bytes).await,
            Err(_) => Ok(false),
        }
    }

    /// Reads every cell of a row of data. Also returns the most tombstones that a page passed over.
    pub(super) async fn cells(&self, key: &[u8], at: &Moment) -> Result<(Cells, u64), Failure> {
        let mut cells = Cells::default();
        let tombstones = self.data_pages(&self.statements.data.cells, key, |page| {
            type Row<'f> = (&'f [u8], Option<i64>, Option<i32>);
            let mut last = None;
            for row in page.iter::<Row<'_>>()? {
                let (column, stamp, ttl) = row?;
                cells.add(stamp.unwrap_or_default(), ttl, at);
                last = Some(column);
            }
            Ok((last.map(Box::from), ControlFlow::Continue(())))
        });
        let tombstones = tombstones.await?;
        Ok((cells, tombstones))
    }

    /// Calls `visit` with the value of each cell of a row of data, until it breaks.
    async fn values(
        &self,
        key: &[u8],
        mut visit: impl FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), Failure> {
        let pages = self.data_pages(&self.statements.data.values, key, |page| {
            let mut last = None;
            for row in page.iter::<(&[u8], &[u8])>()? {
                let (column, value) = row?;
                if visit(value).is_break() {
                    return Ok((None, ControlFlow::Break(())));
                }
                last = Some(column);
            }
            Ok((last.map(Box::from), ControlFlow::Continue(())))
        });
        pages.await.map(drop)
    }

    /// Calls `visit` with the pages of a row of data, in slices where a server does not read it in one statement;
    /// `visit` returns the last column of each page. Returns the most tombstones that a page passed over.
    async fn data_pages(
        &self,
        prepared: &Prepared,
        key: &[u8],
        mut visit: impl FnMut(&Rows) -> Result<Visited>,
    ) -> Result<u64, Failure> {
        // Not remembered: writes of others there between two looks must be seen.
        let dead_cells = DeadCells::default();
        let mut slices = Slices::of(&dead_cells, key, &FIRST_COLUMN, &LAST_COLUMN);
        let mut most = 0;
        while let Some((start, end)) = slices.next() {
            let (mut last, mut pages) = (None, self.cql.pages(prepared, (key, start, end)));
            let is_read = loop {
                let page = match self.next_page(&mut pages).await {
                    Err(Failure::Unread(why)) => break Err(why),
                    page => page?,
                };
                let Some(page) = page else { break Ok(()) };
                most = most.max(tombstones(page.warnings()));
                let (column, flow) = visit(&page)?;
                if flow.is_break() {
                    return Ok(most);
                }
                last = column.or(last.take());
                self.pace.take((page.len() / ROWS_A_READ) as u32).await;
            };
            match is_read {
                Ok(()) => slices.finish_slice(last.as_deref()),
                Err(why) => {
                    // More than the server's limit.
                    most = u64::MAX;
                    if !slices.cut(last.as_deref()) {
                        return Err(Failure::Unread(why));
                    }
                }
            }
        }
        Ok(most)
    }

    /// Whether a stale marker or an exemplar is the only data of its series, in its window and in
    /// the one before. False before 1970, where windows have no neighbours.
    pub(super) async fn is_alone(&self, key: &RowKey) -> Result<bool> {
        let is_marker = key.data_type == DataType::PromDouble;
        if key.row_time.millis() < 0 || (is_marker && self.has_points(key).await?) {
            return Ok(false);
        }
        let before = key.row_time.millis() - self.spec.width();
        for time in [key.row_time.millis(), before].into_iter().filter(|time| *time >= 0) {
            for data_type in [
                DataType::Double,
                DataType::Long,
                DataType::Legacy,
                DataType::PromHistogram,
                DataType::PromDouble,
            ] {
                let row_time = RowTime::from_stored(time);
                let near = RowKey { row_time, data_type, ..key.clone() };
                if self.has_points(&near).await? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Whether a row of data has points other than stale markers.
    async fn has_points(&self, key: &RowKey) -> Result<bool> {
        let Ok(bytes) = key.encode() else { return Ok(false) };
        if key.data_type != DataType::PromDouble {
            return self.has_data(&bytes).await;
        }
        let mut found = false;
        let is_point = |value: &[u8]| {
            found = value != STALE_NAN_BITS.to_be_bytes();
            if found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        // Unread cells may be points.
        let read = if_read(self.values(&bytes, is_point).await)?;
        Ok(found || read.is_none())
    }

    /// The rows of the tag index that should lead to a row of data and do not exist.
    pub(super) async fn gaps(
        &self,
        key: &RowKey,
        expected: &Expected<'_>,
    ) -> Result<Vec<TagIndexRow>> {
        let names = expected.tags(key);
        let mut gaps = Vec::new();
        if names.is_empty() || self.statements.tags.is_none() {
            return Ok(gaps);
        }
        for tag in TagIndexRow::of(key, &IndexedTags::Only(names)) {
            if self.tag_row(&tag).await? {
                continue;
            }
            // Its writer may have hashed other tags.
            if self.hashes(&tag).await?.is_some_and(|hashes| hashes.is_empty()) {
                gaps.push(tag);
            }
        }
        Ok(gaps)
    }

    /// The hashes under which a row of the tag index exists; None where that cannot be read.
    pub(super) async fn hashes(&self, tag: &TagIndexRow) -> Result<Option<Vec<i32>>> {
        let Some(tags) = &self.statements.tags else { return Ok(Some(vec![])) };
        let row = &tag.row;
        let (metric, table, time) = WindowKey::from(row).values();
        let (pair, kind) = (&*tag.single_tag_pair, row.key.data_type.as_str());
        let values = (metric, table, time, pair, kind, map(&row.key.tags));
        let hashes = self.rows_if_read::<(i32,)>(&tags.find, values).await?;
        Ok(hashes.map(|hashes| hashes.into_iter().map(|(hash,)| hash).collect()))
    }

    /// Whether a row of the tag index exists, with its hash.
    pub(super) async fn tag_row(&self, tag: &TagIndexRow) -> Result<bool> {
        let Some(tags) = &self.statements.tags else { return Ok(false) };
        let row = &tag.row;
        let (metric, table, time) = WindowKey::from(row).values();
        let (pair, kind) = (&*tag.single_tag_pair, row.key.data_type.as_str());
        let values = (metric, table, time, pair, kind, tag.tag_collection_hash, map(&row.key.tags));
        Ok(!self.rows(&tags.get, values).await?.is_empty())
    }

    /// Whether a window leads to any data, or may do, and when it last changed.
    pub(super) async fn window_has_data(&self, row: &Window) -> Result<(bool, Option<i64>)> {
        let (values, mut changed) = (row.key().values(), None);
        let mut pages = self.cql.pages(&self.statements.row_keys.window, values);
        loop {
            // Unread rows may lead to data.
            let page = if_read(self.next_page(&mut pages).await)?;
            let Some(page) = page else { return Ok((true, changed)) };
            let Some(page) = page else { return Ok((false, changed)) };
            let (rows, mtime) = window_rows(row, &page)?;
            changed = mtime.or(changed);
            for row in rows {
                if self.leads_to_data(&row.key).await? {
                    return Ok((true, changed));
                }
            }
        }
    }
}

/// The rows of a page of a window, and when the window last changed.
pub(super) fn window_rows(window: &Window, page: &Rows) -> Result<(Vec<RowKeyRow>, Option<i64>)> {
    let (mut rows, mut changed) = (Vec::new(), None);
    for row in page.iter::<WindowRow>()? {
        let (data_type, tags, mtime) = row?;
        changed = mtime;
        let (Some(data_type), Some(tags)) = (data_type, tags) else { continue };
        let Ok(tags) = Tags::from_pairs(tags) else { continue };
        let Window { metric, table_name, row_time } = window.clone();
        let data_type = DataType::parse(&data_type);
        let key = RowKey { metric, row_time, data_type, tags };
        rows.push(RowKeyRow { table_name, key });
    }
    Ok((rows, changed))
}

fn standing((value, ttl, stamp): StandingRow) -> Standing {
    Standing::of(value.as_deref(), ttl, stamp, now_ms())
}
