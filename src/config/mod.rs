//! Turns raw settings into one validated [`Config`]: the only reader of the environment and of settings
//! files.
//!
//! Two stages: [`raw`] holds each text and its origin, [`Config::load`] makes what the program needs.
//! Each part of the program receives only its own part of the result. No other file is opened than
//! the settings file, files with passwords and certificates, and the web configuration with the files
//! that it names. Nothing is connected.

mod arguments;
mod bounds;
mod cassandra;
mod changes;
mod clusters;
mod digest;
mod environment;
mod exposed;
mod file;
mod global;
mod http;
mod kairosdb_conf;
mod keys;
mod limits;
mod listen;
mod log;
mod memory;
mod origins;
mod pem;
mod queries;
mod raw;
mod read_cache;
mod setting;
mod settings;
mod table;
mod tag_index;
mod traces;
mod ttl_by_metric;
mod units;
mod web;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ArgMatches;

pub use arguments::arguments;
pub use cassandra::{CassandraConfig, Compression, Consistency, Credentials, TlsConfig};
pub use changes::changed;
pub use clusters::{Cluster, ReadClusterConfig};
pub(crate) use file::read_secret;
pub use global::GlobalConfig;
pub use http::HttpConfig;
pub use kairosdb_conf::KairosDbConf;
pub use keys::{Key, KeyTable, key_tables};
pub use limits::{LimitsConfig, ListLimits, METADATA_COPIES, SeriesAnswer, WriteLimits};
pub use memory::{MemoryConfig, available as memory_of_machine};
pub use origins::AllowedOrigins;
pub use queries::{Language, QueryConfig};
pub use raw::{Origin, Said, Shown};
pub use read_cache::{FIRST_CACHE_AGE, ReadCacheConfig};
pub use setting::{Form, Group, Setting};
pub use settings::{GROUPS, SETTINGS, is_live};
pub use tag_index::{IndexedTags, TagIndexConfig};
pub use traces::parse_trace_headers;
pub use units::{UnitError, parse_duration, parse_size};
pub use web::{RateLimit, Right, Rights, Token, User, WebConfig, certificate_names};

use raw::{Raw, describe};

use crate::limits::REFUSE_AT;
use crate::telemetry::{LogConfig, TracesConfig};

/// All settings, validated.
#[derive(Debug, Clone)]
pub struct Config {
    /// `host:port` to listen on.
    pub listen: String,
    /// TLS of the listener, and access rights; without restrictions for commands that do not serve.
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
    /// Limits on senders and clients.
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

/// Whether the type and unit of remote write 2.0 become labels of the series, so that queries can
/// tell counters apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TypeAndUnitLabels {
    /// They become labels.
    Enabled,
    /// They are only metadata.
    Disabled,
}

/// Whether the admin API is enabled: deletes, builds and drops of the tag index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdminApi {
    /// It answers.
    Enabled,
    /// It refuses every request.
    Disabled,
}

/// Why the settings are refused. Each is one line.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file that cannot be read.
    #[error("{path}: {source}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file that is not TOML, or not of the form expected.
    #[error("{path}:{line}: {reason}", path = path.display())]
    Toml {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// A web configuration that is not YAML, not of the form expected, or not supported.
    #[error("{path}:{line}: {reason}", path = path.display())]
    Web {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// What is wrong, and the key if it concerns one.
        reason: String,
    },
    /// A key that is not a setting.
    #[error(
        "{path}:{line}: unknown setting {key}{hint}",
        path = path.display(),
        hint = similar.as_ref().map(|key| format!(", did you mean {key}?")).unwrap_or_default()
    )]
    UnknownKey {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// The key.
        key: String,
        /// The key that was probably meant.
        similar: Option<String>,
    },
    /// A variable that is not a setting.
    #[error(
        "unknown environment variable {name}{hint}",
        hint = similar.as_ref().map(|name| format!(", did you mean {name}?")).unwrap_or_default()
    )]
    UnknownVariable {
        /// The variable.
        name: String,
        /// The variable that was probably meant.
        similar: Option<String>,
    },
    /// A variable of OpenTelemetry whose value is refused; the value may be a secret.
    #[error("{name}: {reason}")]
    Variable {
        /// The variable.
        name: &'static str,
        /// Why it is refused.
        reason: String,
    },
    /// A KairosDB configuration that cannot be taken over.
    #[error("{path}: {reason}", path = path.display())]
    KairosDb {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A value that is refused.
    #[error("{}: {reason}", describe(name, shown, origin))]
    Invalid {
        /// The setting.
        name: &'static str,
        /// The part of its value that is repeated.
        shown: Shown,
        /// Where the value was given.
        origin: Origin,
        /// Why it is refused.
        reason: String,
    },
}

impl Config {
    /// Reads and validates all settings. `matches` come from a command with the [`arguments()`] of this module.
    pub fn load(matches: &ArgMatches) -> Result<Self, ConfigError> {
        Self::from_raw(Raw::gather(matches)?)
    }

    /// The same for a server: settings of a store that is not chosen are refused.
    pub fn load_to_serve(matches: &ArgMatches) -> Result<Self, ConfigError> {
        Self::to_serve(Raw::gather(matches)?)
    }

    /// The same with another settings `file` than that of `--config`, if there is one; also returns what
    /// was given, in the order of [`SETTINGS`].
    pub fn check(
        matches: &ArgMatches,
        file: Option<&Path>,
    ) -> Result<(Self, Vec<Said>), ConfigError> {
        let raw = match file {
            Some(path) => Raw::gather_with(matches, path)?,
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
        let unless_zero = |name| duration(&raw, name).map(|time| (!time.is_zero()).then_some(time));
        let memory = MemoryConfig::from_raw(&raw)?;
        Ok(Self {
            listen: listen::listen(&raw)?,
            web: WebConfig::default(),
            data_dir: data_dir(&raw)?,
            store: store(&raw)?,
            head: head(&raw, &memory)?,
            memory,
            shutdown_timeout: positive(&raw, "shutdown-timeout")?,
            retention: unless_zero("retention")?,
            self_scrape_interval: self_scrape_interval(&raw)?,
            queries: QueryConfig::from_raw(&raw, &memory)?,
            limits: LimitsConfig::from_raw(&raw, &memory)?,
            type_and_unit_labels: match switch(&raw, "type-and-unit-labels")? {
                true => TypeAndUnitLabels::Enabled,
                false => TypeAndUnitLabels::Disabled,
            },
            admin_api: match switch(&raw, "enable-admin-api")? {
                true => AdminApi::Enabled,
                false => AdminApi::Disabled,
            },
            allowed_origins: AllowedOrigins::from_raw(&raw)?,
            traces: None,
            log: log::from_raw(&raw)?,
            global: GlobalConfig::from_raw(&raw)?,
            said: raw.texts(),
            kairosdb: raw.kairosdb,
        })
    }

    /// Whether the process keeps samples in the data folder, and so must lock it.
    pub fn keeps_files(&self) -> bool {
        !matches!(self.store, StoreConfig::Cassandra { ack: Ack::Store, .. })
    }
}

/// The address of a server with these settings, for its clients; no other setting is read.
pub fn listen_address(matches: &ArgMatches) -> Result<String, ConfigError> {
    listen::listen(&Raw::gather(matches)?)
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

fn data_dir(raw: &Raw) -> Result<PathBuf, ConfigError> {
    match raw.required("data-dir") {
        "" => Err(raw.refuse("data-dir", "must name a folder")),
        path => Ok(PathBuf::from(path)),
    }
}

fn store(raw: &Raw) -> Result<StoreConfig, ConfigError> {
    let is_cassandra = choice(raw, "store", &[("embedded", false), ("cassandra", true)])?;
    let ack = match raw.get("ack") {
        Some(_) => Some(choice(raw, "ack", &[("wal", Ack::Wal), ("store", Ack::Store)])?),
        None => None,
    };
    match (is_cassandra, ack) {
        (false, Some(Ack::Store)) => {
            let why =
                "the embedded store supports only wal; leave --ack out, or add --store cassandra";
            Err(raw.refuse("ack", why))
        }
        (false, _) => Ok(StoreConfig::Embedded),
        (true, ack) => {
            ttl_by_metric::check_retention(raw)?;
            Ok(StoreConfig::Cassandra {
                cassandra: Box::new(CassandraConfig::from_raw(raw)?),
                ack: ack.unwrap_or(Ack::Store),
            })
        }
    }
}

fn head(raw: &Raw, memory: &MemoryConfig) -> Result<HeadConfig, ConfigError> {
    let flush_interval = positive(raw, "flush-interval")?;
    let wal_limit = parse_size(raw.required("wal-limit"));
    let wal_limit = wal_limit.map_err(|error| raw.refuse("wal-limit", error))?;
    limits::within(raw, "wal-limit", wal_limit)?;
    let flush_memory = memory.size_or(raw, "flush-memory", memory.flush(), REFUSE_AT)?;
    limits::within(raw, "flush-memory", flush_memory)?;
    Ok(HeadConfig { flush_interval, wal_limit, flush_memory })
}

fn duration(raw: &Raw, name: &'static str) -> Result<Duration, ConfigError> {
    parse_duration(raw.required(name)).map_err(|error| raw.refuse(name, error))
}

/// A duration that is not zero.
fn positive(raw: &Raw, name: &'static str) -> Result<Duration, ConfigError> {
    match duration(raw, name)? {
        Duration::ZERO => Err(raw.refuse(name, "must be more than 0")),
        length => Ok(length),
    }
}

/// How often the server's own metrics are written; `None` = never. Bounded, to refuse typing errors.
fn self_scrape_interval(raw: &Raw) -> Result<Option<Duration>, ConfigError> {
    let name = "self-scrape-interval";
    match duration(raw, name)? {
        Duration::ZERO => Ok(None),
        every if every < Duration::from_secs(1) => {
            Err(raw.refuse(name, "must be at least 1s, or 0 for never"))
        }
        every => Ok(Some(every)),
    }
}

/// A whole number with a minimum.
fn count(raw: &Raw, name: &'static str, least: usize) -> Result<usize, ConfigError> {
    use std::num::IntErrorKind::PosOverflow;
    match raw.required(name).parse::<u32>() {
        Ok(count) if count as usize >= least => Ok(count as usize),
        Err(error) if *error.kind() == PosOverflow => Err(raw.refuse(name, "is too large")),
        _ => Err(raw.refuse(name, format!("must be a whole number of at least {least}"))),
    }
}

fn switch(raw: &Raw, name: &'static str) -> Result<bool, ConfigError> {
    choice(raw, name, &[("true", true), ("false", false)])
}

/// One of a few words; letter case is ignored.
fn choice<T: Copy>(raw: &Raw, name: &'static str, words: &[(&str, T)]) -> Result<T, ConfigError> {
    let text = raw.required(name);
    match words.iter().find(|(word, _)| word.eq_ignore_ascii_case(text)) {
        Some((_, value)) => Ok(*value),
        None => {
            let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            Err(raw.refuse(name, format!("must be one of {}", words.join(", "))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Loads from arguments; the environment of the test has no settings.
    fn load(arguments: &[&str]) -> Result<Config, String> {
        let matches = clap::Command::new("promkairos")
            .args(super::arguments())
            .try_get_matches_from(std::iter::once("promkairos").chain(arguments.iter().copied()))
            .map_err(|error| error.to_string())?;
        Config::load_to_serve(&matches).map_err(|error| error.to_string())
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
