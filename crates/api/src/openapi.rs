//! `/api/v1/openapi.yaml`: the endpoints under `/api/v1` as an OpenAPI document.
//!
//! Generated from the table of endpoints (`endpoints`) and the methods of the routes. Written as JSON, which is valid
//! YAML. The content of answers is the same as in Prometheus and not described here.

use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

use super::endpoints::Kind::{Duration, Flag, InPath, Number, Text, Texts, Time};
use super::endpoints::{BASE, ENDPOINTS, Endpoint, Kind, Parameter};
use super::pages::API_LEVEL;
use super::parameters::Parameters;
use super::route::{Methods, Route};

/// `GET /api/v1/openapi.yaml`, parameter `openapi_version`. The document has the methods of these routes.
pub(super) fn openapi(routes: &[Route], parameters: &Parameters) -> Response {
    let version = match parameters.first("openapi_version") {
        "3.2" | "3.2.0" => "3.2.0",
        _ => "3.1.0",
    };
    let headers = [
        (header::CONTENT_TYPE, "application/yaml; charset=utf-8"),
        (header::CACHE_CONTROL, "no-cache, no-store, must-revalidate"),
    ];
    let text = serde_json::to_string_pretty(&document(routes, version)).unwrap_or_default();
    (headers, text + "\n").into_response()
}

fn document(routes: &[Route], version: &str) -> Value {
    let paths: Map<String, Value> =
        ENDPOINTS.iter().map(|one| (one.path.to_owned(), operations(routes, one))).collect();
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

fn operations(routes: &[Route], endpoint: &Endpoint) -> Value {
    let Some(methods) = methods(routes, endpoint) else { return Value::Null };
    let names = methods.names().iter().map(|name| name.to_lowercase());
    let of = |name: String| {
        let operation = operation(endpoint, methods, &name);
        (name, operation)
    };
    Value::Object(names.map(of).collect())
}

/// The methods of the endpoint's route.
fn methods(routes: &[Route], endpoint: &Endpoint) -> Option<Methods> {
    let is_its = |route: &&Route| route.path.strip_prefix(BASE) == Some(endpoint.path);
    routes.iter().find(is_its).map(|route| route.methods)
}

fn operation(endpoint: &Endpoint, methods: Methods, method: &str) -> Value {
    let words = endpoint.path.split(['/', '{', '}', '.']).filter(|word| !word.is_empty());
    let name = words.collect::<Vec<_>>().join("-");
    let answer = json!({ "schema": { "$ref": "#/components/schemas/Answer" } });
    let answered = |what: &str| json!({ "description": what, "content": { "application/json": answer.clone() } });
    // In a POST, the parameters are fields of a form.
    let form = method == "post" && methods == Methods::GetOrPost;
    let in_url = endpoint.parameters.iter().filter(|one| !form || one.kind == InPath);
    let mut operation = json!({
        "operationId": format!("{method}-{name}"),
        "summary": endpoint.summary,
        "tags": [endpoint.tag],
        "parameters": in_url.map(parameter).collect::<Vec<_>>(),
        "responses": { "200": answered("The answer."), "default": answered("An error.") },
    });
    if form {
        let schema = fields(endpoint.parameters);
        operation["requestBody"] =
            json!({ "content": { "application/x-www-form-urlencoded": { "schema": schema } } });
    }
    operation
}

fn parameter(parameter: &Parameter) -> Value {
    let Parameter { name, kind, is_required } = *parameter;
    let place = if kind == InPath { "path" } else { "query" };
    json!({ "name": name, "in": place, "required": is_required, "schema": schema(kind) })
}

/// The schema of a form with these parameters.
fn fields(parameters: &[Parameter]) -> Value {
    let fields = || parameters.iter().filter(|one| one.kind != InPath);
    let properties: Map<String, Value> =
        fields().map(|one| (one.name.to_owned(), schema(one.kind))).collect();
    let required: Vec<&str> = fields().filter(|one| one.is_required).map(|one| one.name).collect();
    json!({ "type": "object", "properties": properties, "required": required })
}

fn schema(kind: Kind) -> Value {
    match kind {
        Text | InPath => json!({ "type": "string" }),
        Flag => json!({ "type": "boolean" }),
        Time => json!({ "type": "string", "description": "Unix seconds, or a time of RFC 3339." }),
        Duration => json!({ "type": "string", "description": "Seconds, or as in PromQL: 5m." }),
        Number => json!({ "type": "integer", "minimum": 0 }),
        Texts => json!({ "type": "array", "items": { "type": "string" } }),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::body::{Body, to_bytes};
    use axum::extract::Request;
    use axum::http::StatusCode;
    use tower::Service;

    use super::*;
    use crate::settings::AdminApi;
    use crate::{AppState, ROUTES, router};
    use promkairos_storage::memory::MemoryStore;

    /// Paths of features that this program lacks, with empty answers.
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
        assert!(ENDPOINTS.iter().all(|one| methods(ROUTES, one).is_some()), "each has its route");
    }

    #[test]
    fn the_document_has_the_version_of_the_api() {
        let document = document(ROUTES, "3.1.0");
        assert_eq!(document["info"]["version"], "3.16.0");
        let values = &document["paths"]["/label/{name}/values"]["get"];
        assert_eq!(values["operationId"], "get-label-name-values");
        assert_eq!(values["parameters"][0]["in"], "path");
        let posted = &document["paths"]["/query"]["post"];
        assert_eq!(posted["parameters"], json!([]));
        let form = &posted["requestBody"]["content"]["application/x-www-form-urlencoded"];
        assert_eq!(form["schema"]["properties"]["query"]["type"], "string");
        assert_eq!(form["schema"]["required"], json!(["query"]));
        let range = &document["paths"]["/query_range"]["get"]["parameters"];
        assert_eq!((&range[1]["name"], &range[1]["required"]), (&json!("start"), &json!(true)));
        assert_eq!(range[1]["schema"], schema(Time));
        let deleted = document["paths"]["/admin/tsdb/delete_series"]["put"].to_string();
        assert!(deleted.contains("count_series"), "{deleted}");
    }

    /// A valid value for each parameter, so that a handler reads all that it can.
    fn value(kind: Kind) -> &'static str {
        match kind {
            Text | Texts => "up",
            Flag => "true",
            Time | Duration | Number | InPath => "1",
        }
    }

    /// Reading an unlisted parameter panics.
    #[tokio::test(flavor = "multi_thread")]
    async fn handlers_read_the_parameters_that_are_described() {
        let state = AppState::new(Arc::default()).with_admin_api(AdminApi::Enabled);
        state.open(Arc::new(MemoryStore::new()));
        let mut router = router(Arc::new(state));
        for endpoint in ENDPOINTS.iter().filter(|endpoint| !endpoint.parameters.is_empty()) {
            let given = endpoint.parameters.iter().filter(|one| one.kind != InPath);
            let query = form_urlencoded::Serializer::new(String::new())
                .extend_pairs(given.map(|one| (one.name, value(one.kind))))
                .finish();
            let path = endpoint.path.replace("{name}", "job");
            let method = methods(ROUTES, endpoint).expect("a route").names()[0];
            let request = Request::builder().method(method).uri(format!("{BASE}{path}?{query}"));
            let request = request.body(Body::empty()).expect("a request");
            let response = router.call(request).await.expect("infallible");
            if response.status() == StatusCode::BAD_REQUEST {
                let body = to_bytes(response.into_body(), usize::MAX).await.expect("a body");
                let text = String::from_utf8_lossy(&body);
                assert!(text.contains("no Cassandra store is open"), "{path}: {text}");
            }
        }
    }
}
