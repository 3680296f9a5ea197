//! All settings as one validated [`Config`]. Each part of the program receives only its own part of it.
//!
//! Loading opens no other file than the settings file, files with passwords and certificates, and the web
//! configuration with the files that it names. Nothing is connected.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ArgMatches;

use super::cassandra::CassandraConfig;
use super::error::ConfigError;
use super::exposed::exposed;
use super::http::HttpConfig;
use super::kairosdb_conf::KairosDbConf;
use super::memory::MemoryConfig;
use super::raw::{Raw, Said};
use super::web::WebConfig;
use super::{global, limits, listen, log, queries, settings, traces, ttl_by_metric};
use crate::api::{
    AdminApi, AllowedOrigins, GlobalConfig, LimitsConfig, QueryConfig, TypeAndUnitLabels,
};
use crate::limits::REFUSE_AT;
use crate::telemetry::{LogConfig, TracesConfig};

/// All settings, validated.
#[derive(Debug, Clone)]
pub struct Config {
    /// `host:port` to listen on.
    pub listen: String,
    /// `host:port` on which KairosDB's API is served alone.
    pub kairosdb_listen: Option<String>,
    /// Address of KairosDB's telnet protocol.
    pub kairosdb_telnet_listen: Option<String>,
    /// TLS of the listeners, and access rights; without restrictions for commands that do not serve.
    pub web: WebConfig,
    /// Folder of the log and of the embedded store.
    pub data_dir: PathBuf,
    /// Which store.
    pub store: StoreConfig,
    /// The log in front of the store.
    pub head: HeadConfig,
    /// Longest time of a shutdown.
    pub shutdown_timeout: Duration,
    /// How long samples are kept; `None` = for ever.
    pub retention: Option<Duration>,
    /// How much memory the process may take.
    pub memory: MemoryConfig,
    /// How queries are evaluated.
    pub queries: QueryConfig,
    /// Limits of connections.
    pub http: HttpConfig,
    /// Limits of requests.
    pub limits: LimitsConfig,
    /// Whether type and unit of a metric are labels of its series.
    pub type_and_unit_labels: TypeAndUnitLabels,
    /// Whether the admin API answers.
    pub admin_api: AdminApi,
    /// Other origins than the server's own whose pages may send requests that change something.
    pub allowed_origins: AllowedOrigins,
    /// How often the program's own metrics are written to its store; `None` = never.
    pub self_scrape_interval: Option<Duration>,
    /// Where traces are sent; `None` = no traces, as for commands that do not serve.
    pub traces: Option<TracesConfig>,
    /// The program's own log.
    pub log: LogConfig,
    /// The section `global` of a Prometheus.
    pub global: GlobalConfig,
    /// Values taken over from KairosDB's configuration.
    pub kairosdb: KairosDbConf,
    /// The text of every setting that has one.
    pub said: HashMap<&'static str, String>,
}

/// Which store holds the samples, and what an acknowledgement means.
#[derive(Debug, Clone)]
pub enum StoreConfig {
    /// Part files under the data folder, the log in front.
    Embedded,
    /// The KairosDB schema.
    Cassandra {
        /// How to reach it.
        cassandra: Box<CassandraConfig>,
        /// What an acknowledgement means.
        ack: Ack,
    },
}

/// What an acknowledgement means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ack {
    /// Stored in the log on this disk.
    Wal,
    /// Stored in the store below.
    Store,
}

/// The log in front of a store.
#[derive(Debug, Clone)]
pub struct HeadConfig {
    /// How often samples go from the log to the store below.
    pub flush_interval: Duration,
    /// Most bytes of the log.
    pub wal_limit: u64,
    /// Approximate bytes of points in memory at which a flush begins early.
    pub flush_memory: u64,
}

/// One of the clusters of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Cluster {
    /// The cluster that is written to.
    Write,
    /// A cluster with older data, by its name.
    Read(String),
    /// The cluster for metadata.
    Metadata,
}

impl Config {
    /// Reads and validates all settings. `matches` come from a command with [`super::arguments()`].
    pub fn load(matches: &ArgMatches) -> Result<Self, ConfigError> {
        Self::from_raw(Raw::gather(matches)?)
    }

    /// The same for a server: settings of a store that is not chosen are refused.
    pub fn load_to_serve(matches: &ArgMatches) -> Result<Self, ConfigError> {
        Self::to_serve(Raw::gather(matches)?)
    }

    /// The same with another settings `file` than that of `--config`, if there is one; also returns what
    /// was given, in the order of [`super::SETTINGS`].
    pub fn check(
        matches: &ArgMatches,
        file: Option<&Path>,
    ) -> Result<(Self, Vec<Said>), ConfigError> {
        let raw = match file {
            Some(_) => Raw::gather_with(matches, file)?,
            None => Raw::gather(matches)?,
        };
        let said = raw.all_said();
        Ok((Self::to_serve(raw)?, said))
    }

    fn to_serve(raw: Raw) -> Result<Self, ConfigError> {
        let of_cassandra = raw.first_said(settings::CASSANDRA);
        let refused = of_cassandra.map(|name| raw.refuse(name, "needs --store cassandra"));
        let (web, traces) = (web(&raw)?, traces::from_raw(&raw)?);
        let mut config = Self { web, traces, ..Self::from_raw(raw)? };
        // Over Cassandra the time to live counts from the time at which a sample was accepted.
        config.limits.writes.sample_times.retention =
            config.retention.filter(|_| matches!(config.store, StoreConfig::Embedded));
        match (&config.store, refused) {
            (StoreConfig::Embedded, Some(error)) => Err(error),
            _ => Ok(config),
        }
    }

    fn from_raw(raw: Raw) -> Result<Self, ConfigError> {
        let memory = MemoryConfig::from_raw(&raw)?;
        Ok(Self {
            listen: listen::listen(&raw)?,
            kairosdb_listen: listen::kairosdb(&raw)?,
            kairosdb_telnet_listen: listen::kairosdb_telnet(&raw)?,
            web: WebConfig::default(),
            data_dir: data_dir(&raw)?,
            store: store(&raw)?,
            head: head(&raw, &memory)?,
            memory,
            shutdown_timeout: raw.positive("shutdown-timeout")?,
            retention: raw.unless_zero("retention")?,
            self_scrape_interval: self_scrape_interval(&raw)?,
            queries: queries::from_raw(&raw, &memory)?,
            http: HttpConfig::from_raw(&raw)?,
            limits: limits::from_raw(&raw, &memory)?,
            type_and_unit_labels: match raw.switch("type-and-unit-labels")? {
                true => TypeAndUnitLabels::Enabled,
                false => TypeAndUnitLabels::Disabled,
            },
            admin_api: match raw.switch("enable-admin-api")? {
                true => AdminApi::Enabled,
                false => AdminApi::Disabled,
            },
            allowed_origins: allowed_origins(&raw)?,
            traces: None,
            log: log::from_raw(&raw)?,
            global: global::from_raw(&raw)?,
            said: raw.texts(),
            kairosdb: raw.kairosdb,
        })
    }

    /// Whether the process keeps samples in the data folder, and so must lock it.
    pub fn keeps_files(&self) -> bool {
        !matches!(self.store, StoreConfig::Cassandra { ack: Ack::Store, .. })
    }

    /// All clusters in a fixed order, and how each is reached.
    pub fn clusters(&self) -> impl Iterator<Item = (Cluster, &CassandraConfig)> {
        let write: Option<&CassandraConfig> = match &self.store {
            StoreConfig::Cassandra { cassandra, .. } => Some(cassandra),
            StoreConfig::Embedded => None,
        };
        let read = write.into_iter().flat_map(|cassandra| &cassandra.read_clusters);
        let read = read.map(|one| (Cluster::Read(one.name.clone()), &one.cassandra));
        let metadata = write.and_then(|cassandra| cassandra.metadata_cluster.as_deref());
        let all = write.map(|cassandra| (Cluster::Write, cassandra)).into_iter().chain(read);
        all.chain(metadata.map(|cassandra| (Cluster::Metadata, cassandra)))
    }

    /// A warning for each file with a password, a key, a token or the hashes of passwords that every user of the
    /// machine can read.
    pub fn exposed_files(&self) -> Vec<String> {
        let mut paths: Vec<&Path> = Vec::new();
        for (_, cluster) in self.clusters() {
            paths.extend(cluster.credentials.as_ref().map(|login| login.file.as_path()));
            paths.extend(cluster.tls.as_ref().and_then(|tls| tls.key_file.as_deref()));
        }
        paths.extend(self.traces.as_ref().and_then(|traces| traces.headers_file.as_deref()));
        paths.sort_unstable();
        paths.dedup();
        let mut all: Vec<String> = paths.into_iter().filter_map(exposed).collect();
        all.extend(self.web.exposed_files());
        all
    }
}

fn web(raw: &Raw) -> Result<WebConfig, ConfigError> {
    match raw.get("web-config-file") {
        None => Ok(WebConfig::default()),
        Some("") => Err(raw.refuse("web-config-file", "must name a file")),
        Some(path) => WebConfig::read(path.as_ref()).map_err(|error| match error {
            ConfigError::File { source, .. } => raw.refuse("web-config-file", source),
            error => error,
        }),
    }
}

fn allowed_origins(raw: &Raw) -> Result<AllowedOrigins, ConfigError> {
    let name = "allowed-origins";
    let text = raw.get(name).unwrap_or_default();
    AllowedOrigins::parse(text).map_err(|reason| raw.refuse(name, reason))
}

fn data_dir(raw: &Raw) -> Result<PathBuf, ConfigError> {
    match raw.required("data-dir") {
        "" => Err(raw.refuse("data-dir", "must name a folder")),
        path => Ok(PathBuf::from(path)),
    }
}

fn store(raw: &Raw) -> Result<StoreConfig, ConfigError> {
    let store = raw.word("store")?;
    let ack = raw.get("ack").map(|_| raw.word("ack")).transpose()?;
    match (store, ack) {
        ("cassandra", ack) => {
            ttl_by_metric::check_retention(raw)?;
            let cassandra = Box::new(CassandraConfig::with_clusters(raw)?);
            let ack = if ack == Some("wal") { Ack::Wal } else { Ack::Store };
            Ok(StoreConfig::Cassandra { cassandra, ack })
        }
        (_, Some("store")) => {
            let why =
                "the embedded store supports only wal; leave --ack out, or add --store cassandra";
            Err(raw.refuse("ack", why))
        }
        _ => Ok(StoreConfig::Embedded),
    }
}

fn head(raw: &Raw, memory: &MemoryConfig) -> Result<HeadConfig, ConfigError> {
    let flush_memory =
        memory.size_or(raw, "flush-memory", memory.flush(), REFUSE_AT as usize)? as u64;
    let flush_interval = raw.positive("flush-interval")?;
    Ok(HeadConfig { flush_interval, wal_limit: raw.size("wal-limit")?, flush_memory })
}

/// How often the server's own metrics are written; `None` = never. Bounded, to refuse typing errors.
fn self_scrape_interval(raw: &Raw) -> Result<Option<Duration>, ConfigError> {
    let name = "self-scrape-interval";
    match raw.duration(name)? {
        Duration::ZERO => Ok(None),
        every if every < Duration::from_secs(1) => {
            Err(raw.refuse(name, "must be at least 1s, or 0 for never"))
        }
        every => Ok(Some(every)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::matches;
    use super::*;
    use crate::api::Language;

    fn load(settings: &[&str]) -> Result<Config, String> {
        Config::load_to_serve(&matches(settings)?).map_err(|error| error.to_string())
    }

    #[test]
    fn nothing_said_is_the_embedded_store_on_localhost() {
        let config = load(&[]).expect("valid");
        assert_eq!(config.listen, "127.0.0.1:9201");
        assert_eq!(config.data_dir, PathBuf::from("./data"));
        assert!(matches!(config.store, StoreConfig::Embedded));
        assert_eq!(config.head.flush_interval, Duration::from_secs(7200));
        assert_eq!(config.head.wal_limit, 8 << 30);
        assert_eq!(config.retention, None);
        assert_eq!(config.admin_api, AdminApi::Disabled);
        assert_eq!(config.type_and_unit_labels, TypeAndUnitLabels::Disabled);
    }

    #[test]
    fn cassandra_acknowledges_from_the_store_unless_told() {
        let ack = |arguments: &[&str]| match load(arguments).expect("valid").store {
            StoreConfig::Cassandra { ack, .. } => ack,
            StoreConfig::Embedded => panic!("embedded"),
        };
        assert_eq!(ack(&["--store", "cassandra"]), Ack::Store);
        assert_eq!(ack(&["--store=Cassandra", "--ack=wal"]), Ack::Wal);
    }

    #[test]
    fn queries_have_the_limits_of_prometheus() {
        let queries = load(&[]).expect("valid").queries;
        assert_eq!(queries.timeout, Duration::from_secs(120));
        assert_eq!(queries.lookback_delta, Duration::from_secs(300));
        assert_eq!((queries.max_samples, queries.max_concurrency), (50_000_000, 20));
        assert_eq!(queries.language, Language::Stable);
        let queries = load(&["--promql-experimental", "--query-max-samples=7"]).expect("valid");
        assert_eq!(queries.queries.language, Language::Experimental);
        assert!(queries.queries.delayed_names && queries.queries.start_timestamps);
        assert!(!queries.queries.unquoted_names);
        let apart = ["--use-start-timestamps", "--promql-unquoted-utf8-names"];
        let apart = load(&apart).expect("valid").queries;
        assert_eq!(apart.language, Language::Stable);
        assert!(apart.start_timestamps && apart.unquoted_names && !apart.delayed_names);
        let at_once = ["--promql-experimental", "--promql-delayed-name-removal=false"];
        let at_once = load(&at_once).expect("valid").queries;
        assert_eq!(at_once.language, Language::Experimental);
        assert!(at_once.start_timestamps && !at_once.delayed_names);
        assert_eq!(queries.queries.max_samples, 7);
    }

    #[test]
    fn switches_stand_alone_or_with_a_value() {
        let admin = |argument| load(&[argument]).expect("valid").admin_api;
        assert_eq!(admin("--enable-admin-api"), AdminApi::Enabled);
        assert_eq!(admin("--enable-admin-api=true"), AdminApi::Enabled);
        assert_eq!(admin("--enable-admin-api=false"), AdminApi::Disabled);
        let typed = load(&["--type-and-unit-labels"]).expect("valid").type_and_unit_labels;
        assert_eq!(typed, TypeAndUnitLabels::Enabled);
    }

    #[test]
    fn traces_go_to_the_endpoint() {
        let config = load(&["--otlp-endpoint=http://a:4318", "--trace-sampling=1"]).expect("valid");
        let want = TracesConfig {
            url: "http://a:4318/v1/traces".into(),
            sampling: 1.0,
            headers: Vec::new(),
            headers_file: None,
        };
        assert_eq!(config.traces, Some(want));
        let error = load(&["--trace-sampling=2"]).expect_err("refused");
        assert_eq!(error, "--trace-sampling \"2\": must be a number from 0 to 1");
        let error = load(&["--otlp-headers-file=/nowhere/h"]).expect_err("refused");
        let want = "--otlp-headers-file \"/nowhere/h\": No such file or directory (os error 2)";
        assert_eq!(error, want);
        let error = load(&["--otlp-endpoint=http://u:hidden@a:1"]).expect_err("refused");
        assert!(error.starts_with("--otlp-endpoint ") && !error.contains("hidden"), "{error}");
    }

    #[test]
    fn levels_of_the_log() {
        for filter in ["info", "OFF", "warn,promkairos::storage=debug", "scylla=error"] {
            let config = load(&[&format!("--log-level={filter}")]).expect(filter);
            assert_eq!(config.log.filter, filter);
        }
    }

    #[test]
    fn what_is_refused_says_where_it_stood() {
        let check = |arguments: &[&str], want: &str| {
            assert_eq!(load(arguments).err().as_deref(), Some(want), "{arguments:?}");
        };
        check(&["--store=x"], "--store \"x\": must be one of embedded, cassandra");
        check(
            &["--ack=store"],
            "--ack \"store\": the embedded store supports only wal; leave --ack out, or add --store cassandra",
        );
        check(
            &["--cassandra-keyspace=metrics"],
            "--cassandra-keyspace \"metrics\": needs --store cassandra",
        );
        check(&["--listen=9201"], "--listen \"9201\": must be HOST:PORT, such as 127.0.0.1:9201");
        check(&["--listen=a:99999"], "--listen \"a:99999\": the port must be between 0 and 65535");
        check(
            &["--listen=:9201"],
            "--listen \":9201\": the host is missing; 0.0.0.0:9201 is every address",
        );
        check(&["--listen=a:1,b:2"], "--listen \"a:1,b:2\": must be one address: HOST:PORT");
        check(
            &["--web-config-file=/nowhere/web.yml"],
            "--web-config-file \"/nowhere/web.yml\": No such file or directory (os error 2)",
        );
        check(
            &["--store=cassandra", "--kairosdb-config=/nowhere/kairosdb.conf"],
            "--kairosdb-config \"/nowhere/kairosdb.conf\": No such file or directory (os error 2)",
        );
        check(&["--query-max-depth=100000"], "--query-max-depth \"100000\": must be at most 500");
        check(&["--data-dir="], "--data-dir \"\": must name a folder");
        check(&["--config="], "--config \"\": must name a file");
        check(&["--wal-limit=1MiB"], "--wal-limit \"1MiB\": must be at least 64MiB");
        check(&["--query-timeout=0"], "--query-timeout \"0\": must be more than 0");
        check(
            &["--query-max-concurrency=0"],
            "--query-max-concurrency \"0\": must be a whole number of at least 1",
        );
        check(&["--flush-interval=0"], "--flush-interval \"0\": must be more than 0");
        check(
            &["--retention=5"],
            "--retention \"5\": not a duration; write it as 15s, 2h, 1h30m or 2y \
             (units: ms s m h d w y)",
        );
        for bad in ["loud", "", "info,loud", "promkairos=loud", "info, promkairos=debug", "=info"] {
            let level = format!("--log-level={bad}");
            let want = format!(
                "--log-level {bad:?}: must be one of off, error, warn, info, debug, trace, or a \
                 filter such as info,promkairos::storage=debug"
            );
            check(&[&level], &want);
        }
        check(&["--enable-admin-api=x"], "--enable-admin-api \"x\": must be one of true, false");
        check(
            &["--config=/nowhere/x.toml"],
            "/nowhere/x.toml: No such file or directory (os error 2)",
        );
    }

    #[test]
    fn a_file_for_cassandra_is_not_served_from_the_embedded_store() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("promkairos.toml");
        std::fs::write(&path, "cassandra_contact_points = [\"a:1\"]\n").expect("written");
        let file = format!("--config={}", path.display());
        let error = load(&[&file]).expect_err("refused");
        assert!(error.ends_with("promkairos.toml:1: needs --store cassandra"), "{error}");
        load(&[&file, "--store=cassandra"]).expect("valid");
    }

    #[test]
    fn what_only_cassandra_has_is_refused_without_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("kairosdb.conf");
        let conf = "kairosdb.datastore.cassandra.write_cluster.keyspace: \"metrics\"\n";
        std::fs::write(&path, conf).expect("written");
        let path = path.display().to_string();
        for (name, value) in [
            ("kairosdb-config", path.as_str()),
            ("tag-indexed-row-key-lookup-metrics", "m,n"),
            ("tag-index-trust", "verify"),
            ("tag-index-audit-interval", "1m"),
        ] {
            let flag = format!("--{name}={value}");
            // Lists are not repeated in errors.
            let shown = if value == "m,n" { String::new() } else { format!(" {value:?}") };
            let want = format!("--{name}{shown}: needs --store cassandra");
            assert_eq!(load(&[&flag]).err(), Some(want));
            load(&[&flag, "--store=cassandra"]).expect("valid");
        }
    }

    #[test]
    fn a_flag_wins_over_the_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("promkairos.toml");
        std::fs::write(&path, "listen = \"a:1\"\nretention = \"2y\"\n").expect("written");
        let file = format!("--config={}", path.display());
        let config = load(&[&file, "--listen=b:2"]).expect("valid");
        assert_eq!(config.listen, "b:2");
        assert_eq!(config.retention, Some(Duration::from_secs(2 * 365 * 86_400)));
    }
}
