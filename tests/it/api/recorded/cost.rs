//! Compares the cost of queries with recorded answers of a real Prometheus 3.16 with `query-cost`, and estimates
//! with the actual cost of the same queries.
//!
//! Counts of series are equal everywhere. Upstream guesses the samples from a scrape interval and warns of the guess
//! where there are series, so our estimate is compared with the actual count instead. Our error for a passed limit
//! has another text, which names the limit.

use std::path::Path;

use serde_json::Value as Json;

use super::super::super::support::api::get;
use super::super::super::support::promkairos::{Backend, Promkairos};
use super::super::super::support::series::{floats, send};
use super::compare::compare;
use super::{List, load, text};

/// The times of the recorded requests.
const AT: &str = "1704068400";
const RANGE: [(&str, &str); 3] = [("start", "1704067800"), ("end", "1704069600"), ("step", "300")];

/// Cases that differ on purpose.
const DIFFERENT: List = &[
    (
        "the limit that was passed is named",
        &[
            "limits-001",
            "limits-007",
            "limits-020",
            "limits-026",
            "limits-028",
            "limits-039",
            "limits-045",
            "limits-047",
        ],
    ),
    (
        "a scalar holds no sample here: `peakSamples` is 0 and left out",
        &["cost-with-query-010", "cost-with-query-012"],
    ),
    (
        "of a window that is itself the answer the points before it are not counted",
        &["cost-with-query-018"],
    ),
    (
        "a histogram counts with its own buckets, not with those of later histograms of its chunk",
        &["cost-with-range-008"],
    ),
];

/// Further differences of Cassandra alone.
const ON_CASSANDRA: List = &[(
    "an index row says in which three weeks a series is, not when",
    &["cost-008", "cost-range-008", "cost-with-query-008", "cost-with-range-008"],
)];

fn recorded() -> Vec<Json> {
    let path = "tests/data/prometheus-3.16/requests-cost.jsonl";
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path));
    let lines = text.expect(path);
    let mut cases: Vec<Json> =
        lines.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    for case in &mut cases {
        let mut mask = case["mask"].as_array().cloned().unwrap_or_default();
        mask.push("estimate".into());
        case["mask"] = mask.into();
    }
    cases
}

/// Sends the request of each case; panics with the differences.
async fn replay(url: &str, also: List) {
    let http = reqwest::Client::new();
    let cases = recorded();
    assert_eq!(cases.len(), 160);
    let mut wrong = Vec::new();
    for case in &cases {
        let id = text(&case["id"]);
        let answer = super::ask(&http, url, case).await;
        let listed = DIFFERENT.iter().chain(also).any(|(_, ids)| ids.contains(&id));
        match compare(case, &answer) {
            Ok(()) if listed => wrong.push(format!("{id} is equal, and listed")),
            Err(why) if !listed => wrong.push(format!("{id} {}\n{why}", case["params"])),
            _ => {}
        }
        if let (true, Some("limits")) = (listed, case["cat"].as_str()) {
            let json = answer.json.expect("JSON");
            let upstream = text(&case["json"]["error"]);
            let (name, most) = (text(&case["params"][2][0]), text(&case["params"][2][1]));
            let ours = format!(
                "{upstream}: more than {most}, which is the parameter {name} of the request"
            );
            let got = (answer.status, text(&json["errorType"]), text(&json["error"]));
            assert_eq!(got, (422, "cost_limit", &*ours), "{id}");
        }
    }
    assert!(wrong.is_empty(), "{} differ\n{}", wrong.len(), wrong.join("\n"));
}

/// Returns estimated and actual samples. Panics unless the estimate of the query and the estimate of the `_cost`
/// endpoint are both within a factor of two of the actual count.
async fn check_estimate(url: &str, path: &str, parameters: &[(&str, &str)]) -> (u64, u64) {
    let with_cost: Vec<_> = parameters.iter().copied().chain([("cost", "true")]).collect();
    let (status, estimate) = get(&format!("{url}{path}_cost"), parameters).await;
    assert_eq!(status, 200, "{parameters:?}: {estimate}");
    let (status, answer) = get(&format!("{url}{path}"), &with_cost).await;
    assert_eq!(status, 200, "{parameters:?}: {answer}");
    let cost = &answer["data"]["cost"];
    let number = |part: &str, name: &str| cost[part][name].as_u64().expect("a number");
    let series = (number("estimated", "seriesTouched"), number("actual", "seriesTouched"));
    assert_eq!(series.0, series.1, "{parameters:?}: {cost}");
    let (estimated, actual) = (number("estimated", "samplesRead"), number("actual", "samplesRead"));
    assert!(estimated <= 2 * actual && actual <= 2 * estimated, "{path} {parameters:?}: {cost}");
    // The two estimates may differ: the query may have filled caches.
    let of_endpoint = estimate["data"]["estimate"]["samplesRead"].as_u64().expect("a number");
    assert!(
        of_endpoint <= 2 * actual && actual <= 2 * of_endpoint,
        "{path}_cost {parameters:?}: {estimate}, not {cost}"
    );
    (estimated, actual)
}

/// All recorded queries that have an answer.
async fn check_recorded_estimates(url: &str, without: &[&str]) {
    let mut checked = 0;
    for case in recorded() {
        let kind = text(&case["cat"]);
        let query = case["params"][0][1].as_str().unwrap_or_default();
        let answered = kind.starts_with("cost-with") && case["status"] == 200;
        if !answered || without.contains(&query) {
            continue;
        }
        checked += 1;
        if kind == "cost-with-query" {
            check_estimate(url, "/api/v1/query", &[("query", query), ("time", AT)]).await;
        } else {
            let parameters = [&[("query", query)], &RANGE[..]].concat();
            check_estimate(url, "/api/v1/query_range", &parameters).await;
        }
    }
    assert!(checked > 25, "{checked} checked");
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_cost_what_prometheus_says_in_memory_and_in_parts() {
    let data = tempfile::tempdir().expect("a folder");
    let mut server = Promkairos::ready(data.path(), &Backend::Embedded, &[]).await;
    load(&server.url("")).await;
    replay(&server.url(""), &[]).await;
    check_recorded_estimates(&server.url(""), &[]).await;
    assert!(server.process.terminate().success());
    // All samples are in part files now.
    let server = Promkairos::ready(data.path(), &Backend::Embedded, &[]).await;
    replay(&server.url(""), &[]).await;
    check_recorded_estimates(&server.url(""), &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_cost_the_same_over_cassandra() {
    let data = tempfile::tempdir().expect("a folder");
    let server = Promkairos::ready(data.path(), &Backend::cassandra_store(), &[]).await;
    load(&server.url("")).await;
    replay(&server.url(""), ON_CASSANDRA).await;
    check_recorded_estimates(&server.url(""), &["{__name__=~\".+\"}"]).await;
    // Estimates read no points.
    let rows = async || {
        let (_, page) = server.get("/metrics").await.expect("a page");
        let line =
            page.lines().find(|line| line.starts_with("promkairos_cassandra_rows_read_total"));
        line.expect("the counter").to_owned()
    };
    let before = rows().await;
    let parameters = [("query", "rate(http_requests_total[5m])"), ("time", AT)];
    get(&server.url("/api/v1/query_cost"), &parameters).await;
    assert_eq!(rows().await, before);
}

/// More series and days than the estimate samples frames; some have points every 90 s, some every 4 minutes.
#[tokio::test(flavor = "multi_thread")]
async fn a_few_frames_say_how_dense_all_are() {
    const START: i64 = 1_704_067_200_000;
    const DAY: i64 = 86_400_000;
    let data = tempfile::tempdir().expect("a folder");
    let mut server = Promkairos::ready(data.path(), &Backend::Embedded, &[]).await;
    let mut all = Vec::new();
    for series in 0..120 {
        let every = if series % 3 == 0 { 90_000 } else { 240_000 };
        let points: Vec<(i64, f64)> =
            (0..2 * DAY / every).map(|at| (START + at * every, at as f64)).collect();
        let name = if series % 3 == 0 { "dense" } else { "sparse" };
        all.push(floats(&[("__name__", name), ("i", &format!("{series}"))], &points));
    }
    for some in all.chunks(30) {
        assert_eq!(send(&server.url(""), some.to_vec()).await, 204);
    }
    let check = async |url: &str| {
        for query in ["dense", "sparse", "{__name__=~'dense|sparse'}"] {
            let end = (START + 2 * DAY) / 1000;
            let (start, end) = (format!("{}", end - 100_000), format!("{end}"));
            for query in [format!("sum({query})"), format!("sum(count_over_time({query}[20m]))")] {
                for step in ["600", "3600"] {
                    let parameters =
                        [("query", &*query), ("start", &*start), ("end", &*end), ("step", step)];
                    check_estimate(url, "/api/v1/query_range", &parameters).await;
                }
                check_estimate(url, "/api/v1/query", &[("query", &*query), ("time", &*start)])
                    .await;
            }
        }
    };
    check(&server.url("")).await;
    assert!(server.process.terminate().success());
    let server = Promkairos::ready(data.path(), &Backend::Embedded, &[]).await;
    check(&server.url("")).await;
}

/// Queries with additional parameters; returns status and error.
async fn limited(server: &Promkairos, query: &str, more: &[(&str, &str)]) -> (u16, String) {
    let parameters = [&[("query", query), ("time", AT)], more].concat();
    let (status, answer) = get(&server.url("/api/v1/query"), &parameters).await;
    (status, answer["error"].as_str().unwrap_or_default().to_owned())
}

async fn check_limits(backend: &Backend) {
    let data = tempfile::tempdir().expect("a folder");
    let flags = ["--query-max-series=9", "--query-max-samples-read=170", "--query-max-duration=3m"];
    let server = Promkairos::ready(data.path(), backend, &flags).await;
    load(&server.url("")).await;
    let eight = "rate(http_requests_total[5m])";
    assert_eq!(limited(&server, eight, &[]).await, (200, String::new()));
    let (status, why) = limited(&server, "http_requests_total + http_requests_total", &[]).await;
    assert!(
        status == 422 && why.ends_with("more than 9, which is the setting query-max-series"),
        "{why}"
    );
    let (status, why) = limited(&server, "rate(http_requests_total[10m])", &[]).await;
    let setting = "more than 170, which is the setting query-max-samples-read";
    assert!(status == 422 && why.ends_with(setting), "{why}");
    // The samples that a subquery reads count too, also those outside of every window.
    let (status, why) = limited(&server, "sum_over_time(http_requests_total[10m:10s])", &[]).await;
    assert!(status == 422 && why.ends_with(setting), "{why}");
    for (name, most, above) in [
        ("max_series", "9", "10"),
        ("max_samples_read", "170", "171"),
        ("max_query_duration", "3m", "181"),
    ] {
        assert_eq!(limited(&server, eight, &[(name, most)]).await, (200, String::new()));
        let (status, why) = limited(&server, eight, &[(name, above)]).await;
        let want = format!("requested {name} of ");
        assert!(status == 400 && why.starts_with(&want), "{why}");
    }
    let why = limited(&server, eight, &[("max_query_duration", "181")]).await.1;
    assert_eq!(why, "requested max_query_duration of 3m1s exceeds the server limit of 3m0s");
    // An estimate is never refused for a limit.
    let parameters = [("query", "{__name__=~'.+'}"), ("time", AT), ("max_series", "1")];
    let (status, _) = get(&server.url("/api/v1/query_cost"), &parameters).await;
    assert_eq!(status, 200);
    let (_, page) = server.get("/metrics").await.expect("a page");
    for (limit, times) in [("query-max-series", 1), ("query-max-samples-read", 2)] {
        let line = format!("promkairos_limits_reached_total{{limit=\"{limit}\"}} {times}\n");
        assert!(page.contains(&line), "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_of_cost_hold_while_a_query_runs() {
    check_limits(&Backend::Embedded).await;
    check_limits(&Backend::cassandra_store()).await;
}
