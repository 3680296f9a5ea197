//! The scans, one per table. Each passes its rows, page by page, to the looks.

use std::collections::BTreeMap;

use scylla::value::{CqlTimestamp, CqlValue};

use crate::cql::failure::Failure;
use crate::cql::stamp::now_ms;
use crate::doctor::check::Doctor;
use crate::doctor::finding::Finding;
use crate::doctor::gathered::Gathered;
use crate::doctor::judge::{
    DataRow, IndexRow, Standing, judge_data, judge_index, judge_legacy, judge_tag, judge_time,
    unreadable as no_key,
};
use crate::doctor::kind::Kind;
use crate::doctor::look::Expected;
use crate::doctor::part::{Look, Part};
use crate::doctor::report::{Facts, Partition};
use crate::doctor::scan::Pages;
use crate::doctor::scan_rows::{
    DataScanRow, LegacyScanRow, RowKeyScanRow, TagScanRow, TimeScanRow, shown_window,
};
use crate::doctor::settings::Depth;
use crate::doctor::shown::Shown;
use crate::doctor::survey::WindowCount;
use crate::index::pages::IndexPages;
use crate::index::split_point::SplitPoint;
use crate::index::window::{Window, WindowKey};
use promkairos_kairos::index::{RowKeyRow, StringIndexRow, TagIndexRow};
use promkairos_kairos::{DataType, RowKey, RowTime, TableName, Tags};
use promkairos_storage::Result;

/// A row of `row_keys` as scanned.
struct ScannedRow {
    row: RowKeyRow,
    standing: Standing,
    changed: Option<i64>,
}

/// A row of `tag_indexed_row_keys` as scanned.
struct ScannedTag {
    row: TagIndexRow,
    changed: Option<i64>,
}

/// The current partition of a scan of `row_keys`.
#[derive(Default)]
struct Scanned {
    window: Option<Window>,
    count: WindowCount,
}

impl Doctor {
    pub(super) async fn scan_data(&self, slice: (i64, i64)) -> Result<Part> {
        let mut part = Part::default();
        let mut pages = Pages::<DataScanRow>::new(self, &self.statements.data.scan, slice);
        while let Some(keys) = pages.next(&mut part).await? {
            self.examine(&keys, &mut part, async |(key, _)| self.look_at_data(key).await).await?;
        }
        Ok(part)
    }

    async fn look_at_data(&self, bytes: &[u8]) -> Result<Look> {
        let mut look = Look::default();
        look.facts.rows = 1;
        let key = match RowKey::decode(bytes) {
            Ok(key) => key,
            Err(error) => {
                look.findings.push(no_key("data_points", bytes, &error));
                return Ok(look);
            }
        };
        let at = self.moment();
        let row_key = self.row_key(&RowKeyRow::of(&key)).await?;
        let time = self.time(WindowKey::from(&key)).await?;
        let name = StringIndexRow::of(&key);
        let is_named = self.is_named(&name).await?;
        let is_found = row_key.is_some() && time.is_some();
        let is_legacy = !is_found && self.is_in_legacy(&key.metric, bytes).await?;
        let cells = match self.settings.depth {
            Depth::Cells => match self.cells(bytes, &at).await {
                Ok((cells, tombstones)) => {
                    look.findings.extend(self.judge_tombstones(&key, tombstones));
                    Some(cells)
                }
                Err(Failure::Unread(_)) => {
                    look.findings.extend(self.judge_tombstones(&key, u64::MAX));
                    return Ok(look);
                }
                Err(error) => return Err(error.into()),
            },
            Depth::Index => None,
        };
        // Data that was deleted or expired meanwhile needs no index.
        let is_gone = match cells {
            Some(cells) => cells.count == 0,
            None if is_found && is_named => false,
            None => !self.has_data(bytes).await?,
        };
        if is_gone {
            return Ok(look);
        }
        if let Some(cells) = cells {
            look.facts.cells = cells.count;
            self.note_width(&mut look.facts, "data_points", cells.count, || {
                Shown(&key).to_string()
            });
            if cells.recent > self.settings.hot {
                let (table, key) = ("data_points".into(), Shown(&key).to_string());
                look.facts.hot.add(cells.recent, Partition { table, key });
            }
        }
        if row_key.is_none() && !is_legacy {
            look.gathered.note_unindexed(WindowKey::from(&key).identity());
        }
        let row = DataRow { key: &key, row_key, time, is_named, is_legacy, cells };
        look.findings.extend(judge_data(&row, &at));
        Ok(look)
    }

    /// The finding for a row of data in which a page passed over `tombstones` tombstones, if these are many.
    fn judge_tombstones(&self, key: &RowKey, tombstones: u64) -> Option<Finding> {
        let what = match tombstones {
            u64::MAX => "more tombstones than tombstone_failure_threshold".to_owned(),
            many if many >= self.many_tombstones => format!("{many} tombstones"),
            _ => return None,
        };
        let subject = format!("data_points: {}: a read passes over {what}", Shown(key));
        let (kind, metric) = (Kind::ManyTombstones, key.metric.to_string());
        Some(Finding { kind, metric, subject, fix: None })
    }

    fn note_width(&self, facts: &mut Facts, table: &str, rows: u64, key: impl Fn() -> String) {
        if rows > self.settings.wide {
            let partition = Partition { table: table.to_owned(), key: key() };
            facts.wide.add(rows, partition);
        }
    }

    pub(super) async fn scan_tag_index(&self, slice: (i64, i64)) -> Result<Part> {
        let mut part = Part::default();
        let Some(tags) = &self.statements.tags else { return Ok(part) };
        let mut pages = Pages::<TagScanRow>::new(self, &tags.scan, slice);
        while let Some(rows) = pages.next(&mut part).await? {
            let rows: Vec<ScannedTag> = rows.into_iter().filter_map(scanned_tag).collect();
            self.examine(&rows, &mut part, async |row| self.look_at_tag(row).await).await?;
        }
        Ok(part)
    }

    async fn look_at_tag(&self, scanned: &ScannedTag) -> Result<Look> {
        let mut look = Look::default();
        look.facts.tag_index_rows = 1;
        let row = &scanned.row.row;
        if self.leads_to_data(&row.key).await? {
            let (pair, time) = (&scanned.row.single_tag_pair, row.key.row_time);
            look.gathered.indexed.note(row.table_name, &row.key.metric, pair, time);
        } else if self.moment().is_settled(row.key.row_time, scanned.changed) {
            look.findings.push(judge_tag(scanned.row.clone()));
        }
        Ok(look)
    }

    pub(super) async fn scan_row_keys(&self, slice: (i64, i64), known: &Gathered) -> Result<Part> {
        let mut part = Part::default();
        let mut scanned = Scanned::default();
        let configured = &self.options.tag_index.metrics;
        let recorded = self.coverage().await?;
        let expected = Expected { recorded, configured, shown: &known.indexed };
        let mut pages = Pages::<RowKeyScanRow>::new(self, &self.statements.row_keys.scan, slice);
        while let Some(rows) = pages.next(&mut part).await? {
            let rows: Vec<ScannedRow> = rows.into_iter().filter_map(scanned_row).collect();
            for ScannedRow { row, .. } in &rows {
                let key = WindowKey::from(row);
                if scanned.window.as_ref().map(Window::key) != Some(key) {
                    self.count_window(std::mem::take(&mut scanned), &mut part);
                    scanned.window = Some(key.to_window());
                }
                scanned.count.add(row.key.tags.iter());
            }
            let look = async |row: &ScannedRow| self.look_at_index(row, &expected).await;
            self.examine(&rows, &mut part, look).await?;
        }
        self.count_window(scanned, &mut part);
        Ok(part)
    }

    fn count_window(&self, Scanned { window, count }: Scanned, part: &mut Part) {
        let Some(Window { metric, table_name, row_time }) = window else { return };
        let facts = &mut part.report.facts;
        self.note_width(facts, "row_keys", count.rows, || {
            shown_window(&metric, table_name.as_str(), CqlTimestamp(row_time.millis()))
        });
        if table_name == TableName::DataPoints {
            let (series, counted) = count.finish(&metric, row_time.millis());
            facts.metrics.add(series, counted);
        }
    }

    async fn look_at_index(&self, scanned: &ScannedRow, expected: &Expected<'_>) -> Result<Look> {
        let mut look = Look::default();
        look.facts.row_keys = 1;
        let ScannedRow { row, standing, changed } = scanned;
        let (key, at) = (&row.key, self.moment());
        let has_data = self.leads_to_data(key).await?;
        let is_lonely_kind = matches!(key.data_type, DataType::PromDouble | DataType::PromExemplar);
        let is_settled = at.is_settled(key.row_time, *changed);
        let is_alone = has_data && is_settled && is_lonely_kind && self.is_alone(key).await?;
        let gaps = match has_data {
            true => self.gaps(key, expected).await?,
            false => vec![],
        };
        // On a second look it may be gone.
        if has_data || self.row_key(row).await?.is_some() {
            let (standing, changed) = (*standing, *changed);
            let row = IndexRow { row, standing, changed, has_data, is_alone, gaps };
            look.findings = judge_index(&row, &at);
        }
        Ok(look)
    }

    pub(super) async fn scan_row_times(&self, slice: (i64, i64), known: &Gathered) -> Result<Part> {
        let mut part = Part::default();
        let mut pages = Pages::<TimeScanRow>::new(self, &self.statements.times.scan, slice);
        while let Some(rows) = pages.next(&mut part).await? {
            let window =
                |(metric, table, time, _): &TimeScanRow| Window::of_columns((metric, table, *time));
            let rows: Vec<Window> = rows.iter().filter_map(window).collect();
            self.examine(&rows, &mut part, async |row| self.look_at_time(row, known).await).await?;
        }
        Ok(part)
    }

    async fn look_at_time(&self, row: &Window, known: &Gathered) -> Result<Look> {
        let (mut look, at) = (Look::default(), self.moment());
        let identity = row.key().identity();
        if !at.is_settled(row.row_time, None) || known.may_be_unindexed(&identity) {
            return Ok(look);
        }
        let (has_data, changed) = self.window_has_data(row).await?;
        if !has_data && at.is_settled(row.row_time, changed) {
            look.findings.push(judge_time(row.clone()));
        }
        Ok(look)
    }

    pub(super) async fn scan_legacy_index(&self, slice: (i64, i64)) -> Result<Part> {
        let mut part = Part::default();
        let Some(legacy) = &self.statements.legacy else { return Ok(part) };
        let mut pages = Pages::<LegacyScanRow>::new(self, &legacy.scan, slice);
        while let Some(rows) = pages.next(&mut part).await? {
            let look = async |(_, key, _): &LegacyScanRow| self.look_at_legacy(key).await;
            self.examine(&rows, &mut part, look).await?;
        }
        Ok(part)
    }

    async fn look_at_legacy(&self, bytes: &[u8]) -> Result<Look> {
        let mut look = Look::default();
        look.facts.legacy_rows = 1;
        let key = match RowKey::decode(bytes) {
            Ok(key) => key,
            Err(error) => {
                look.findings.push(no_key("row_key_index", bytes, &error));
                return Ok(look);
            }
        };
        let has_data = self.has_data(bytes).await?;
        let is_indexed = has_data
            && self.row_key(&RowKeyRow::of(&key)).await?.is_some()
            && self.time(WindowKey::from(&key)).await?.is_some();
        look.findings.extend(judge_legacy(key, has_data, is_indexed, &self.moment()));
        Ok(look)
    }

    /// Counts the names, and those that lead to no row time.
    pub(super) async fn count_names(&self) -> Result<Part> {
        let mut part = Part::default();
        for table in TableName::ALL {
            let mut names: Vec<String> = Vec::new();
            let list = &self.statements.names.list;
            let key = vec![CqlValue::Blob(StringIndexRow::key(table).to_vec())];
            let (range, known) = ([SplitPoint::FIRST, list.order.last()], &self.index_cuts);
            let mut pages = IndexPages::new((&self.cql.executor, known), list, key, range);
            while let Some(page) = pages.next().await? {
                for row in page.iter::<(CqlValue,)>()? {
                    match row? {
                        (CqlValue::Text(name),) => names.push(name),
                        (CqlValue::Blob(name),) => names.extend(String::from_utf8(name)),
                        _ => {}
                    }
                }
            }
            let (rows, facts) = (names.len() as u64, &mut part.report.facts);
            self.note_width(facts, "string_index", rows, || table.as_str().to_owned());
            let find = async |name: &String| self.look_at_name(table, name).await;
            self.examine(&names, &mut part, find).await?;
        }
        Ok(part)
    }

    async fn look_at_name(&self, table: TableName, name: &str) -> Result<Look> {
        let mut look = Look::default();
        let any = &self.statements.times.any;
        let has_time = self.has_rows(any, (name, table.as_str())).await?;
        let is_legacy = match &self.statements.legacy {
            Some(legacy) if !has_time => self.has_rows(&legacy.any, (name.as_bytes(),)).await?,
            _ => false,
        };
        look.facts.names_without_data = u64::from(!has_time && !is_legacy);
        Ok(look)
    }
}

fn scanned_row(scanned: RowKeyScanRow) -> Option<ScannedRow> {
    let (metric, table, time, data_type, tags, changed, value, ttl, stamp, _) = scanned;
    let row = index_row(metric, &table, time, data_type?, tags?)?;
    let standing = Standing::of(value.as_deref(), ttl, stamp, now_ms());
    Some(ScannedRow { row, standing, changed })
}

fn scanned_tag(scanned: TagScanRow) -> Option<ScannedTag> {
    let (metric, table, time, pair, hash, data_type, tags, changed, _) = scanned;
    let row = index_row(metric, &table, time, data_type?, tags?)?;
    let row = TagIndexRow { single_tag_pair: pair.into(), tag_collection_hash: hash?, row };
    Some(ScannedTag { row, changed })
}

/// None under an unknown table name.
fn index_row(
    metric: String,
    table: &str,
    time: CqlTimestamp,
    data_type: String,
    tags: BTreeMap<String, String>,
) -> Option<RowKeyRow> {
    let (metric, row_time) = (metric.into(), RowTime::from_stored(time.0));
    let (data_type, tags) = (DataType::parse(&data_type), Tags::from_pairs(tags).ok()?);
    let key = RowKey { metric, row_time, data_type, tags };
    Some(RowKeyRow { table_name: TableName::parse(table)?, key })
}
