//! Looks at single rows: what leads to a row of data, and what an index row leads to.
//!
//! Every read waits for its turn at the pace of the scan. What leads to a whole window is kept for
//! a while, bounded, since its rows of data lie all over the ring.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::ControlFlow;

use parking_lot::Mutex;
use scylla::deserialize::row::DeserializeRow;
use scylla::response::PagingState;
use scylla::response::query_result::QueryRowsResult;
use scylla::serialize::row::SerializeRow;

use super::super::executor::unreadable;
use super::super::identity::Identity;
use super::super::stamp::now_ms;
use super::super::statements::Prepared;
use super::super::tag_index::{Configured, Coverage, has_tag};
use super::super::window::WindowKey;
use super::Doctor;
use super::judge::{Cells, Moment, Standing};
use super::progress::Indexed;
use crate::kairos::index::{IndexedTags, RowKeyRow, StringIndexRow, TagIndexRow, TimeIndexRow};
use crate::kairos::{DataType, RowKey, RowTime, TableName, Tags};
use crate::model::STALE_NAN_BITS;
use crate::storage::StoreError;

/// Entries kept of each kind.
const MOST_KEPT: usize = 100_000;
/// So many rows of a page cost as much as one read.
const ROWS_A_READ: usize = 100;

/// `value`, its TTL and its write time.
type StandingRow = (Option<String>, Option<i32>, Option<i64>);
/// Data type, tags, `mtime` in milliseconds; the first two are null in a partition without rows.
pub(super) type WindowRow = (Option<String>, Option<BTreeMap<String, String>>, Option<i64>);

/// What leads to windows, as read not long ago.
#[derive(Default)]
pub(super) struct Leads {
    times: Mutex<HashMap<Identity, Option<Standing>>>,
    names: Mutex<HashMap<Identity, bool>>,
}

impl Leads {
    /// From now on everything is read again.
    pub(super) fn forget(&self) {
        self.times.lock().clear();
        self.names.lock().clear();
    }

    fn keep<T>(kept: &Mutex<HashMap<Identity, T>>, identity: Identity, value: T) {
        let mut kept = kept.lock();
        if kept.len() >= MOST_KEPT {
            kept.clear();
        }
        kept.insert(identity, value);
    }
}

/// A scan under way.
pub(super) struct Pages<'a> {
    doctor: &'a Doctor,
    prepared: &'a Prepared,
    slice: (i64, i64),
    state: Option<PagingState>,
}

impl Pages<'_> {
    /// The next page; none at the end.
    pub(super) async fn next<R>(&mut self) -> Result<Option<Vec<R>>, StoreError>
    where
        R: for<'f, 'm> DeserializeRow<'f, 'm>,
    {
        let Some(state) = self.state.take() else { return Ok(None) };
        self.doctor.pace.take(1).await;
        let (result, next) = self.doctor.executor.page(self.prepared, self.slice, &state).await?;
        if let ControlFlow::Continue(next) = next.into_paging_control_flow() {
            self.state = Some(next);
        }
        let wrong = self.prepared.name;
        let rows = owned(result.into_rows_result().map_err(|e| unreadable(wrong, e))?, wrong)?;
        self.doctor.pace.take((rows.len() / ROWS_A_READ) as u32).await;
        Ok(Some(rows))
    }
}

pub(super) fn owned<R>(rows: QueryRowsResult, name: &'static str) -> Result<Vec<R>, StoreError>
where
    R: for<'f, 'm> DeserializeRow<'f, 'm>,
{
    let rows = rows.rows::<R>().map_err(|e| unreadable(name, e))?;
    rows.collect::<Result<_, _>>().map_err(|e| unreadable(name, e))
}

/// Tags as `frozen<map<text, text>>` has them.
pub(super) fn map(tags: &Tags) -> BTreeMap<&str, &str> {
    tags.iter().collect()
}

/// Which tags must lead to rows of data: as the keyspace records it, and where it says nothing of a
/// tag, as the rows that stand show, or as KairosDB is configured.
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
    /// What the keyspace records of its tag index now.
    pub(super) async fn coverage(&self) -> Result<Coverage, StoreError> {
        match self.missing.contains(&"service_index") {
            true => Ok(Coverage::default()),
            false => Coverage::read(&self.executor.session, &self.options.keyspace).await,
        }
    }

    pub(super) fn pages<'a>(&'a self, prepared: &'a Prepared, slice: (i64, i64)) -> Pages<'a> {
        Pages { doctor: self, prepared, slice, state: Some(PagingState::start()) }
    }

    /// The rows of a small answer.
    pub(super) async fn rows<R>(
        &self,
        prepared: &Prepared,
        values: impl SerializeRow,
    ) -> Result<Vec<R>, StoreError>
    where
        R: for<'f, 'm> DeserializeRow<'f, 'm>,
    {
        self.pace.take(1).await;
        let result = self.executor.run(prepared, values, self.executor.deadline()).await?;
        let name = prepared.name;
        owned(result.into_rows_result().map_err(|e| unreadable(name, e))?, name)
    }

    /// The row of `row_keys` if it stands.
    pub(super) async fn row_key(&self, row: &RowKeyRow) -> Result<Option<Standing>, StoreError> {
        let (metric, table, time) = WindowKey::from(row).values();
        let values = (metric, table, time, row.data_type.as_str(), map(&row.tags));
        let rows = self.rows::<StandingRow>(&self.statements.row_keys.get, values).await?;
        Ok(rows.into_iter().next().map(standing))
    }

    /// The row of `row_key_time_index` if it stands.
    pub(super) async fn time(&self, row: &TimeIndexRow) -> Result<Option<Standing>, StoreError> {
        let key = WindowKey::from(row);
        let identity = key.identity();
        if let Some(known) = self.leads.times.lock().get(&identity) {
            return Ok(*known);
        }
        let rows = self.rows::<StandingRow>(&self.statements.times.get, key.values()).await?;
        let found = rows.into_iter().next().map(standing);
        Leads::keep(&self.leads.times, identity, found);
        Ok(found)
    }

    /// Whether a name is in its list.
    pub(super) async fn is_named(&self, row: &StringIndexRow) -> Result<bool, StoreError> {
        let list = StringIndexRow::key(row.table_name);
        let identity = Identity::of(&[list, row.metric.as_bytes()]);
        if let Some(known) = self.leads.names.lock().get(&identity) {
            return Ok(*known);
        }
        let values = (list, self.names.value(&row.metric));
        let rows = self.rows::<(scylla::value::CqlValue,)>(&self.statements.names.get, values);
        let found = !rows.await?.is_empty();
        Leads::keep(&self.leads.names, identity, found);
        Ok(found)
    }

    /// Whether the legacy index leads to a row of data.
    pub(super) async fn is_in_legacy(&self, metric: &str, key: &[u8]) -> Result<bool, StoreError> {
        let Some(legacy) = &self.statements.legacy else { return Ok(false) };
        let values = (metric.as_bytes(), key);
        Ok(!self.rows::<(Vec<u8>,)>(&legacy.get, values).await?.is_empty())
    }

    /// Whether there is a cell.
    pub(super) async fn has_data(&self, key: &[u8]) -> Result<bool, StoreError> {
        let rows = self.rows::<(Vec<u8>,)>(&self.statements.data.any, (key,)).await?;
        Ok(!rows.is_empty())
    }

    /// Whether there is a cell in the row of data that an index row leads to; a key that cannot be
    /// has none.
    pub(super) async fn leads_to_data(&self, key: &RowKey) -> Result<bool, StoreError> {
        match key.encode() {
            Ok(bytes) => self.has_data(&bytes).await,
            Err(_) => Ok(false),
        }
    }

    /// Reads every cell of a row of data.
    pub(super) async fn cells(&self, key: &[u8], at: &Moment) -> Result<Cells, StoreError> {
        let mut cells = Cells::default();
        let (prepared, mut state) = (&self.statements.data.cells, PagingState::start());
        loop {
            self.pace.take(1).await;
            let (result, next) = self.executor.page(prepared, (key,), &state).await?;
            let name = prepared.name;
            let rows = result.into_rows_result().map_err(|e| unreadable(name, e))?;
            let read = rows.rows_num() / ROWS_A_READ;
            type Row<'f> = (&'f [u8], Option<i64>, Option<i32>);
            for row in rows.rows::<Row<'_>>().map_err(|e| unreadable(name, e))? {
                let (_, stamp, ttl) = row.map_err(|e| unreadable(name, e))?;
                cells.add(stamp.unwrap_or_default(), ttl, at);
            }
            self.pace.take(read as u32).await;
            match next.into_paging_control_flow() {
                ControlFlow::Break(()) => return Ok(cells),
                ControlFlow::Continue(next) => state = next,
            }
        }
    }

    /// Whether a stale marker or an exemplar is all there is of its series, in its window and in
    /// the one before. Before 1970 windows have no neighbours, and nothing is said.
    pub(super) async fn is_alone(&self, key: &RowKey) -> Result<bool, StoreError> {
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

    /// Whether a row of data has points that say something by themselves: not only stale markers.
    async fn has_points(&self, key: &RowKey) -> Result<bool, StoreError> {
        let Ok(bytes) = key.encode() else { return Ok(false) };
        if key.data_type != DataType::PromDouble {
            return self.has_data(&bytes).await;
        }
        let (mut found, values) = (false, &self.statements.data.values);
        self.pace.take(1).await;
        self.executor
            .pages(values, (&bytes[..],), |page| {
                for row in page.rows::<(&[u8],)>().map_err(|e| unreadable(values.name, e))? {
                    let (value,) = row.map_err(|e| unreadable(values.name, e))?;
                    found |= value != STALE_NAN_BITS.to_be_bytes();
                }
                Ok(if found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            })
            .await?;
        Ok(found)
    }

    /// Rows of the tag index that should lead to a row of data and do not stand.
    pub(super) async fn gaps(
        &self,
        key: &RowKey,
        expected: &Expected<'_>,
    ) -> Result<Vec<TagIndexRow>, StoreError> {
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
            if self.hashes(&tag).await?.is_empty() {
                gaps.push(tag);
            }
        }
        Ok(gaps)
    }

    /// The hashes under which a row of the tag index stands.
    pub(super) async fn hashes(&self, tag: &TagIndexRow) -> Result<Vec<i32>, StoreError> {
        let Some(tags) = &self.statements.tags else { return Ok(vec![]) };
        let row = &tag.row;
        let (metric, table, time) = WindowKey::from(row).values();
        let (pair, kind) = (&*tag.single_tag_pair, row.data_type.as_str());
        let values = (metric, table, time, pair, kind, map(&row.tags));
        let hashes = self.rows::<(i32,)>(&tags.find, values).await?;
        Ok(hashes.into_iter().map(|(hash,)| hash).collect())
    }

    /// Whether a row of the tag index stands, with its hash.
    pub(super) async fn tag_row(&self, tag: &TagIndexRow) -> Result<bool, StoreError> {
        let Some(tags) = &self.statements.tags else { return Ok(false) };
        let row = &tag.row;
        let (metric, table, time) = WindowKey::from(row).values();
        let (pair, kind) = (&*tag.single_tag_pair, row.data_type.as_str());
        let values = (metric, table, time, pair, kind, tag.tag_collection_hash, map(&row.tags));
        Ok(!self.rows::<(i32,)>(&tags.get, values).await?.is_empty())
    }

    /// Whether a window leads to any data, and when it was last added to.
    pub(super) async fn window_has_data(
        &self,
        row: &TimeIndexRow,
    ) -> Result<(bool, Option<i64>), StoreError> {
        let (mut state, mut changed) = (PagingState::start(), None);
        let statement = &self.statements.row_keys.window;
        let values = WindowKey::from(row).values();
        loop {
            self.pace.take(1).await;
            let (result, next) = self.executor.page(statement, values, &state).await?;
            let name = statement.name;
            let rows = result.into_rows_result().map_err(|e| unreadable(name, e))?;
            for (data_type, tags, mtime) in owned::<WindowRow>(rows, name)? {
                changed = mtime;
                let (Some(data_type), Some(tags)) = (data_type, tags) else { continue };
                let Ok(tags) = Tags::from_pairs(tags) else { continue };
                let (metric, row_time) = (row.metric.clone(), row.row_time);
                let data_type = DataType::parse(&data_type);
                let key = RowKey { metric, row_time, data_type, tags };
                if self.leads_to_data(&key).await? {
                    return Ok((true, changed));
                }
            }
            match next.into_paging_control_flow() {
                ControlFlow::Break(()) => return Ok((false, changed)),
                ControlFlow::Continue(next) => state = next,
            }
        }
    }
}

fn standing((value, ttl, stamp): StandingRow) -> Standing {
    Standing::of(value.as_deref(), ttl, stamp, now_ms())
}
