//! Rows as a KairosDB writes them, and random histories compared with a plain map.

use std::collections::BTreeMap;

use promkairos::kairos::{DataType, cell};
use promkairos::model::{Matcher, TimeRange};
use promkairos::storage::Store;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use scylla::value::CqlTimestamp;

use super::keyspace::{Request, TestKeyspace, bits, key, labels, named, read};
use crate::support;
use crate::support::promkairos::{Backend, Promkairos};

const WIDTH: i64 = 1_814_400_000;

async fn put(keyspace: &TestKeyspace, data_type: DataType, column: u32, value: &[u8], stamp: i64) {
    let series = labels(&[("__name__", "m"), ("host", "a")]);
    let row = key(&series, 0, data_type.clone());
    let cql = "INSERT INTO {k}.data_points (key, column1, value) VALUES (?, ?, ?) \
               USING TIMESTAMP ?";
    keyspace.cql_with(cql, (row, column.to_be_bytes().to_vec(), value, stamp)).await;
    let cql = "INSERT INTO {k}.row_keys (metric, table_name, row_time, data_type, tags, mtime) \
               VALUES ('m', 'data_points', 0, ?, {'host': 'a'}, now())";
    keyspace.cql_with(cql, (data_type.as_str(),)).await;
    let cql = "INSERT INTO {k}.row_key_time_index (metric, table_name, row_time) \
               VALUES ('m', 'data_points', ?)";
    keyspace.cql_with(cql, (CqlTimestamp(0),)).await;
}

#[tokio::test]
async fn all_types_of_a_series_are_one_series() {
    let keyspace = TestKeyspace::new().await;
    let store = keyspace.open().await;
    let double = cell::encode_double;
    put(&keyspace, DataType::Long, 1, &cell::encode_long(-7), 5).await;
    put(&keyspace, DataType::Double, 2, &double(1.5), 5).await;
    // At one time the later write wins; at equal write times the double wins.
    put(&keyspace, DataType::Long, 3, &cell::encode_long(33), 6).await;
    put(&keyspace, DataType::Double, 3, &double(3.5), 5).await;
    put(&keyspace, DataType::Long, 4, &cell::encode_long(44), 5).await;
    put(&keyspace, DataType::Double, 4, &double(4.5), 5).await;
    // Values that are no numbers, or truncated: they are left out and disturb nothing.
    put(&keyspace, DataType::String, 5, &[0, 1, b'x'], 5).await;
    put(&keyspace, DataType::Other("kairos_complex".into()), 6, &[1, 2, 3], 5).await;
    put(&keyspace, DataType::Double, 7, &[1, 2, 3], 5).await;
    let series = labels(&[("__name__", "m"), ("host", "a")]);
    let all = read(&store, &named("m"), TimeRange::ALL).await;
    let want = [(1, -7.0), (2, 1.5), (3, 33.0), (4, 4.5)];
    assert_eq!(bits(&all[&series]), want.map(|(time, value): (i64, f64)| (time, value.to_bits())));
    keyspace.drop().await;
}

/// Random writes, overwrites, deletes and reads; the model is a map.
#[tokio::test]
async fn random_histories() {
    let keyspace = TestKeyspace::new().await;
    let stores = [keyspace.open().await, keyspace.open().await];
    let mut random = StdRng::seed_from_u64(support::seed());
    let series: Vec<_> = ["a", "b", "c", "d"]
        .iter()
        .map(|host| labels(&[("__name__", if *host < "c" { "x" } else { "y" }), ("host", host)]))
        .collect();
    let values = [1.0, -0.0, f64::NAN, f64::INFINITY, 0.1, 1e300];
    let mut model: BTreeMap<(usize, i64), u64> = BTreeMap::new();
    let time = |random: &mut StdRng| {
        let base = [-3, 0, WIDTH - 4, WIDTH, 7 * WIDTH][random.random_range(0..5)];
        base + random.random_range(0..8)
    };
    let rounds = if support::long() { 1_000 } else { 120 };
    for _ in 0..rounds {
        let store = &stores[0];
        match random.random_range(0..10) {
            0..6 => {
                let mut request = Request::default();
                for _ in 0..random.random_range(1..6) {
                    let at = random.random_range(0..series.len());
                    let points: Vec<(i64, f64)> = (0..random.random_range(1..5))
                        .map(|_| (time(&mut random), values[random.random_range(0..6)]))
                        .collect();
                    for (time, value) in &points {
                        model.insert((at, *time), value.to_bits());
                    }
                    request = request.floats(&series[at], &points);
                }
                request.write(store).await;
            }
            6 => {
                let (at, start) = (random.random_range(0..series.len()), time(&mut random));
                let end = start + [0, 3, WIDTH, 9 * WIDTH][random.random_range(0..4)];
                let host = Matcher::equal("host", series[at].get("host"));
                store.delete(&[host], TimeRange::new(start, end)).await.expect("deleted");
                model.retain(|(s, time), _| *s != at || *time < start || *time > end);
            }
            _ => {
                let store = &stores[random.random_range(0..2)];
                let start = time(&mut random);
                let range = TimeRange::new(start, start + random.random_range(0..3 * WIDTH));
                let got = read(store, &[], range).await;
                for (at, labels) in series.iter().enumerate() {
                    let want: Vec<(i64, u64)> = model
                        .range((at, range.start)..=(at, range.end))
                        .map(|((_, time), bits)| (*time, *bits))
                        .collect();
                    let got = got.get(labels).map(|points| bits(points)).unwrap_or_default();
                    assert_eq!(got, want, "{labels} in {range:?}");
                }
            }
        }
    }
    keyspace.drop().await;
}

/// KairosDB writes no `value` into rows of its tag index; promkairos does.
#[tokio::test(flavor = "multi_thread")]
async fn tags_that_only_kairosdb_indexes_are_warned_of() {
    const WARNING: &str = "KairosDB indexes tags here";
    let backend = Backend::cassandra_store();
    let Backend::CassandraStore { keyspace, .. } = &backend else { panic!("{backend:?}") };
    let keyspace = TestKeyspace { name: keyspace.clone(), ..TestKeyspace::new().await };
    let row = "INSERT INTO {k}.tag_indexed_row_keys (metric, table_name, row_time, \
               single_tag_pair, data_type, tag_collection_hash, tags, mtime, value) VALUES \
               ('m', 'data_points', 0, 'a=b', 'kairos_double', 1, {'a': 'b'}, now(), ";
    keyspace.open().await;
    for (value, is_warned) in [("''", false), ("null", true)] {
        keyspace.cql(&format!("{row}{value})")).await;
        let data = tempfile::tempdir().expect("a folder");
        let server = Promkairos::ready(data.path(), &backend, &[]).await;
        let log = server.process.log();
        let warned = log.lines().any(|line| line.contains("WARN") && line.contains(WARNING));
        assert_eq!(warned, is_warned, "{value}: {log}");
    }
    keyspace.drop().await;
}
