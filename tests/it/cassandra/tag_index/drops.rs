//! Drops of index partitions with many rows: few tombstones are left, and the rows of KairosDB stay.

use std::collections::BTreeMap;

use promkairos::model::MatchOp::Equal;
use promkairos::model::{Labels, TimeRange};
use promkairos::storage::cassandra::{CassandraStore, Job, JobKind, JobState};
use scylla::value::CqlTimestamp;

use super::super::keyspace::{Request, TestKeyspace, matcher, named};
use super::jobs::ended;
use super::{WIDTH, found, list, open, paths, scan, series};
use crate::support::eventually;

/// Values of each of two tags.
const SIDE: usize = 110;
/// Series: more than a drop deletes one by one.
const SERIES: u64 = (SIDE * SIDE) as u64;
/// Rows of a partition that a drop deletes one by one.
const PORTION: u64 = 10_000;

/// Hash and tags of a row of the index.
type IndexRow = (Option<i32>, Option<BTreeMap<String, String>>);

fn all_series() -> Vec<Labels> {
    let (mut all, job) = (Vec::new(), ("job", "node"));
    for row in 0..SIDE {
        for column in 0..SIDE {
            let (row, column) = (row.to_string(), column.to_string());
            all.push(series("m", &[job, ("row", &row), ("column", &column)]));
        }
    }
    all
}

/// Writes a finite float of each series, so all rows have one table name.
async fn fill(store: &CassandraStore, all: &[Labels]) {
    for part in all.chunks(3_000) {
        let add = |request: Request, series: &Labels| request.floats(series, &[(WIDTH, 1.0)]);
        part.iter().fold(Request::default(), add).write(store).await;
    }
}

/// Drops the index of `m`, which is no longer configured, and waits for the end of the job.
async fn drop_index(store: &CassandraStore) -> Job {
    eventually("it may be dropped", async || {
        let begun = store.begin_tag_index_job("m", JobKind::Drop, 1_000_000).await;
        begun.map_err(|error| error.to_string())
    })
    .await;
    let job = ended(store, "m").await;
    assert_eq!((job.state, job.error.as_deref()), (JobState::Done, None));
    job
}

/// The rows of the partition `job=node`, and whether Cassandra warns that it passed over many tombstones.
async fn rows(keyspace: &TestKeyspace) -> (Vec<IndexRow>, bool) {
    let cql = format!(
        "SELECT tag_collection_hash, tags FROM {}.tag_indexed_row_keys WHERE metric = 'm' AND \
         table_name = 'data_points' AND row_time = {WIDTH} AND single_tag_pair = 'job=node'",
        keyspace.name
    );
    let result = keyspace.session.query_unpaged(cql.as_str(), ()).await.expect("an answer");
    let warns = result.warnings().any(|warning| warning.contains("tombstone"));
    let result = result.into_rows_result().expect("rows");
    let rows = result.rows::<IndexRow>().expect("their type").map(|row| row.expect("a row"));
    // A partition whose rows are all deleted keeps `mtime` and has one row of nulls.
    (rows.filter(|(hash, _)| hash.is_some()).collect(), warns)
}

/// Writes a row of the partition `job=node` as KairosDB does, before all of ours.
async fn kairosdb_writes(keyspace: &TestKeyspace, hash: i32, tags: &BTreeMap<String, String>) {
    let insert = "INSERT INTO {k}.tag_indexed_row_keys (metric, table_name, row_time, \
                  single_tag_pair, data_type, tag_collection_hash, tags, mtime) VALUES ('m', \
                  'data_points', ?, 'job=node', 'kairos_double', ?, ?, now()) USING TIMESTAMP 1";
    keyspace.cql_with(insert, (CqlTimestamp(WIDTH), hash, tags)).await;
}

#[tokio::test]
async fn a_partition_of_many_rows_goes_as_one_tombstone() {
    let keyspace = TestKeyspace::new().await;
    let store = open(&keyspace, &[("m", &["job"])]).await;
    let all = all_series();
    fill(&store, &all).await;
    assert_eq!(rows(&keyspace).await.0.len() as u64, SERIES);
    store.configure_tag_index(BTreeMap::new());
    let job = drop_index(&store).await;
    assert_eq!((job.deleted, job.left), (SERIES, 0));
    assert_eq!(rows(&keyspace).await, (vec![], false));
    // Later rows have a newer stamp than the tombstone.
    store.configure_tag_index(list(&[("m", &["job"])]));
    let tags = vec![matcher("row", Equal, "7"), matcher("job", Equal, "node")];
    let matchers = [named("m"), tags].concat();
    let want = scan(&all, &matchers);
    assert_eq!(found(&store, &matchers, TimeRange::ALL).await, want);
    eventually("it is built", async || {
        let begun = store.begin_tag_index_job("m", JobKind::Build, 1_000_000).await;
        begun.map_err(|error| error.to_string())
    })
    .await;
    let built = ended(&store, "m").await;
    assert_eq!((built.state, built.error), (JobState::Done, None));
    assert_eq!(rows(&keyspace).await.0.len() as u64, SERIES);
    assert_eq!(paths(&store, &matchers, TimeRange::ALL).await, ["job"]);
    assert_eq!(found(&store, &matchers, TimeRange::ALL).await, want);
    keyspace.drop().await;
}

#[tokio::test]
async fn rows_of_kairosdb_stay_and_ours_go_in_portions() {
    let keyspace = TestKeyspace::new().await;
    let store = open(&keyspace, &[("m", &["job"])]).await;
    fill(&store, &all_series()).await;
    // The last row of the partition.
    let tags = [("job", "node"), ("by", "kairosdb")];
    let tags = tags.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let tags = BTreeMap::from(tags);
    kairosdb_writes(&keyspace, i32::MAX, &tags).await;
    store.configure_tag_index(BTreeMap::new());
    let job = drop_index(&store).await;
    assert_eq!((job.deleted, job.left), (PORTION, SERIES - PORTION));
    let (left, warns) = rows(&keyspace).await;
    assert_eq!(left.len() as u64, SERIES - PORTION + 1);
    assert_eq!(left.last(), Some(&(Some(i32::MAX), Some(tags.clone()))));
    assert!(warns, "a read that passes over {PORTION} tombstones is warned of");
    // The next drop deletes the rest.
    let job = drop_index(&store).await;
    assert_eq!((job.deleted, job.left), (SERIES - PORTION, 0));
    assert_eq!(rows(&keyspace).await.0, [(Some(i32::MAX), Some(tags))]);
    keyspace.drop().await;
}

#[tokio::test]
async fn rows_that_kairosdb_wrote_too_stay() {
    let keyspace = TestKeyspace::new().await;
    let store = open(&keyspace, &[("m", &["job"])]).await;
    fill(&store, &all_series()).await;
    let ours = rows(&keyspace).await.0;
    // Every row of the partition is ours, and KairosDB wrote one in ten as well.
    let both: Vec<IndexRow> = ours.into_iter().step_by(10).collect();
    for (hash, tags) in &both {
        let tags = tags.as_ref().expect("tags");
        kairosdb_writes(&keyspace, hash.expect("a hash"), tags).await;
    }
    store.configure_tag_index(BTreeMap::new());
    let job = drop_index(&store).await;
    assert_eq!((job.deleted, job.left), (PORTION, SERIES - PORTION));
    let job = drop_index(&store).await;
    assert_eq!((job.deleted, job.left), (SERIES - PORTION, 0));
    assert_eq!(rows(&keyspace).await.0, both);
    keyspace.drop().await;
}

#[tokio::test]
async fn a_drop_that_is_begun_again_takes_no_second_portion() {
    let keyspace = TestKeyspace::new().await;
    let store = open(&keyspace, &[("m", &["job"])]).await;
    fill(&store, &all_series()).await;
    let tags = BTreeMap::from([("by".to_owned(), "kairosdb".to_owned())]);
    kairosdb_writes(&keyspace, i32::MAX, &tags).await;
    store.configure_tag_index(BTreeMap::new());
    eventually("it may be dropped", async || {
        let status = store.tag_index_status().await.map_err(|error| error.to_string())?;
        if status.tags.is_empty() { Ok(()) } else { Err(format!("{status:?}")) }
    })
    .await;
    // The state of a drop whose process was killed within the window.
    let begun = format!(
        "{{\"format\":1,\"kind\":\"drop\",\"state\":\"running\",\"windows_done\":0,\"windows\":1,\
         \"rows\":0,\"rows_per_second\":1000000,\"owner\":\"gone\",\"touched\":0,\
         \"begun\":[\"m\",\"data_points\",{WIDTH}]}}"
    );
    let insert = "INSERT INTO {k}.service_index (service, service_key, key, value) \
                  VALUES ('prometheus', 'tag_index_jobs', 'm', ?) USING TIMESTAMP 1";
    keyspace.cql_with(insert, (begun,)).await;
    let job = ended(&store, "m").await;
    assert_eq!((job.state, job.error.as_deref()), (JobState::Done, None));
    assert_eq!((job.deleted, job.left), (0, SERIES));
    assert_eq!(rows(&keyspace).await.0.len() as u64, SERIES + 1);
    // A new drop does.
    let job = drop_index(&store).await;
    assert_eq!((job.deleted, job.left), (PORTION, SERIES - PORTION));
    keyspace.drop().await;
}

#[tokio::test]
async fn a_drop_of_all_leaves_out_what_is_still_indexed() {
    let keyspace = TestKeyspace::new().await;
    let store = open(&keyspace, &[("m", &["job"]), ("n", &["job"])]).await;
    let of = |metric: &str| series(metric, &[("job", "node")]);
    for metric in ["m", "n"] {
        fill(&store, &[of(metric)]).await;
    }
    store.configure_tag_index(list(&[("n", &["job"])]));
    eventually("all others may be dropped", async || {
        let status = store.tag_index_status().await.map_err(|error| error.to_string())?;
        match status.tags.iter().any(|tag| tag.metric == "m") {
            true => Err(format!("{status:?}")),
            false => Ok(()),
        }
    })
    .await;
    store.begin_tag_index_job("*", JobKind::Drop, 1_000).await.expect("it begins");
    let job = ended(&store, "*").await;
    assert_eq!((job.state, job.deleted), (JobState::Done, 1));
    assert!(rows(&keyspace).await.0.is_empty());
    let matchers = [named("n"), vec![matcher("job", Equal, "node")]].concat();
    assert_eq!(paths(&store, &matchers, TimeRange::ALL).await, ["job"]);
    assert_eq!(found(&store, &matchers, TimeRange::ALL).await, [of("n")]);
    keyspace.drop().await;
}
