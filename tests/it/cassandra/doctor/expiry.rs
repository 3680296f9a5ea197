//! Data that lasts until 2038, the last expiry that Cassandra supports by default.

use std::collections::{BTreeMap, BTreeSet};

use promkairos::kairos::DataType;
use promkairos::model::TimeRange;
use promkairos::storage::cassandra::doctor::Kind;

use super::super::keyspace::{TestKeyspace, bits, key, named, read};
use super::defects::stamp;
use super::{WIDTH, examine, fill, fixing, left, settings};

/// Cassandra refuses data that expires after 2038, unless its settings allow such data.
#[tokio::test]
async fn index_rows_of_data_that_lasts_until_2038_end_with_it() {
    let keyspace = TestKeyspace::new().await;
    let store = keyspace.open().await;
    let series = fill(&store, "m").await;
    let ttl = i64::from(i32::MAX) - stamp() / 1000 - 3_600;
    let row = key(&series[0], 2 * WIDTH, DataType::Double);
    let cql = format!(
        "INSERT INTO {{k}}.data_points (key, column1, value) VALUES (?, 0x00000005, \
         0x3ff8000000000000) USING TIMESTAMP {} AND TTL {ttl}",
        stamp()
    );
    keyspace.cql_with(&cql, (row,)).await;
    let found = BTreeSet::from([Kind::UnindexedData, Kind::MissingTimeIndex]);
    let report = examine(&keyspace, settings()).await;
    assert_eq!(left(&report), BTreeMap::from([("m".to_owned(), found)]), "{report:#?}");
    assert_eq!(left(&examine(&keyspace, fixing()).await), BTreeMap::new());
    assert!(examine(&keyspace, settings()).await.findings.is_empty());
    let lasts = "SELECT TTL(value) FROM {k}.row_keys WHERE metric = 'm' \
                 AND table_name = 'data_points' AND row_time = 3628800000";
    let lasts: Vec<(Option<i32>,)> = keyspace.rows(lasts).await;
    assert!(matches!(lasts[..], [(Some(lasts),)] if i64::from(lasts) > ttl), "{lasts:?} {ttl}");
    let all = read(&keyspace.open().await, &named("m"), TimeRange::ALL).await;
    assert!(bits(&all[&series[0]]).contains(&(2 * WIDTH + 5, 1.5f64.to_bits())));
    keyspace.drop().await;
}
