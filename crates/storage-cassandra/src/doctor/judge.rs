//! From rows to findings, with fixes. Pure.
//!
//! No index row of a window that may still be written to is ever superfluous: KairosDB and
//! promkairos remember which index rows they wrote, and both write index rows first. So an index
//! row without data is a finding only when its window closed long ago and nothing was added to it
//! lately.

use std::fmt;

use crate::cut::{Cut, hex};
use crate::doctor::finding::{Finding, Fix};
use crate::doctor::kind::Kind;
use crate::doctor::shown::Shown;
use crate::index::window::{Window, WindowKey};
use crate::lifetime::{Expiry, NEVER};
use promkairos_kairos::index::{RowKeyRow, StringIndexRow, TagIndexRow};
use promkairos_kairos::{RowKey, RowSpec, RowTime, TableName};
use promkairos_model::ShownTime;
use promkairos_model::limits::MAX_TTL_SECONDS;

/// Two reads of a TTL may differ by this, in seconds.
pub(super) const TTL_SLACK: i64 = 60;
/// A healthy writer writes no times this far ahead of the clock, in milliseconds.
const LATER: i64 = 24 * 3_600_000;
/// Write times within this age show that a row is written to now, in milliseconds.
const RECENT: i64 = 3_600_000;

/// The current time, and how the keyspace cuts time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    /// Milliseconds since 1970.
    pub(super) now: i64,
    /// How long a window must have been closed and unchanged, in milliseconds.
    pub(super) settled: i64,
    pub(super) spec: RowSpec,
    /// No written row may expire later, unless data does.
    pub(super) last: Expiry,
}

impl Moment {
    /// Whether a window closed long ago and its index last changed long ago.
    pub(super) fn is_settled(&self, row_time: RowTime, changed: Option<i64>) -> bool {
        let end = row_time.millis().saturating_add(self.spec.width());
        let last = end.max(changed.unwrap_or(i64::MIN));
        last.saturating_add(self.settled) <= self.now
    }

    fn is_later(&self, stamp: i64) -> bool {
        stamp > self.now.saturating_add(LATER)
    }

    /// The TTL of an index row for data that expires at this time.
    fn index_ttl(&self, expires: Expiry) -> i32 {
        if expires == NEVER {
            return 0;
        }
        let wanted = expires.saturating_add(self.spec.index_ttl_seconds());
        let ttl = wanted.min(self.last.max(expires)) - self.now / 1000;
        i32::try_from(ttl.clamp(1, MAX_TTL_SECONDS)).unwrap_or(i32::MAX)
    }
}

/// An index row that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Standing {
    /// None = unknown: KairosDB leaves `value` null.
    pub(super) expires: Option<Expiry>,
    /// Write time, where known.
    pub(super) stamp: Option<i64>,
}

impl Standing {
    /// From `value`, its TTL and its write time.
    pub(super) fn of(value: Option<&str>, ttl: Option<i32>, stamp: Option<i64>, now: i64) -> Self {
        let expires = ttl.map_or(NEVER, |ttl| now / 1000 + i64::from(ttl));
        Self { expires: value.map(|_| expires), stamp }
    }

    /// The TTL of a row that lasts as long; 0 = for ever, also where the expiry is unknown.
    pub(super) fn ttl_left(&self, now: i64) -> i32 {
        match self.expires {
            None | Some(NEVER) => 0,
            Some(expires) => i32::try_from((expires - now / 1000).max(1)).unwrap_or(0),
        }
    }
}

/// The cells of a row of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Cells {
    pub(super) count: u64,
    /// When the last one expires.
    pub(super) expires: Expiry,
    /// How many were written later than now.
    pub(super) later: u64,
    /// How many were written in the last hour.
    pub(super) recent: u64,
}

impl Cells {
    pub(super) fn add(&mut self, stamp: i64, ttl: Option<i32>, at: &Moment) {
        let expires = ttl.map_or(NEVER, |ttl| at.now / 1000 + i64::from(ttl));
        self.count += 1;
        self.expires = self.expires.max(expires);
        self.later += u64::from(at.is_later(stamp));
        self.recent += u64::from((at.now - RECENT..=at.now).contains(&stamp));
    }
}

/// A row of data and what leads to it.
#[derive(Debug)]
pub(super) struct DataRow<'a> {
    pub(super) key: &'a RowKey,
    /// Its row of `row_keys`.
    pub(super) row_key: Option<Standing>,
    /// The row of its window in `row_key_time_index`.
    pub(super) time: Option<Standing>,
    /// Whether its metric is listed.
    pub(super) is_named: bool,
    /// Whether the legacy index leads to the row, which then needs no other index row.
    pub(super) is_legacy: bool,
    /// None where the cells were not read.
    pub(super) cells: Option<Cells>,
}

/// What is wrong with a row of data and its index.
pub(super) fn judge_data(row: &DataRow<'_>, at: &Moment) -> Vec<Finding> {
    let lasts = row.cells.map_or(NEVER, |cells| cells.expires);
    let ttl = at.index_ttl(lasts);
    let write_key = || Fix::WriteRowKey(RowKeyRow::of(row.key), ttl);
    let write_time = || Fix::WriteTimeIndex(WindowKey::from(row.key).to_window(), ttl);
    let is_early = |standing: &Standing| {
        let ends = standing.expires.filter(|_| row.cells.is_some());
        ends.is_some_and(|ends| ends.saturating_add(TTL_SLACK) < lasts)
    };
    let mut found = Vec::new();
    let mut add = |kind, what: &str, fix| {
        let subject = format!("{what}{}", Shown(row.key));
        found.push(Finding { kind, metric: row.key.metric.to_string(), subject, fix });
    };
    match &row.row_key {
        None if !row.is_legacy => add(Kind::UnindexedData, "", Some(write_key())),
        Some(standing) if is_early(standing) => {
            add(Kind::IndexExpiresEarly, "row_keys of ", Some(write_key()));
        }
        _ => {}
    }
    match &row.time {
        None if !row.is_legacy => add(Kind::MissingTimeIndex, "", Some(write_time())),
        Some(standing) if is_early(standing) => {
            add(Kind::IndexExpiresEarly, "row_key_time_index of ", Some(write_time()));
        }
        _ => {}
    }
    if !row.is_named {
        let name = StringIndexRow::of(row.key);
        let list = match name.table_name {
            TableName::DataPoints => "",
            TableName::Prometheus => "in promkairos' own list: ",
        };
        add(Kind::MissingName, list, Some(Fix::WriteName(name)));
    }
    if let Some(cells) = row.cells.filter(|cells| cells.later > 0) {
        let what = format!("{} of {} cells of ", cells.later, cells.count);
        add(Kind::LaterStamp, &what, None);
    }
    let stamp = row.row_key.and_then(|standing| standing.stamp);
    if stamp.is_some_and(|stamp| at.is_later(stamp)) {
        add(Kind::LaterStamp, "row_keys of ", None);
    }
    found
}

/// A row of `row_keys` and what it leads to.
#[derive(Debug)]
pub(super) struct IndexRow<'a> {
    pub(super) row: &'a RowKeyRow,
    pub(super) standing: Standing,
    /// When the window last changed, in milliseconds.
    pub(super) changed: Option<i64>,
    pub(super) has_data: bool,
    /// Its data has no use by itself, and no other data of the series is near.
    pub(super) is_alone: bool,
    /// Rows of the tag index that are missing.
    pub(super) gaps: Vec<TagIndexRow>,
}

/// What is wrong with a row of `row_keys`.
pub(super) fn judge_index(row: &IndexRow<'_>, at: &Moment) -> Vec<Finding> {
    let key = &row.row.key;
    let finding = |kind, what: &str, fix| Finding {
        kind,
        metric: key.metric.to_string(),
        subject: format!("{what}{}", Shown(key)),
        fix: Some(fix),
    };
    let own = || row.row.clone();
    if !row.row.is_in_place() {
        let what = format!("under {}: ", row.row.table_name.as_str());
        return vec![finding(Kind::MisplacedIndex, &what, Fix::DeleteMisplaced(own()))];
    }
    let is_settled = at.is_settled(key.row_time, row.changed);
    match (row.has_data, is_settled) {
        (false, true) => {
            vec![finding(Kind::IndexWithoutData, "row_keys: ", Fix::DeleteRowKey(own()))]
        }
        (false, false) => vec![],
        (true, true) if row.is_alone => {
            vec![finding(Kind::Leftover, "", Fix::DeleteData(key.clone()))]
        }
        (true, _) => {
            let ttl = row.standing.ttl_left(at.now);
            let gap = |tag: &TagIndexRow| {
                let what = format!("{}: ", Cut(&tag.single_tag_pair));
                finding(Kind::TagIndexGap, &what, Fix::WriteTagIndex(tag.clone(), ttl))
            };
            row.gaps.iter().map(gap).collect()
        }
    }
}

/// The finding for a row of `tag_indexed_row_keys` that leads to no data; its window is settled.
pub(super) fn judge_tag(row: TagIndexRow) -> Finding {
    let what = format!("tag_indexed_row_keys, {}: ", Cut(&row.single_tag_pair));
    let subject = format!("{what}{}", Shown(&row.row.key));
    let metric = row.row.key.metric.to_string();
    let fix = Some(Fix::DeleteTagIndex(row));
    Finding { kind: Kind::IndexWithoutData, metric, subject, fix }
}

/// The finding for a row of `row_key_time_index` whose window leads to no data and is settled.
pub(super) fn judge_time(row: Window) -> Finding {
    let (table, time) = (row.table_name.as_str(), ShownTime(row.row_time.millis()));
    let subject = format!("row_key_time_index: {table}, {time}");
    let metric = row.metric.to_string();
    let fix = Some(Fix::DeleteTimeIndex(row));
    Finding { kind: Kind::IndexWithoutData, metric, subject, fix }
}

/// What is wrong with a row of the legacy index. No current program writes it. `is_indexed`: the new index leads to the
/// data too.
pub(super) fn judge_legacy(
    key: RowKey,
    has_data: bool,
    is_indexed: bool,
    at: &Moment,
) -> Option<Finding> {
    let kind = match has_data {
        false if at.is_settled(key.row_time, None) => Kind::IndexWithoutData,
        true if is_indexed => Kind::DuplicateIndex,
        _ => return None,
    };
    let subject = format!("row_key_index: {}", Shown(&key));
    let metric = key.metric.to_string();
    let fix = Some(Fix::DeleteLegacy(key));
    Some(Finding { kind, metric, subject, fix })
}

/// A row key that does not decode.
pub(super) fn unreadable(table: &str, key: &[u8], why: &dyn fmt::Display) -> Finding {
    const MOST: usize = 64;
    let hex = hex(&key[..key.len().min(MOST)]);
    let cut = if key.len() > MOST { "…" } else { "" };
    let subject = format!("{table}: 0x{hex}{cut}: {why}");
    Finding { kind: Kind::UnreadableKey, metric: String::new(), subject, fix: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use promkairos_kairos::{DataType, TableName, Tags};

    const NOW: i64 = 1_700_000_000_000;
    const HOUR: i64 = 3_600_000;

    fn at() -> Moment {
        Moment { now: NOW, settled: 24 * HOUR, spec: RowSpec::DEFAULT, last: NEVER }
    }

    fn key(row_time: i64, data_type: DataType) -> RowKey {
        let tags = Tags::from_pairs([("host", "a")]).expect("one");
        RowKey { metric: "m".into(), row_time: RowTime::from_stored(row_time), data_type, tags }
    }

    fn kinds(found: &[Finding]) -> Vec<Kind> {
        found.iter().map(|finding| finding.kind).collect()
    }

    const STANDS: Standing = Standing { expires: None, stamp: None };

    fn sound(key: &RowKey) -> DataRow<'_> {
        let (row_key, time) = (Some(STANDS), Some(STANDS));
        DataRow { key, row_key, time, is_named: true, is_legacy: false, cells: None }
    }

    #[test]
    fn data_must_be_found_one_way_or_the_other() {
        let key = key(0, DataType::Double);
        let judge = |row: DataRow<'_>| kinds(&judge_data(&row, &at()));
        assert_eq!(judge(sound(&key)), []);
        assert_eq!(judge(DataRow { row_key: None, ..sound(&key) }), [Kind::UnindexedData]);
        assert_eq!(judge(DataRow { time: None, ..sound(&key) }), [Kind::MissingTimeIndex]);
        let legacy = DataRow { row_key: None, time: None, is_legacy: true, ..sound(&key) };
        assert_eq!(judge(legacy), []);
        let nothing = DataRow { row_key: None, time: None, is_named: false, ..sound(&key) };
        let all = [Kind::UnindexedData, Kind::MissingTimeIndex, Kind::MissingName];
        assert_eq!(judge(nothing), all);
    }

    #[test]
    fn a_name_is_missing_in_the_list_of_its_type() {
        for (data_type, said) in [
            (DataType::Double, "m{"),
            (DataType::PromHistogram, "in promkairos' own list: m{"),
            (DataType::PromExemplar, "in promkairos' own list: m{"),
        ] {
            let key = key(0, data_type);
            let found = judge_data(&DataRow { is_named: false, ..sound(&key) }, &at());
            assert_eq!(kinds(&found), [Kind::MissingName]);
            assert!(found[0].subject.starts_with(said), "{found:?}");
            assert_eq!(found[0].fix, Some(Fix::WriteName(StringIndexRow::of(&key))));
        }
    }

    #[test]
    fn an_index_row_lasts_as_long_as_its_data_and_a_window() {
        let (key, second) = (key(0, DataType::Double), NOW / 1000);
        let judge = |expires: Expiry, data: Expiry| {
            let row_key = Some(Standing { expires: Some(expires), stamp: None });
            let cells = Some(Cells { count: 1, expires: data, later: 0, recent: 0 });
            judge_data(&DataRow { row_key, cells, ..sound(&key) }, &at())
        };
        assert_eq!(judge(NEVER, NEVER), []);
        assert_eq!(judge(second + 500, second + 500), []);
        assert_eq!(judge(second + 500, second + 530), [], "reads of a TTL differ");
        for (data, ttl) in [(second + 5_000, 5_000 + 1_814_400), (NEVER, 0)] {
            let found = judge(second + 500, data);
            assert_eq!(kinds(&found), [Kind::IndexExpiresEarly]);
            assert_eq!(found[0].fix, Some(Fix::WriteRowKey(RowKeyRow::of(&key), ttl)));
        }
    }

    #[test]
    fn an_index_row_ends_when_the_server_can_hold_it_but_not_before_its_data() {
        let (second, width) = (NOW / 1000, RowSpec::DEFAULT.index_ttl_seconds());
        let at = Moment { last: second + 10_000_000, ..at() };
        for (data, ttl) in [
            (5_000, 5_000 + width),
            (10_000_000 - width, 10_000_000),
            (9_999_999, 10_000_000),
            (10_000_005, 10_000_005),
        ] {
            assert_eq!(i64::from(at.index_ttl(second + data)), ttl, "{data}");
        }
        assert_eq!(at.index_ttl(NEVER), 0);
    }

    #[test]
    fn write_times_of_tomorrow_are_reported() {
        let (key, at) = (key(0, DataType::Double), at());
        let mut cells = Cells::default();
        cells.add(NOW, Some(10), &at);
        cells.add(NOW + 23 * HOUR, None, &at);
        assert_eq!(cells, Cells { count: 2, expires: NEVER, later: 0, recent: 1 });
        cells.add(NOW * 1000, Some(1), &at);
        let found = judge_data(&DataRow { cells: Some(cells), ..sound(&key) }, &at);
        assert_eq!(kinds(&found), [Kind::LaterStamp]);
        assert_eq!(found[0].fix, None);
        assert!(found[0].subject.starts_with("1 of 3 cells of m{host=\"a\"}"), "{found:?}");
    }

    fn judge_row(row_time: i64, changed: Option<i64>, has_data: bool) -> Vec<Kind> {
        let row = RowKeyRow::of(&key(row_time, DataType::Double));
        let (row, gaps) = (&row, vec![]);
        let row = IndexRow { row, standing: STANDS, changed, has_data, is_alone: false, gaps };
        kinds(&judge_index(&row, &at()))
    }

    #[test]
    fn only_a_settled_window_can_have_too_much() {
        let width = RowSpec::DEFAULT.width();
        let long_ago = NOW - width - 24 * HOUR;
        assert_eq!(judge_row(long_ago, None, false), [Kind::IndexWithoutData]);
        assert_eq!(judge_row(long_ago, None, true), []);
        assert_eq!(judge_row(long_ago + 1, None, false), [], "closed for less than a day");
        assert_eq!(judge_row(NOW, None, false), [], "open");
        assert_eq!(judge_row(NOW + width, None, false), [], "ahead");
        assert_eq!(judge_row(0, Some(NOW - 23 * HOUR), false), [], "added to today");
        assert_eq!(judge_row(0, Some(NOW - 24 * HOUR), false), [Kind::IndexWithoutData]);
    }

    #[test]
    fn rows_under_a_wrong_table_name_are_misplaced() {
        for (data_type, table_name) in [
            (DataType::PromDouble, TableName::DataPoints),
            (DataType::Double, TableName::Prometheus),
        ] {
            let row = RowKeyRow { table_name, ..RowKeyRow::of(&key(NOW, data_type)) };
            let (standing, changed, gaps) = (STANDS, Some(NOW), vec![]);
            let (has_data, is_alone) = (true, false);
            let facts = IndexRow { row: &row, standing, changed, has_data, is_alone, gaps };
            let found = judge_index(&facts, &at());
            assert_eq!(found[0].fix, Some(Fix::DeleteMisplaced(row)));
        }
    }

    #[test]
    fn the_legacy_index_is_needed_where_the_new_one_leads_nowhere() {
        let judge = |row_time, has_data, is_indexed| {
            let found = judge_legacy(key(row_time, DataType::Legacy), has_data, is_indexed, &at());
            found.map(|found| found.kind)
        };
        assert_eq!(judge(0, true, false), None);
        assert_eq!(judge(0, true, true), Some(Kind::DuplicateIndex));
        assert_eq!(judge(0, false, false), Some(Kind::IndexWithoutData));
        assert_eq!(judge(NOW, false, false), None);
    }
}
