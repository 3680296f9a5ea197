//! The store in the schema of KairosDB: without `--store cassandra` none of these may be given.

use super::super::setting::Form::{List, ListOrTable, Replicas, Switch, Table, Text};
use super::super::setting::{DURATION, FILE, N, NAME, SIZE, Setting, live, setting};

/// Settings of the Cassandra store.
pub(super) const SETTINGS: &[Setting] = &[
    setting("cassandra-contact-points", List("HOST:PORT,..."), Some("127.0.0.1:9042"))
        .help("Cassandra nodes to ask first"),
    setting("cassandra-keyspace", NAME, Some("kairosdb")).help("Keyspace of KairosDB"),
    setting("cassandra-replication", Replicas, Some("1")).help(
        "Replication of a keyspace that has to be created: a number, or a number a data \
         centre",
    ),
    setting("cassandra-local-datacenter", NAME, None)
        .help("Data centre whose nodes are asked; set it where there are several"),
    setting("cassandra-read-consistency", Text("LEVEL"), Some("LOCAL_QUORUM"))
        .help("Consistency of reads, index reads included")
        .one_of(&["ONE", "TWO", "THREE", "QUORUM", "ALL", "LOCAL_QUORUM", "LOCAL_ONE"]),
    setting("cassandra-write-consistency", Text("LEVEL"), Some("LOCAL_QUORUM"))
        .help("Consistency of writes and deletes")
        .one_of(&[
            "ONE",
            "TWO",
            "THREE",
            "QUORUM",
            "ALL",
            "LOCAL_QUORUM",
            "EACH_QUORUM",
            "LOCAL_ONE",
        ]),
    live("cassandra-username", NAME, None).help("User name"),
    live("cassandra-password-file", FILE, None).help("File with the password, and nothing else"),
    setting("cassandra-tls", Switch, Some("false")).help("Encrypt the connections"),
    live("cassandra-tls-ca", FILE, None)
        .help("PEM file with the authorities that the servers' certificates are checked against"),
    live("cassandra-tls-cert", FILE, None).help("PEM file with the client's certificate"),
    live("cassandra-tls-key", FILE, None).help("PEM file with the client's key"),
    setting("cassandra-compression", NAME, Some("none"))
        .help("Compression of the connections: none, lz4 or snappy")
        .one_of(&["none", "lz4", "snappy"]),
    setting("cassandra-request-timeout", DURATION, Some("10s"))
        .help("How long Cassandra may take for a write or a page of a read, repetitions included"),
    setting("cassandra-max-in-flight", N, Some("256"))
        .help("Statements that may be under way at once"),
    setting("cassandra-series-cache", SIZE, None).help(
        "Approximate memory for the cache of series in the index; an eighth of \
         --memory-limit, at most 256MiB",
    ),
    setting("cassandra-read-cache-size", SIZE, Some("1GiB")).help(
        "Disk for points read from Cassandra, so that what is settled is not read again; 0 \
         = off",
    ),
    setting("cassandra-read-cache-settled-after", DURATION, Some("2h"))
        .help("Age from which points are kept in the read cache; at least 10m"),
    setting("cassandra-read-cache-max-age", DURATION, Some("1h")).help(
        "Longest age of an entry of the read cache; the age begins at 10s and doubles each \
         time the entry is found unchanged",
    ),
    setting("cassandra-keep-unsynced", DURATION, Some("auto")).help(
        "How long the log of --ack wal keeps what Cassandra has acknowledged, to write it \
         again when Cassandra is killed before it is synced there; auto = as its \
         commitlog_sync says, 0 = not at all",
    ),
    live("cassandra-ttl-by-metric", Table, None).help(
        "How long samples of some metrics are kept, by regular expressions of the whole \
         name, instead of --retention: {\"node_.*\" = \"90d\"}; the longest expression that \
         matches holds",
    ),
    setting("cassandra-read-clusters", ListOrTable, None).help(
        "Clusters with older data, as in KairosDB: [{name = \"2024\", contact_points = \
         [\"host:9042\"], keyspace, start, end, ...}]",
    ),
    setting("cassandra-metadata-cluster", Table, None).help(
        "The cluster for the metadata of metrics, if it is another: {contact_points = \
         [\"host:9042\"], ...}",
    ),
    setting("kairosdb-config", FILE, None).help(
        "A kairosdb.conf: its keyspace, hosts, local data centre, consistency, replication, \
         TTL, list of indexed metrics and other clusters apply to settings that are not given",
    ),
    live("tag-indexed-row-key-lookup-metrics", ListOrTable, None).help(
        "Metrics whose tags are indexed, as KairosDB has it: m,n or * or {m = [\"tag\"], n \
         = []}; read again on SIGHUP",
    ),
    setting("tag-index-trust", Text("WORD"), Some("configured"))
        .help(
            "configured: all writers of the keyspace index the same tags; verify: row_keys is \
             asked too",
        )
        .one_of(&["configured", "verify"]),
    setting("tag-index-audit-interval", DURATION, Some("5m"))
        .help("How often samples of the tag index are compared with row_keys; 0 = never"),
];
