//! KairosDB's REST API: the paths that read.
//!
//! Answers and texts of errors are KairosDB's, and the language is in the crate `kairos-query`. A query passes the same
//! admission, budgets and time-outs as PromQL. Points are those that PromQL sees without histograms: all values are
//! doubles, of which KairosDB writes whole numbers without a fraction. Nothing writes here: `save_as` is refused.

mod answer;
mod failure;
mod names;
mod query;
mod status;

use axum::routing::on;

use super::access::settings::Right;
use super::route::{Handler, Kind, Methods, Route};

const READ: Option<Right> = Some(Right::Read);

/// The paths that no path of a Prometheus has.
pub static KAIROSDB_ROUTES: &[Route] = &[
    route("/api/v1/datapoints/query", Methods::GetOrPost, |m| on(m, query::query)),
    route("/api/v1/datapoints/query/tags", Methods::GetOrPost, |m| on(m, query::tags)),
    route("/api/v1/metricnames", Methods::Get, |m| on(m, names::metric_names)),
    route("/api/v1/version", Methods::Get, |m| on(m, status::version)),
    route("/api/v1/health/check", Methods::Get, |m| on(m, status::check)),
    route("/api/v1/health/status", Methods::Get, |m| on(m, status::status)),
];

const fn route(path: &'static str, methods: Methods, handler: Handler) -> Route {
    Route { path, methods, right: READ, kind: Kind::Compressed, handler }
}
