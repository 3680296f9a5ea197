//! Each limit of queries returns an error that names it and its setting. A dropped query ends.

use std::sync::Arc;
use std::time::Duration;

use promkairos::model::ShownSize;
use promkairos::promql::{
    Engine, Features, QueryError, QueryOptions, QueryResult, Settings, Steps, parse,
};
use promkairos::storage::Store;

use super::data::counters;

const HOUR: Steps = Steps { start: 0, end: 3_600_000, interval: 15_000 };

async fn ask(
    settings: Settings,
    store: Arc<dyn Store>,
    query: &str,
) -> Result<QueryResult, QueryError> {
    let expr = parse(query, Features::Experimental).expect(query);
    Engine::new(settings).range(store, &expr, HOUR, &QueryOptions::default()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn samples_that_are_held_count() {
    let store = counters(10, 241).await;
    let settings = |max_samples| Settings { max_samples, ..Settings::default() };
    // The result alone has 2,410 samples.
    let error = ask(settings(2_409), Arc::clone(&store), "m").await.expect_err("too many");
    assert!(matches!(error, QueryError::TooManySamples { .. }), "{error}");
    assert!(error.to_string().contains("more than 2409, which is the setting query-max-samples"));
    ask(settings(2_410), Arc::clone(&store), "m").await.expect("just within");
    // A fold holds its groups, not its series.
    let sum = ask(settings(1_000), Arc::clone(&store), "sum(m)").await.expect("one group");
    assert_eq!(sum.stats.total_queryable_samples, 2_410);
    // A join holds one of its sides until the other is read.
    let error = ask(settings(1_000), store, "sum(m) + on() group_right m").await;
    assert!(matches!(error, Err(QueryError::TooManySamples { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_of_labels_count() {
    let settings = Settings { max_bytes: 200, ..Settings::default() };
    let error = ask(settings, counters(10, 1).await, "m").await.expect_err("too many");
    let text = "label sets of more than 200 bytes selected, which is the setting query-max-memory";
    assert!(error.to_string().contains(text), "{error}");
}

/// The memory that operators work with counts too: no query exhausts the memory of the server.
#[tokio::test(flavor = "multi_thread")]
async fn what_operators_work_with_counts() {
    let store = counters(500, 10).await;
    let settings = Settings { max_bytes: 8 << 20, ..Settings::default() };
    let error = async |query: &str| {
        let answer = ask(settings.clone(), Arc::clone(&store), query).await;
        answer.expect_err(query).to_string()
    };
    for query in [
        "count_over_time(vector(1)[100y:1ms])",
        "max_over_time(m[7d:1ms])",
        "max_over_time(absent(m)[7d:1ms])",
        // Each series with each, with new labels.
        "m * on(job) group_left(n) label_replace(m, \"n\", \"$1\", \"i\", \"(.*)\")",
        // Each series in a group of its own, at all steps.
        "m and m",
        "m or m",
        "limitk by (i) (1, m)",
        "topk by (i) (1, m)",
    ] {
        let few = if query.contains("1ms") || query.contains("n)") { 8 << 20 } else { 100 << 10 };
        let settings = Settings { max_bytes: few, ..Settings::default() };
        let answer = ask(settings, Arc::clone(&store), query).await.map(|_| ()).expect_err(query);
        let text = format!(
            "more than {} in memory, which is the setting query-max-memory",
            ShownSize::of(few)
        );
        assert!(answer.to_string().contains(&text), "{query}: {answer}");
    }
    // One side has several series for a group: the error says so, however many pairs there are.
    let twice = error("m + on() m").await;
    assert!(twice.starts_with("found duplicate series for the match group {}"), "{twice}");
    // The label doubles 40 times.
    let doubled = (0..40).fold("m{i=\"499\"}".to_owned(), |inner, _| {
        format!("label_join({inner}, \"i\", \"-\", \"i\", \"i\")")
    });
    let error = error(&doubled).await;
    assert!(error.contains("label i of more than 1MiB"), "{error}");
    // Only the few series that stay of the selection are held.
    ask(settings, store, "topk(2, m)").await.expect("within");
}

#[tokio::test(flavor = "multi_thread")]
async fn nesting_has_an_end() {
    let settings = Settings { max_depth: 10, ..Settings::default() };
    let store = counters(1, 1).await;
    let nested = |depth: usize| "-".repeat(depth) + "m";
    ask(settings.clone(), Arc::clone(&store), &nested(9)).await.expect("just within");
    let error = ask(settings, store, &nested(10)).await.expect_err("too deep");
    assert!(error.to_string().contains("deeper than 10, which is the setting query-max-depth"));
}

#[tokio::test(flavor = "multi_thread")]
async fn time_has_an_end() {
    let settings = Settings { timeout: Duration::ZERO, ..Settings::default() };
    let error = ask(settings, counters(1, 1).await, "m").await.expect_err("no time at all");
    assert!(matches!(error, QueryError::TimedOut { .. }), "{error}");
    assert!(error.to_string().contains("query-timeout"), "{error}");
}

/// Minutes of work if it were not dropped.
const LONG: &str = "sum(max_over_time(sum(quantile_over_time(0.5, m[5h]))[5h:1s]))";

#[tokio::test(flavor = "multi_thread")]
async fn queries_wait_for_a_permit_but_not_without_end() {
    let one_at_a_time = Settings { max_concurrent: 1, max_queue: 0, ..Settings::default() };
    let engine = Engine::new(one_at_a_time);
    let store = counters(50, 2_000).await;
    let long = parse(LONG, Features::Stable).expect("a query");
    let short = parse("m", Features::Stable).expect("a query");
    let options = QueryOptions::default();
    {
        let first = engine.instant(Arc::clone(&store), &long, 30_000_000, &options);
        let mut first = std::pin::pin!(first);
        // Polled once, so that the query has the permit.
        assert!(futures::poll!(first.as_mut()).is_pending());
        let second = engine.instant(Arc::clone(&store), &short, 0, &options).await;
        let error = second.expect_err("nobody may wait");
        assert!(matches!(error, QueryError::Busy { .. }), "{error:?}");
        assert!(error.to_string().contains("query-max-queue"), "{error}");
    }
    engine.instant(Arc::clone(&store), &short, 0, &options).await.expect("the permit is free");
    // A query that waits too long returns an error that says that it never began.
    let engine = Engine::new(Settings { max_concurrent: 1, ..Settings::default() });
    let first = engine.instant(Arc::clone(&store), &long, 30_000_000, &options);
    let mut first = std::pin::pin!(first);
    assert!(futures::poll!(first.as_mut()).is_pending());
    let options = QueryOptions { timeout: Some(Duration::from_millis(1)), ..options.clone() };
    let error = engine.instant(store, &short, 0, &options).await.expect_err("no permit");
    assert!(error.to_string().starts_with("query timed out in query queue: "), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_query_ends() {
    let store = counters(50, 2_000).await;
    let settings = Settings { max_concurrent: 1, ..Settings::default() };
    let engine = Arc::new(Engine::new(settings));
    let expr = parse(LONG, Features::Stable).expect("a query");
    let options = QueryOptions::default();
    let (asked, weak) = (Arc::clone(&store), Arc::downgrade(&store));
    drop(store);
    {
        let query = engine.instant(asked, &expr, 30_000_000, &options);
        // Polled once, so that the evaluation begins.
        assert!(futures::poll!(std::pin::pin!(query)).is_pending());
    }
    // The evaluation holds the store until it notices that it was dropped.
    while weak.upgrade().is_some() {
        tokio::task::yield_now().await;
    }
    // The samples read until then are counted nevertheless. A series is counted when it is done.
    let store = counters(50, 2_000).await;
    let series = "sum(max_over_time(sum(quantile_over_time(0.5, m[5m]))[5h:1s]))";
    let expr = parse(series, Features::Stable).expect("a query");
    for doubled in 0..32 {
        {
            let query = engine.instant(Arc::clone(&store), &expr, 30_000_000, &options);
            let mut query = std::pin::pin!(query);
            for _ in 0..1_u64 << doubled {
                let polled = futures::poll!(query.as_mut());
                assert!(polled.is_pending(), "of 50 series one is soon done");
                tokio::task::yield_now().await;
            }
        }
        if options.cost.samples_read() > 0 {
            return;
        }
    }
    panic!("it never cost anything");
}

/// The size of results that clients read slowly is bounded.
#[tokio::test(flavor = "multi_thread")]
async fn results_that_are_not_sent_yet_count() {
    // A result of 100,000 points takes 1.6 MB.
    let settings = Settings { max_bytes: 4 << 20, ..Settings::default() };
    let engine = Engine::new(settings);
    let store = counters(1, 1).await;
    let steps = Steps { start: 0, end: 99_999, interval: 1 };
    let ask = async |query: &str| {
        let expr = parse(query, Features::Stable).expect(query);
        engine.range(Arc::clone(&store), &expr, steps, &QueryOptions::default()).await
    };
    let mut held = Vec::new();
    for _ in 0..2 {
        held.push(ask("time()").await.expect("there is room"));
    }
    let error = ask("time()").await.expect_err("full").to_string();
    assert!(error.contains("may take the setting query-max-memory"), "{error}");
    held.pop();
    ask("time()").await.expect("there is room again");
}
