//! Every setting: its name, its default and its help, in one table.
//!
//! The name `a-b` is the flag `--a-b`, the variable `PROMKAIROS_A_B` and the key `a_b` of the file.
//! `arguments` makes the flags, the help and the keys of the file from the table.

use super::setting::{Setting, setting};

/// All settings, in the order of the help.
pub const SETTINGS: &[Setting] = &[
    setting("listen", "HOST:PORT", Some("127.0.0.1:9201"), "Address to listen on"),
    setting(
        "web-config-file",
        "FILE",
        None,
        "YAML file as Prometheus has it: TLS, users, and rights of users and tokens; read again when it changes",
    ),
    setting("data-dir", "DIR", Some("./data"), "Folder of the log and of the embedded store"),
    setting("store", "STORE", Some("embedded"), "Where samples live: embedded or cassandra"),
    setting(
        "ack",
        "ACK",
        None,
        "What an acknowledgement means: wal (on this disk) or store (in Cassandra). \
         Embedded knows only wal; Cassandra's default is store",
    ),
    setting(
        "cassandra-contact-points",
        "HOST:PORT,...",
        Some("127.0.0.1:9042"),
        "Cassandra nodes to ask first",
    ),
    setting("cassandra-keyspace", "NAME", Some("kairosdb"), "Keyspace of KairosDB"),
    setting(
        "cassandra-replication",
        "N|DC=N,...",
        Some("1"),
        "Replication of a keyspace that has to be created: a number, or a number a data centre",
    ),
    setting(
        "cassandra-local-datacenter",
        "NAME",
        None,
        "Data centre whose nodes are asked; set it where there are several",
    ),
    setting(
        "cassandra-read-consistency",
        "LEVEL",
        Some("LOCAL_QUORUM"),
        "Consistency of reads, index reads included",
    ),
    setting(
        "cassandra-write-consistency",
        "LEVEL",
        Some("LOCAL_QUORUM"),
        "Consistency of writes and deletes",
    ),
    setting("cassandra-username", "NAME", None, "User name"),
    setting("cassandra-password-file", "FILE", None, "File with the password, and nothing else"),
    setting("cassandra-tls", "true|false", Some("false"), "Encrypt the connections"),
    setting(
        "cassandra-tls-ca",
        "FILE",
        None,
        "PEM file with the authorities that the servers' certificates are checked against",
    ),
    setting("cassandra-tls-cert", "FILE", None, "PEM file with the client's certificate"),
    setting("cassandra-tls-key", "FILE", None, "PEM file with the client's key"),
    setting(
        "cassandra-compression",
        "NAME",
        Some("none"),
        "Compression of the connections: none, lz4 or snappy",
    ),
    setting(
        "cassandra-request-timeout",
        "DURATION",
        Some("10s"),
        "How long Cassandra may take for a write or a page of a read, repetitions included",
    ),
    setting(
        "cassandra-max-in-flight",
        "N",
        Some("256"),
        "Statements that may be under way at once",
    ),
    setting(
        "cassandra-series-cache",
        "SIZE",
        None,
        "Approximate memory for the cache of series in the index; an eighth of --memory-limit, at most \
         256MiB",
    ),
    setting(
        "cassandra-read-cache-size",
        "SIZE",
        Some("1GiB"),
        "Disk for points read from Cassandra, so that what is settled is not read again; 0 = off",
    ),
    setting(
        "cassandra-read-cache-settled-after",
        "DURATION",
        Some("2h"),
        "Age from which points are kept in the read cache; at least 10m",
    ),
    setting(
        "cassandra-read-cache-max-age",
        "DURATION",
        Some("1h"),
        "Longest age of an entry of the read cache; the age begins at 10s and doubles each time the entry is found \
         unchanged",
    ),
    setting(
        "cassandra-keep-unsynced",
        "DURATION",
        Some("auto"),
        "How long the log of --ack wal keeps what Cassandra has acknowledged, to write it again when Cassandra is \
         killed before it is synced there; auto = as its commitlog_sync says, 0 = not at all",
    ),
    setting(
        "cassandra-ttl-by-metric",
        "TABLE",
        None,
        "How long samples of some metrics are kept, by regular expressions of the whole name, \
         instead of --retention: {\"node_.*\" = \"90d\"}; the longest expression that matches holds",
    ),
    setting(
        "cassandra-read-clusters",
        "LIST|TABLE",
        None,
        "Clusters with older data, as in KairosDB: \
         [{name = \"2024\", contact_points = [\"host:9042\"], keyspace, start, end, ...}]",
    ),
    setting(
        "cassandra-metadata-cluster",
        "TABLE",
        None,
        "The cluster for the metadata of metrics, if it is another: {contact_points = [\"host:9042\"], ...}",
    ),
    setting(
        "kairosdb-config",
        "FILE",
        None,
        "A kairosdb.conf: its keyspace, hosts, local data centre, consistency, replication, TTL, list of \
         indexed metrics and other clusters apply to settings that are not given",
    ),
    setting(
        "tag-indexed-row-key-lookup-metrics",
        "LIST|TABLE",
        None,
        "Metrics whose tags are indexed, as KairosDB has it: m,n or * or {m = [\"tag\"], n = []}; \
         read again on SIGHUP",
    ),
    setting(
        "tag-index-trust",
        "WORD",
        Some("configured"),
        "configured: all writers of the keyspace index the same tags; verify: row_keys is asked too",
    ),
    setting(
        "tag-index-audit-interval",
        "DURATION",
        Some("5m"),
        "How often samples of the tag index are compared with row_keys; 0 = never",
    ),
    setting(
        "memory-limit",
        "SIZE|PERCENT",
        Some("60%"),
        "Memory that the process may take: near it new series, large queries and then writes are refused; \
         a part is of the machine or of the control group",
    ),
    setting(
        "flush-interval",
        "DURATION",
        Some("2h"),
        "How often samples go from the log to the store; to Cassandra they go spread over half of \
         that, unless it is urgent",
    ),
    setting(
        "shutdown-timeout",
        "DURATION",
        Some("25s"),
        "Longest time of a stop: up to half of it for requests under way, the rest for the last flush; what is not in \
         the store by then stays in the log, and the next start reads it back",
    ),
    setting("wal-limit", "SIZE", Some("8GiB"), "Largest log; beyond this size writes are refused"),
    setting(
        "flush-memory",
        "SIZE",
        None,
        "Points in memory, about, that make a flush begin early; at four times that writes are refused; \
         an eighth of --memory-limit, at most 512MiB",
    ),
    setting(
        "retention",
        "DURATION",
        Some("0"),
        "How long samples are kept; 0 = for ever (embedded: whole partitions; Cassandra: TTL)",
    ),
    setting(
        "max-connections",
        "N",
        Some("512"),
        "Connections at a time; a further one replaces one without a whole request, else it gets 503, \
         except for health and metrics",
    ),
    setting(
        "max-http2-streams",
        "N",
        Some("200"),
        "Requests of one HTTP/2 connection at a time; its client waits with more",
    ),
    setting(
        "max-concurrent-requests",
        "N",
        Some("4096"),
        "Requests answered at a time, except for health and metrics; further ones get 503",
    ),
    setting(
        "http-head-timeout",
        "DURATION",
        Some("10s"),
        "Longest time for the head of a request; then its connection is closed",
    ),
    setting(
        "http-idle-timeout",
        "DURATION",
        Some("2m"),
        "How long a connection may rest between two requests",
    ),
    setting(
        "http-body-timeout",
        "DURATION",
        Some("30s"),
        "Longest time for the body of a request to arrive",
    ),
    setting(
        "http-answer-timeout",
        "DURATION",
        Some("1m"),
        "Longest time that a client may read nothing of its answer; then it is broken off",
    ),
    setting(
        "remote-read-max-concurrency",
        "N",
        Some("10"),
        "Remote reads at a time, a fifth of them without streaming; more wait in line",
    ),
    setting(
        "max-request-body-size",
        "SIZE",
        Some("32MiB"),
        "Largest body of a request as received: bodies of remote writes and reads are compressed",
    ),
    setting(
        "max-decoded-body-size",
        "SIZE",
        Some("32MiB"),
        "Largest body of a remote write or read once it is decoded",
    ),
    setting("max-series-per-request", "N", Some("262144"), "Series in one remote write"),
    setting(
        "max-samples-per-request",
        "N",
        Some("1048576"),
        "Floats and histograms in one remote write",
    ),
    setting(
        "max-samples-per-second",
        "N",
        Some("0"),
        "Floats and histograms accepted in a second; further writes get 429; 0 = no limit",
    ),
    setting(
        "max-sample-age",
        "DURATION",
        Some("0"),
        "How old a sample or exemplar may be when it is written or copied; older ones are refused; 0 = any age",
    ),
    setting(
        "max-sample-lead",
        "DURATION",
        Some("365d"),
        "How far in the future a sample or exemplar may be when it is written or copied; others are refused, such as \
         those with microseconds in the place of milliseconds; 0 = any time",
    ),
    setting(
        "max-active-series",
        "N",
        Some("0"),
        "Series written to within the last hour; further ones are refused; 0 = no limit",
    ),
    setting(
        "max-active-series-per-metric",
        "N",
        Some("0"),
        "The same for the series of each metric; 0 = no limit",
    ),
    setting(
        "max-metadata-size",
        "SIZE",
        None,
        "Names, helps and units of all metric families, and 100 bytes for each; further new ones are refused; \
         a sixteenth of --memory-limit, at most 64MiB",
    ),
    setting(
        "series-limit-answer",
        "CODE",
        Some("400"),
        "Answer to a series beyond the limits of active series: 400 (its sender continues without it) or 429",
    ),
    setting("max-labels-per-series", "N", Some("128"), "Labels of a series, the name included"),
    setting("max-label-name-size", "SIZE", Some("1KiB"), "Longest name of a label"),
    setting("max-label-value-size", "SIZE", Some("16KiB"), "Longest value of a label"),
    setting(
        "max-labels-size",
        "SIZE",
        Some("32KiB"),
        "All labels of a series together, names and values",
    ),
    setting(
        "max-label-results",
        "N",
        Some("500000"),
        "Names, values or series in the answer of a label endpoint; a warning says what is cut off",
    ),
    setting(
        "max-label-results-size",
        "SIZE",
        None,
        "The same in bytes of one answer, at least 64KiB; more exemplars are an error. A sixteenth of \
         --memory-limit, at most 32MiB and what fits --label-max-concurrency times into half of it",
    ),
    setting(
        "label-max-concurrency",
        "N",
        Some("4"),
        "Requests for labels, series, metadata, exemplars and federation answered at a time; more wait",
    ),
    setting(
        "label-max-wait",
        "DURATION",
        Some("10s"),
        "How long such a request may wait; then it gets 503",
    ),
    setting("query-timeout", "DURATION", Some("2m"), "Longest time of a query, waiting included"),
    setting(
        "query-max-samples",
        "N",
        Some("50000000"),
        "Samples that a query, or a remote read's answer without streaming, may hold in memory at a time; a \
         native histogram counts for several",
    ),
    setting(
        "query-max-memory",
        "SIZE",
        None,
        "Labels and points that a query may hold in memory at a time; a quarter of --memory-limit, at \
         most 2GiB",
    ),
    setting("query-max-concurrency", "N", Some("20"), "Queries that are evaluated at a time"),
    setting("query-max-queue", "N", Some("1000"), "Queries that may wait; more are refused"),
    setting(
        "query-max-series",
        "N",
        Some("0"),
        "Series that the selectors of a query may have together; 0 = any number. A request may ask for less with \
         max_series",
    ),
    setting(
        "query-max-samples-read",
        "N",
        Some("0"),
        "Samples that a query may read from the store, where a native histogram counts for several; 0 = any \
         number. A request may ask for less with max_samples_read",
    ),
    setting(
        "query-max-duration",
        "DURATION",
        Some("0"),
        "Longest time of a query, instead of --query-timeout, which may be shorter; 0 = --query-timeout. A \
         request may ask for less with max_query_duration",
    ),
    setting("query-max-depth", "N", Some("500"), "Deepest nesting of an expression"),
    setting(
        "query-lookback-delta",
        "DURATION",
        Some("5m"),
        "How long a sample counts as the newest one of its series",
    ),
    setting(
        "promql-experimental",
        "true|false",
        Some("false"),
        "Offer what is experimental in PromQL, remove names of metrics at the end of a query, use start \
         timestamps, and count samples by step with stats=all",
    ),
    setting(
        "promql-delayed-name-removal",
        "true|false",
        None,
        "Remove names of metrics at the end of a query, not at each operation; as --promql-experimental \
         unless set",
    ),
    setting(
        "use-start-timestamps",
        "true|false",
        None,
        "Find resets of counters by start timestamps too, where a request does not say with the header \
         X-Prometheus-Use-Start-Timestamps; as --promql-experimental unless set",
    ),
    setting(
        "promql-unquoted-utf8-names",
        "true|false",
        Some("false"),
        "Take letters of all scripts, and dots after the first character, in names without quotes",
    ),
    setting(
        "type-and-unit-labels",
        "true|false",
        Some("false"),
        "Make labels __type__ and __unit__ of the metadata in remote write 2.0, and tell counters by \
         them",
    ),
    setting(
        "enable-admin-api",
        "true|false",
        Some("false"),
        "Allow /-/reload and what is under /api/v1/admin: deletes, builds and drops of the tag index",
    ),
    setting(
        "allowed-origins",
        "ORIGIN,...",
        None,
        "Web origins whose pages may write, delete and reload, such as https://tools.example.org; * = all. Pages of \
         the server itself always may",
    ),
    setting(
        "slow-query-log",
        "DURATION",
        Some("10s"),
        "Queries and other reads that take longer are logged with what they ask; 0 = none",
    ),
    setting(
        "self-scrape-interval",
        "DURATION",
        Some("0"),
        "How often the program's own metrics are written to its store, at least 1s; 0 = never",
    ),
    setting(
        "external-labels",
        "TABLE",
        None,
        "Labels that remote read and /federate add to each series that has none of the name, and that \
         /api/v1/status/config shows, as external_labels of a Prometheus: {cluster = \"eu-1\"}",
    ),
    setting(
        "scrape-interval",
        "DURATION",
        Some("1m"),
        "How often the senders scrape, for clients that read it in /api/v1/status/config",
    ),
    setting(
        "evaluation-interval",
        "DURATION",
        Some("1m"),
        "How often the senders evaluate rules, for the same clients",
    ),
    setting(
        "otlp-endpoint",
        "URL",
        None,
        "Collector that takes traces as OTLP over HTTP, such as http://127.0.0.1:4318; without it, \
         and without OTEL_EXPORTER_OTLP_ENDPOINT, there are none",
    ),
    setting(
        "otlp-headers-file",
        "FILE",
        None,
        "File with headers for the collector, such as its key: name=value, one a line",
    ),
    setting(
        "trace-sampling",
        "SHARE",
        Some("0.1"),
        "Share of the requests that are traced, 0 to 1; the traceparent header of a request takes \
         precedence",
    ),
    setting("log-format", "FORMAT", Some("text"), "Format of the program's log: text or json"),
    setting(
        "log-level",
        "FILTER",
        Some("info"),
        "off, error, warn, info, debug or trace of promkairos (libraries log at most info), or a \
         filter such as info,promkairos::storage=debug",
    ),
];
