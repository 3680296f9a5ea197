//! KairosDB's REST API: the paths that read, writes of points, and deletes. Also its telnet protocol.
//!
//! Answers and texts of errors are KairosDB's, and the language is in the crate `kairos-query`. A query passes the same
//! admission, budgets and time-outs as PromQL. Points are those that PromQL sees without histograms, and integers keep
//! their type. `save_as` is refused.

mod answer;
mod delete;
mod failure;
mod names;
mod points;
mod query;
mod request;
mod status;
mod telnet;
mod write;

pub use telnet::{TELNET_CONNECTION_BYTES, serve_telnet};

use axum::routing::on;

use super::access::settings::Right;
use super::route::{Handler, Kind, Methods, Route};

const READ: Option<Right> = Some(Right::Read);
const ADMIN: Option<Right> = Some(Right::Admin);

/// The paths that no path of a Prometheus has.
pub static KAIROSDB_ROUTES: &[Route] = &[
    read("/api/v1/datapoints/query", Methods::GetOrPost, |m| on(m, query::query)),
    read("/api/v1/datapoints/query/tags", Methods::GetOrPost, |m| on(m, query::tags)),
    read("/api/v1/metricnames", Methods::Get, |m| on(m, names::metric_names)),
    read("/api/v1/version", Methods::Get, |m| on(m, status::version)),
    read("/api/v1/health/check", Methods::Get, |m| on(m, status::check)),
    read("/api/v1/health/status", Methods::Get, |m| on(m, status::status)),
    Route {
        path: "/api/v1/datapoints",
        methods: Methods::Post,
        right: Some(Right::Write),
        kind: Kind::Call,
        handler: |m| on(m, write::data_points),
    },
    change("/api/v1/datapoints/delete", Methods::Post, |m| on(m, delete::data_points)),
    change("/api/v1/metric/{name}", Methods::Delete, |m| on(m, delete::metric)),
];

const fn read(path: &'static str, methods: Methods, handler: Handler) -> Route {
    Route { path, methods, right: READ, kind: Kind::Compressed, handler }
}

const fn change(path: &'static str, methods: Methods, handler: Handler) -> Route {
    Route { path, methods, right: ADMIN, kind: Kind::Compressed, handler }
}
