//! What the server adds to series, who may administer it, and what it reports.

use super::super::setting::Form::{List, Quantity, Switch, Table, Text};
use super::super::setting::{DURATION, FILE, Setting, live, setting};

/// Settings of administration, labels, traces and the log.
pub(super) const SETTINGS: &[Setting] = &[
    setting("type-and-unit-labels", Switch, Some("false")).help(
        "Make labels __type__ and __unit__ of the metadata in remote write 2.0, and tell \
         counters by them",
    ),
    setting("enable-admin-api", Switch, Some("false")).help(
        "Allow /-/reload and what is under /api/v1/admin: deletes, builds and drops of the \
         tag index",
    ),
    setting("allowed-origins", List("ORIGIN,..."), None).help(
        "Web origins whose pages may write, delete and reload, such as \
         https://tools.example.org; * = all. Pages of the server itself always may",
    ),
    live("slow-query-log", DURATION, Some("10s"))
        .help("Queries and other reads that take longer are logged with what they ask; 0 = none"),
    setting("self-scrape-interval", DURATION, Some("0")).help(
        "How often the program's own metrics are written to its store, at least 1s; 0 = \
         never",
    ),
    live("external-labels", Table, None).help(
        "Labels that remote read and /federate add to each series that has none of the \
         name, and that /api/v1/status/config shows, as external_labels of a Prometheus: \
         {cluster = \"eu-1\"}",
    ),
    live("scrape-interval", DURATION, Some("1m"))
        .help("How often the senders scrape, for clients that read it in /api/v1/status/config"),
    live("evaluation-interval", DURATION, Some("1m"))
        .help("How often the senders evaluate rules, for the same clients"),
    setting("otlp-endpoint", Text("URL"), None).help(
        "Collector that takes traces as OTLP over HTTP, such as http://127.0.0.1:4318; \
         without it, and without OTEL_EXPORTER_OTLP_ENDPOINT, there are none",
    ),
    setting("otlp-headers-file", FILE, None)
        .help("File with headers for the collector, such as its key: name=value, one a line"),
    setting("trace-sampling", Quantity("SHARE"), Some("0.1")).help(
        "Share of the requests that are traced, 0 to 1; the traceparent header of a request \
         takes precedence",
    ),
    setting("log-format", Text("FORMAT"), Some("text"))
        .help("Format of the program's log: text or json")
        .one_of(&["text", "json"]),
    live("log-level", Text("FILTER"), Some("info"))
        .help(
            "off, error, warn, info, debug or trace of promkairos (libraries log at most info), \
             or a filter such as info,promkairos::storage=debug",
        )
        .one_of(&["off", "error", "warn", "info", "debug", "trace"]),
];
