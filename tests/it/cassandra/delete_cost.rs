//! The preview of a delete (tombstones by table, index rows that stay), compared with what the delete then does.

use std::collections::BTreeMap;
use std::sync::Arc;

use promkairos::kairos::DataType;
use promkairos::model::{Matcher, TimeRange};
use promkairos::storage::clusters::{Clusters, ReadCluster};
use promkairos::storage::head::{self, Head};
use promkairos::storage::memory::MemoryStore;
use promkairos::storage::{DeleteCost, SharedStore, Store, Tombstones};
use promkairos::telemetry::HeadMetrics;

use super::dead_rows::row_keys;
use super::deletes::now;
use super::keyspace::{Request, TestKeyspace, key, labels, named, read};

const WIDTH: i64 = 1_814_400_000;

async fn cost(store: &dyn Store, matchers: &[Matcher], range: TimeRange) -> Option<DeleteCost> {
    store.delete_cost(matchers, range).await.expect("it is counted")
}

/// Key and value of the rows that tell read caches of changes.
type Epochs = Vec<(String, Option<String>)>;

/// How many rows each table has, and the epochs.
async fn standing(keyspace: &TestKeyspace) -> (BTreeMap<String, i64>, Epochs) {
    let epochs = "SELECT service_key, value FROM {k}.service_index \
                  WHERE service = 'prometheus_read_cache' ALLOW FILTERING";
    (keyspace.counts().await, keyspace.rows(epochs).await)
}

#[tokio::test]
async fn it_is_counted_by_table_and_nothing_changes() {
    let keyspace = TestKeyspace::new().await;
    let store = keyspace.open().await;
    let [a, b] = ["a", "b"].map(|job| labels(&[("__name__", "up"), ("job", job)]));
    // Two windows that closed long ago, and one that has not begun.
    let points = [(10, 1.0), (WIDTH + 10, 2.0), (now() + 2 * WIDTH, 3.0)];
    Request::default().floats(&a, &points).floats(&b, &points).write(&store).await;
    let before = standing(&keyspace).await;

    let none = Tombstones::default();
    let tombstones = Tombstones { data_points: 6, row_keys: 4, row_key_time_index: 2, ..none };
    let all = DeleteCost { windows: 3, index_rows_deleted: 4, index_rows_left: 2, tombstones };
    assert_eq!(cost(&store, &named("up"), TimeRange::ALL).await, Some(all));
    // Two windows in part: before the delete it is unknown that the later one has points left.
    let part = TimeRange::new(5, WIDTH + 5);
    let tombstones = Tombstones { data_points: 4, row_keys: 4, row_key_time_index: 2, ..none };
    let want = DeleteCost { windows: 2, index_rows_deleted: 4, index_rows_left: 0, tombstones };
    assert_eq!(cost(&store, &named("up"), part).await, Some(want));
    let job_a = [Matcher::equal("__name__", "up"), Matcher::equal("job", "a")];
    let tombstones = Tombstones { data_points: 1, row_keys: 1, row_key_time_index: 1, ..none };
    let want = DeleteCost { windows: 1, index_rows_deleted: 1, index_rows_left: 0, tombstones };
    assert_eq!(cost(&store, &job_a, TimeRange::new(0, WIDTH - 1)).await, Some(want));
    let nothing = cost(&store, &named("nosuch"), TimeRange::ALL).await;
    assert_eq!(nothing, Some(DeleteCost::default()));

    assert_eq!(standing(&keyspace).await, before);
    let found = read(&store, &named("up"), TimeRange::ALL).await;
    assert!(found.values().all(|points| points.len() == 3) && found.len() == 2, "{found:?}");

    store.delete(&named("up"), part).await.expect("deleted");
    assert_eq!(row_keys(&keyspace).await, 4);
    let tombstones = Tombstones { data_points: 4, row_keys: 2, row_key_time_index: 1, ..none };
    let want = DeleteCost { windows: 2, index_rows_deleted: 2, index_rows_left: 2, tombstones };
    assert_eq!(cost(&store, &named("up"), TimeRange::ALL).await, Some(want));
    store.delete(&named("up"), TimeRange::ALL).await.expect("deleted");
    assert_eq!(row_keys(&keyspace).await as u64, all.index_rows_left);
    keyspace.drop().await;
}

#[tokio::test]
async fn rows_of_the_legacy_index_are_counted() {
    let keyspace = TestKeyspace::new().await;
    keyspace.open().await.close().await.expect("closed");
    let live = (now() / WIDTH + 2) * WIDTH;
    for (host, row_time) in [("a", 0), ("b", 0), ("a", live)] {
        let series = labels(&[("__name__", "old"), ("host", host)]);
        let column = key(&series, row_time, DataType::Double);
        let cql = "INSERT INTO {k}.row_key_index (key, column1, value) VALUES (?, ?, 0x00) \
                   USING TIMESTAMP 1";
        keyspace.cql_with(cql, (b"old".to_vec(), column)).await;
    }
    let store = keyspace.open().await;
    let tombstones = Tombstones {
        data_points: 3,
        row_keys: 2,
        row_key_time_index: 1,
        row_key_index: 2,
        tag_indexed_row_keys: 0,
    };
    let want = DeleteCost { windows: 2, index_rows_deleted: 2, index_rows_left: 1, tombstones };
    assert_eq!(cost(&store, &named("old"), TimeRange::ALL).await, Some(want));
    let legacy = "SELECT column1 FROM {k}.row_key_index";
    assert_eq!(keyspace.rows::<(Vec<u8>,)>(legacy).await.len(), 3);
    store.delete(&named("old"), TimeRange::ALL).await.expect("deleted");
    assert_eq!(keyspace.rows::<(Vec<u8>,)>(legacy).await.len(), 1);
    keyspace.drop().await;
}

#[tokio::test]
async fn clusters_add_up_and_behind_a_log_all_index_rows_stay() {
    let (keyspace, folder) = (TestKeyspace::new().await, tempfile::tempdir().expect("a folder"));
    let store: SharedStore = Arc::new(keyspace.open().await);
    let up = labels(&[("__name__", "up")]);
    Request::default().floats(&up, &[(10, 1.0)]).write(&*store).await;
    let none = Tombstones::default();
    let tombstones = Tombstones { data_points: 1, row_keys: 1, row_key_time_index: 1, ..none };
    let one = DeleteCost { windows: 1, index_rows_deleted: 1, index_rows_left: 0, tombstones };
    assert_eq!(cost(&*store, &named("up"), TimeRange::ALL).await, Some(one));

    let old = ReadCluster { name: "old".into(), range: TimeRange::ALL, store: store.clone() };
    let clusters = Clusters { write: store.clone(), read: vec![old], metadata: None };
    assert_eq!(cost(&clusters, &named("up"), TimeRange::ALL).await, Some(one + one));
    assert_eq!(cost(&MemoryStore::new(), &named("up"), TimeRange::ALL).await, None);

    let options = head::Options { keeps_stamps: true, ..head::Options::new(folder.path()) };
    let head = Head::open(options, store.clone(), HeadMetrics::default()).await;
    let head = head.expect("the head opens");
    // Points that are only in the log leave no tombstones.
    Request::default().floats(&up, &[(WIDTH + 10, 2.0)]).write(&head).await;
    let tombstones = Tombstones { data_points: 1, ..none };
    let want = DeleteCost { windows: 1, index_rows_deleted: 0, index_rows_left: 1, tombstones };
    assert_eq!(cost(&head, &named("up"), TimeRange::ALL).await, Some(want));
    head.delete(&named("up"), TimeRange::ALL).await.expect("deleted");
    assert!(read(&head, &named("up"), TimeRange::ALL).await.is_empty());
    assert_eq!(row_keys(&keyspace).await, 1);
    head.close().await.expect("closed");
    keyspace.drop().await;
}
