//! A real KairosDB over a keyspace of the shared or another Cassandra, and a client for its REST API.
//!
//! One process serves one keyspace. Concurrent tests share a process for each unit of row times and
//! use distinct metric names. The process in milliseconds, which tests of several topics use, runs
//! until this program ends. The last test that holds another process ends it.

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, Weak};

use promkairos::kairos::{RowSpec, TimeUnit};
use promkairos::storage::cassandra::Options;
use promkairos::telemetry::CassandraMetrics;
use serde_json::{Value as Json, json};
use tempfile::TempDir;

use super::{cassandra, eventually, variable};

/// Tags by name.
pub(crate) type TagMap = BTreeMap<String, String>;

/// A running KairosDB. Dropping it ends it.
pub(crate) struct KairosDb {
    /// Its keyspace.
    pub(crate) keyspace: String,
    url: String,
    run: TempDir,
    http: reqwest::Client,
}

/// KairosDB's answer for one series: values in ascending order of time.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct KairosSeries {
    pub(crate) tags: TagMap,
    pub(crate) values: Vec<(i64, Json)>,
}

impl KairosDb {
    /// A KairosDB with this unit of row times, shared with other tests.
    pub(crate) async fn shared(unit: TimeUnit) -> Arc<Self> {
        static SHARED: [tokio::sync::Mutex<Weak<KairosDb>>; 3] = [
            tokio::sync::Mutex::const_new(Weak::new()),
            tokio::sync::Mutex::const_new(Weak::new()),
            tokio::sync::Mutex::const_new(Weak::new()),
        ];
        let mut shared = SHARED[unit as usize].lock().await;
        if let Some(running) = shared.upgrade() {
            return running;
        }
        let keyspace = super::keyspace();
        let settings = match unit {
            TimeUnit::Milliseconds => "",
            TimeUnit::Seconds => "datastore.cassandra.write_cluster.row_time_unit: \"SECONDS\"\n",
            TimeUnit::Legacy => {
                // KairosDB does not create such a keyspace, but keeps an existing one.
                make_legacy(&keyspace).await;
                ""
            }
        };
        let started = Arc::new(Self::over(&keyspace, settings).await);
        *shared = Arc::downgrade(&started);
        if unit == TimeUnit::Milliseconds {
            Self::keep(Arc::clone(&started));
        }
        started
    }

    /// Keeps a KairosDB until this process ends, even if it is killed.
    fn keep(kairosdb: Arc<Self>) {
        static KEPT: Mutex<Vec<(Arc<KairosDb>, Child)>> = Mutex::new(Vec::new());
        let shell = kairosdb.end_with_this_process();
        KEPT.lock().expect("nobody panics").push((kairosdb, shell));
    }

    /// A shell that waits for the end of its input, which is the end of this process, and then ends KairosDB.
    fn end_with_this_process(&self) -> Child {
        let mut shell = Command::new("bash");
        shell.args(["-c", "cat > /dev/null; \"$0\" down \"$1\"; rm -rf \"$1\""]);
        shell.arg(script_path()).arg(self.run.path());
        // An interrupt of the terminal does not end it, and it holds no output of ours open.
        shell.process_group(0).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        shell.spawn().expect("the shell runs")
    }

    /// A KairosDB for one test on a keyspace, with lines for its configuration; waits until it answers.
    pub(crate) async fn over(keyspace: &str, settings: &'static str) -> Self {
        Self::at(cassandra(), keyspace, settings).await
    }

    /// The same for a keyspace of the Cassandra at `host:port`.
    pub(crate) async fn at(address: String, keyspace: &str, settings: &'static str) -> Self {
        let keyspace = keyspace.to_owned();
        let start = move || Self::start(&address, keyspace, settings);
        tokio::task::spawn_blocking(start).await.expect("KairosDB starts")
    }

    fn start(cassandra: &str, keyspace: String, settings: &str) -> Self {
        let home = std::env::var_os("PROMKAIROS_TEST_RUN").map(PathBuf::from);
        let home = home.unwrap_or_else(std::env::temp_dir);
        let run = tempfile::Builder::new().prefix("kairosdb.").tempdir_in(home);
        let run = run.expect("a folder");
        let file = run.path().join("settings");
        std::fs::write(&file, settings).expect("written");
        script("up", |command| {
            let jars = variable("PROMKAIROS_TEST_KAIROSDB");
            command.env("KAIROSDB_HEAP", "256m").env("PEER_LIFE", "short");
            command.arg(jars).arg(run.path());
            command.arg(cassandra).arg(&keyspace).arg(&file);
        });
        let address = std::fs::read_to_string(run.path().join("address")).expect("an address");
        let url = format!("http://{}/api/v1", address.trim());
        // A pooled connection would end with the test that opened it.
        let http = reqwest::Client::builder().pool_max_idle_per_host(0).build();
        Self { keyspace, url, run, http: http.expect("a client") }
    }

    /// The URL of a path of its API.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    /// The address of its telnet protocol.
    pub(crate) fn telnet(&self) -> String {
        let address = std::fs::read_to_string(self.run.path().join("telnet"));
        address.expect("an address").trim().to_owned()
    }

    /// Sends points of one series; `data_type` is `long`, `double` or `string`. They can be
    /// queried a little later.
    pub(crate) async fn ingest(
        &self,
        metric: &str,
        tags: &TagMap,
        data_type: &str,
        points: &[(i64, Json)],
    ) {
        self.ingest_for(metric, tags, data_type, points, 0).await;
    }

    /// The same with a time to live in seconds; 0 = for ever.
    pub(crate) async fn ingest_for(
        &self,
        metric: &str,
        tags: &TagMap,
        data_type: &str,
        points: &[(i64, Json)],
        ttl: u32,
    ) {
        let points: Vec<Json> = points.iter().map(|(time, value)| json!([time, value])).collect();
        let body = json!([{
            "name": metric, "tags": tags, "type": data_type, "ttl": ttl, "datapoints": points,
        }]);
        let (status, text) = self.post("/datapoints", &body).await;
        assert_eq!(status, 204, "{metric} {tags:?}: {text}");
    }

    /// All series of a metric whose tags have these values, by their tags; series without points
    /// are left out.
    pub(crate) async fn query(
        &self,
        metric: &str,
        tags: &[(&str, &str)],
        names: &[&str],
    ) -> Result<Vec<KairosSeries>, String> {
        let tags: BTreeMap<_, _> = tags.iter().copied().collect();
        let group = json!([{"name": "tag", "tags": names}]);
        let metric = json!({"name": metric, "tags": tags, "group_by": group});
        let range = 100 * 365 * 24 * 3_600_000_i64;
        let body = json!({"start_absolute": -range, "end_absolute": range, "metrics": [metric]});
        let (status, text) = self.post("/datapoints/query", &body).await;
        if status != 200 {
            return Err(format!("{status}: {text}"));
        }
        let answer: Json = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        let results = answer["queries"][0]["results"].as_array().expect("results");
        let mut series: Vec<KairosSeries> = results.iter().map(series).collect();
        series.retain(|series| !series.values.is_empty());
        series.sort_by(|a, b| a.tags.cmp(&b.tags));
        Ok(series)
    }

    /// Repeats the query until the result is as expected.
    pub(crate) async fn query_until(
        &self,
        metric: &str,
        names: &[&str],
        is_right: impl Fn(&[KairosSeries]) -> bool,
    ) -> Vec<KairosSeries> {
        eventually(&format!("KairosDB answers for {metric}"), async || {
            let found = self.query(metric, &[], names).await?;
            if is_right(&found) { Ok(found) } else { Err(format!("{found:?}")) }
        })
        .await
    }

    /// Deletes a metric.
    pub(crate) async fn delete(&self, metric: &str) {
        let request = self.http.delete(self.url(&format!("/metric/{metric}")));
        let response = request.send().await.expect("it answers");
        assert_eq!(response.status().as_u16(), 204, "{metric}");
    }

    async fn post(&self, path: &str, body: &Json) -> (u16, String) {
        let request = self.http.post(self.url(path));
        let request = request.header("Content-Type", "application/json").body(body.to_string());
        let response = request.send().await.expect("it answers");
        (response.status().as_u16(), response.text().await.expect("a body"))
    }
}

impl Drop for KairosDb {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.run.path().join("log")).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let tail = &lines[lines.len().saturating_sub(30)..];
            println!("--- log of KairosDB, its end\n{}", tail.join("\n"));
        }
        script("down", |command| {
            command.arg(self.run.path());
        });
    }
}

fn series(result: &Json) -> KairosSeries {
    let tags = result["tags"].as_object().expect("tags").iter();
    let tags = tags.map(|(name, values)| {
        let values = values.as_array().expect("values of a tag");
        assert_eq!(values.len(), 1, "{result}");
        (name.clone(), values[0].as_str().expect("a text").to_owned())
    });
    let values = result["values"].as_array().expect("values").iter();
    let values = values.map(|point| (point[0].as_i64().expect("a time"), point[1].clone()));
    KairosSeries { tags: tags.collect(), values: values.collect() }
}

/// KairosDB's default configuration file.
pub(crate) fn default_configuration() -> String {
    let path = Path::new(&variable("PROMKAIROS_TEST_KAIROSDB")).join("kairosdb.conf");
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

async fn make_legacy(keyspace: &str) {
    let row_spec = RowSpec::new(TimeUnit::Legacy, RowSpec::DEFAULT.width()).expect("valid");
    let options = Options { row_spec, ..cassandra::options(cassandra(), keyspace) };
    cassandra::open(options, &CassandraMetrics::default()).await;
}

fn script_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/kairosdb.sh")
}

/// Runs `tests/peers/kairosdb.sh`.
fn script(action: &str, arguments: impl FnOnce(&mut Command)) {
    let mut command = Command::new(script_path());
    arguments(command.arg(action));
    let output = command.output().expect("the script runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "kairosdb.sh {action}: {text}");
}
