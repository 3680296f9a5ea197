//! Settings that are read again while the server runs, other than those of writes (see `limits`): limits of queries
//! and of the label endpoints, and the retention. Logins at Cassandra are tested in `cassandra::secure`.

use std::collections::{BTreeMap, BTreeSet};

use promkairos::config::{SETTINGS, is_live};
use promkairos::storage::Clock;

use crate::cassandra::keyspace::TestKeyspace;
use crate::limits::{configured, logged, reload, send, series, stored, write_settings};
use crate::support::promkairos::{Backend, Promkairos};
use crate::support::series::floats;
use crate::support::{self, api, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn limits_of_queries_and_label_endpoints() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut server, file) = configured(folder.path(), &Backend::Embedded, "", &[]).await;
    assert_eq!(send(&server, &[series("m", "a", 1), series("m", "b", 1)]).await.status, 204);
    let url = server.url("/api/v1/query");
    let ask = async |query: &str| {
        let (status, answer) = api::get(&url, &[("query", query), ("time", "1700000001")]).await;
        (status, answer["error"].as_str().unwrap_or_default().to_owned())
    };
    let nested = "abs(abs(abs(abs(m))))";
    assert_eq!(ask("m").await.0, 200);
    assert_eq!(ask(nested).await.0, 200);
    assert_eq!(stored(&server, "m").await, ["a", "b"]);

    write_settings(
        &file,
        "max_label_results = 1\nmax_label_results_size = \"1MiB\"\nlabel_max_concurrency = 2\n\
         label_max_wait = \"1s\"\nquery_max_samples = 1\nquery_max_depth = 3\n",
    );
    let changed = "changed: max-label-results, max-label-results-size, label-max-concurrency, \
                   label-max-wait, query-max-samples, query-max-depth\n";
    assert_eq!(reload(&server).await, (200, changed.to_owned()));
    let (status, why) = ask("m").await;
    assert!(status == 422 && why.contains("query-max-samples"), "{status} {why}");
    let (status, why) = ask(nested).await;
    assert!(status == 422 && why.contains("query-max-depth"), "{status} {why}");
    assert_eq!(stored(&server, "m").await, ["a"]);

    // An equal value is no change, and a setting that is left out keeps its value.
    assert_eq!(reload(&server).await.1, "nothing that holds at once has changed\n");
    write_settings(&file, "query_max_concurrency = 1\nquery_max_memory = \"1GiB\"\n");
    let changed = "changed: max-label-results, max-label-results-size, label-max-concurrency, \
                   label-max-wait, query-max-samples, query-max-memory, query-max-concurrency, \
                   query-max-depth\n";
    assert_eq!(reload(&server).await, (200, changed.to_owned()));
    assert_eq!(ask("m").await.0, 200);
    assert_eq!(ask(nested).await.0, 200);
    assert_eq!(stored(&server, "m").await, ["a", "b"]);
    assert!(server.process.terminate().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_in_a_wrong_place_is_not_repeated() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut server, file) = configured(folder.path(), &Backend::Embedded, "", &[]).await;
    let cluster = "[[cassandra_read_clusters]]\nname = \"a\"\npassword = \"hunter2\"\n";
    write_settings(&file, cluster);
    let (status, why) = reload(&server).await;
    assert!(status == 500 && why.contains("cassandra_read_clusters"), "{status} {why}");
    assert!(!why.contains("hunter2"), "{why}");
    logged(&server, "everything stays as it was: cassandra_read_clusters").await;
    let log = server.process.log();
    assert!(!log.contains("hunter2"), "{log}");
    assert!(server.process.terminate().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn days_of_the_embedded_store_go_when_they_are_kept_for_less() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut server, _) = configured(folder.path(), &Backend::Embedded, "", &[]).await;
    // Points of years ago and of now: retention counts from the newest point that the clock allows.
    assert_eq!(send(&server, &[series("m", "a", 3)]).await.status, 204);
    let now = Clock::default().now_ms();
    let url = server.url("");
    let sent =
        support::series::send(&url, vec![floats(&[("__name__", "new")], &[(now, 1.0)])]).await;
    assert_eq!(sent, 204);
    // A stop flushes the log to part files.
    assert!(server.process.terminate().success());
    let (mut server, file) = configured(folder.path(), &Backend::Embedded, "", &[]).await;
    assert_eq!(stored(&server, "m").await, ["a"]);
    write_settings(&file, "retention = \"1d\"\n");
    let (status, said) = reload(&server).await;
    let days = "2023-11-14 to 2023-11-14 (part files: 1, size: ";
    let want = format!("changed: retention; beyond the retention and removed now: {days}");
    assert!(status == 200 && said.starts_with(&want), "{status} {said}");
    let (_, page) = api::get(&server.url("/api/v1/status/runtimeinfo"), &[]).await;
    assert_eq!(page["data"]["storageRetention"], "1d");
    eventually("the day is gone", async || match stored(&server, "m").await {
        gone if gone.is_empty() => Ok(()),
        there => Err(format!("{there:?}")),
    })
    .await;
    // The end of the removal is logged too.
    logged(&server, &format!("removed what is beyond the retention: {days}")).await;
    // No more data is beyond the retention.
    write_settings(&file, "retention = \"2d\"\n");
    assert_eq!(reload(&server).await, (200, "changed: retention\n".to_owned()));
    assert!(server.process.terminate().success());
}

const DAY: i32 = 86_400;

/// The remaining TTL of each metric's points in Cassandra, rounded up to days; `None` = for ever.
async fn days(keyspace: &TestKeyspace) -> BTreeMap<String, Option<i32>> {
    let rows: Vec<(Vec<u8>, Option<i32>)> =
        keyspace.rows("SELECT key, TTL(value) FROM {k}.data_points").await;
    let metric = |key: &[u8]| {
        String::from_utf8_lossy(key.split(|byte| *byte == 0).next().unwrap_or(key)).into_owned()
    };
    // Some seconds have passed since the points were written.
    let days = |ttl: i32| (ttl + DAY - 1) / DAY;
    rows.into_iter().map(|(key, ttl)| (metric(&key), ttl.map(days))).collect()
}

async fn cassandra_keeps_what_comes_for_the_retention(ack: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let (address, name) = (support::cassandra(), support::keyspace());
    let backend = match ack {
        "wal" => Backend::CassandraWal { address, keyspace: name.clone() },
        _ => Backend::CassandraStore { address, keyspace: name.clone() },
    };
    let (settings, flags) = ("retention = \"30d\"\n", ["--flush-interval=1s"]);
    let (mut server, file) = configured(folder.path(), &backend, settings, &flags).await;
    // Behind a log the store may still be opening; reads wait for it.
    assert_eq!(server.get("/api/v1/labels").await.expect("an answer").0, 200);
    let keyspace = TestKeyspace::named(name).await;
    let live = async |metric: &str, want: Option<i32>| {
        assert_eq!(send(&server, &[series(metric, "a", 1)]).await.status, 204);
        eventually(metric, async || {
            let found = days(&keyspace).await;
            if found.get(metric) == Some(&want) { Ok(()) } else { Err(format!("{found:?}")) }
        })
        .await;
    };
    live("first", Some(30)).await;
    let by_metric = "cassandra_ttl_by_metric = { \"short.*\" = \"10d\", ever = \"0\" }\n";
    write_settings(&file, &format!("retention = \"60d\"\n{by_metric}"));
    let changed = "changed: cassandra-ttl-by-metric, retention\n";
    assert_eq!(reload(&server).await, (200, changed.to_owned()));
    live("second", Some(60)).await;
    live("short", Some(10)).await;
    live("ever", None).await;
    // A value that Cassandra refuses changes nothing, whatever else the file has.
    write_settings(&file, "retention = \"30y\"\nmax_samples_per_request = 1\n");
    let (status, why) = reload(&server).await;
    assert!(status == 500 && why.contains("Cassandra takes at most 20 years"), "{status} {why}");
    assert_eq!(send(&server, &[series("fourth", "a", 2)]).await.status, 204);
    live("third", Some(60)).await;
    assert_eq!(days(&keyspace).await.get("first"), Some(&Some(30)), "it keeps its time");
    assert!(server.process.terminate().success());
    keyspace.drop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lifetimes_in_cassandra() {
    cassandra_keeps_what_comes_for_the_retention("store").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lifetimes_in_cassandra_behind_the_log() {
    cassandra_keeps_what_comes_for_the_retention("wal").await;
}

/// Another value for every setting that takes effect on reload, as in the file. `DIR` is the folder.
const LIVE: &[(&str, &str)] = &[
    ("cassandra-username", "\"b\""),
    ("cassandra-password-file", "\"DIR/other-password\""),
    ("cassandra-tls-ca", "\"DIR/other-cert\""),
    ("cassandra-tls-cert", "\"DIR/other-cert\""),
    ("cassandra-tls-key", "\"DIR/other-key\""),
    ("cassandra-ttl-by-metric", "{ m = \"10d\" }"),
    ("tag-indexed-row-key-lookup-metrics", "[\"m\"]"),
    ("retention", "\"30d\""),
    ("max-concurrent-requests", "7"),
    ("max-request-body-size", "\"1MiB\""),
    ("max-decoded-body-size", "\"1MiB\""),
    ("max-series-per-request", "7"),
    ("max-samples-per-request", "7"),
    ("max-samples-per-second", "7"),
    ("max-sample-age", "\"30d\""),
    ("max-sample-lead", "\"30d\""),
    ("max-active-series", "7"),
    ("max-active-series-per-metric", "7"),
    ("max-metadata-size", "\"1MiB\""),
    ("series-limit-answer", "429"),
    ("max-labels-per-series", "7"),
    ("max-label-name-size", "\"512B\""),
    ("max-label-value-size", "\"1KiB\""),
    ("max-labels-size", "\"1KiB\""),
    ("max-label-results", "7"),
    ("max-label-results-size", "\"1MiB\""),
    ("label-max-concurrency", "2"),
    ("label-max-wait", "\"1s\""),
    ("query-timeout", "\"1s\""),
    ("query-max-samples", "7"),
    ("query-max-memory", "\"1MiB\""),
    ("query-max-concurrency", "2"),
    ("query-max-queue", "7"),
    ("query-max-series", "7"),
    ("query-max-samples-read", "7"),
    ("query-max-duration", "\"1s\""),
    ("query-max-depth", "7"),
    ("query-lookback-delta", "\"1m\""),
    ("promql-experimental", "true"),
    ("promql-delayed-name-removal", "true"),
    ("use-start-timestamps", "true"),
    ("promql-unquoted-utf8-names", "true"),
    ("slow-query-log", "\"1s\""),
    ("external-labels", "{ a = \"b\" }"),
    ("scrape-interval", "\"15s\""),
    ("evaluation-interval", "\"15s\""),
    ("log-level", "\"warn\""),
];

/// Over a Cassandra that does not exist, and with a log, so that all settings apply.
#[tokio::test(flavor = "multi_thread")]
async fn every_setting_that_holds_at_once_is_reported_as_changed() {
    let names: BTreeSet<&str> = LIVE.iter().map(|(name, _)| *name).collect();
    let settings = SETTINGS.iter().map(|setting| setting.name);
    let live: BTreeSet<&str> = settings.filter(|name| is_live(name)).collect();
    assert_eq!(names, live);
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().display().to_string();
    let write = |name: &str, text: &str| {
        std::fs::write(folder.path().join(name), text).expect("written");
    };
    for prefix in ["", "other-"] {
        let key = rcgen::KeyPair::generate().expect("a key");
        let certificate = rcgen::CertificateParams::default().self_signed(&key).expect("signed");
        write(&format!("{prefix}cert"), &certificate.pem());
        write(&format!("{prefix}key"), &key.serialize_pem());
        write(&format!("{prefix}password"), &format!("{prefix}secret"));
    }
    let file = folder.path().join("promkairos.toml");
    let settings = |changed: &[&str]| {
        let files = [("ca", "cert"), ("cert", "cert"), ("key", "key")];
        let files = files.map(|(setting, file)| (format!("cassandra-tls-{setting}"), file));
        let mut all: BTreeMap<String, String> = files
            .into_iter()
            .chain([("cassandra-password-file".to_owned(), "password")])
            .map(|(setting, file)| (setting, format!("\"{dir}/{file}\"")))
            .collect();
        all.insert("cassandra-username".into(), "\"a\"".into());
        for (name, value) in LIVE.iter().filter(|(name, _)| changed.contains(name)) {
            all.insert((*name).to_owned(), value.replace("DIR", &dir));
        }
        let lines =
            all.iter().map(|(name, value)| format!("{} = {value}\n", name.replace('-', "_")));
        write_settings(&file, &lines.collect::<String>());
    };
    settings(&[]);
    let away = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = away.local_addr().expect("bound").to_string();
    drop(away);
    let backend = Backend::CassandraWal { address, keyspace: support::keyspace() };
    let config = format!("--config={}", file.display());
    let flags = ["--cassandra-tls=true", &config];
    let server = Promkairos::start(&folder.path().join("data"), &backend, &flags);
    let text = async || {
        let (status, said) = reload(&server).await;
        assert_eq!(status, 200, "{said}");
        said
    };
    let nothing = "nothing that holds at once has changed\n";
    assert_eq!(text().await, nothing);
    for (name, _) in LIVE {
        // A key and its certificate belong together, as do a user and the password.
        let (changed, want) = match *name {
            "cassandra-tls-cert" | "cassandra-tls-key" => (
                vec!["cassandra-tls-cert", "cassandra-tls-key"],
                "cassandra-tls-cert, cassandra-tls-key",
            ),
            "cassandra-username" => {
                (vec!["cassandra-username"], "cassandra-username, cassandra-password-file")
            }
            name => (vec![name], name),
        };
        let want = format!("changed: {want}\n");
        settings(&changed);
        assert_eq!(text().await, want, "{name}");
        assert_eq!(text().await, nothing, "{name}");
        settings(&[]);
        assert_eq!(text().await, want, "{name} back");
    }
}
