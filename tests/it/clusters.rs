//! Several clusters as one store: what is read from each, which one wins, where writes, metadata and
//! deletes go, and what happens while a cluster is unavailable.

use std::collections::BTreeMap;
use std::sync::Arc;

use promkairos::api::proto::v1;
use promkairos::kairos::{RowSpec, TimeUnit};
use promkairos::model::{Labels, Matcher, MetricType, TimeRange};
use promkairos::storage::cassandra::{Options, Role};
use promkairos::storage::clusters::{Clusters, ReadCluster};
use promkairos::storage::memory::MemoryStore;
use promkairos::storage::{ListSize, SeriesQuery, SharedStore, Store, StoreError};
use promkairos::telemetry::CassandraMetrics;
use prost::Message as _;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use serde_json::json;

use crate::batch::Batch;
use crate::cassandra::keyspace::{Request, TestKeyspace, bits, labels, named, read};
use crate::support::kairosdb::{KairosDb, TagMap};
use crate::support::load::{Load, METRIC, compress};
use crate::support::promkairos::{Backend, Message, Promkairos};
use crate::support::proto;
use crate::support::proxy::Proxy;
use crate::support::{self, eventually};

fn host(host: &str) -> Labels {
    labels(&[("__name__", "m"), ("host", host)])
}

fn cluster(name: &str, range: TimeRange, store: &SharedStore) -> ReadCluster {
    ReadCluster { name: name.into(), range, store: store.clone() }
}

async fn open(options: Options) -> SharedStore {
    Arc::new(support::cassandra::open(options, &CassandraMetrics::default()).await)
}

/// Points are spread at random over three stores. The model is one store that gets the same points;
/// the points of the winning store are written last.
#[tokio::test]
async fn what_several_stores_hold_is_one_answer() {
    let mut random = StdRng::seed_from_u64(support::seed());
    let hosts = ["a", "b", "c", "d", "e"].map(host);
    for _ in 0..40 {
        let oracle = MemoryStore::new();
        let stores: [SharedStore; 3] = std::array::from_fn(|_| Arc::new(MemoryStore::new()) as _);
        let time = |random: &mut StdRng| random.random_range(0..60_i64);
        let ranges: [TimeRange; 3] = std::array::from_fn(|at| match at {
            2 => TimeRange::ALL,
            _ => TimeRange::new(time(&mut random) / 2, 30 + time(&mut random) / 2),
        });
        // The second read cluster loses to the first, and both lose to the write cluster.
        for at in [1, 0, 2] {
            for _ in 0..random.random_range(0..6) {
                let (series, from) = (hosts.choose(&mut random).expect("some"), time(&mut random));
                let points: Vec<_> = (from..from + 15).map(|t| (t, random.random())).collect();
                let inside = points.iter().copied().filter(|(t, _)| ranges[at].contains(*t));
                let inside: Vec<(i64, f64)> = inside.collect();
                Request::default().floats(series, &points).write(&*stores[at]).await;
                Request::default().floats(series, &inside).write(&oracle).await;
            }
        }
        let [first, second, write] = &stores;
        let read_clusters =
            vec![cluster("first", ranges[0], first), cluster("second", ranges[1], second)];
        let clusters = Clusters { write: write.clone(), read: read_clusters, metadata: None };
        for _ in 0..10 {
            let start = time(&mut random);
            let range = TimeRange::new(start, start + random.random_range(0..60));
            let matchers = match random.random_range(0..3) {
                0 => vec![Matcher::equal("host", "c")],
                _ => named("m"),
            };
            let want = read(&oracle, &matchers, range).await;
            assert_eq!(read(&clusters, &matchers, range).await, want, "{range:?}");
            for limit in [ListSize::UNLIMITED, ListSize::items(2)] {
                let query = SeriesQuery { matchers: matchers.clone(), range, limit };
                let want = oracle.series(&query).await.expect("series");
                assert_eq!(clusters.series(&query).await.expect("series"), want);
                let want = oracle.label_values("host", &query).await.expect("values");
                assert_eq!(clusters.label_values("host", &query).await.expect("values"), want);
                let want = oracle.label_names(&query).await.expect("names");
                assert_eq!(clusters.label_names(&query).await.expect("names"), want);
            }
        }
    }
}

/// A keyspace that a KairosDB has written, beside a new one.
#[tokio::test]
async fn old_data_of_a_kairosdb_is_read_beside_a_new_keyspace() {
    let kairosdb = KairosDb::shared(TimeUnit::Milliseconds).await;
    let [new, metadata] = [TestKeyspace::new().await, TestKeyspace::new().await];
    let old = Options {
        keyspace: kairosdb.keyspace.parse().expect("a keyspace name"),
        role: Role::Read,
        ..new.options()
    };
    let (old, write) = (open(old).await, open(new.options()).await);
    let metric = new.name.clone();
    let series = labels(&[("__name__", &metric), ("host", "a")]);
    let tags = TagMap::from([("host".into(), "a".into())]);
    let values: Vec<_> = [10, 20, 30].map(|time| (time, json!(1.5))).into();
    kairosdb.ingest(&metric, &tags, "double", &values).await;
    let all = |times: &[(i64, f64)]| -> Vec<(i64, u64)> {
        times.iter().map(|(time, value)| (*time, value.to_bits())).collect()
    };
    eventually("KairosDB has stored", async || {
        match read(&*old, &named(&metric), TimeRange::ALL).await.get(&series) {
            Some(points) if points.len() == 3 => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;

    let with = |range| Clusters {
        write: write.clone(),
        read: vec![cluster("old", range, &old)],
        metadata: None,
    };
    let clusters =
        Clusters { metadata: Some(open(metadata.options()).await), ..with(TimeRange::ALL) };
    let batch = Batch::new().labels(&series).sample(20, 2.5).sample(40, 2.5);
    let batch = batch.metadata(&metric, MetricType::Gauge, "help", "");
    let outcome = clusters.write(batch.build()).await.expect("written");
    assert_eq!((outcome.samples, outcome.metadata), (2, 1));
    let found = read(&clusters, &named(&metric), TimeRange::ALL).await;
    let want = all(&[(10, 1.5), (20, 2.5), (30, 1.5), (40, 2.5)]);
    assert_eq!(bits(&found[&series]), want, "the later of two at one time is in the write cluster");
    let narrow = with(TimeRange::new(15, 25));
    let found = read(&narrow, &named(&metric), TimeRange::ALL).await;
    assert_eq!(bits(&found[&series]), all(&[(20, 2.5), (40, 2.5)]), "no more than its range");

    // The metadata of metrics is in its own cluster.
    assert_eq!(clusters.metadata(None, usize::MAX).await.expect("metadata").len(), 1);
    let families = "SELECT key FROM {k}.service_index WHERE service = 'prometheus' \
                    AND service_key = 'metadata'";
    assert_eq!(metadata.rows::<(String,)>(families).await, [(metric.clone(),)]);
    assert_eq!(new.rows::<(String,)>(families).await, []);
    assert!(metadata.data_points().await.is_empty());

    // Deletes go to every cluster that has the data.
    clusters.delete(&named(&metric), TimeRange::new(15, 35)).await.expect("deleted");
    let found = read(&clusters, &named(&metric), TimeRange::ALL).await;
    assert_eq!(bits(&found[&series]), all(&[(10, 1.5), (40, 2.5)]));
    let left = kairosdb.query(&metric, &[], &["host"]).await.expect("an answer");
    assert_eq!(left[0].values, [(10, json!(1.5))]);
    clusters.close().await.expect("closed");
    new.drop().await;
    metadata.drop().await;
}

#[tokio::test]
async fn a_cluster_that_is_away_is_named_and_nothing_is_left_out() {
    let [old, new] = [TestKeyspace::new().await, TestKeyspace::new().await];
    let proxy = Proxy::to(&support::cassandra()).await;
    let points = [(1_000, 1.0), (2_000, 2.0)];
    Request::default().floats(&host("a"), &points).write(&old.open().await).await;
    let behind = Options { contact_points: vec![proxy.address.to_string()], ..old.options() };
    let (range, old_store) = (TimeRange::new(0, 5_000), open(behind).await);
    let write = open(new.options()).await;
    let clusters =
        Clusters { write, read: vec![cluster("2024", range, &old_store)], metadata: None };
    assert_eq!(read(&clusters, &named("m"), TimeRange::ALL).await[&host("a")].len(), 2);
    let selection = clusters.select(&named("m"), TimeRange::ALL, &Default::default()).await;
    let selection = selection.expect("both are there");
    proxy.cut();
    let is_named = |error: StoreError| {
        let text = error.to_string();
        assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
        assert!(text.contains("read cluster \"2024\": Cassandra at "), "{text}");
    };
    let query =
        SeriesQuery { matchers: named("m"), range: TimeRange::ALL, limit: ListSize::UNLIMITED };
    is_named(
        clusters
            .select(&named("m"), TimeRange::ALL, &Default::default())
            .await
            .err()
            .expect("away"),
    );
    is_named(clusters.series(&query).await.expect_err("away"));
    is_named(clusters.label_values("host", &query).await.expect_err("away"));
    is_named(clusters.exemplars(&named("m"), TimeRange::ALL, usize::MAX).await.expect_err("away"));
    is_named(clusters.delete(&named("m"), TimeRange::ALL).await.expect_err("away"));
    is_named(selection.reader.read(0..1).await.expect_err("away"));
    // Requests that do not need the unavailable cluster still succeed.
    Request::default().floats(&host("a"), &[(6_000, 6.0)]).write(&clusters).await;
    let later = TimeRange::new(5_001, i64::MAX);
    assert_eq!(read(&clusters, &named("m"), later).await[&host("a")].len(), 1);
    clusters.ready().await.expect("writes are accepted");
    proxy.mend();
    let found = eventually("all of it is read again", async || {
        let found = clusters.select(&named("m"), TimeRange::ALL, &Default::default()).await;
        found.map_err(|error| error.to_string())
    })
    .await;
    assert_eq!(found.series, [host("a")]);
    assert_eq!(read(&clusters, &named("m"), TimeRange::ALL).await[&host("a")].len(), 3);
    old.drop().await;
    new.drop().await;
}

/// Clusters from the settings file; the keyspace of one does not exist at first.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_other_clusters() {
    for backend in [Backend::cassandra_store(), Backend::cassandra_wal()] {
        let (data, load) = (tempfile::tempdir().expect("a folder"), Load::default());
        let old = TestKeyspace::new().await;
        let file = data.path().join("promkairos.toml");
        let text = format!(
            "[[cassandra_read_clusters]]\nname = \"2024\"\ncontact_points = [\"{}\"]\n\
             keyspace = \"{}\"\nend = \"2024-12-31T23:59:59Z\"\n",
            support::cassandra(),
            old.name
        );
        std::fs::write(&file, text).expect("written");
        let flag = format!("--config={}", file.display());
        let server = Promkairos::start(data.path(), &backend, &[&flag]);
        let refused = "read cluster \"2024\" cannot be used: ";
        eventually("/-/ready and the log name what is refused", async || {
            let ready = server.get("/-/ready").await.map_err(|e| e.to_string())?;
            let is_said = ready.0 == 503 && ready.1.contains(refused);
            let log = server.process.log();
            let is_logged = log.lines().any(|line| line.contains("ERROR") && line.contains("2024"));
            if is_said && is_logged { Ok(()) } else { Err(format!("{ready:?}\n{log}")) }
        })
        .await;
        // Writes do not need the missing keyspace.
        let mut random = StdRng::seed_from_u64(support::seed());
        assert_eq!(load.send(&server, &mut random).await.expect("an answer"), 204);
        let error = server.read("__name__", METRIC).await.expect_err("it holds no data");
        assert!(error.starts_with("503"), "{error}");
        assert!(error.contains("read cluster") && error.contains("2024"), "{error}");
        assert!(error.contains("no keyspace of a KairosDB"), "{error}");
        assert_eq!(error.matches("2024").count(), 1, "{error}");
        // A read also covers the five minutes before its start.
        let read_from =
            async |start: i64| server.read_range("__name__", METRIC, start..=i64::MAX / 2).await;
        let after = 1_735_689_599_000 + 300_001;
        read_from(after).await.expect("does not ask it");
        let error = read_from(after - 1).await.expect_err("it may have the sample before");
        assert!(error.starts_with("503") && error.contains("2024"), "{error}");
        assert_eq!(
            old.rows::<(String,)>(
                "SELECT table_name FROM system_schema.tables WHERE keyspace_name = '{k}'",
            )
            .await,
            [],
            "nothing is made there"
        );

        Request::default().floats(&host("old"), &[(1_000, 1.0)]).write(&old.open().await).await;
        let found =
            eventually("the cluster is there", async || server.read("__name__", "m").await).await;
        assert_eq!(found.len(), 1);
        let ready = server.get("/-/ready").await.expect("an answer");
        assert_eq!((ready.0, &*ready.1), (200, "Prometheus Server is Ready.\n"));
        load.check(&server).await;
        let names: BTreeMap<_, _> = found[0].labels.clone();
        assert_eq!(names["host"], "old");
        drop(server);
        old.drop().await;
        if let Backend::CassandraStore { keyspace, .. } | Backend::CassandraWal { keyspace, .. } =
            backend
        {
            TestKeyspace { name: keyspace, ..TestKeyspace::new().await }.drop().await;
        }
    }
}

/// The same for a cluster that has only the metadata.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_another_cluster_for_metadata() {
    let (main, meta) = (TestKeyspace::new().await, TestKeyspace::new().await);
    let (address, keyspace) = (support::cassandra(), main.name.clone());
    let data = tempfile::tempdir().expect("a folder");
    let file = data.path().join("promkairos.toml");
    let text = format!(
        "[cassandra_metadata_cluster]\ncontact_points = [\"{address}\"]\nkeyspace = \"{}\"\n",
        meta.name
    );
    std::fs::write(&file, text).expect("written");
    let flag = format!("--config={}", file.display());
    let backend = Backend::CassandraStore { address, keyspace };
    let server = Promkairos::ready(data.path(), &backend, &[&flag]).await;
    let metadata = v1::MetricMetadata {
        r#type: v1::metric_metadata::MetricType::Counter.into(),
        metric_family_name: "requests_total".into(),
        help: "Requests.".into(),
        unit: String::new(),
    };
    let labels = [("__name__", "requests_total"), ("host", "a")]
        .map(|(name, value)| v1::Label { name: name.into(), value: value.into() });
    let series = v1::TimeSeries {
        labels: labels.into(),
        samples: vec![v1::Sample { value: 1.0, timestamp: 1_000 }],
        ..v1::TimeSeries::default()
    };
    let request = v1::WriteRequest { timeseries: vec![series], metadata: vec![metadata] };
    let body = compress(&proto::Message(request.encode_to_vec()));
    assert_eq!(server.write(Message::V1, body).await.expect("an answer").status, 204);
    let (status, text) = server.get("/api/v1/metadata").await.expect("an answer");
    assert!(status == 200 && text.contains("Requests."), "{text}");
    let cql = "SELECT key, value FROM {k}.service_index";
    for (keyspace, count) in [(&meta, 1), (&main, 0)] {
        let rows = keyspace.rows::<(Option<String>, Option<String>)>(cql).await;
        let of = rows.iter().filter(|row| format!("{row:?}").contains("Requests."));
        assert_eq!(of.count(), count, "{rows:?}");
    }
    let cql = "SELECT column1 FROM {k}.data_points";
    assert_eq!(main.rows::<(Vec<u8>,)>(cql).await.len(), 1);
    assert_eq!(meta.rows::<(Vec<u8>,)>(cql).await.len(), 0);
    drop(server);
    main.drop().await;
    meta.drop().await;
}

/// KairosDB 1.2 made no table for its tag index, and older versions made no `spec`.
#[tokio::test]
async fn a_read_cluster_is_left_as_it_is() {
    let keyspace = TestKeyspace::new().await;
    let legacy = Options { row_spec: RowSpec::LEGACY, ..keyspace.options() };
    let store = keyspace.open_with(legacy).await;
    Request::default().floats(&host("a"), &[(1_000, 1.0), (2_000, 2.0)]).write(&store).await;
    store.close().await.expect("closed");
    for table in ["tag_indexed_row_keys", "row_key_index", "service_index", "spec"] {
        keyspace.cql(&format!("DROP TABLE {{k}}.{table}")).await;
    }
    let mut options = Options { role: Role::Read, ..keyspace.options() };
    options.tag_index.metrics = [("m".to_owned(), ["host".to_owned()].into())].into();
    let tables = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = '{k}'";
    let before = keyspace.rows::<(String,)>(tables).await;
    assert_eq!(before.len(), 4, "{before:?}");

    let old = keyspace.open_with(options.clone()).await;
    let matchers = [named("m"), vec![Matcher::equal("host", "a")]].concat();
    let all = read(&old, &matchers, TimeRange::ALL).await;
    let both = [(1_000, 1.0f64.to_bits()), (2_000, 2.0f64.to_bits())];
    assert_eq!(bits(&all[&host("a")]), both);
    let query =
        SeriesQuery { matchers: named("m"), range: TimeRange::ALL, limit: ListSize::UNLIMITED };
    assert_eq!(old.label_values("host", &query).await.expect("values").items, ["a"]);
    assert_eq!(old.explain(&matchers, TimeRange::ALL).await.expect("explained").series, 1);
    assert_eq!(old.metadata(None, usize::MAX).await.expect("none"), []);
    old.delete(&matchers, TimeRange::ALL).await.expect("deleted");
    assert!(read(&old, &matchers, TimeRange::ALL).await.is_empty());
    old.close().await.expect("closed");
    assert_eq!(keyspace.rows::<(String,)>(tables).await, before);

    // Without a row width in the keyspace the open is refused: the width is not guessed.
    for table in ["data_points", "row_keys", "string_index"] {
        keyspace.cql(&format!("TRUNCATE {{k}}.{table}")).await;
    }
    let opened = keyspace.try_open(options.clone()).await;
    let error = opened.map(drop).expect_err("nobody knows");
    assert!(error.to_string().contains("neither data nor a spec"), "{error}");
    assert_eq!(keyspace.rows::<(String,)>(tables).await, before);

    // For a keyspace of a KairosDB before 1.2 the error says how to go on.
    keyspace.cql("DROP TABLE {k}.row_keys").await;
    let error = keyspace.try_open(options).await.map(drop).expect_err("refused");
    let text = "has no table row_keys, which KairosDB has since 1.2: start such a KairosDB on it";
    assert!(error.to_string().contains(text), "{error}");
    keyspace.drop().await;
}
