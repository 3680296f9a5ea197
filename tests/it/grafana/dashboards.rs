//! The dashboards and alert rules against the program: each metric and label that a panel or a rule names is on
//! `/metrics` of a server with one of the stores or with TLS, and each expression has an answer.
//!
//! The servers are queried, written to and scraped several times. Their metrics are written back to
//! them, as by a Prometheus, and the panels' expressions are evaluated over that.

use std::collections::BTreeSet;

use promkairos::model::Matcher;
use promkairos::promql::ast::{Expr, Grouping};
use promkairos::promql::{Features, parse};
use serde_json::Value as Json;

use super::alerts;
use super::scrape::Scrape;
use crate::cassandra::keyspace::TestKeyspace;
use crate::connections;
use crate::support::promkairos::{Backend, Promkairos};
use crate::support::series::{floats, send};
use crate::support::{self, api, eventually};
use crate::tidy::root;
use crate::web;

const DASHBOARDS: [&str; 2] = ["promkairos", "kairosdb-migration"];
/// Times of the scrapes, in milliseconds.
const SCRAPES: [i64; 4] = [1_700_000_000_000, 1_700_000_015_000, 1_700_000_030_000, NOW];
const NOW: i64 = 1_700_000_045_000;
/// Only one request at a time is accepted, however long its body takes.
const ONE_AT_A_TIME: [&str; 2] = ["--max-concurrent-requests=1", "--http-body-timeout=1h"];

fn dashboard(name: &str) -> Json {
    let path = root().join("grafana/dashboards").join(format!("{name}.json"));
    serde_json::from_str(&std::fs::read_to_string(path).expect(name)).expect(name)
}

fn list<'a>(value: &'a Json, of: &str) -> &'a [Json] {
    value.as_array().unwrap_or_else(|| panic!("no list: {of}"))
}

fn text<'a>(value: &'a Json, of: &str) -> &'a str {
    value.as_str().unwrap_or_else(|| panic!("no text: {of}"))
}

/// Title, expression and legend of each query of each panel, as Grafana sends them.
fn expressions(dashboard: &Json) -> Vec<(String, String, String)> {
    let mut all = Vec::new();
    for panel in list(&dashboard["panels"], "panels").iter().filter(|one| one["type"] != "row") {
        let title = text(&panel["title"], "title");
        for target in list(&panel["targets"], title) {
            let expr = text(&target["expr"], title);
            let expr = expr.replace("$__rate_interval", "1m").replace("$instance", ".*");
            assert!(!expr.contains('$'), "{title}: {expr}");
            let legend = text(&target["legendFormat"], title).to_owned();
            all.push((title.to_owned(), expr, legend));
        }
    }
    all
}

#[test]
fn every_panel_says_what_it_shows() {
    let mut uids = BTreeSet::new();
    for name in DASHBOARDS {
        let dashboard = dashboard(name);
        assert!(uids.insert(text(&dashboard["uid"], name).to_owned()), "{name}");
        let variables = list(&dashboard["templating"]["list"], "variables");
        assert_eq!(variables[0]["name"], "datasource");
        assert_eq!(variables[0]["query"], "prometheus");
        let (mut ids, mut cells, mut rows) = (BTreeSet::new(), BTreeSet::new(), 0);
        for panel in list(&dashboard["panels"], "panels") {
            let title = text(&panel["title"], name);
            assert!(!title.is_empty() && ids.insert(panel["id"].as_u64()), "{name}: {title}");
            let place = |side: &str| panel["gridPos"][side].as_u64().expect("a number");
            assert!(place("x") + place("w") <= 24, "{name}: {title}");
            for x in place("x")..place("x") + place("w") {
                for y in place("y")..place("y") + place("h") {
                    assert!(cells.insert((x, y)), "{name}: {title} lies over another");
                }
            }
            if panel["type"] == "row" {
                rows += 1;
                continue;
            }
            let kind = text(&panel["type"], title);
            assert!(["timeseries", "stat", "table"].contains(&kind), "{title}: {kind}");
            assert!(!text(&panel["description"], title).is_empty());
            assert!(!text(&panel["fieldConfig"]["defaults"]["unit"], title).is_empty());
            assert_eq!(panel["datasource"]["uid"], "${datasource}", "{title}");
            let targets = list(&panel["targets"], title);
            assert!(!targets.is_empty(), "{title}");
            let legends = targets.iter().map(|one| text(&one["legendFormat"], title));
            let shown = legends.filter(|legend| !legend.is_empty()).count();
            assert_eq!(shown, if kind == "timeseries" { targets.len() } else { 0 }, "{title}");
        }
        assert!(rows >= 4, "{name}: {rows} rows");
    }
}

#[test]
fn grafana_finds_the_dashboards() {
    let yaml = |path: &str| -> Json {
        let text = std::fs::read_to_string(root().join(path)).expect(path);
        serde_norway::from_str(&text).expect(path)
    };
    let provider = yaml("grafana/provisioning/dashboards/promkairos.yml");
    let folder = text(&provider["providers"][0]["options"]["path"], "path");
    let compose = yaml("docker-compose.yml");
    let mounts = list(&compose["services"]["grafana"]["volumes"], "volumes");
    let mount = format!("./grafana/dashboards:{folder}:ro");
    assert!(mounts.iter().any(|one| *one == mount), "{mounts:?}");
    let mut found: Vec<String> = std::fs::read_dir(root().join("grafana/dashboards"))
        .expect("a folder")
        .map(|file| file.expect("a file").file_name().into_string().expect("a name"))
        .collect();
    found.sort();
    let mut known: Vec<String> = DASHBOARDS.iter().map(|name| format!("{name}.json")).collect();
    known.sort();
    assert_eq!(found, known);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_metric_is_there_and_every_expression_is_answered() {
    let folder = tempfile::tempdir().expect("a folder");
    let flags = [&ONE_AT_A_TIME[..], &["--tag-indexed-row-key-lookup-metrics=m"]].concat();
    let embedded = folder.path().join("embedded");
    let embedded = Promkairos::ready(&embedded, &Backend::Embedded, &ONE_AT_A_TIME).await;
    let keyspace = TestKeyspace::new().await;
    let (address, name) = (support::cassandra(), keyspace.name.clone());
    let backend = Backend::CassandraStore { address, keyspace: name };
    let cassandra = Promkairos::ready(&folder.path().join("cassandra"), &backend, &flags).await;
    // A row as a plug-in of KairosDB writes it, which Prometheus cannot read.
    let window = NOW - NOW % 1_814_400_000;
    let row = format!(
        "INSERT INTO {{k}}.row_keys (metric, table_name, row_time, data_type, tags, mtime) \
         VALUES ('m', 'data_points', {window}, 'kairos_complex', {{'host': 'x'}}, now())"
    );
    keyspace.cql(&row).await;
    let mut scrapes = Vec::new();
    for server in [&embedded, &cassandra] {
        scrapes.push(observed(server).await);
    }
    // Metrics that only a server with TLS has.
    scrapes.push(Scrape::new(&web::page_of_metrics().await));
    let mut wrong = Vec::new();
    for name in DASHBOARDS {
        for (title, query, legend) in expressions(&dashboard(name)) {
            let place = format!("{name}: {title}: {query}");
            let expr = parse(&query, Features::Stable).unwrap_or_else(|e| panic!("{place}: {e}"));
            wrong.extend(unknown(&expr, &scrapes).into_iter().map(|why| format!("{place}: {why}")));
            let by = legend.split("{{").skip(1).filter_map(|rest| rest.split("}}").next());
            for label in by.filter(|label| !query.contains(label)) {
                wrong.push(format!("{place}: the legend has {label}"));
            }
            let mut selectors = Vec::new();
            selections(&expr, &mut selectors);
            let mut answered = false;
            for (server, scrape) in [&embedded, &cassandra].into_iter().zip(&scrapes) {
                let full = selectors.iter().all(|matchers| scrape.has(matchers));
                let series = ask(server, &query).await;
                answered |= series > 0;
                // A panel leaves out zeros that nobody needs to see.
                let all = query.strip_suffix(" > 0");
                let series = match all {
                    Some(all) => ask(server, all).await,
                    None => series,
                };
                if full && series == 0 {
                    wrong.push(format!("{place}: an empty answer"));
                }
            }
            // Only filters for trouble may match nothing if there is none.
            let trouble = ["code=~", "outcome!=", "skipped", "rejected", "limits_reached"];
            if !answered && !trouble.iter().any(|word| query.contains(word)) {
                wrong.push(format!("{place}: nobody has it"));
            }
        }
    }
    for (name, query) in alerts::expressions() {
        let place = format!("{name}: {query}");
        let expr = parse(&query, Features::Stable).unwrap_or_else(|e| panic!("{place}: {e}"));
        wrong.extend(unknown(&expr, &scrapes).into_iter().map(|why| format!("{place}: {why}")));
        for server in [&embedded, &cassandra] {
            ask(server, &query).await;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Uses a server in all ways that it counts, and writes its metrics to it.
async fn observed(server: &Promkairos) -> Scrape {
    let url = server.url("");
    reach_a_limit(server).await;
    let mut last = Scrape::default();
    for time in SCRAPES {
        let host = time.to_string();
        let labels = [("__name__", "m"), ("host", &*host)];
        assert_eq!(
            send(&url, vec![floats(&labels, &[(time, 1.0), (time + 1, f64::NAN)])]).await,
            204
        );
        let nameless = floats(&[("__name__", "m"), ("", "x")], &[(time, 1.0)]);
        assert_eq!(send(&url, vec![nameless]).await, 400);
        for query in ["sum(m)", "m offset 1d", "m + on() m", "m{"] {
            ask_raw(server, query).await;
        }
        assert!(!server.read("__name__", "m").await.expect("a remote read").is_empty());
        let (status, text) = server.get("/metrics").await.expect("an answer");
        assert_eq!(status, 200);
        last = Scrape::new(&text);
        assert_eq!(send(&url, last.sent_at(time)).await, 204);
    }
    assert!(last.names().len() > 50, "{:?}", last.names());
    last
}

/// Makes a request fail because another one is under way.
async fn reach_a_limit(server: &Promkairos) {
    let ask = async || server.get("/version").await.expect("an answer");
    drop(connections::begin_alone(server, &ask).await);
    eventually("there is a place again", async || match ask().await {
        (200, _) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
}

async fn ask_raw(server: &Promkairos, query: &str) -> (u16, Json) {
    let seconds = |time: i64| (time / 1000).to_string();
    let (start, end) = (seconds(NOW), seconds(NOW));
    let form = [("query", query), ("start", &*start), ("end", &*end), ("step", "15")];
    let range = api::post(&server.url("/api/v1/query_range"), &form).await;
    let instant = [("query", query), ("time", &*end)];
    assert_eq!(api::post(&server.url("/api/v1/query"), &instant).await.0, range.0, "{query}");
    range
}

/// The number of series in the answer to a panel.
async fn ask(server: &Promkairos, query: &str) -> usize {
    let (status, answer) = ask_raw(server, query).await;
    assert_eq!((status, &answer["status"]), (200, &Json::from("success")), "{query}: {answer}");
    for kind in ["warnings", "infos"] {
        assert!(answer[kind].is_null(), "{query}: {answer}");
    }
    list(&answer["data"]["result"], query).len()
}

/// The names in the expression that no server has.
fn unknown(expr: &Expr, scrapes: &[Scrape]) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut selectors = Vec::new();
    selections(expr, &mut selectors);
    for matchers in &selectors {
        for matcher in matchers.iter() {
            if !scrapes.iter().any(|scrape| scrape.has_label(matchers, matcher.name())) {
                wrong.push(format!("no label {}", matcher.name()));
            }
        }
    }
    if let Expr::Aggregate(aggregate) = expr
        && let Grouping::By(labels) = &aggregate.grouping
    {
        for (label, matchers) in labels.iter().flat_map(|l| selectors.iter().map(move |s| (l, s))) {
            if !scrapes.iter().any(|scrape| scrape.has_label(matchers, label)) {
                wrong.push(format!("no label {label} to group by"));
            }
        }
    }
    wrong.extend(expr.children().into_iter().flat_map(|child| unknown(child, scrapes)));
    wrong
}

/// The matchers of each selector.
fn selections<'a>(expr: &'a Expr, all: &mut Vec<&'a [Matcher]>) {
    match expr {
        Expr::Selector(selector) => all.push(&selector.matchers),
        Expr::Matrix(matrix) => all.push(&matrix.selector.matchers),
        _ => expr.children().into_iter().for_each(|child| selections(child, all)),
    }
}
