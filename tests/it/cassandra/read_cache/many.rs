//! Queries of many metrics: a few statements ask for all of them together, and each metric has its own epoch.

use promkairos::model::{Labels, MatchOp, Matcher, TimeRange};
use promkairos::storage::Store;
use promkairos::storage::cassandra::Options;
use promkairos::telemetry::Metrics;

use super::super::keyspace::{Request, named};
use super::{Cached, all, series};
use crate::support::promkairos::statements;

/// More metrics than one statement may ask for.
const METRICS: usize = 23;
const SERIES: usize = 2;
const POINTS: usize = 30;
const HOUR: TimeRange = TimeRange { start: 0, end: 3_599_999 };

fn every_metric() -> [Matcher; 1] {
    [Matcher::new(MatchOp::Regex, "__name__", "many_.+").expect("a matcher")]
}

/// The series of a metric.
fn series_of(metric: usize) -> impl Iterator<Item = Labels> {
    (0..SERIES).map(move |number| series(&format!("many_{metric:02}"), number))
}

fn request() -> Request {
    let points: Vec<(i64, f64)> = (0..POINTS).map(|at| (at as i64 * 15_000, at as f64)).collect();
    let all = (0..METRICS).flat_map(series_of);
    all.fold(Request::default(), |request, series| request.floats(&series, &points))
}

#[tokio::test]
async fn a_repeated_query_asks_for_many_metrics_at_once() {
    let (cached, metrics) = (Cached::new().await, Metrics::new());
    let writer = cached.keyspace.open().await;
    request().write(&writer).await;
    let options = Options { read_cache: Some(cached.options()), ..cached.keyspace.options() };
    let store = crate::support::cassandra::open(options, &metrics.cassandra).await;
    // Statements ask for at most ten metrics; none asks for a metric alone, or for points.
    let asked = [
        ("select_names", 2),
        ("select_many_row_times", 3),
        ("select_mtimes", 3),
        ("select_epochs", 3),
        ("select_row_times", 0),
        ("select_row_keys", 0),
        ("select_mtime", 0),
        ("select_epoch", 0),
        ("select_points", 0),
        ("select_lasting_points", 0),
    ];
    let counts = || {
        let page = metrics.encode();
        asked.map(|(name, _)| statements(&page, name))
    };
    let want = all(&writer, &every_metric(), HOUR).await;
    assert_eq!(want.len(), METRICS * SERIES);
    assert_eq!(all(&store, &every_metric(), HOUR).await, want);
    for _ in 0..2 {
        let before = counts();
        assert_eq!(all(&store, &every_metric(), HOUR).await, want);
        let after = counts();
        let of_query = asked.iter().zip(before.iter().zip(after));
        let of_query = of_query.map(|((name, _), (before, after))| (*name, after - before));
        assert_eq!(of_query.collect::<Vec<_>>(), asked);
    }
    cached.keyspace.drop().await;
}

#[tokio::test]
async fn what_changes_in_one_metric_reads_no_other_again() {
    let cached = Cached::new().await;
    let (writer, store) = (cached.keyspace.open().await, cached.open().await);
    request().write(&writer).await;
    // At first the series cache is empty, then it has the series.
    for want in [METRICS * SERIES * POINTS, 0] {
        let (_, rows) = store.rows_read(&every_metric(), HOUR).await;
        assert_eq!(rows, want as u64);
    }
    let of_metric = (SERIES * POINTS) as u64;
    for metric in 0..METRICS {
        let changed = series_of(metric).next().expect("a series");
        Request::default().floats(&changed, &[(7, 0.5)]).write(&writer).await;
        for want in [of_metric + 1, 0] {
            let (found, rows) = store.rows_read(&every_metric(), HOUR).await;
            assert_eq!((rows, found[&changed].len()), (want, POINTS + 1), "{metric}");
        }
        let name = changed.get("__name__");
        writer.delete(&named(name), TimeRange::new(7, 7)).await.expect("deleted");
        for want in [of_metric, 0] {
            let (found, rows) = store.rows_read(&every_metric(), HOUR).await;
            assert_eq!((rows, found[&changed].len()), (want, POINTS), "{metric}");
        }
    }
    // A metric without series, and a metric whose index rows were deleted as a whole: the answer has neither.
    writer.delete(&named("many_07"), TimeRange::ALL).await.expect("deleted");
    let cql = "DELETE FROM {k}.row_keys WHERE metric = 'many_16' AND table_name = 'data_points' AND row_time = 0";
    cached.keyspace.cql(cql).await;
    for _ in 0..2 {
        let (found, rows) = store.rows_read(&every_metric(), HOUR).await;
        assert_eq!((found.len(), rows), ((METRICS - 2) * SERIES, 0));
        let names: Vec<&str> = found.keys().map(|series| series.get("__name__")).collect();
        assert!(!names.contains(&"many_07") && !names.contains(&"many_16"), "{names:?}");
    }
    cached.keyspace.drop().await;
}
