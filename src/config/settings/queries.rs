//! How queries are evaluated, and what one may cost.

use super::super::bounds::number;
use super::super::setting::Form::Switch;
use super::super::setting::{DURATION, N, SIZE, Setting, live};
use crate::limits;

/// Settings of queries.
pub(super) const SETTINGS: &[Setting] = &[
    live("query-timeout", DURATION, Some("2m")).help("Longest time of a query, waiting included"),
    live("query-max-samples", N, Some("50000000")).help(
        "Samples that a query, or a remote read's answer without streaming, may hold in \
         memory at a time; a native histogram counts for several",
    ),
    live("query-max-memory", SIZE, None).help(
        "Labels and points that a query may hold in memory at a time; a quarter of \
         --memory-limit, at most 2GiB",
    ),
    live("query-max-concurrency", N, Some("20")).help("Queries that are evaluated at a time"),
    live("query-max-queue", N, Some("1000")).help("Queries that may wait; more are refused"),
    live("query-max-series", N, Some("0")).help(
        "Series that the selectors of a query may have together; 0 = any number. A request \
         may ask for less with max_series",
    ),
    live("query-max-samples-read", N, Some("0")).help(
        "Samples that a query may read from the store, where a native histogram counts for \
         several; 0 = any number. A request may ask for less with max_samples_read",
    ),
    live("query-max-duration", DURATION, Some("0")).help(
        "Longest time of a query, instead of --query-timeout, which may be shorter; 0 = \
         --query-timeout. A request may ask for less with max_query_duration",
    ),
    live("query-max-depth", N, Some("500"))
        .help("Deepest nesting of an expression")
        .within(number(limits::MAX_QUERY_DEPTH)),
    live("query-lookback-delta", DURATION, Some("5m"))
        .help("How long a sample counts as the newest one of its series"),
    live("promql-experimental", Switch, Some("false")).help(
        "Offer what is experimental in PromQL, remove names of metrics at the end of a \
         query, use start timestamps, and count samples by step with stats=all",
    ),
    live("promql-delayed-name-removal", Switch, None).help(
        "Remove names of metrics at the end of a query, not at each operation; as \
         --promql-experimental unless set",
    ),
    live("use-start-timestamps", Switch, None).help(
        "Find resets of counters by start timestamps too, where a request does not say with \
         the header X-Prometheus-Use-Start-Timestamps; as --promql-experimental unless set",
    ),
    live("promql-unquoted-utf8-names", Switch, Some("false")).help(
        "Take letters of all scripts, and dots after the first character, in names without \
         quotes",
    ),
];
