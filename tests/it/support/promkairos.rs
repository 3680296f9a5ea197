//! The real `promkairos` binary on a free port, and a client for it.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::Path;
use std::process::{Command, ExitStatus};

use promkairos::storage::cassandra::Options;

use super::process::Process;
use super::remote_read::{self, ReadSeries};
use super::{cassandra, eventually};

/// The message in a remote-write body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Message {
    /// `prometheus.WriteRequest`
    V1,
    /// `io.prometheus.write.v2.Request`
    V2,
}

impl Message {
    /// Its full name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::V1 => "prometheus.WriteRequest",
            Self::V2 => "io.prometheus.write.v2.Request",
        }
    }
}

/// The store of a test, and the meaning of its acknowledgement.
#[derive(Debug, Clone)]
pub(crate) enum Backend {
    /// The embedded store.
    Embedded,
    /// Cassandra, acknowledged by it.
    CassandraStore { address: String, keyspace: String },
    /// Cassandra behind the log.
    CassandraWal { address: String, keyspace: String },
}

impl Backend {
    /// The shared Cassandra with a keyspace of its own, acknowledged by it.
    pub(crate) fn cassandra_store() -> Self {
        Self::CassandraStore { address: cassandra(), keyspace: super::keyspace() }
    }

    /// The shared Cassandra with a keyspace of its own, behind the log.
    pub(crate) fn cassandra_wal() -> Self {
        Self::CassandraWal { address: cassandra(), keyspace: super::keyspace() }
    }

    /// Both modes of Cassandra: acknowledged by it, and behind the log; each with the name of its own keyspace.
    pub(crate) fn both_at(address: &str) -> [(Self, String); 2] {
        let [a, b] = [super::keyspace(), super::keyspace()];
        let store = Self::CassandraStore { address: address.to_owned(), keyspace: a.clone() };
        let wal = Self::CassandraWal { address: address.to_owned(), keyspace: b.clone() };
        [(store, a), (wal, b)]
    }

    /// Options to open its keyspace in this process.
    pub(crate) fn options(&self) -> Options {
        match self {
            Self::Embedded => panic!("it has no keyspace"),
            Self::CassandraStore { address, keyspace }
            | Self::CassandraWal { address, keyspace } => {
                cassandra::options(address.clone(), keyspace)
            }
        }
    }

    /// The flags that choose it.
    pub(crate) fn flags(&self) -> Vec<String> {
        let (address, keyspace, ack) = match self {
            Self::Embedded => return Vec::new(),
            Self::CassandraStore { address, keyspace } => (address, keyspace, "store"),
            Self::CassandraWal { address, keyspace } => (address, keyspace, "wal"),
        };
        vec![
            "--store=cassandra".to_owned(),
            format!("--cassandra-contact-points={address}"),
            format!("--cassandra-keyspace={keyspace}"),
            format!("--ack={ack}"),
        ]
    }
}

/// A running server.
pub(crate) struct Promkairos {
    pub(crate) process: Process,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    http: reqwest::Client,
}

/// An answer to a remote-write request.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
    pub(crate) retry_after: Option<String>,
}

impl Promkairos {
    /// Starts the binary over `data` and waits until it listens, which is before it is ready.
    pub(crate) fn start(data: &Path, backend: &Backend, flags: &[&str]) -> Self {
        Self::start_under(&[], data, backend, flags)
    }

    /// The same under another program, such as `strace -f`.
    pub(crate) fn start_under(
        wrapper: &[&str],
        data: &Path,
        backend: &Backend,
        flags: &[&str],
    ) -> Self {
        Self::listening(wrapper, data, backend, flags).unwrap_or_else(|log| panic!("{log}"))
    }

    /// Starts the binary; if it ends before it listens, returns its log.
    pub(crate) fn try_start(
        data: &Path,
        backend: &Backend,
        flags: &[&str],
    ) -> Result<Self, String> {
        Self::listening(&[], data, backend, flags)
    }

    /// Starts the binary and waits until it is ready.
    pub(crate) async fn ready(data: &Path, backend: &Backend, flags: &[&str]) -> Self {
        let mut server = Self::start(data, backend, flags);
        server.wait_ready().await;
        server
    }

    /// Waits until it is ready; panics if it ends first.
    pub(crate) async fn wait_ready(&mut self) {
        if let Err(status) = self.ready_or_ended().await {
            panic!("promkairos ended ({status}):\n{}", self.process.log());
        }
    }

    /// Waits until it is ready or has ended.
    pub(crate) async fn ready_or_ended(&mut self) -> Result<(), ExitStatus> {
        self.settled(|status, _| status == 200).await
    }

    /// Waits until /-/ready answers with this status and text, or the server has ended.
    pub(crate) async fn settled(
        &mut self,
        is_settled: impl Fn(u16, &str) -> bool,
    ) -> Result<(), ExitStatus> {
        eventually("/-/ready is settled", async || {
            if let Some(status) = self.process.ended() {
                return Ok(Err(status));
            }
            match self.get("/-/ready").await {
                Ok((status, text)) if is_settled(status, &text) => Ok(Ok(())),
                other => Err(format!("{other:?}")),
            }
        })
        .await
    }

    fn listening(
        wrapper: &[&str],
        data: &Path,
        backend: &Backend,
        flags: &[&str],
    ) -> Result<Self, String> {
        let mut process = Process::start("promkairos", &mut command(wrapper, data, backend, flags));
        let address = process.wait_for_line("its address", |line| {
            let (_, url) = line.split_once("listening on ")?;
            // In JSON a quote ends the text.
            let rest = url.split_once("://")?.1;
            rest.split('"').next()?.trim().parse().ok()
        })?;
        Ok(Self { process, address, http: reqwest::Client::new() })
    }

    /// The URL of a path.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Status and body of a GET.
    pub(crate) async fn get(&self, path: &str) -> Result<(u16, String), reqwest::Error> {
        let response = self.http.get(self.url(path)).send().await?;
        Ok((response.status().as_u16(), response.text().await?))
    }

    /// Sends a snappy block as remote write.
    pub(crate) async fn write(
        &self,
        message: Message,
        block: Vec<u8>,
    ) -> Result<Answer, reqwest::Error> {
        let response = self
            .http
            .post(self.url("/api/v1/write"))
            .header("Content-Encoding", "snappy")
            .header("Content-Type", format!("application/x-protobuf;proto={}", message.name()))
            .body(block)
            .send()
            .await?;
        let status = response.status().as_u16();
        let retry_after = response.headers().get("Retry-After").cloned();
        Ok(Answer {
            status,
            retry_after: retry_after.and_then(|value| value.to_str().map(str::to_owned).ok()),
            body: response.text().await?,
        })
    }

    /// All stored points of the series whose `name` matches the pattern `value`, through remote read.
    pub(crate) async fn read(&self, name: &str, value: &str) -> Result<Vec<ReadSeries>, String> {
        self.read_range(name, value, i64::from(i32::MIN)..=i64::MAX / 2).await
    }

    /// The same within a range of milliseconds.
    pub(crate) async fn read_range(
        &self,
        name: &str,
        value: &str,
        range: RangeInclusive<i64>,
    ) -> Result<Vec<ReadSeries>, String> {
        remote_read::samples(&self.http, &self.url("/api/v1/read"), name, value, range).await
    }
}

fn command(wrapper: &[&str], data: &Path, backend: &Backend, flags: &[&str]) -> Command {
    let words: Vec<&str> =
        wrapper.iter().copied().chain([env!("CARGO_BIN_EXE_promkairos")]).collect();
    let mut command = Command::new(words[0]);
    if matches!(backend, Backend::CassandraWal { .. }) {
        // The first reads wait for the tables to be created, which may take long. Flags override this.
        command.env("PROMKAIROS_CASSANDRA_REQUEST_TIMEOUT", "100s");
    }
    command
        .args(&words[1..])
        .args(["--listen", "127.0.0.1:0", "--data-dir"])
        .arg(data)
        .args(backend.flags())
        .args(flags);
    command
}

/// For a server whose store is read after its stop: the last flush has the time that it needs.
pub(crate) const WHOLE_FLUSH: &str = "--shutdown-timeout=100s";

/// How often a statement was executed, from a page of the server's metrics.
pub(crate) fn statements(page: &str, statement: &str) -> u64 {
    let head = format!("promkairos_cassandra_statements_total{{statement=\"{statement}\"");
    let lines = page.lines().filter(|line| line.starts_with(&head));
    lines.map(|line| line.rsplit(' ').next().expect("a value").parse::<u64>().expect("whole")).sum()
}
