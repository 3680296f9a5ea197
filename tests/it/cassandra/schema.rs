//! A keyspace at the start: created, used as it is, or refused.

use promkairos::kairos::{RowSpec, TimeUnit};
use promkairos::model::TimeRange;
use promkairos::storage::StoreError;
use promkairos::storage::cassandra::Options;
use promkairos::wire;

use super::keyspace::{Request, TestKeyspace, bits, labels, named, read};
use crate::support::promkairos::{Backend, Message, Promkairos};
use crate::support::{self, load, proto};

const TABLES: [&str; 8] = [
    "data_points",
    "row_key_index",
    "row_key_time_index",
    "row_keys",
    "service_index",
    "spec",
    "string_index",
    "tag_indexed_row_keys",
];

async fn tables(keyspace: &TestKeyspace) -> Vec<String> {
    let cql = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = '{k}'";
    keyspace.rows::<(String,)>(cql).await.into_iter().map(|(name,)| name).collect()
}

async fn spec(keyspace: &TestKeyspace) -> Vec<(String, String, String)> {
    keyspace.rows("SELECT spec_type, name, value FROM {k}.spec").await
}

#[tokio::test]
async fn an_absent_keyspace_is_created_and_opened_again() {
    let keyspace = TestKeyspace::new().await;
    assert_eq!(keyspace.open().await.row_spec(), RowSpec::DEFAULT);
    assert_eq!(tables(&keyspace).await, TABLES);
    let row = |name: &str, value: &str| ("cluster_config".into(), name.into(), value.into());
    let want = [row("row_time_unit", "MILLISECONDS"), row("row_width", "1814400000")];
    assert_eq!(spec(&keyspace).await, want);
    let stamps: Vec<(i64,)> = keyspace.rows("SELECT WRITETIME(value) FROM {k}.spec").await;
    assert!(stamps.iter().all(|(stamp,)| *stamp < 1 << 42), "milliseconds: {stamps:?}");
    // Other options do not change the recorded row width.
    let seconds = RowSpec::new(TimeUnit::Seconds, 1_814_400).expect("valid");
    let options = Options { row_spec: seconds, ..keyspace.options() };
    let store = keyspace.open_with(options).await;
    assert_eq!(store.row_spec(), RowSpec::DEFAULT);
    assert_eq!(spec(&keyspace).await, want);
    keyspace.drop().await;
}

#[tokio::test]
async fn an_existing_spec_is_honoured_and_a_bad_one_refused() {
    let keyspace = TestKeyspace::new().await;
    keyspace.open().await;
    let put = async |unit: &str, width: &str| {
        for (name, value) in [("row_time_unit", unit), ("row_width", width)] {
            let cql = "INSERT INTO {k}.spec (spec_type, name, value) \
                       VALUES ('cluster_config', ?, ?)";
            keyspace.cql_with(cql, (name, value)).await;
        }
    };
    put("SECONDS", "1814400").await;
    let found = keyspace.open().await.row_spec();
    assert_eq!(found, RowSpec::new(TimeUnit::Seconds, 1_814_400).expect("valid"));
    for (unit, width) in
        [("MINUTES", "1814400000"), ("MILLISECONDS", "many"), ("MILLISECONDS", "99999999999")]
    {
        put(unit, width).await;
        let error = keyspace.try_open(keyspace.options()).await.map(drop);
        assert!(matches!(error, Err(StoreError::Invalid(_))), "{unit} {width}: {error:?}");
    }
    keyspace.drop().await;
}

#[tokio::test]
async fn a_bad_spec_is_refused_before_any_table_is_made() {
    let keyspace = TestKeyspace::by_hand().await;
    keyspace
        .cql(
            "CREATE TABLE {k}.spec (spec_type text, name text, value text, \
             PRIMARY KEY ((spec_type), name))",
        )
        .await;
    keyspace
        .cql(
            "INSERT INTO {k}.spec (spec_type, name, value) \
             VALUES ('cluster_config', 'row_time_unit', 'HOURS')",
        )
        .await;
    let error = keyspace.try_open(keyspace.options()).await.map(drop);
    let Err(StoreError::Invalid(text)) = error else { panic!("{error:?}") };
    assert!(text.contains("HOURS"), "{text}");
    assert_eq!(tables(&keyspace).await, ["spec"]);
    keyspace.drop().await;
}

/// Another adapter that opens at the same time would take a half-written `spec` for complete.
#[tokio::test]
async fn nobody_sees_half_a_spec() {
    let keyspace = TestKeyspace::new().await;
    keyspace.open().await;
    for _ in 0..10 {
        keyspace.cql("TRUNCATE {k}.spec").await;
        let look = async {
            loop {
                match spec(&keyspace).await.len() {
                    0 => tokio::task::yield_now().await,
                    rows => break rows,
                }
            }
        };
        let (_, rows) = futures::join!(keyspace.open(), look);
        assert_eq!(rows, 2);
    }
    keyspace.drop().await;
}

#[tokio::test]
async fn half_a_spec_that_nobody_completes_is_completed_where_there_is_no_data() {
    let keyspace = TestKeyspace::new().await;
    keyspace.open().await;
    for (name, value, want) in [
        ("row_width", "3600000", RowSpec::new(TimeUnit::Milliseconds, 3_600_000)),
        ("row_time_unit", "LEGACY", Ok(RowSpec::LEGACY)),
    ] {
        let want = want.expect("valid");
        keyspace.cql("TRUNCATE {k}.spec").await;
        let cql = "INSERT INTO {k}.spec (spec_type, name, value) VALUES ('cluster_config', ?, ?)";
        keyspace.cql_with(cql, (name, value)).await;
        assert_eq!(keyspace.open().await.row_spec(), want);
        assert_eq!(spec(&keyspace).await.len(), 2);
        assert_eq!(keyspace.open().await.row_spec(), want);
    }
    keyspace.drop().await;
}

#[tokio::test]
async fn data_without_spec_is_legacy_and_stays_without() {
    let keyspace = TestKeyspace::new().await;
    keyspace.open().await;
    keyspace.cql("TRUNCATE {k}.spec").await;
    keyspace
        .cql("INSERT INTO {k}.string_index (key, column1, value) VALUES (0x01, 'a', 0x00)")
        .await;
    let store = keyspace.open().await;
    assert_eq!(store.row_spec().unit(), TimeUnit::Legacy);
    assert!(spec(&keyspace).await.is_empty());
    let up = labels(&[("__name__", "up")]);
    let points = [(1_000, 1.5), (2_000, f64::NEG_INFINITY)];
    Request::default().floats(&up, &points).write(&store).await;
    let all = read(&store, &named("up"), TimeRange::ALL).await;
    assert_eq!(bits(&all[&up]), points.map(|(time, value)| (time, value.to_bits())));
    keyspace.drop().await;
}

#[tokio::test]
async fn foreign_tables_are_refused_and_nothing_is_written() {
    for (create, named) in [
        ("spec (a int PRIMARY KEY)", &["spec", "column a"][..]),
        (
            "data_points (key blob, column1 blob, value blob, more int, \
             PRIMARY KEY ((key), column1))",
            &["data_points", "more"],
        ),
        (
            "row_key_time_index (metric text, table_name text, row_time bigint, value text, \
             PRIMARY KEY ((metric), table_name, row_time))",
            &["row_key_time_index", "row_time", "bigint"],
        ),
        ("users (id int PRIMARY KEY)", &["users", "not KairosDB's"]),
    ] {
        let keyspace = TestKeyspace::by_hand().await;
        keyspace.cql(&format!("CREATE TABLE {{k}}.{create}")).await;
        let before = tables(&keyspace).await;
        let error = keyspace.try_open(keyspace.options()).await.map(drop);
        let Err(StoreError::Invalid(text)) = error else { panic!("{create}: {error:?}") };
        assert!(named.iter().all(|word| text.contains(word)), "{text}");
        assert_eq!(tables(&keyspace).await, before);
        keyspace.drop().await;
    }
}

/// KairosDB creates its tables with compact storage; some installations have names as blobs.
#[tokio::test]
async fn compact_storage_and_blob_names_are_taken() {
    let keyspace = TestKeyspace::by_hand().await;
    for (table, name) in
        [("data_points", "blob"), ("row_key_index", "blob"), ("string_index", "blob")]
    {
        keyspace
            .cql(&format!(
                "CREATE TABLE {{k}}.{table} (key blob, column1 {name}, value blob, \
                 PRIMARY KEY ((key), column1)) WITH COMPACT STORAGE"
            ))
            .await;
    }
    let store = keyspace.open_with(Options { ttl_seconds: 3600, ..keyspace.options() }).await;
    let up = labels(&[("__name__", "up"), ("job", "a")]);
    let points = [(1_000, 1.0), (2_000, f64::NAN), (2_000_000_000, 3.0)];
    Request::default().floats(&up, &points).write(&store).await;
    for matchers in [named("up"), vec![]] {
        let all = read(&store, &matchers, TimeRange::ALL).await;
        assert_eq!(bits(&all[&up]), points.map(|(time, value)| (time, value.to_bits())));
    }
    keyspace.drop().await;
}

/// A reserved word of CQL is a valid name between quotes.
#[tokio::test(flavor = "multi_thread")]
async fn a_reserved_word_may_be_the_name_of_a_keyspace() {
    let data = tempfile::tempdir().expect("a folder");
    let (address, keyspace) = (support::cassandra(), "token".to_owned());
    let backend = Backend::CassandraStore { address, keyspace };
    let mut server = Promkairos::ready(data.path(), &backend, &[]).await;
    let request =
        Request::default().floats(&labels(&[("__name__", "m")]), &[(1_700_000_000_000, 1.0)]);
    let body = load::compress(&proto::Message(wire::encode_v1(&request.batch())));
    let written = server.write(Message::V1, body).await.expect("an answer");
    assert_eq!(written.status, 204, "{written:?}");
    assert_eq!(server.read("__name__", "m").await.map(|found| found.len()), Ok(1));
    assert!(server.process.terminate().success(), "{}", server.process.log());
}
