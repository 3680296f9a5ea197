//! `/api/v1/openapi.yaml`: what can be asked under `/api/v1`, as an OpenAPI document.
//!
//! A table of endpoints with their parameters, whose methods are those of the routes, written as JSON, which every
//! reader of YAML reads. What answers look like inside is that of Prometheus and not described here.

use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

use super::pages::API_LEVEL;
use super::parameters::Parameters;
use super::routes::{Methods, ROUTES, Route};

/// What can be asked at a path, all methods alike.
struct Endpoint {
    /// Below [`BASE`].
    path: &'static str,
    /// What it is about.
    tag: &'static str,
    summary: &'static str,
    parameters: &'static [Parameter],
}

/// A parameter: its name, and of what kind it is.
type Parameter = (&'static str, Kind);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A text without which there is no answer.
    Needed,
    Text,
    /// Unix seconds or RFC 3339.
    Time,
    /// Seconds, or as in PromQL.
    Duration,
    Number,
    /// Any number of texts.
    Texts,
    /// A part of the path.
    InPath,
}

use Kind::{Duration, InPath, Needed, Number, Text, Texts, Time};

/// What all paths begin with.
const BASE: &str = "/api/v1";

const INSTANT: &[Parameter] = &[
    ("query", Needed),
    ("time", Time),
    ("timeout", Duration),
    ("limit", Number),
    ("lookback_delta", Duration),
    ("stats", Text),
    ("cost", Text),
    ("max_series", Number),
    ("max_samples_read", Number),
    ("max_query_duration", Duration),
];
const RANGE: &[Parameter] = &[
    ("query", Needed),
    ("start", Needed),
    ("end", Needed),
    ("step", Needed),
    ("timeout", Duration),
    ("limit", Number),
    ("lookback_delta", Duration),
    ("stats", Text),
    ("cost", Text),
    ("max_series", Number),
    ("max_samples_read", Number),
    ("max_query_duration", Duration),
];
const SELECTED: &[Parameter] =
    &[("match[]", Texts), ("start", Time), ("end", Time), ("limit", Number)];

const fn endpoint(
    path: &'static str,
    tag: &'static str,
    summary: &'static str,
    parameters: &'static [Parameter],
) -> Endpoint {
    Endpoint { path, tag, summary, parameters }
}

/// All endpoints, but for those of what this program does not have.
const ENDPOINTS: &[Endpoint] = &[
    endpoint("/query", "query", "Evaluate an expression at one time", INSTANT),
    endpoint("/query_range", "query", "Evaluate an expression at many times", RANGE),
    endpoint("/query_cost", "query", "What one time of an expression costs", INSTANT),
    endpoint("/query_range_cost", "query", "What many times of it cost", RANGE),
    endpoint(
        "/query_exemplars",
        "query",
        "Exemplars of the series of an expression",
        &[("query", Needed), ("start", Time), ("end", Time)],
    ),
    endpoint("/format_query", "query", "Format an expression", &[("query", Needed)]),
    endpoint("/parse_query", "query", "Parse an expression", &[("query", Needed)]),
    endpoint("/labels", "labels", "Names of labels", SELECTED),
    endpoint(
        "/label/{name}/values",
        "labels",
        "Values of a label",
        &[("name", InPath), ("match[]", Texts), ("start", Time), ("end", Time), ("limit", Number)],
    ),
    endpoint("/series", "series", "Label sets of series", SELECTED),
    endpoint(
        "/metadata",
        "metadata",
        "Type, unit and help of metrics",
        &[("metric", Text), ("limit", Number), ("limit_per_metric", Number)],
    ),
    endpoint("/features", "status", "What of Prometheus is offered", &[]),
    endpoint("/openapi.yaml", "status", "This document", &[("openapi_version", Text)]),
    endpoint("/status/buildinfo", "status", "Version", &[]),
    endpoint("/status/runtimeinfo", "status", "The process", &[]),
    endpoint("/status/config", "status", "External labels and intervals, as YAML", &[]),
    endpoint("/status/flags", "status", "Flags of Prometheus", &[]),
    endpoint("/status/walreplay", "status", "Whether the log has been replayed", &[]),
    endpoint("/status/tsdb", "status", "Counts of series", &[("limit", Number)]),
    endpoint("/status/tsdb/blocks", "status", "Blocks of Prometheus, of which there are none", &[]),
    endpoint("/status/tag_index", "status", "The tag index over Cassandra", &[]),
    endpoint(
        "/explain",
        "status",
        "The path that a selection takes over Cassandra",
        &[("match[]", Texts), ("start", Time), ("end", Time)],
    ),
    endpoint("/read", "remote", "Remote read", &[]),
    endpoint("/write", "remote", "Remote write", &[]),
    endpoint(
        "/admin/tsdb/delete_series",
        "admin",
        "Delete points, or say what a delete would take and cost",
        &[
            ("match[]", Texts),
            ("start", Time),
            ("end", Time),
            ("dry_run", Text),
            ("count_series", Text),
        ],
    ),
    endpoint("/admin/tsdb/clean_tombstones", "admin", "Nothing is left to clean", &[]),
    endpoint(
        "/admin/tag_index/build",
        "admin",
        "Begin a build of the tag index",
        &[("metric", Needed), ("rows_per_second", Number)],
    ),
    endpoint(
        "/admin/tag_index/drop",
        "admin",
        "Begin a drop of the tag index",
        &[("metric", Needed)],
    ),
];

/// `GET /api/v1/openapi.yaml`, parameter `openapi_version`.
pub(super) async fn openapi(parameters: Parameters) -> Response {
    let version = match parameters.first("openapi_version") {
        "3.2" | "3.2.0" => "3.2.0",
        _ => "3.1.0",
    };
    let headers = [
        (header::CONTENT_TYPE, "application/yaml; charset=utf-8"),
        (header::CACHE_CONTROL, "no-cache, no-store, must-revalidate"),
    ];
    let text = serde_json::to_string_pretty(&document(version)).unwrap_or_default();
    (headers, text + "\n").into_response()
}

fn document(version: &str) -> Value {
    let paths: Map<String, Value> =
        ENDPOINTS.iter().map(|one| (one.path.to_owned(), operations(one))).collect();
    json!({
        "openapi": version,
        "info": {
            "title": "promkairos API",
            "description": "The HTTP API of Prometheus over the stores of promkairos.",
            "version": API_LEVEL,
        },
        "servers": [{ "url": BASE }],
        "paths": paths,
        "components": { "schemas": {
            "Answer": {
                "type": "object",
                "required": ["status"],
                "properties": {
                    "status": { "type": "string", "enum": ["success", "error"] },
                    "data": {},
                    "errorType": { "type": "string" },
                    "error": { "type": "string" },
                    "warnings": { "type": "array", "items": { "type": "string" } },
                    "infos": { "type": "array", "items": { "type": "string" } },
                },
            },
        } },
    })
}

fn operations(endpoint: &Endpoint) -> Value {
    let Some(methods) = methods(endpoint) else { return Value::Null };
    let names = methods.names().iter().map(|name| name.to_lowercase());
    let of = |name: String| {
        let operation = operation(endpoint, methods, &name);
        (name, operation)
    };
    Value::Object(names.map(of).collect())
}

/// The methods that its route takes.
fn methods(endpoint: &Endpoint) -> Option<Methods> {
    let is_its = |route: &&Route| route.path.strip_prefix(BASE) == Some(endpoint.path);
    ROUTES.iter().find(is_its).map(|route| route.methods)
}

fn operation(endpoint: &Endpoint, methods: Methods, method: &str) -> Value {
    let words = endpoint.path.split(['/', '{', '}', '.']).filter(|word| !word.is_empty());
    let name = words.collect::<Vec<_>>().join("-");
    let answer = json!({ "schema": { "$ref": "#/components/schemas/Answer" } });
    let answered = |what: &str| json!({ "description": what, "content": { "application/json": answer.clone() } });
    // A form has the parameters of a query that is too long for a URL.
    let form = method == "post" && methods == Methods::GetOrPost;
    let in_url = endpoint.parameters.iter().filter(|(_, kind)| !form || *kind == InPath);
    let mut operation = json!({
        "operationId": format!("{method}-{name}"),
        "summary": endpoint.summary,
        "tags": [endpoint.tag],
        "parameters": in_url.map(|one| parameter(*one)).collect::<Vec<_>>(),
        "responses": { "200": answered("The answer."), "default": answered("An error.") },
    });
    if form {
        let fields = endpoint.parameters.iter().filter(|(_, kind)| *kind != InPath);
        let properties: Map<String, Value> =
            fields.map(|(name, kind)| ((*name).to_owned(), schema(*kind))).collect();
        let schema = json!({ "type": "object", "properties": properties });
        operation["requestBody"] =
            json!({ "content": { "application/x-www-form-urlencoded": { "schema": schema } } });
    }
    operation
}

fn parameter((name, kind): Parameter) -> Value {
    let place = if kind == InPath { "path" } else { "query" };
    let required = matches!(kind, InPath | Needed);
    json!({ "name": name, "in": place, "required": required, "schema": schema(kind) })
}

fn schema(kind: Kind) -> Value {
    match kind {
        Needed | Text | InPath => json!({ "type": "string" }),
        Time => json!({ "type": "string", "description": "Unix seconds, or a time of RFC 3339." }),
        Duration => json!({ "type": "string", "description": "Seconds, or as in PromQL: 5m." }),
        Number => json!({ "type": "integer", "minimum": 0 }),
        Texts => json!({ "type": "array", "items": { "type": "string" } }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Paths of what this program does not have, and answers as an empty Prometheus.
    const NOT_HERE: [&str; 5] = ["targets", "scrape_pools", "search", "alert", "rules"];

    #[test]
    fn every_route_is_described() {
        let paths = ROUTES.iter().filter_map(|route| route.path.strip_prefix(BASE));
        let described = paths.filter(|path| {
            let absent = NOT_HERE.iter().any(|name| path.starts_with(&format!("/{name}")));
            !absent && !["/notifications", "/admin/tsdb/snapshot"].contains(path)
        });
        let described: Vec<&str> = described.collect();
        for path in &described {
            assert!(ENDPOINTS.iter().any(|one| one.path == *path), "{path}");
        }
        assert_eq!(described.len(), ENDPOINTS.len());
        assert!(ENDPOINTS.iter().all(|one| methods(one).is_some()), "each has its route");
    }

    #[test]
    fn the_document_has_the_version_of_the_api() {
        let document = document("3.1.0");
        assert_eq!(document["info"]["version"], "3.16.0");
        let values = &document["paths"]["/label/{name}/values"]["get"];
        assert_eq!(values["operationId"], "get-label-name-values");
        assert_eq!(values["parameters"][0]["in"], "path");
        let posted = &document["paths"]["/query"]["post"];
        assert_eq!(posted["parameters"], json!([]));
        let form = &posted["requestBody"]["content"]["application/x-www-form-urlencoded"];
        assert_eq!(form["schema"]["properties"]["query"]["type"], "string");
    }
}
