//! The HTTP surface and the life cycle of the process: methods, statuses, health, limits, refused
//! settings, ports and folders that are already in use, draining and restart.

mod external_labels;
mod federate;
mod paths;
mod queries;
mod recorded;
mod slow;
mod snapshots;

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

use promkairos::api::proto::v1;
use promkairos::api::{self, AppState};
use promkairos::limits::MAX_BODY_BYTES;
use promkairos::storage::memory::MemoryStore;
use promkairos::telemetry::Metrics;
use promkairos::wire::snappy;
use prost::Message;
use reqwest::Method;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::support::api::get;
use super::support::eventually;
use super::support::promkairos::{Backend, Message as WriteMessage, Promkairos};
use super::support::remote_read::Point;

/// A server whose store is not open yet.
async fn server_without_store() -> SocketAddr {
    let state = Arc::new(AppState::new(Arc::new(Metrics::new())));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    tokio::spawn(async move { axum::serve(listener, api::router(state)).await });
    address
}

/// Sends a request; returns its status, `Retry-After` and body.
async fn ask(
    address: SocketAddr,
    method: Method,
    path: &str,
    body: Vec<u8>,
) -> (u16, Option<String>, String) {
    let url = format!("http://{address}{path}");
    let request = reqwest::Client::new().request(method, url).body(body);
    let response = request.send().await.expect("the server answers");
    let status = response.status().as_u16();
    let retry_after = response.headers().get("retry-after");
    let retry_after = retry_after.map(|value| value.to_str().expect("ascii").to_owned());
    (status, retry_after, response.text().await.expect("a body"))
}

#[tokio::test]
async fn paths_and_methods() {
    let address = server_without_store().await;
    for (method, path, want) in [
        (Method::GET, "/", 200),
        (Method::GET, "/-/healthy", 200),
        (Method::HEAD, "/-/healthy", 200),
        (Method::GET, "/metrics", 200),
        (Method::GET, "/nowhere", 404),
        (Method::POST, "/api/v1/nowhere", 404),
        (Method::POST, "/-/healthy", 405),
        (Method::GET, "/api/v1/read", 405),
        (Method::PUT, "/api/v1/read", 405),
        (Method::DELETE, "/metrics", 405),
    ] {
        let (status, ..) = ask(address, method.clone(), path, vec![]).await;
        assert_eq!(status, want, "{method} {path}");
    }
}

#[tokio::test]
async fn until_the_store_is_open_only_health_answers() {
    let address = server_without_store().await;
    let (status, _, body) = ask(address, Method::GET, "/-/healthy", vec![]).await;
    assert_eq!((status, body.as_str()), (200, "Prometheus Server is Healthy.\n"));
    for (method, path) in [(Method::GET, "/-/ready"), (Method::POST, "/api/v1/read")] {
        let (status, retry_after, body) = ask(address, method, path, vec![]).await;
        assert_eq!((status, retry_after.as_deref()), (503, Some("1")), "{path}");
        assert!(body.starts_with("Service Unavailable"), "{body}");
    }
}

#[tokio::test]
async fn a_body_beyond_the_limit_is_413() {
    let address = server_without_store().await;
    let body = vec![0; MAX_BODY_BYTES + 1];
    let (status, ..) = ask(address, Method::POST, "/api/v1/read", body).await;
    assert_eq!(status, 413);
}

#[tokio::test]
async fn junk_between_chunks_is_the_fault_of_its_sender() {
    let state = Arc::new(AppState::new(Arc::new(Metrics::new())));
    state.open(Arc::new(MemoryStore::new()));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    tokio::spawn(async move { axum::serve(listener, api::router(state)).await });
    for path in ["/api/v1/write", "/api/v1/read"] {
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-protobuf\r\n\
             Content-Encoding: snappy\r\nTransfer-Encoding: chunked\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.expect("it takes that");
        stream.write_all(b"1\r\na\r\nno length\r\n").await.expect("it takes that");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("an answer and an end");
        assert!(answer.starts_with("HTTP/1.1 400 "), "{path}: {answer}");
    }
}

#[tokio::test]
async fn metrics_count_requests_in_the_format_that_is_asked_for() {
    const OPEN: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    const PLAIN: &str = "text/plain; version=0.0.4; charset=utf-8";
    let address = server_without_store().await;
    ask(address, Method::GET, "/nowhere", vec![]).await;
    let metrics = async |accept: Option<&str>| {
        let mut request = reqwest::Client::new().get(format!("http://{address}/metrics"));
        if let Some(accept) = accept {
            request = request.header("Accept", accept);
        }
        let response = request.send().await.expect("the server answers");
        let kind = response.headers()["content-type"].to_str().expect("ascii").to_owned();
        let text = response.text().await.expect("a body");
        let want = "promkairos_http_requests_total{handler=\"other\",code=\"404\"} 1\n";
        assert!(text.contains(want), "{text}");
        (kind, text)
    };
    let (kind, text) = metrics(Some("application/openmetrics-text;version=1.0.0")).await;
    assert_eq!(kind, OPEN);
    assert!(text.contains("# TYPE promkairos_http_requests counter\n"), "{text}");
    assert!(text.contains("# UNIT ") && text.ends_with("# EOF\n"), "{text}");
    for accept in [None, Some("text/plain")] {
        let (kind, text) = metrics(accept).await;
        assert_eq!(kind, PLAIN);
        assert!(text.contains("# TYPE promkairos_http_requests_total counter\n"), "{text}");
        assert!(!text.contains("# UNIT ") && !text.contains("# EOF"), "{text}");
    }
}

/// Runs the binary, which must end by itself.
pub(super) fn run(folder: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_promkairos"))
        .current_dir(folder)
        .args(arguments)
        .envs(variables.iter().copied())
        .output()
        .expect("the binary runs")
}

/// The one line that the binary printed when it refused to start (exit code 2).
fn refusal(output: &Output) -> String {
    last_words(output, 2)
}

/// The one line that the binary printed when it ended with a fault (exit code 1).
pub(super) fn fault(output: &Output) -> String {
    last_words(output, 1)
}

fn last_words(output: &Output, code: i32) -> String {
    let text = String::from_utf8(output.stderr.clone()).expect("UTF-8");
    assert_eq!(output.status.code(), Some(code), "{text}");
    assert!(output.stdout.is_empty());
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("promkairos: ")).collect();
    assert_eq!(lines.len(), 1, "{text}");
    lines[0]["promkairos: ".len()..].to_owned()
}

#[test]
fn settings_that_are_refused_are_one_line_and_exit_code_2() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("a.toml"), "listen = \"x:1\"\nstroe = 1\n").expect("written");
    let check = |arguments: &[&str], variables: &[(&str, &str)], want: &str| {
        let output = run(folder.path(), arguments, variables);
        assert_eq!(refusal(&output), want);
        assert_eq!(output.stderr.iter().filter(|byte| **byte == b'\n').count(), 1);
    };
    check(
        &["--flush-intervall=1h"],
        &[],
        "unexpected argument '--flush-intervall' found; a similar argument exists: \
         '--flush-interval'; see promkairos --help",
    );
    check(
        &["--retention", "-1h"],
        &[],
        "--retention \"-1h\": not a duration; write it as 15s, 2h, 1h30m or 2y \
         (units: ms s m h d w y)",
    );
    let file = ["--listen=127.0.0.1:0", "--data-dir", "a.toml"];
    check(&file, &[], "a.toml: a file, not a folder");
    check(&["--cassandra-keyspace=k"], &[], "--cassandra-keyspace \"k\": needs --store cassandra");
    check(&["--store=x"], &[], "--store \"x\": must be one of embedded, cassandra");
    check(
        &["serve"],
        &[("PROMKAIROS_STORE", "x")],
        "PROMKAIROS_STORE=\"x\": must be one of embedded, cassandra",
    );
    check(
        &["serve"],
        &[("PROMKAIROS_RETENTOIN", "1d")],
        "unknown environment variable PROMKAIROS_RETENTOIN, did you mean PROMKAIROS_RETENTION?",
    );
    check(
        &["--log-level=loud"],
        &[],
        "--log-level \"loud\": must be one of off, error, warn, info, debug, trace, or a filter \
         such as info,promkairos::storage=debug",
    );
    check(&["--config=a.toml"], &[], "a.toml:2: unknown setting stroe, did you mean store?");
    check(
        &[],
        &[("PROMKAIROS_CONFIG", "b.toml")],
        "b.toml: No such file or directory (os error 2)",
    );
    check(
        &["--ack=store"],
        &[],
        "--ack \"store\": the embedded store supports only wal; leave --ack out, or add --store cassandra",
    );
    assert!(!folder.path().join("data").exists(), "nothing was touched");
}

#[test]
fn what_is_wrong_without_cassandra_is_refused_without_it() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("ca.pem"), "no certificate\n").expect("written");
    for ack in ["--ack=wal", "--ack=store"] {
        let tls = ["--store=cassandra", ack, "--cassandra-tls", "--cassandra-tls-ca=ca.pem"];
        let output = run(folder.path(), &[&tls[..], &["--listen=127.0.0.1:0"]].concat(), &[]);
        assert_eq!(
            refusal(&output),
            "--cassandra-tls-ca \"ca.pem\": holds no certificate in PEM",
            "{ack}"
        );
    }
}

#[test]
fn a_time_to_live_that_no_cassandra_takes_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let check = |setting: &str, want: &str| {
        std::fs::write(folder.path().join("a.toml"), setting).expect("written");
        let arguments = ["--store=cassandra", "--config=a.toml", "--listen=127.0.0.1:0"];
        assert_eq!(refusal(&run(folder.path(), &arguments, &[])), want);
    };
    let refused = "Cassandra takes at most 20 years";
    check("retention = \"21y\"\n", &format!("retention = \"21y\" in a.toml:1: {refused}"));
    check(
        "cassandra_ttl_by_metric = {a = \"1d\", \"b.*\" = \"21y\"}\n",
        &format!("cassandra_ttl_by_metric.\"b.*\" in a.toml:1: {refused}"),
    );
    check(
        "[cassandra_ttl_by_metric]\n\"a(\" = \"1d\"\n",
        "cassandra_ttl_by_metric.\"a(\" in a.toml:2: error parsing regexp: missing closing ): `a(`",
    );
    check(
        "retention = \"1ms\"\n",
        "retention = \"1ms\" in a.toml:1: a TTL has at least one second",
    );
    check(
        "[cassandra_ttl_by_metric]\na = \"7\"\n",
        "cassandra_ttl_by_metric.a in a.toml:2: not a duration; write it \
         as 15s, 2h, 1h30m or 2y (units: ms s m h d w y)",
    );
}

#[test]
fn flags_win_over_the_environment_and_that_over_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("a.toml"), "retention = \"file\"\n").expect("written");
    let refused = |arguments: &[&str], variables: &[(&str, &str)]| {
        let line = refusal(&run(folder.path(), arguments, variables));
        line.split(": ").next().unwrap_or_default().to_owned()
    };
    let config = "--config=a.toml";
    let variable = ("PROMKAIROS_RETENTION", "variable");
    assert_eq!(refused(&[config], &[]), "retention = \"file\" in a.toml:1");
    assert_eq!(refused(&[config], &[variable]), "PROMKAIROS_RETENTION=\"variable\"");
    assert_eq!(refused(&[config, "--retention=flag"], &[variable]), "--retention \"flag\"");
}

#[test]
fn a_port_in_use_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("bound").to_string();
    let output = run(folder.path(), &["--listen", &address], &[]);
    let want = format!("cannot listen on {address}: Address already in use (os error 98)");
    assert_eq!(fault(&output), want);
}

#[test]
fn an_address_that_can_never_be_bound_differs_from_one_that_may_come() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = run(folder.path(), &["--listen=300.0.0.1:1"], &[]);
    let want = "--listen \"300.0.0.1:1\": 300.0.0.1 is no IPv4 address";
    assert_eq!(refusal(&output), want);
    let output = run(folder.path(), &["--listen=[fe80::1]:1"], &[]);
    let why = "the link-local address fe80::1 needs its interface: fe80::1%eth0:1";
    let want = format!("--listen \"[fe80::1]:1\": {why}");
    assert_eq!(refusal(&output), want);
    // An address reserved for documentation, which no machine has.
    let output = run(folder.path(), &["--listen=192.0.2.1:1"], &[]);
    let said = fault(&output);
    let want = "cannot listen on 192.0.2.1:1: it is no address of this machine (";
    assert!(said.starts_with(want), "{said}");
}

#[test]
fn help_and_version_are_no_errors() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = run(folder.path(), &["--version"], &[]);
    assert!(output.status.success());
    assert_eq!(output.stdout, format!("promkairos {}\n", env!("CARGO_PKG_VERSION")).into_bytes());
    let output = run(folder.path(), &["--help"], &[]);
    assert!(output.status.success());
    let help = String::from_utf8(output.stdout).expect("UTF-8");
    for setting in promkairos::config::SETTINGS {
        assert!(help.contains(&format!("--{}", setting.name)), "{}", setting.name);
        assert!(help.contains(&setting.variable()), "{}", setting.name);
    }
}

/// A remote-write body with one float of `up{job="<job>"}`.
pub(super) fn float_body(job: &str, timestamp: i64, value: f64) -> Vec<u8> {
    let label = |name: &str, value: &str| v1::Label { name: name.into(), value: value.into() };
    let series = v1::TimeSeries {
        labels: vec![label("__name__", "up"), label("job", job)],
        samples: vec![v1::Sample { value, timestamp }],
        ..Default::default()
    };
    let request = v1::WriteRequest { timeseries: vec![series], metadata: vec![] };
    snappy::compress(&request.encode_to_vec()).expect("small")
}

/// `/api/v1/status/tsdb`, which Grafana and operators ask for: counts of memory and of part files.
#[tokio::test]
async fn series_labels_chunks_and_times_are_counted() {
    let data = tempfile::tempdir().expect("a folder");
    for (write, chunks) in [(true, 2), (false, 0)] {
        let mut server = Promkairos::ready(data.path(), &Backend::Embedded, &[]).await;
        for (job, time) in
            [("a", 1_700_000_000_000), ("a", 1_700_000_060_000), ("b", 1_700_000_030_000)]
        {
            if write {
                let answer = server.write(WriteMessage::V1, float_body(job, time, 1.0)).await;
                assert_eq!(answer.expect("an answer").status, 204);
            }
        }
        let (status, answer) = get(&server.url("/api/v1/status/tsdb"), &[]).await;
        assert_eq!(status, 200);
        let want = serde_json::json!({
            "numSeries": 2, "numLabelPairs": 3, "chunkCount": chunks,
            "minTime": 1_700_000_000_000_i64, "maxTime": 1_700_000_060_000_i64,
        });
        assert_eq!(answer["data"]["headStats"], want);
        let pairs = answer["data"]["seriesCountByLabelValuePair"].as_array().expect("a list");
        assert_eq!(pairs[0], serde_json::json!({ "name": "__name__=up", "value": 2 }));
        assert!(server.process.terminate().success());
    }
}

#[tokio::test]
async fn sigterm_drains_and_a_second_start_finds_everything() {
    let data = tempfile::tempdir().expect("a folder");
    let mut want = Vec::new();
    for round in 0..3 {
        let mut server = Promkairos::ready(data.path(), &Backend::Embedded, &[]).await;
        let found = server.read("__name__", "up").await.expect("it can be read");
        assert_eq!(found.len(), want.len(), "after {round} restarts");
        for (series, (job, value)) in found.iter().zip(&want) {
            assert_eq!(series.labels["job"], *job);
            let points: Vec<_> = series.points.iter().map(|(time, point)| (*time, point)).collect();
            assert_eq!(points, [(1000, &Point::Float(f64::to_bits(*value)))]);
        }
        let (job, value) = (format!("job-{round}"), f64::from(round) + 0.5);
        let body = float_body(&job, 1000, value);
        let answer = server.write(WriteMessage::V1, body).await.expect("it answers");
        assert_eq!(answer.status, 204, "{}", answer.body);
        want.push((job, value));
        assert!(server.process.terminate().success(), "{}", server.process.log());
    }
}

#[tokio::test]
async fn series_are_deleted_over_http_when_that_is_allowed() {
    const PATH: &str = "/api/v1/admin/tsdb/delete_series";
    let data = tempfile::tempdir().expect("a folder");
    for backend in [Backend::Embedded, Backend::cassandra_store(), Backend::cassandra_wal()] {
        let folder = data.path().join(backend.flags().join(""));
        let locked = Promkairos::ready(&folder, &backend, &[]).await;
        let (status, _, text) = ask(locked.address, Method::POST, PATH, vec![]).await;
        assert_eq!(
            (status, text.contains("admin APIs disabled: --enable-admin-api")),
            (500, true),
            "{text}"
        );
        drop(locked);

        let server = Promkairos::ready(&folder, &backend, &["--enable-admin-api=true"]).await;
        for (job, time) in [("a", 1000), ("a", 5000), ("b", 1000)] {
            let answer = server.write(WriteMessage::V1, float_body(job, time, 1.0)).await;
            assert_eq!(answer.expect("it answers").status, 204);
        }
        let delete = async |parameters: &str| {
            let path = format!("{PATH}?{parameters}");
            ask(server.address, Method::PUT, &path, vec![]).await
        };
        let (status, _, text) = delete("match[]=up{job=~%22").await;
        assert_eq!((status, text.contains("bad_data")), (400, true), "{text}");
        assert_eq!(delete("").await.0, 400);
        let (status, _, text) = delete("match[]=up{job=%22a%22}&start=0&end=2").await;
        assert_eq!(status, 204, "{text}");
        let found = server.read("__name__", "up").await.expect("it can be read");
        let left: Vec<(&str, Vec<i64>)> = found
            .iter()
            .map(|s| (&s.labels["job"][..], s.points.keys().copied().collect()))
            .collect();
        assert_eq!(left, [("a", vec![5000]), ("b", vec![1000])], "{:?}", backend.flags());
    }
}

#[tokio::test]
async fn a_second_process_on_the_same_folder_is_locked_out() {
    let data = tempfile::tempdir().expect("a folder");
    let mut server = Promkairos::ready(data.path(), &Backend::Embedded, &[]).await;
    let folder = data.path().to_str().expect("UTF-8");
    let output = run(data.path(), &["--listen=127.0.0.1:0", "--data-dir", folder], &[]);
    let what = format!("{folder} is in use by another promkairos process; stop that process, ");
    assert!(fault(&output).starts_with(&what), "{output:?}");
    assert_eq!(server.get("/-/ready").await.expect("it answers").0, 200);
    assert!(server.process.terminate().success());
}

#[tokio::test]
async fn a_sound_log_needs_no_repair_and_a_log_in_use_is_refused() {
    let data = tempfile::tempdir().expect("a folder");
    let folder = data.path().to_str().expect("UTF-8");
    let repair = ["wal", "repair", "--data-dir", folder];
    let missing = format!("no log of the embedded store at {folder}/embedded/wal");
    assert_eq!(refusal(&run(data.path(), &repair, &[])), missing);
    std::fs::create_dir_all(data.path().join("cassandra/wal")).expect("made");
    let hint = "; there is a log of the Cassandra store: add --store cassandra --ack wal";
    assert_eq!(refusal(&run(data.path(), &repair, &[])), format!("{missing}{hint}"));
    std::fs::remove_dir_all(data.path().join("cassandra")).expect("removed");

    let mut server = Promkairos::ready(data.path(), &Backend::Embedded, &[]).await;
    assert!(fault(&run(data.path(), &repair, &[])).contains("a running promkairos uses this log"));
    assert!(server.process.terminate().success());
    let output = run(data.path(), &repair, &[]);
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(text.starts_with("The log is sound: "), "{text}");

    // While another process has the lock of the log, the server waits for it.
    let lock = data.path().join("embedded/wal/lock");
    let lock = std::fs::File::options().write(true).open(lock).expect("it is there");
    lock.try_lock().expect("nobody has it");
    let mut server = Promkairos::start(data.path(), &Backend::Embedded, &[]);
    eventually("it waits", async || match server.get("/-/ready").await {
        Ok((503, text)) if text.contains("a running promkairos uses this log") => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    drop(lock);
    server.wait_ready().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_own_metrics_are_written_as_those_of_a_target() {
    let data = tempfile::tempdir().expect("a folder");
    let flags = ["--self-scrape-interval=1s"];
    let mut server = Promkairos::ready(data.path(), &Backend::Embedded, &flags).await;
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let instance = format!("{host}:{}", server.address.port());
    eventually("up is there", async || {
        let query = [("query", "up{job=\"promkairos\"}")];
        let (_, answer) = get(&server.url("/api/v1/query"), &query).await;
        let result = &answer["data"]["result"];
        let is_up = result.as_array().is_some_and(|series| series.len() == 1)
            && result[0]["metric"]["instance"] == instance.as_str()
            && result[0]["value"][1] == "1";
        if is_up { Ok(()) } else { Err(answer.to_string()) }
    })
    .await;
    let family = [("metric", "promkairos_memory_limit_bytes")];
    let (_, answer) = get(&server.url("/api/v1/metadata"), &family).await;
    let described = &answer["data"]["promkairos_memory_limit_bytes"][0];
    assert_eq!((&described["type"], &described["unit"]), (&"gauge".into(), &"bytes".into()));
    assert!(server.process.terminate().success());
}
