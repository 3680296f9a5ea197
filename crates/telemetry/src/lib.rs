//! Logs, metrics and traces. One [`Metrics`] is made at start and passed on; only the log, with the
//! spans of traces, is global.
//!
//! Each part of the program has a group of metrics in a file of its own here, so that the name of a
//! metric, its help and its unit are in one place.

mod cassandra;
mod config;
mod group;
mod head;
mod http;
mod in_flight;
mod ingest;
mod limits;
mod log;
mod memory;
mod plain_text;
mod process;
mod query;
mod store;
mod throttle;
mod traces;
mod web;

use prometheus_client::encoding::text;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use process::ProcessMetrics;

pub use cassandra::{CassandraMetrics, StatementOutcome};
pub use config::ConfigMetrics;
pub use head::HeadMetrics;
pub use http::HttpMetrics;
pub use in_flight::InFlight;
pub use ingest::{BODY_REFUSED, IngestMetrics, WriteLabels};
pub use limits::{HEAD_SIZE, LimitMetrics, RATE};
pub use log::{LogConfig, LogFilter, LogFormat, start_log};
pub use memory::MemoryMetrics;
pub use process::resident_bytes;
pub use query::{QueryKind, QueryMetrics, QueryOutcome, RunningQuery};
pub use store::{LowestTime, StoreMetrics};
pub use throttle::Throttle;
pub use traces::{CASSANDRA_STATEMENT, Traces, TracesConfig, TracesMetrics, fail, flush_span};
pub use web::{LoginOutcome, WebMetrics};

/// All metrics of the process, and the registry that prints them.
pub struct Metrics {
    /// Reads of the settings.
    pub config: ConfigMetrics,
    /// Requests by path and status.
    pub http: HttpMetrics,
    /// TLS and the web configuration.
    pub web: WebMetrics,
    /// Writes over HTTP.
    pub ingest: IngestMetrics,
    /// PromQL queries.
    pub queries: QueryMetrics,
    /// The log and the samples in memory.
    pub head: HeadMetrics,
    /// The embedded store's files.
    pub store: StoreMetrics,
    /// Statements sent to Cassandra.
    pub cassandra: CassandraMetrics,
    /// Memory use and memory limit of the process.
    pub memory: MemoryMetrics,
    registry: Registry,
    /// Metrics of the process, whose names have no prefix.
    process: Registry,
}

impl Metrics {
    /// Registers every metric under the prefix `promkairos`, and the metrics of the process.
    pub fn new() -> Self {
        Self::of_build("", &TracesMetrics::default())
    }

    /// As [`Self::new`], for a build of this commit (empty = unknown), with metrics of traces that are counted before.
    pub fn of_build(revision: &str, traces: &TracesMetrics) -> Self {
        let mut registry = Registry::with_prefix("promkairos");
        let build = Family::<[(&str, String); 2], Gauge>::default();
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let labels = [("version", version), ("revision", revision.to_owned())];
        build.get_or_create(&labels).set(1);
        // Not of the type info: in remote write its metadata would have another name.
        registry.register("build_info", "Which build this is", build);
        let mut process = Registry::default();
        process.register_collector(Box::new(ProcessMetrics));
        traces.register(&mut registry);
        let http = HttpMetrics::register(&mut registry);
        let limits = http.limits.clone();
        Self {
            config: ConfigMetrics::register(&mut registry),
            http,
            web: WebMetrics::register(&mut registry),
            ingest: IngestMetrics::register(&mut registry, &mut process),
            queries: QueryMetrics::register(&mut registry),
            head: HeadMetrics::register(&mut registry, limits.clone()),
            store: StoreMetrics::register(&mut registry, &mut process),
            cassandra: CassandraMetrics::register(&mut registry, limits),
            memory: MemoryMetrics::register(&mut registry),
            registry,
            process,
        }
    }

    /// All metrics in the text format of Prometheus, version 0.0.4.
    pub fn encode_plain(&self) -> String {
        plain_text::of_open_metrics(&self.encode())
    }

    /// All metrics in the OpenMetrics text format.
    pub fn encode(&self) -> String {
        let mut out = String::new();
        let written = [&self.registry, &self.process]
            .into_iter()
            .try_for_each(|registry| text::encode_registry(&mut out, registry))
            .and_then(|()| text::encode_eof(&mut out));
        written.expect("writing to a String does not fail");
        out
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}
