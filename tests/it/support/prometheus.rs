//! A real Prometheus with its own data, configuration and port, and a client for its query API.

use std::net::SocketAddr;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use super::process::Process;
use super::{eventually, prometheus_binary};

/// A running Prometheus.
pub(crate) struct Prometheus {
    process: Process,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    folder: TempDir,
    http: reqwest::Client,
}

impl Prometheus {
    /// Starts it with an empty configuration, and waits until it is ready.
    pub(crate) async fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let config = folder.path().join("prometheus.yml");
        std::fs::write(&config, "{}\n").expect("written");
        let mut command = Command::new(prometheus_binary());
        command
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
            .arg("--web.listen-address=127.0.0.1:0")
            .args(["--web.enable-lifecycle", "--web.enable-remote-write-receiver"])
            .arg(
                "--enable-feature=native-histograms,exemplar-storage,metadata-wal-records,\
                 promql-per-step-stats",
            );
        let mut process = Process::start("prometheus", &mut command);
        let address = process.wait_for_line("its address", |line| {
            let line = line.split_once("\"Listening on\"")?.1;
            line.split_once("address=")?.1.trim().parse().ok()
        });
        let address = address.unwrap_or_else(|log| panic!("{log}"));
        let prometheus = Self { process, address, folder, http: reqwest::Client::new() };
        eventually("Prometheus is ready", async || match prometheus.get("/-/ready").await {
            Ok((200, _)) => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .await;
        prometheus
    }

    /// Replaces the configuration by this YAML.
    pub(crate) async fn configure(&self, yaml: &str) {
        std::fs::write(self.folder.path().join("prometheus.yml"), yaml).expect("written");
        let url = self.url("/-/reload");
        let response = self.http.post(url).send().await.expect("it answers");
        assert_eq!(response.status(), 200, "{yaml}\n{}", self.process.log());
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

    /// Minor version of this Prometheus 3.
    pub(crate) async fn minor_version(&self) -> u32 {
        let info = self.api("/api/v1/status/buildinfo", &[]).await.expect("it answers");
        let version = info["data"]["version"].as_str().expect("a version");
        let minor = version.strip_prefix("3.").and_then(|rest| rest.split('.').next());
        minor.and_then(|minor| minor.parse().ok()).unwrap_or_else(|| panic!("not 3.x: {version}"))
    }

    /// The answer of the query API.
    pub(crate) async fn api(
        &self,
        path: &str,
        parameters: &[(&str, &str)],
    ) -> Result<Value, String> {
        let mut url = reqwest::Url::parse(&self.url(path)).expect("a URL");
        url.query_pairs_mut().extend_pairs(parameters);
        let response = self.http.get(url).send().await.map_err(|error| error.to_string())?;
        let text = response.text().await.map_err(|error| error.to_string())?;
        serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))
    }

    /// The number that an instant query returns now; `None` if the result is empty.
    pub(crate) async fn number(&self, query: &str) -> Option<f64> {
        let answer = self.api("/api/v1/query", &[("query", query)]).await.ok()?;
        answer["data"]["result"][0]["value"][1].as_str()?.parse().ok()
    }
}
