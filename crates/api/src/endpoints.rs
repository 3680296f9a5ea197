//! The table of the endpoints under `/api/v1` with their parameters.
//!
//! The OpenAPI document is generated from the table (`openapi`). Invariant: the handler of a path in the table reads
//! only parameters that are listed; otherwise it panics in builds with debug assertions, such as tests
//! (`parameters`).
//!
//! Not here: the methods of a path (`routes`), and paths of features that this program lacks (`unsupported`).

use Kind::{Duration, Flag, InPath, Number, Text, Texts, Time};

/// The prefix of all paths.
pub(super) const BASE: &str = "/api/v1";

/// An endpoint, for all its methods.
pub(super) struct Endpoint {
    /// Below [`BASE`].
    pub(super) path: &'static str,
    /// The group in the OpenAPI document.
    pub(super) tag: &'static str,
    pub(super) summary: &'static str,
    pub(super) parameters: &'static [Parameter],
}

/// A parameter of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Parameter {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// Whether a request without the parameter is refused.
    pub(super) is_required: bool,
}

/// The type of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    /// `true` or `false`.
    Flag,
    /// Unix seconds or RFC 3339.
    Time,
    /// Seconds, or a duration of PromQL.
    Duration,
    Number,
    /// Any number of texts.
    Texts,
    /// A part of the path.
    InPath,
}

const fn required(name: &'static str, kind: Kind) -> Parameter {
    Parameter { name, kind, is_required: true }
}

const fn optional(name: &'static str, kind: Kind) -> Parameter {
    Parameter { name, kind, is_required: false }
}

const QUERY: Parameter = required("query", Text);
const MATCH: Parameter = required("match[]", Texts);
const ANY_MATCH: Parameter = optional("match[]", Texts);
const START: Parameter = optional("start", Time);
const END: Parameter = optional("end", Time);
const LIMIT: Parameter = optional("limit", Number);
const TIMEOUT: Parameter = optional("timeout", Duration);
const LOOKBACK_DELTA: Parameter = optional("lookback_delta", Duration);
const STATS: Parameter = optional("stats", Text);
const COST: Parameter = optional("cost", Flag);
const MAX_SERIES: Parameter = optional("max_series", Number);
const MAX_SAMPLES_READ: Parameter = optional("max_samples_read", Number);
const MAX_QUERY_DURATION: Parameter = optional("max_query_duration", Duration);

const INSTANT: &[Parameter] = &[
    QUERY,
    optional("time", Time),
    TIMEOUT,
    LIMIT,
    LOOKBACK_DELTA,
    STATS,
    COST,
    MAX_SERIES,
    MAX_SAMPLES_READ,
    MAX_QUERY_DURATION,
];
const RANGE: &[Parameter] = &[
    QUERY,
    required("start", Time),
    required("end", Time),
    required("step", Duration),
    TIMEOUT,
    LIMIT,
    LOOKBACK_DELTA,
    STATS,
    COST,
    MAX_SERIES,
    MAX_SAMPLES_READ,
    MAX_QUERY_DURATION,
];
const EXEMPLARS: &[Parameter] = &[QUERY, START, END];
const EXPLAIN: &[Parameter] = &[MATCH, START, END];
const LABEL_VALUES: &[Parameter] = &[required("name", InPath), ANY_MATCH, START, END, LIMIT];
const METADATA: &[Parameter] =
    &[optional("metric", Text), LIMIT, optional("limit_per_metric", Number)];
const OPENAPI: &[Parameter] = &[optional("openapi_version", Text)];
const JOB: &[Parameter] = &[required("metric", Text), optional("rows_per_second", Number)];
const DELETE_SERIES: &[Parameter] =
    &[MATCH, START, END, optional("dry_run", Flag), optional("count_series", Flag)];

const fn endpoint(
    path: &'static str,
    tag: &'static str,
    summary: &'static str,
    parameters: &'static [Parameter],
) -> Endpoint {
    Endpoint { path, tag, summary, parameters }
}

/// All endpoints except those of `unsupported`.
pub(super) const ENDPOINTS: &[Endpoint] = &[
    endpoint("/query", "query", "Evaluate an expression at one time", INSTANT),
    endpoint("/query_range", "query", "Evaluate an expression at many times", RANGE),
    endpoint("/query_cost", "query", "What one time of an expression costs", INSTANT),
    endpoint("/query_range_cost", "query", "What many times of it cost", RANGE),
    endpoint("/query_exemplars", "query", "Exemplars of the series of an expression", EXEMPLARS),
    endpoint("/format_query", "query", "Format an expression", &[QUERY]),
    endpoint("/parse_query", "query", "Parse an expression", &[QUERY]),
    endpoint("/labels", "labels", "Names of labels", &[ANY_MATCH, START, END, LIMIT]),
    endpoint("/label/{name}/values", "labels", "Values of a label", LABEL_VALUES),
    endpoint("/series", "series", "Label sets of series", &[MATCH, START, END, LIMIT]),
    endpoint("/metadata", "metadata", "Type, unit and help of metrics", METADATA),
    endpoint("/features", "status", "What of Prometheus is offered", &[]),
    endpoint("/openapi.yaml", "status", "This document", OPENAPI),
    endpoint("/status/buildinfo", "status", "Version", &[]),
    endpoint("/status/runtimeinfo", "status", "The process", &[]),
    endpoint("/status/config", "status", "External labels and intervals, as YAML", &[]),
    endpoint("/status/flags", "status", "Flags of Prometheus", &[]),
    endpoint("/status/walreplay", "status", "Whether the log has been replayed", &[]),
    endpoint("/status/tsdb", "status", "Counts of series", &[LIMIT]),
    endpoint("/status/tsdb/blocks", "status", "Blocks of Prometheus, of which there are none", &[]),
    endpoint("/status/tag_index", "status", "The tag index over Cassandra", &[]),
    endpoint("/explain", "status", "The path that a selection takes over Cassandra", EXPLAIN),
    endpoint("/read", "remote", "Remote read", &[]),
    endpoint("/write", "remote", "Remote write", &[]),
    endpoint(
        "/admin/tsdb/delete_series",
        "admin",
        "Delete points, or say what a delete would take and cost",
        DELETE_SERIES,
    ),
    endpoint("/admin/tsdb/clean_tombstones", "admin", "Nothing is left to clean", &[]),
    endpoint("/admin/tag_index/build", "admin", "Begin a build of the tag index", JOB),
    endpoint("/admin/tag_index/drop", "admin", "Begin a drop of the tag index", JOB),
];

/// Whether a request for this route may have this parameter. A route that is not in the table may have any.
pub(super) fn may_have(route: &str, parameter: &str) -> bool {
    let path = route.strip_prefix(BASE);
    let endpoint = ENDPOINTS.iter().find(|endpoint| Some(endpoint.path) == path);
    endpoint.is_none_or(|endpoint| endpoint.parameters.iter().any(|one| one.name == parameter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_has_the_parameters_of_its_row() {
        assert!(may_have("/api/v1/query", "time") && !may_have("/api/v1/query", "step"));
        assert!(may_have("/api/v1/label/{name}/values", "limit"));
        assert!(!may_have("/api/v1/features", "limit"));
        assert!(may_have("/federate", "match[]") && may_have("/api/v1/rules", "type"), "no rows");
    }
}
