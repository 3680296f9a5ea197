//! The table of all paths: their methods, the right that each needs, and the handler.
//!
//! The router is built from this table (see `router`), open paths are derived from it, and tests iterate over it. So
//! every route has a right, or is marked `OPEN` and needs no login.

use axum::response::Response;
use axum::routing::on;

use super::access::settings::Right;
use super::parameters::Parameters;
use super::route::{Handler, Kind, Methods, Route};
use super::{
    admin, config_yaml, exemplars, exposition, features, federate, labels, metadata, pages, query,
    query_cost, remote_read, remote_write, status, tag_index, unsupported,
};

const OPEN: Option<Right> = None;
const READ: Option<Right> = Some(Right::Read);
const WRITE: Option<Right> = Some(Right::Write);
const ADMIN: Option<Right> = Some(Right::Admin);

use Methods::{Change, Get, GetOrPost, Page, Post, Steer};

/// All paths.
pub static ROUTES: &[Route] = &[
    page("/-/healthy", Page, OPEN, |m| on(m, status::healthy)),
    page("/-/ready", Page, OPEN, |m| on(m, status::ready)),
    page("/", Page, READ, |m| on(m, status::index)),
    page("/metrics", Page, READ, |m| on(m, exposition::metrics)),
    page("/version", Page, READ, |m| on(m, pages::version)),
    page("/federate", Get, READ, |m| on(m, federate::federate)),
    page("/-/reload", Steer, ADMIN, |m| on(m, pages::reload)),
    page("/-/quit", Steer, ADMIN, |m| on(m, pages::quit)),
    // Queries of data.
    query("/api/v1/query", GetOrPost, READ, |m| on(m, query::query)),
    query("/api/v1/query_range", GetOrPost, READ, |m| on(m, query::query_range)),
    query("/api/v1/query_cost", GetOrPost, READ, |m| on(m, query_cost::query_cost)),
    query("/api/v1/query_range_cost", GetOrPost, READ, |m| on(m, query_cost::query_range_cost)),
    query("/api/v1/query_exemplars", GetOrPost, READ, |m| on(m, exemplars::query_exemplars)),
    query("/api/v1/format_query", GetOrPost, READ, |m| on(m, query::format_query)),
    query("/api/v1/parse_query", GetOrPost, READ, |m| on(m, query::parse_query)),
    query("/api/v1/labels", GetOrPost, READ, |m| on(m, labels::names)),
    query("/api/v1/label/{name}/values", Get, READ, |m| on(m, labels::values)),
    query("/api/v1/series", GetOrPost, READ, |m| on(m, labels::series)),
    query("/api/v1/metadata", Get, READ, |m| on(m, metadata::metadata)),
    query("/api/v1/status/tsdb", Get, READ, |m| on(m, pages::tsdb)),
    // Status of this program.
    query("/api/v1/status/buildinfo", Get, READ, |m| on(m, pages::buildinfo)),
    query("/api/v1/status/runtimeinfo", Get, READ, |m| on(m, pages::runtimeinfo)),
    query("/api/v1/status/config", Get, READ, |m| on(m, config_yaml::config)),
    query("/api/v1/status/flags", Get, READ, |m| on(m, pages::flags)),
    query("/api/v1/status/walreplay", Get, READ, |m| on(m, pages::walreplay)),
    query("/api/v1/status/tsdb/blocks", Get, READ, |m| on(m, pages::blocks)),
    query("/api/v1/features", Get, READ, |m| on(m, features::features)),
    query("/api/v1/openapi.yaml", Get, READ, |m| on(m, openapi)),
    query("/api/v1/targets", Get, READ, |m| on(m, unsupported::targets)),
    query("/api/v1/targets/metadata", Get, READ, |m| on(m, unsupported::targets_metadata)),
    query("/api/v1/targets/relabel_steps", Get, READ, |m| on(m, unsupported::scrape_pool)),
    query("/api/v1/scrape_pools", Get, READ, |m| on(m, unsupported::scrape_pools)),
    query("/api/v1/scrape_pools/config", Get, READ, |m| on(m, unsupported::scrape_pool)),
    query("/api/v1/search/metric_names", GetOrPost, READ, |m| on(m, unsupported::search)),
    query("/api/v1/search/label_names", GetOrPost, READ, |m| on(m, unsupported::search)),
    query("/api/v1/search/label_values", GetOrPost, READ, |m| on(m, unsupported::search)),
    query("/api/v1/alertmanagers", Get, READ, |m| on(m, unsupported::alertmanagers)),
    query("/api/v1/alerts", Get, READ, |m| on(m, unsupported::alerts)),
    query("/api/v1/rules", Get, READ, |m| on(m, unsupported::rules)),
    query("/api/v1/notifications", Get, READ, |m| on(m, unsupported::notifications)),
    // Endpoints whose handler does everything.
    call("/api/v1/read", Post, READ, |m| on(m, remote_read::remote_read)),
    call("/api/v1/explain", Get, READ, |m| on(m, tag_index::explain)),
    call("/api/v1/status/tag_index", Get, READ, |m| on(m, tag_index::status)),
    call("/api/v1/write", Post, WRITE, |m| on(m, remote_write::remote_write)),
    call("/api/v1/admin/tsdb/delete_series", Change, ADMIN, |m| on(m, admin::delete_series)),
    call("/api/v1/admin/tsdb/clean_tombstones", Change, ADMIN, |m| on(m, admin::clean_tombstones)),
    call("/api/v1/admin/tsdb/snapshot", Change, ADMIN, |m| on(m, admin::snapshot)),
    call("/api/v1/admin/tag_index/build", Post, ADMIN, |m| on(m, tag_index::build)),
    call("/api/v1/admin/tag_index/drop", Post, ADMIN, |m| on(m, tag_index::drop_index)),
];

/// `GET /api/v1/openapi.yaml`
async fn openapi(parameters: Parameters) -> Response {
    super::openapi::openapi(ROUTES, &parameters)
}

/// Whether a path needs no login.
pub(super) fn is_open(path: &str) -> bool {
    ROUTES.iter().any(|route| route.right.is_none() && route.path == path)
}

const fn page(
    path: &'static str,
    methods: Methods,
    right: Option<Right>,
    handler: Handler,
) -> Route {
    Route { path, methods, right, kind: Kind::Page, handler }
}

const fn query(
    path: &'static str,
    methods: Methods,
    right: Option<Right>,
    handler: Handler,
) -> Route {
    Route { path, methods, right, kind: Kind::Query, handler }
}

const fn call(
    path: &'static str,
    methods: Methods,
    right: Option<Right>,
    handler: Handler,
) -> Route {
    Route { path, methods, right, kind: Kind::Call, handler }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::{concurrency, router};
    use super::*;

    /// Checks the rights in the table against what the paths do.
    #[test]
    fn a_right_follows_from_what_a_path_does() {
        for route in ROUTES {
            let path = route.path;
            let want = match path {
                "/-/healthy" | "/-/ready" => OPEN,
                "/api/v1/write" => WRITE,
                _ if path.starts_with("/-/") || path.starts_with("/api/v1/admin/") => ADMIN,
                _ => READ,
            };
            assert_eq!(route.right, want, "{path}");
            // With the right to read only, nothing can change: such paths also take GET, except remote read.
            let is_asked = route.methods.names().contains(&"GET") || path == "/api/v1/read";
            assert_eq!(matches!(route.right, OPEN | READ), is_asked, "{path}");
            assert_eq!(route.kind == Kind::Page, !path.starts_with("/api/v1/"), "{path}");
        }
        let paths: BTreeSet<&str> = ROUTES.iter().map(|route| route.path).collect();
        assert_eq!(paths.len(), ROUTES.len(), "each path stands once");
        assert!(is_open("/-/ready") && !is_open("/-/ready/") && !is_open("/metrics"));
    }

    #[test]
    fn paths_that_are_named_elsewhere_are_routes() {
        for path in router::WATCHED.into_iter().chain(concurrency::UNCOUNTED) {
            assert!(ROUTES.iter().any(|route| route.path == path), "{path}");
        }
    }
}
