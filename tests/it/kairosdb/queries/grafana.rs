//! The requests of Grafana's KairosDB plugins: of `grafana-kairosdb-datasource`, which ended with Grafana 11, and of
//! its successor by ArpNetworking.
//!
//! The bodies follow from the sources of both. The first sends numbers as texts, units in capitals and a limit of 0.
//! The second sends numbers, and no limit. Neither names a zone: KairosDB runs in UTC.

use serde_json::{Value as Json, json};

use super::requests::{Asked, BURST, END, QUERY, START, TAGS_QUERY, get, post};

/// Aggregators over ranges of time.
const RANGES: [&str; 11] = [
    "avg",
    "dev",
    "count",
    "first",
    "gaps",
    "last",
    "least_squares",
    "max",
    "min",
    "percentile",
    "sum",
];

/// What the plugins ask while a dashboard with these metrics is opened and edited.
pub(super) fn requests(metrics: &[&str]) -> Vec<Asked> {
    let mut all = vec![get("/metricnames?prefix=no_such_name")];
    for name in metrics {
        let tags = |filters: Json| json!([{"name": name, "tags": filters}]);
        for filters in [json!({}), json!({"host": ["a"]}), json!({"host": ["a", "b"]})] {
            let first =
                json!({"cache_time": 0, "metrics": tags(filters.clone()), "start_absolute": 0});
            let second =
                json!({"start_absolute": START, "end_absolute": END, "metrics": tags(filters)});
            all.extend([first, second].map(|body| post(TAGS_QUERY, body.to_string())));
        }
        all.extend(
            aggregators().into_iter().map(|one| first_plugin(name, json!([one]), json!([]))),
        );
        let mut groups = vec![
            json!([{"name": "tag", "tags": ["host"]}]),
            json!([{"name": "tag", "tags": ["dc", "host"]}]),
        ];
        // KairosDB lists several tags in groups by time and value in the order of a hash table.
        if *name == "put" {
            let range = json!({"unit": "DAYS", "value": "1"});
            groups.push(json!([{"name": "time", "group_count": "7", "range_size": range}]));
            groups.push(json!([{"name": "value", "range_size": "5"}]));
        }
        for groups in groups {
            let average = json!([{"name": "avg", "sampling": {"value": "12", "unit": "HOURS"}}]);
            all.push(first_plugin(name, average, groups));
        }
        all.extend(second_plugin(name));
    }
    all
}

/// Every aggregator of the first plugin, with its alignments and without.
fn aggregators() -> Vec<Json> {
    let alignments =
        [json!({}), json!({"align_start_time": true}), json!({"align_sampling": true})];
    let mut all = Vec::new();
    for name in RANGES {
        for (alignment, unit) in alignments.iter().zip(["HOURS", "DAYS", "WEEKS"]) {
            let mut one = alignment.clone();
            one["name"] = name.into();
            one["sampling"] = json!({"value": "1", "unit": unit});
            if name == "percentile" {
                one["percentile"] = "0.9".into();
            }
            all.push(one);
        }
    }
    all.extend([
        json!({"name": "diff"}),
        json!({"name": "div", "divisor": "4"}),
        json!({"name": "rate", "unit": "HOURS"}),
        json!({"name": "rate", "align_sampling": true, "unit": "HOURS"}),
        json!({"name": "sampler", "unit": "DAYS"}),
        json!({"name": "scale", "factor": "0.5"}),
        json!({"name": "sma", "size": "3"}),
        json!({"name": "trim", "trim": "both"}),
        json!({"name": "avg", "sampling": {"value": "5400000", "unit": "MILLISECONDS"}}),
    ]);
    all
}

/// A panel of the first plugin.
fn first_plugin(name: &str, aggregators: Json, groups: Json) -> Asked {
    let metric = json!({
        "limit": 0,
        "name": name,
        "tags": {"host": ["c"]},
        "aggregators": aggregators,
        "group_by": groups,
    });
    let body = json!({
        "cache_time": 0,
        "start_absolute": START,
        "end_absolute": END,
        "metrics": [metric],
    });
    post(QUERY, body.to_string())
}

/// Panels of the second plugin: one metric, and one that a variable has made into two.
fn second_plugin(name: &str) -> [Asked; 2] {
    let sum = json!({"name": "sum", "align_sampling": true, "sampling": {"value": 30, "unit": "SECONDS"}});
    let scale = json!({"name": "scale", "factor": "2"});
    let metric = json!({
        "name": name,
        "tags": {"host": ["a", "b", "c"]},
        "aggregators": [sum, scale],
        "group_by": [{"name": "tag", "tags": ["host"]}],
    });
    let body = |metrics: Json| {
        let body =
            json!({"start_absolute": BURST, "end_absolute": BURST + 300_000, "metrics": metrics});
        post(QUERY, body.to_string())
    };
    [body(json!([{"name": name}])), body(json!([metric, {"name": "unknown"}]))]
}
