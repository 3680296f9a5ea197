//! Defects, each made in one metric by CQL with write times in milliseconds, as KairosDB stamps.

use futures::FutureExt;
use futures::future::BoxFuture;
use promkairos::kairos::index::{IndexedTags, TagIndexRow};
use promkairos::kairos::{DataType, RowKey, RowTime, Tags};
use promkairos::model::Labels;
use promkairos::storage::cassandra::doctor::Kind;
use scylla::value::CqlTimestamp;

use super::super::keyspace::{TestKeyspace, hex, key};

const WIDTH: i64 = 1_814_400_000;

/// What a defect does to the data.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kept {
    /// All data exists, whether it is found or not.
    All,
    /// Some data is gone.
    Some,
}

type Make = for<'a> fn(&'a TestKeyspace, &'a str, &'a [Labels]) -> BoxFuture<'a, Kept>;

/// A defect of one metric.
pub(super) struct Defect {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) make: Make,
}

macro_rules! defect {
    ($name:literal, $kind:ident, $make:ident) => {
        Defect { name: $name, kind: Kind::$kind, make: |k, m, s| $make(k, m, s).boxed() }
    };
}

pub(super) const DEFECTS: &[Defect] = &[
    defect!("no_row_key", UnindexedData, no_row_key),
    defect!("no_row_key_of_ours", UnindexedData, no_row_key_of_ours),
    defect!("no_time", MissingTimeIndex, no_time),
    defect!("no_name", MissingName, no_name),
    defect!("no_name_of_ours", MissingName, no_name_of_ours),
    defect!("no_data", IndexWithoutData, no_data),
    defect!("empty_window", IndexWithoutData, empty_window),
    defect!("early", IndexExpiresEarly, early),
    defect!("early_time", IndexExpiresEarly, early_time),
    defect!("tag_gap", TagIndexGap, tag_gap),
    defect!("stale_tag", IndexWithoutData, stale_tag),
    defect!("twice", DuplicateIndex, twice),
    defect!("old_without_data", IndexWithoutData, old_without_data),
    defect!("misplaced", MisplacedIndex, misplaced),
    defect!("deleted", Leftover, deleted),
];

/// A write time of now, above all earlier write times.
pub(super) fn stamp() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.expect("after 1970").as_millis() as i64
}

/// A delete in its own millisecond: a tombstone wins a tie, so later writes need a later stamp.
pub(super) async fn delete(keyspace: &TestKeyspace, cql: &str) {
    let before = stamp();
    while stamp() == before {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    let stamp = stamp();
    keyspace.cql(&cql.replace("{now}", &stamp.to_string())).await;
    while self::stamp() == stamp {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
}

/// Deletes the points of a series in one window, of KairosDB's type and of ours.
pub(super) async fn delete_data(keyspace: &TestKeyspace, series: &Labels, row_time: i64) {
    for data_type in [DataType::Double, DataType::PromDouble] {
        let key = hex(&key(series, row_time, data_type));
        let cql =
            format!("DELETE FROM {{k}}.data_points USING TIMESTAMP {{now}} WHERE key = 0x{key}");
        delete(keyspace, &cql).await;
    }
}

async fn delete_row_key(
    keyspace: &TestKeyspace,
    (metric, table, row_time): (&str, &str, i64),
    data_type: &str,
    host: &str,
) {
    let cql = format!(
        "DELETE FROM {{k}}.row_keys USING TIMESTAMP {{now}} WHERE metric = '{metric}' \
         AND table_name = '{table}' AND row_time = {row_time} AND data_type = '{data_type}' \
         AND tags = {{'host': '{host}'}}"
    );
    delete(keyspace, &cql).await;
}

pub(super) async fn no_row_key(keyspace: &TestKeyspace, metric: &str, _: &[Labels]) -> Kept {
    delete_row_key(keyspace, (metric, "data_points", WIDTH), "kairos_double", "b:1").await;
    Kept::All
}

async fn no_row_key_of_ours(keyspace: &TestKeyspace, metric: &str, _: &[Labels]) -> Kept {
    delete_row_key(keyspace, (metric, "prometheus", 0), "prom_double", "a").await;
    Kept::All
}

pub(super) async fn no_time(keyspace: &TestKeyspace, metric: &str, _: &[Labels]) -> Kept {
    let cql = format!(
        "DELETE FROM {{k}}.row_key_time_index USING TIMESTAMP {{now}} WHERE metric = '{metric}' \
         AND table_name = 'data_points' AND row_time = 0"
    );
    delete(keyspace, &cql).await;
    Kept::All
}

async fn delete_name(keyspace: &TestKeyspace, list: &[u8], metric: &str) -> Kept {
    let cql = format!(
        "DELETE FROM {{k}}.string_index USING TIMESTAMP {{now}} WHERE key = 0x{} \
         AND column1 = '{metric}'",
        hex(list)
    );
    delete(keyspace, &cql).await;
    Kept::All
}

async fn no_name(keyspace: &TestKeyspace, metric: &str, _: &[Labels]) -> Kept {
    delete_name(keyspace, b"metric_names", metric).await
}

async fn no_name_of_ours(keyspace: &TestKeyspace, metric: &str, _: &[Labels]) -> Kept {
    delete_name(keyspace, b"prometheus_metric_names", metric).await
}

async fn no_data(keyspace: &TestKeyspace, _: &str, series: &[Labels]) -> Kept {
    delete_data(keyspace, &series[1], 0).await;
    Kept::Some
}

/// Time index rows of windows without index rows.
async fn empty_window(keyspace: &TestKeyspace, metric: &str, series: &[Labels]) -> Kept {
    for series in series {
        let host = series.get("host");
        delete_data(keyspace, series, 9 * WIDTH).await;
        let window = (metric, "data_points", 9 * WIDTH);
        delete_row_key(keyspace, window, "kairos_double", host).await;
    }
    Kept::Some
}

async fn early(keyspace: &TestKeyspace, metric: &str, _: &[Labels]) -> Kept {
    keyspace
        .cql(&format!(
            "UPDATE {{k}}.row_keys USING TIMESTAMP {} AND TTL 10000 SET value = '' \
             WHERE metric = '{metric}' AND table_name = 'data_points' AND row_time = 0 \
             AND data_type = 'kairos_double' AND tags = {{'host': 'a'}}",
            stamp()
        ))
        .await;
    Kept::All
}

async fn early_time(keyspace: &TestKeyspace, metric: &str, _: &[Labels]) -> Kept {
    keyspace
        .cql(&format!(
            "UPDATE {{k}}.row_key_time_index USING TIMESTAMP {} AND TTL 10000 SET value = '' \
             WHERE metric = '{metric}' AND table_name = 'prometheus' AND row_time = 0",
            stamp()
        ))
        .await;
    Kept::All
}

/// Writes the rows of the tag index for a row of data.
pub(super) async fn index_tags(keyspace: &TestKeyspace, series: &Labels, row_time: i64) {
    let key = RowKey {
        metric: series.get("__name__").into(),
        row_time: RowTime::from_stored(row_time),
        data_type: DataType::Double,
        tags: Tags::from_labels(series.as_ref()),
    };
    for row in TagIndexRow::of(&key, &IndexedTags::All) {
        let tags: std::collections::BTreeMap<&str, &str> = key.tags.iter().collect();
        let cql = format!(
            "INSERT INTO {{k}}.tag_indexed_row_keys (metric, table_name, row_time, \
             single_tag_pair, data_type, tag_collection_hash, tags) \
             VALUES (?, 'data_points', ?, ?, 'kairos_double', ?, ?) USING TIMESTAMP {}",
            stamp()
        );
        let time = CqlTimestamp(row_time);
        let pair = &*row.single_tag_pair;
        let values = (&*key.metric, time, pair, row.tag_collection_hash, tags);
        keyspace.cql_with(&cql, values).await;
    }
}

/// Tag index gaps: one series of the last indexed window, and all series of a window before it.
async fn tag_gap(keyspace: &TestKeyspace, _: &str, series: &[Labels]) -> Kept {
    for series in &series[1..] {
        index_tags(keyspace, series, WIDTH).await;
    }
    Kept::All
}

async fn stale_tag(keyspace: &TestKeyspace, metric: &str, series: &[Labels]) -> Kept {
    index_tags(keyspace, &series[2], 9 * WIDTH).await;
    delete_data(keyspace, &series[2], 9 * WIDTH).await;
    let host = series[2].get("host");
    delete_row_key(keyspace, (metric, "data_points", 9 * WIDTH), "kairos_double", host).await;
    Kept::Some
}

async fn index_old(keyspace: &TestKeyspace, metric: &str, key: &[u8]) {
    let cql = format!(
        "INSERT INTO {{k}}.row_key_index (key, column1, value) VALUES (?, ?, 0x00) \
         USING TIMESTAMP {}",
        stamp()
    );
    keyspace.cql_with(&cql, (metric.as_bytes(), key)).await;
}

async fn twice(keyspace: &TestKeyspace, metric: &str, series: &[Labels]) -> Kept {
    index_old(keyspace, metric, &key(&series[0], 0, DataType::Double)).await;
    Kept::All
}

async fn old_without_data(keyspace: &TestKeyspace, metric: &str, series: &[Labels]) -> Kept {
    index_old(keyspace, metric, &key(&series[0], 5 * WIDTH, DataType::Long)).await;
    Kept::All
}

async fn misplaced(keyspace: &TestKeyspace, metric: &str, _: &[Labels]) -> Kept {
    keyspace
        .cql(&format!(
            "INSERT INTO {{k}}.row_keys (metric, table_name, row_time, data_type, tags) \
             VALUES ('{metric}', 'data_points', 0, 'prom_double', {{'host': 'a'}}) \
             USING TIMESTAMP {}",
            stamp()
        ))
        .await;
    Kept::All
}

/// A KairosDB deletes the metric: its points, its index rows, its name. The window before that of the
/// stale markers has infinities, which are points: our own delete removes them too.
async fn deleted(keyspace: &TestKeyspace, metric: &str, series: &[Labels]) -> Kept {
    for series in series {
        let host = series.get("host");
        let ours = hex(&key(series, 0, DataType::PromDouble));
        let cql = "DELETE FROM {k}.data_points USING TIMESTAMP {now} WHERE key = 0x";
        delete(keyspace, &format!("{cql}{ours}")).await;
        delete_row_key(keyspace, (metric, "prometheus", 0), "prom_double", host).await;
        for row_time in [0, WIDTH] {
            let row = hex(&key(series, row_time, DataType::Double));
            delete(keyspace, &format!("{cql}{row}")).await;
            let window = (metric, "data_points", row_time);
            delete_row_key(keyspace, window, "kairos_double", host).await;
        }
    }
    for (table, row_time) in [("data_points", 0), ("data_points", WIDTH), ("prometheus", 0)] {
        let cql = format!(
            "DELETE FROM {{k}}.row_key_time_index USING TIMESTAMP {{now}} \
             WHERE metric = '{metric}' AND table_name = '{table}' AND row_time = {row_time}"
        );
        delete(keyspace, &cql).await;
    }
    Kept::Some
}
