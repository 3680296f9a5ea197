//! Index rows: written once, checked again, and written again when another program deleted them.

use std::time::Duration;

use promkairos::kairos::{DataType, RowSpec, TimeUnit};
use promkairos::model::{Labels, TimeRange};
use promkairos::storage::cassandra::Options;

use super::keyspace::{Request, TestKeyspace, bits, labels, named, read};

async fn index_rows(keyspace: &TestKeyspace) -> [usize; 3] {
    let keys: Vec<(String,)> = keyspace.rows("SELECT data_type FROM {k}.row_keys").await;
    let times: Vec<(String,)> = keyspace.rows("SELECT metric FROM {k}.row_key_time_index").await;
    let names: Vec<(String,)> = keyspace.rows("SELECT column1 FROM {k}.string_index").await;
    [keys.len(), times.len(), names.len()]
}

async fn forget(keyspace: &TestKeyspace) {
    // A delete with a stamp in milliseconds, as by KairosDB; TRUNCATE would delete more than KairosDB can.
    let stamp = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let stamp = stamp.expect("after 1970").as_millis();
    keyspace
        .cql(&format!(
            "DELETE FROM {{k}}.row_keys USING TIMESTAMP {stamp} \
             WHERE metric = 'up' AND table_name = 'data_points' AND row_time = 0"
        ))
        .await;
    keyspace
        .cql(&format!(
            "DELETE FROM {{k}}.row_key_time_index USING TIMESTAMP {stamp} \
             WHERE metric = 'up' AND table_name = 'data_points' AND row_time = 0"
        ))
        .await;
    keyspace
        .cql(&format!(
            "DELETE FROM {{k}}.string_index USING TIMESTAMP {stamp} \
             WHERE key = 0x{} AND column1 = 'up'",
            super::keyspace::hex(b"metric_names")
        ))
        .await;
}

fn up() -> Labels {
    labels(&[("__name__", "up"), ("job", "a")])
}

#[tokio::test]
async fn what_a_neighbour_deleted_is_written_again_after_the_recheck() {
    let keyspace = TestKeyspace::new().await;
    let options = Options { index_recheck: Duration::ZERO, ..keyspace.options() };
    let store = keyspace.open_with(options).await;
    let remembering = keyspace.open().await;
    Request::default().floats(&up(), &[(1, 1.0)]).write(&store).await;
    Request::default().floats(&up(), &[(2, 2.0)]).write(&remembering).await;
    assert_eq!(index_rows(&keyspace).await, [1, 1, 1]);
    // A tombstone wins a tie within its millisecond, so wait until the clock has passed it.
    forget(&keyspace).await;
    tokio::time::sleep(Duration::from_millis(2)).await;
    assert_eq!(index_rows(&keyspace).await, [0, 0, 0]);
    Request::default().floats(&up(), &[(3, 3.0)]).write(&remembering).await;
    assert_eq!(index_rows(&keyspace).await, [0, 0, 0], "remembered until the recheck");
    Request::default().floats(&up(), &[(4, 4.0)]).write(&store).await;
    assert_eq!(index_rows(&keyspace).await, [1, 1, 1]);
    let all = read(&store, &named("up"), TimeRange::ALL).await;
    assert_eq!(all[&up()].len(), 4);
    keyspace.drop().await;
}

#[tokio::test]
async fn a_second_process_writes_only_what_is_missing() {
    let keyspace = TestKeyspace::new().await;
    let first = keyspace.open().await;
    let other = labels(&[("__name__", "up"), ("job", "b")]);
    Request::default().floats(&up(), &[(1, 1.0)]).write(&first).await;
    let mtime = "SELECT mtime FROM {k}.row_keys";
    let before: Vec<(scylla::value::CqlTimeuuid,)> = keyspace.rows(mtime).await;
    let second = keyspace.open().await;
    Request::default().floats(&up(), &[(2, 1.0)]).write(&second).await;
    let after: Vec<(scylla::value::CqlTimeuuid,)> = keyspace.rows(mtime).await;
    assert_eq!(before, after, "the row was there");
    Request::default().floats(&other, &[(2, 1.0)]).write(&second).await;
    let last: Vec<(scylla::value::CqlTimeuuid,)> = keyspace.rows(mtime).await;
    assert_eq!(last.len(), 2);
    assert_ne!(last[0], after[0], "a new row changes mtime");
    keyspace.drop().await;
}

#[tokio::test]
async fn index_rows_outlive_their_data() {
    let keyspace = TestKeyspace::new().await;
    let options = |ttl_seconds| {
        let mut options = Options { ttl_seconds, ..keyspace.options() };
        options.tag_index.metrics = [("up".to_owned(), ["job".to_owned()].into())].into();
        options
    };
    let store = keyspace.open_with(options(1_000)).await;
    Request::default().floats(&up(), &[(1, 1.0)]).write(&store).await;
    let data: Vec<(i32,)> = keyspace.rows("SELECT TTL(value) FROM {k}.data_points").await;
    assert!((900..=1_000).contains(&data[0].0), "{data:?}");
    let ttl = async || {
        let cql = "SELECT TTL(value) FROM {k}.row_keys";
        let keys: Vec<(Option<i32>,)> = keyspace.rows(cql).await;
        let cql = "SELECT TTL(value) FROM {k}.row_key_time_index";
        let times: Vec<(Option<i32>,)> = keyspace.rows(cql).await;
        let cql = "SELECT TTL(value) FROM {k}.tag_indexed_row_keys";
        let tags: Vec<(Option<i32>,)> = keyspace.rows(cql).await;
        [keys[0].0, times[0].0, tags[0].0]
    };
    let width = 1_814_400;
    for found in ttl().await {
        let found = found.expect("a TTL");
        assert!((width + 900..=width + 1_000).contains(&found), "{found}");
    }
    // Data with a longer TTL extends the TTL of its index rows.
    let longer = keyspace.open_with(options(10_000_000)).await;
    Request::default().floats(&up(), &[(2, 1.0)]).write(&longer).await;
    assert!(ttl().await.iter().all(|found| found.is_some_and(|found| found > 11_000_000)));
    let ever = keyspace.open_with(options(0)).await;
    Request::default().floats(&up(), &[(3, 1.0)]).write(&ever).await;
    assert_eq!(ttl().await, [None; 3]);
    keyspace.drop().await;
}

/// A row of a neighbour has a null `value`, so its expiry is unknown: ours is added.
#[tokio::test]
async fn a_neighbours_row_gets_our_value() {
    let keyspace = TestKeyspace::new().await;
    let store = keyspace.open().await;
    keyspace
        .cql(
            "INSERT INTO {k}.row_keys (metric, table_name, row_time, data_type, tags, mtime) \
             VALUES ('up', 'data_points', 0, 'kairos_double', {'job': 'a'}, now()) \
             USING TTL 1 AND TIMESTAMP 1",
        )
        .await;
    Request::default().floats(&up(), &[(1, 1.0)]).write(&store).await;
    let rows: Vec<(Option<String>,)> = keyspace.rows("SELECT value FROM {k}.row_keys").await;
    assert_eq!(rows, [(Some(String::new()),)]);
    let all = read(&store, &named("up"), TimeRange::ALL).await;
    assert_eq!(bits(&all[&up()]), [(1, 1.0f64.to_bits())]);
    keyspace.drop().await;
}

/// Both sides write index rows, ours with the shorter TTL: data of the neighbour is still found afterwards.
#[tokio::test]
async fn our_ttl_hides_nothing_of_a_neighbour_that_keeps_longer() {
    let keyspace = TestKeyspace::new().await;
    let row_spec = RowSpec::new(TimeUnit::Milliseconds, 1_000).expect("valid");
    let options = Options { ttl_seconds: 1, row_spec, ..keyspace.options() };
    let store = keyspace.open_with(options).await;
    for cql in [
        "INSERT INTO {k}.row_keys (metric, table_name, row_time, data_type, tags, mtime) \
         VALUES ('up', 'data_points', 0, 'kairos_double', {'job': 'a'}, now()) USING TIMESTAMP 1",
        "INSERT INTO {k}.row_key_time_index (metric, table_name, row_time) \
         VALUES ('up', 'data_points', 0) USING TIMESTAMP 1",
    ] {
        keyspace.cql(cql).await;
    }
    let cql =
        "INSERT INTO {k}.data_points (key, column1, value) VALUES (?, ?, ?) USING TIMESTAMP 1";
    let key = super::keyspace::key(&up(), 0, DataType::Double);
    let cell = (key, 7u32.to_be_bytes().to_vec(), 7.5f64.to_be_bytes().to_vec());
    keyspace.cql_with(cql, cell).await;
    Request::default().floats(&up(), &[(1, 1.0)]).write(&store).await;
    crate::support::eventually("our index rows expire", async || {
        let keys: Vec<(Option<String>,)> = keyspace.rows("SELECT value FROM {k}.row_keys").await;
        let times: Vec<(Option<String>,)> =
            keyspace.rows("SELECT value FROM {k}.row_key_time_index").await;
        let ours = keys.iter().chain(&times).filter(|(value,)| value.is_some()).count();
        if ours == 0 { Ok(()) } else { Err(format!("{ours} are left")) }
    })
    .await;
    let all = read(&store, &named("up"), TimeRange::ALL).await;
    assert_eq!(bits(&all[&up()]), [(7, 7.5f64.to_bits())]);
    keyspace.drop().await;
}
