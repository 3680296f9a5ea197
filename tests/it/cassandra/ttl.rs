//! Times to live by metric, and times to live that Cassandra refuses.

use promkairos::storage::StoreError;
use promkairos::storage::cassandra::{CassandraStore, Options};

use super::keyspace::{Request, TestKeyspace, labels};

/// Data and index rows of each metric have its own time to live.
#[tokio::test]
async fn metrics_have_their_own_time_to_live() {
    let keyspace = TestKeyspace::new().await;
    let options = |patterns: &[(&str, u32)]| Options {
        ttl_seconds: 50_000,
        ttl_by_metric: patterns.iter().map(|(p, ttl)| ((*p).to_owned(), *ttl)).collect(),
        ..keyspace.options()
    };
    let of = |metric| labels(&[("__name__", metric), ("job", "a")]);
    let write = async |store: &CassandraStore, at| {
        for metric in ["short", "shorter", "other", "kept"] {
            Request::default().floats(&of(metric), &[(at, 1.0)]).write(store).await;
        }
    };
    let ttls = async || {
        let cql = "SELECT metric, TTL(value) FROM {k}.row_keys";
        let keys: Vec<(String, Option<i32>)> = keyspace.rows(cql).await;
        let cql = "SELECT metric, TTL(value) FROM {k}.row_key_time_index";
        let times: Vec<(String, Option<i32>)> = keyspace.rows(cql).await;
        let cql = "SELECT key, TTL(value) FROM {k}.data_points";
        let data: Vec<(Vec<u8>, Option<i32>)> = keyspace.rows(cql).await;
        let metric = |key: &[u8]| {
            String::from_utf8_lossy(key.split(|b| *b == 0).next().unwrap_or(key)).into_owned()
        };
        let data = data.into_iter().map(|(key, ttl)| (metric(&key), ttl)).collect();
        [data, keys, times]
    };
    let is_about = |found: &[(String, Option<i32>)], extra: i32, want: &[(&str, i32)]| {
        for (metric, want) in want {
            let all: Vec<_> = found.iter().filter(|(name, _)| name == metric).collect();
            assert!(!all.is_empty(), "{metric}: {found:?}");
            for (_, ttl) in all {
                match (want, ttl) {
                    (0, None) => {}
                    (want, Some(ttl)) => {
                        let age = want + extra - ttl;
                        assert!((0..5_000).contains(&age), "{metric}: {ttl}, not {want}");
                    }
                    _ => panic!("{metric}: {ttl:?}, not {want}"),
                }
            }
        }
    };
    let width = 1_814_400;
    let patterns = [("sho.*", 20_000), ("shorter", 10_000), ("kept", 0)];
    let store = keyspace.open_with(options(&patterns)).await;
    write(&store, 1).await;
    let [data, keys, times] = ttls().await;
    let want = [("short", 20_000), ("shorter", 10_000), ("other", 50_000), ("kept", 0)];
    is_about(&data, 0, &want);
    is_about(&keys, width, &want);
    is_about(&times, width, &want);
    // Data with a longer TTL from now on is found as long.
    let longer = keyspace.open_with(options(&[("short.*", 10_000_000)])).await;
    write(&longer, 1).await;
    let [data, keys, times] = ttls().await;
    let want = [("short", 10_000_000), ("shorter", 10_000_000), ("other", 50_000)];
    is_about(&data, 0, &want);
    let want = [want[0], want[1], want[2], ("kept", 0)];
    is_about(&keys, width, &want);
    is_about(&times, width, &want);
    keyspace.drop().await;
}

/// The Cassandra of the tests has its default `storage_compatibility_mode`.
#[tokio::test]
async fn a_time_to_live_that_cassandra_refuses_is_refused_at_start() {
    let keyspace = TestKeyspace::by_hand().await;
    let options = |patterns: &[(&str, u32)]| Options {
        ttl_by_metric: patterns.iter().map(|(p, ttl)| ((*p).to_owned(), *ttl)).collect(),
        ..keyspace.options()
    };
    let day = 86_400;
    let error = keyspace.try_open(options(&[("a", day), ("b", 19 * 365 * day)])).await.map(drop);
    let Err(StoreError::Invalid(text)) = error else { panic!("{error:?}") };
    assert!(text.contains("2038-01-19") && text.contains("CASSANDRA_4"), "{text}");
    let cql = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = '{k}'";
    assert_eq!(keyspace.rows::<(String,)>(cql).await, [], "nothing was written");
    keyspace.drop().await;
}
