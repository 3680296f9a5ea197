//! A Cassandra whose operator has forbidden statements of many partitions, which holds for all but superusers:
//! queries of many metrics are answered all the same, by statements of one.

use promkairos::model::{MatchOp, Matcher, TimeRange};
use promkairos::storage::cassandra::{CassandraStore, Credentials, Options};
use promkairos::telemetry::Metrics;

use super::keyspace::{Request, labels, read};
use super::read_cache::cache_in;
use super::secure::{Superuser, options};
use crate::support::promkairos::statements;

/// More than the secure Cassandra of the tests takes in one statement.
const METRICS: usize = 25;
const LISTS: [&str; 3] = ["select_many_row_times", "select_mtimes", "select_epochs"];

#[tokio::test]
async fn queries_of_many_metrics_are_answered_by_statements_of_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let (options, metrics) = (options(), Metrics::new());
    let root = Superuser::of(&options).await;
    let keyspace = options.keyspace.as_str().to_owned();
    let role = format!("g{keyspace}");
    root.role(&role, "g", &["SELECT", "MODIFY"], &keyspace).await;
    let credentials = Credentials::new(&role, "g");
    let ordinary = Options { credentials, read_cache: Some(cache_in(folder.path())), ..options };
    let store = CassandraStore::open(ordinary, metrics.cassandra.clone()).await.expect("opens");
    let request = (0..METRICS).fold(Request::default(), |request, metric| {
        request.floats(&labels(&[("__name__", &format!("many_{metric:02}"))]), &[(5, 1.0)])
    });
    request.write(&store).await;
    let many = [Matcher::new(MatchOp::Regex, "__name__", "many_.+").expect("a matcher")];
    let counts = || {
        let page = metrics.encode();
        LISTS.map(|list| statements(&page, list))
    };
    let mut asked = Vec::new();
    for _ in 0..3 {
        let found = read(&store, &many, TimeRange::new(0, 10)).await;
        assert_eq!(found.len(), METRICS);
        assert!(found.values().all(|points| points.len() == 1), "{found:?}");
        asked.push(counts());
    }
    // The first list was refused, and so were those on their way with it; no other was tried.
    assert!((1..=3).contains(&asked[0][0]), "{asked:?}");
    assert_eq!(asked, [asked[0]; 3]);
}
