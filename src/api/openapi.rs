//! `/api/v1/openapi.yaml`: what can be asked under `/api/v1`, as an OpenAPI document.
//!
//! One table of endpoints with their methods and parameters, written as JSON, which every reader of YAML reads.
//! What answers look like inside is that of Prometheus and not described here.

use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

use super::pages::API_LEVEL;
use super::parameters::Parameters;

/// What can be asked at a path, all methods alike.
struct Endpoint {
    path: &'static str,
    methods: &'static [&'static str],
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

const READ: &[&str] = &["get"];
const READ_OR_POST: &[&str] = &["get", "post"];
const SEND: &[&str] = &["post"];
const CHANGE: &[&str] = &["post", "put"];

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
    methods: &'static [&'static str],
    tag: &'static str,
    summary: &'static str,
    parameters: &'static [Parameter],
) -> Endpoint {
    Endpoint { path, methods, tag, summary, parameters }
}

/// All endpoints, but for those of what this program does not have.
const ENDPOINTS: &[Endpoint] = &[
    endpoint("/query", READ_OR_POST, "query", "Evaluate an expression at one time", INSTANT),
    endpoint("/query_range", READ_OR_POST, "query", "Evaluate an expression at many times", RANGE),
    endpoint("/query_cost", READ_OR_POST, "query", "What one time of an expression costs", INSTANT),
    endpoint("/query_range_cost", READ_OR_POST, "query", "What many times of it cost", RANGE),
    endpoint(
        "/query_exemplars",
        READ_OR_POST,
        "query",
        "Exemplars of the series of an expression",
        &[("query", Needed), ("start", Time), ("end", Time)],
    ),
    endpoint("/format_query", READ_OR_POST, "query", "Format an expression", &[("query", Needed)]),
    endpoint("/parse_query", READ_OR_POST, "query", "Parse an expression", &[("query", Needed)]),
    endpoint("/labels", READ_OR_POST, "labels", "Names of labels", SELECTED),
    endpoint(
        "/label/{name}/values",
        READ,
        "labels",
        "Values of a label",
        &[("name", InPath), ("match[]", Texts), ("start", Time), ("end", Time), ("limit", Number)],
    ),
    endpoint("/series", READ_OR_POST, "series", "Label sets of series", SELECTED),
    endpoint(
        "/metadata",
        READ,
        "metadata",
        "Type, unit and help of metrics",
        &[("metric", Text), ("limit", Number), ("limit_per_metric", Number)],
    ),
    endpoint("/features", READ, "status", "What of Prometheus is offered", &[]),
    endpoint("/openapi.yaml", READ, "status", "This document", &[("openapi_version", Text)]),
    endpoint("/status/buildinfo", READ, "status", "Version", &[]),
    endpoint("/status/runtimeinfo", READ, "status", "The process", &[]),
    endpoint("/status/config", READ, "status", "The configuration file, which there is not", &[]),
    endpoint("/status/flags", READ, "status", "Flags of Prometheus, of which there are none", &[]),
    endpoint("/status/walreplay", READ, "status", "Whether the log has been replayed", &[]),
    endpoint("/status/tsdb", READ, "status", "Counts of series", &[("limit", Number)]),
    endpoint(
        "/status/tsdb/blocks",
        READ,
        "status",
        "Blocks of Prometheus, of which there are none",
        &[],
    ),
    endpoint("/status/tag_index", READ, "status", "The tag index over Cassandra", &[]),
    endpoint(
        "/explain",
        READ,
        "status",
        "The path that a selection takes over Cassandra",
        &[("match[]", Texts), ("start", Time), ("end", Time)],
    ),
    endpoint("/read", SEND, "remote", "Remote read", &[]),
    endpoint("/write", SEND, "remote", "Remote write", &[]),
    endpoint(
        "/admin/tsdb/delete_series",
        CHANGE,
        "admin",
        "Delete points",
        &[("match[]", Texts), ("start", Time), ("end", Time), ("dry_run", Text)],
    ),
    endpoint("/admin/tsdb/clean_tombstones", CHANGE, "admin", "Nothing is left to clean", &[]),
    endpoint(
        "/admin/tag_index/build",
        SEND,
        "admin",
        "Begin a build of the tag index",
        &[("metric", Needed), ("rows_per_second", Number)],
    ),
    endpoint(
        "/admin/tag_index/drop",
        SEND,
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
        "servers": [{ "url": "/api/v1" }],
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
    let of = |method: &&str| ((*method).to_owned(), operation(endpoint, method));
    Value::Object(endpoint.methods.iter().map(of).collect())
}

fn operation(endpoint: &Endpoint, method: &str) -> Value {
    let words = endpoint.path.split(['/', '{', '}', '.']).filter(|word| !word.is_empty());
    let name = words.collect::<Vec<_>>().join("-");
    let answer = json!({ "schema": { "$ref": "#/components/schemas/Answer" } });
    let answered = |what: &str| json!({ "description": what, "content": { "application/json": answer.clone() } });
    // A form has the parameters of a query that is too long for a URL.
    let form = method == "post" && endpoint.methods == READ_OR_POST;
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
        let routes = include_str!("routes.rs").split("\"/api/v1").skip(1);
        let routes = routes.filter_map(|rest| rest.split('"').next()).filter(|path| {
            let absent = NOT_HERE.iter().any(|name| path.starts_with(&format!("/{name}")));
            !absent && !["/notifications", "/admin/tsdb/snapshot"].contains(path)
        });
        let mut count = 0;
        for path in routes {
            assert!(ENDPOINTS.iter().any(|one| one.path == path), "{path}");
            count += 1;
        }
        assert!(count >= ENDPOINTS.len(), "{count}");
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
