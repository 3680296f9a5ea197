//! A list of tags that begins over a keyspace with data: existing data is found, in every window.

use std::time::{SystemTime, UNIX_EPOCH};

use promkairos::model::MatchOp::Equal;
use promkairos::model::{Matcher, TimeRange};
use promkairos::storage::Store;
use scylla::value::CqlTimestamp;

use super::super::keyspace::{TestKeyspace, matcher, named};
use super::{List, WIDTH, cases, found, open, paths, scan, some_series, states, write};

/// Now, in milliseconds since 1970.
pub(super) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    since.as_millis() as i64
}

fn row_time(at: i64) -> i64 {
    at - at % WIDTH
}

const DAY: i64 = 86_400_000;

#[tokio::test]
async fn points_of_any_time_are_found_by_tags_that_are_listed_later() {
    let lists: [List<'_>; 3] =
        [&[("*", &[])], &[("*", &["host"])], &[("old", &[]), ("ahead", &["host"]), ("now", &[])]];
    let ahead = now() + 100 * DAY;
    for list in lists {
        let keyspace = TestKeyspace::new().await;
        let before = keyspace.open().await;
        let metrics = [("old", 1_000), ("now", now()), ("ahead", ahead)];
        for (metric, at) in metrics {
            write(&before, &some_series(metric), at).await;
        }
        before.close().await.expect("closes");
        let store = open(&keyspace, list).await;
        let states = states(&store).await;
        assert!(states.iter().all(|(tag, _)| tag.ends_with("readable")), "{states:?}");
        for (metric, at) in metrics {
            let all = some_series(metric);
            for (case, _) in cases() {
                let tags = case.iter().map(|(name, op, value)| matcher(name, *op, value));
                let matchers: Vec<Matcher> = named(metric).into_iter().chain(tags).collect();
                let got = found(&store, &matchers, TimeRange::ALL).await;
                assert_eq!(got, scan(&all, &matchers), "{list:?} {metric} {case:?}");
            }
            let matchers = [named(metric), vec![matcher("host", Equal, "a")]].concat();
            let range = TimeRange::new(at, at + 1);
            assert_eq!(paths(&store, &matchers, range).await, ["row_keys"], "{list:?} {metric}");
        }
        // After the last window with old data the index leads to everything.
        let new = TimeRange::new(row_time(ahead) + WIDTH, row_time(ahead) + 2 * WIDTH - 1);
        for (metric, _) in metrics {
            write(&store, &some_series(metric), new.start).await;
            let matchers = [named(metric), vec![matcher("host", Equal, "a")]].concat();
            assert_eq!(paths(&store, &matchers, new).await, ["host"], "{list:?} {metric}");
            let want = scan(&some_series(metric), &matchers);
            assert_eq!(found(&store, &matchers, new).await, want);
        }
        keyspace.drop().await;
    }
}

/// The state after a KairosDB has deleted a metric in the live window: rows in `row_keys`, and no
/// time index rows that lead there.
pub(super) async fn forget_window(keyspace: &TestKeyspace, metric: &str) {
    for cql in [
        format!("DELETE FROM {{k}}.row_key_time_index WHERE metric = '{metric}'"),
        format!(
            "DELETE FROM {{k}}.string_index WHERE key = {METRIC_NAMES} AND column1 = '{metric}'"
        ),
        format!("DELETE FROM {{k}}.string_index WHERE key = {OUR_NAMES} AND column1 = '{metric}'"),
    ] {
        keyspace.cql(&cql).await;
    }
}

const METRIC_NAMES: &str = "textAsBlob('metric_names')";
const OUR_NAMES: &str = "textAsBlob('prometheus_metric_names')";

/// Writes the time index rows of a window again, as a writer does that remembers the rows of
/// `row_keys`.
pub(super) async fn remember_window(keyspace: &TestKeyspace, metric: &str, at: i64) {
    for table in ["data_points", "prometheus"] {
        let insert = "INSERT INTO {k}.row_key_time_index (metric, table_name, row_time) \
                      VALUES (?, ?, ?)";
        keyspace.cql_with(insert, (metric, table, CqlTimestamp(row_time(at)))).await;
    }
}

#[tokio::test]
async fn a_live_window_that_nothing_leads_to_counts_as_standing() {
    let lists: [List<'_>; 2] = [&[("*", &[])], &[("m", &[])]];
    for list in lists {
        let keyspace = TestKeyspace::new().await;
        let (before, at) = (keyspace.open().await, now());
        write(&before, &some_series("m"), at).await;
        before.close().await.expect("closes");
        forget_window(&keyspace, "m").await;
        let store = open(&keyspace, list).await;
        remember_window(&keyspace, "m", at).await;
        let matchers = [named("m"), vec![matcher("host", Equal, "a")]].concat();
        let want = scan(&some_series("m"), &matchers);
        assert_eq!(found(&store, &matchers, TimeRange::ALL).await, want, "{list:?}");
        keyspace.drop().await;
    }
}
