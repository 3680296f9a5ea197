//! Sessions with a Cassandra, stores on it, and a Cassandra that belongs to one test, which may kill
//! it. Its log file then has what it acknowledged, unless it was started by [`OwnCassandra::start_late`].
//!
//! Cassandra creates and drops the tables of many tests one after the other, so sessions and stores
//! wait up to [`DEADLINE`].

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use promkairos::storage::StoreError;
use promkairos::storage::cassandra::{CassandraStore, Options};
use promkairos::telemetry::CassandraMetrics;
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use tempfile::TempDir;

use super::{DEADLINE, variable};

/// A session with the Cassandra at `host:port`.
pub(crate) async fn session(address: &str) -> Session {
    session_builder(address).build().await.expect("Cassandra answers")
}

/// A builder of sessions, to which a login can be added.
pub(crate) fn session_builder(address: &str) -> SessionBuilder {
    let profile = ExecutionProfile::builder().request_timeout(Some(DEADLINE)).build();
    SessionBuilder::new()
        .known_node(address)
        .connection_timeout(DEADLINE)
        .schema_agreement_timeout(DEADLINE)
        .fetch_schema_metadata(false)
        .default_execution_profile_handle(profile.into_handle())
}

/// The settings of a store on a keyspace of the Cassandra at `host:port`, whose statements may take
/// [`DEADLINE`].
pub(crate) fn options(address: String, keyspace: &str) -> Options {
    Options {
        contact_points: vec![address],
        keyspace: keyspace.parse().expect("a keyspace name"),
        request_timeout: DEADLINE,
        ..Options::default()
    }
}

/// Opens a store once Cassandra answers, with retries as a server does. (The future of `eventually` is not `Send`.)
pub(crate) async fn open(options: Options, metrics: &CassandraMetrics) -> CassandraStore {
    let start = Instant::now();
    loop {
        match CassandraStore::open(options.clone(), metrics.clone()).await {
            Err(error @ StoreError::Unavailable { .. }) if start.elapsed() < DEADLINE => {
                println!("not opened yet: {error}");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            opened => return opened.expect("the store opens"),
        }
    }
}

/// A Cassandra. Dropping it ends it.
pub(crate) struct OwnCassandra {
    run: TempDir,
    /// Options of Java.
    options: &'static str,
    /// Lines of its settings.
    settings: &'static str,
}

impl OwnCassandra {
    /// Starts it and waits until it answers.
    pub(crate) fn start() -> Self {
        Self::start_with("", "")
    }

    /// Starts it with options of Java and further settings.
    pub(crate) fn start_with(options: &'static str, settings: &'static str) -> Self {
        Self::start_as("up-durable", options, settings)
    }

    /// Starts one that loses acknowledged writes when killed: it syncs its log every ten minutes.
    pub(crate) fn start_late() -> Self {
        Self::start_as("up", "", "")
    }

    fn start_as(action: &str, options: &'static str, settings: &'static str) -> Self {
        let home = std::env::var_os("PROMKAIROS_TEST_RUN").map(std::path::PathBuf::from);
        let home = home.unwrap_or_else(std::env::temp_dir);
        let run = tempfile::Builder::new().prefix("cassandra.").tempdir_in(home);
        let own = Self { run: run.expect("a folder"), options, settings };
        own.script(action);
        own
    }

    /// `host:port`; the same after a restart.
    pub(crate) fn address(&self) -> String {
        let address = std::fs::read_to_string(self.run.path().join("address"));
        address.expect("an address").trim().to_owned()
    }

    /// Kills it with SIGKILL.
    pub(crate) fn kill(&self) {
        self.script("down");
    }

    /// Starts it again and waits until it answers.
    pub(crate) fn start_again(&self) {
        self.script("again");
    }

    /// Pauses it (SIGSTOP): its connections stay open, and it does not answer.
    pub(crate) fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Continues it after [`Self::pause`].
    pub(crate) fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Limits the length of its files, in bytes; 0 acts as a full disk. `None` = no limit.
    pub(crate) fn limit_files(&self, bytes: Option<u64>) {
        let limit = Rlimit { current: bytes, maximum: None };
        prlimit(Some(self.pid()), Resource::Fsize, limit).expect("it runs");
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("it runs");
    }

    fn pid(&self) -> Pid {
        let pid = std::fs::read_to_string(self.run.path().join("pid")).expect("it runs");
        pid.trim().parse().ok().and_then(Pid::from_raw).expect("a process id")
    }

    /// Runs `tests/peers/cassandra.sh`.
    fn script(&self, action: &str) {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/cassandra.sh");
        let mut command = Command::new(script);
        command.env("CASSANDRA_HEAP", "512m").env("CASSANDRA_OPTIONS", self.options);
        command.env("CASSANDRA_SYNC_PERIOD", "600s").env("PEER_LIFE", "short");
        command.env("CASSANDRA_YAML", self.settings).arg(action);
        if action != "down" {
            command.arg(variable("PROMKAIROS_TEST_CASSANDRA_JARS"));
        }
        let output = command.arg(self.run.path()).output().expect("the script runs");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "cassandra.sh {action}: {text}");
    }
}

impl Drop for OwnCassandra {
    fn drop(&mut self) {
        self.kill();
    }
}
