//! The tag index as an operator uses it: the settings file, SIGHUP, and the commands `explain` and
//! `index`, on the real program.

use std::path::Path;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::load::compress;
use crate::support::promkairos::{Backend, Message, Promkairos};
use crate::support::proto;
use crate::support::{api, eventually};

const WIDTH: i64 = 1_814_400_000;
const WINDOWS: i64 = 40;

/// A series `metric{host}` with a point in each of the first `windows` windows.
fn series(metric: &str, host: &str, windows: i64) -> proto::Message {
    let label = |name: &str, value: &str| proto::Message::default().bytes(1, name).bytes(2, value);
    let labels = [label("__name__", metric), label("host", host)];
    let time = |window| u64::try_from(window * WIDTH + 1_000).expect("after 1970");
    let point = |window| proto::Message::default().double(1, 1.0).varint(2, time(window));
    proto::Message::default().messages(1, labels).messages(2, (1..=windows).map(point))
}

async fn write(server: &Promkairos, metric: &str, windows: i64) {
    let all = ["a", "b", "c"].map(|host| series(metric, host, windows));
    let body = compress(&proto::Message::default().messages(1, all));
    let answer = server.write(Message::V1, body).await.expect("an answer");
    assert_eq!(answer.status, 204, "{}", answer.body);
}

/// Runs a command against a server; returns its output, or its one line of error.
fn ask(server: &Promkairos, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(env!("CARGO_BIN_EXE_promkairos"))
        .args(arguments)
        .args(["--server", &server.url("")])
        .output()
        .expect("it runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    match output.status.success() {
        true => Ok(text(output.stdout)),
        false => Err(text(output.stderr)),
    }
}

fn settings(path: &Path, list: &str) {
    let text = format!("tag_indexed_row_key_lookup_metrics = {list}\nenable_admin_api = true\n");
    std::fs::write(path, text).expect("written");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_indexes_a_metric_that_has_data() {
    let folder = tempfile::tempdir().expect("a folder");
    let (data, file) = (folder.path().join("data"), folder.path().join("promkairos.toml"));
    let backend = Backend::cassandra_store();
    let mut server = Promkairos::ready(&data, &backend, &[]).await;
    write(&server, "m", WINDOWS).await;
    let disabled = ask(&server, &["index", "build", "m"]).expect_err("refused");
    assert!(disabled.contains("admin APIs disabled: --enable-admin-api"), "{disabled}");
    assert!(server.process.terminate().success());

    settings(&file, "{ n = [] }");
    let flag = format!("--config={}", file.display());
    let mut server = Promkairos::ready(&data, &backend, &[&flag]).await;
    let refused = ask(&server, &["index", "build", "m"]).expect_err("refused");
    assert!(refused.contains("m is not in tag_indexed_row_key_lookup_metrics"), "{refused}");
    // The list is read again without a restart.
    settings(&file, "{ n = [], m = [\"host\"] }");
    let pid = i32::try_from(server.process.id()).expect("a pid");
    kill_process(Pid::from_raw(pid).expect("a pid"), Signal::HUP).expect("it runs");
    eventually("m is indexed from now on", async || {
        let status = ask(&server, &["index", "status", "m"])?;
        let readable = status.starts_with("m tag host: readable, read from 19");
        if readable { Ok(()) } else { Err(status) }
    })
    .await;
    let explained = ask(&server, &["explain", "m{host=~\"a|b\"}"]).expect("explained");
    assert_eq!(explained.matches("data_points: row_keys (partitions: 1, rows: 3)").count(), 40);
    assert!(explained.contains("series: 2, partitions of data_points: 80 ("), "{explained}");

    build_half(&mut server).await;
    let mut server = Promkairos::ready(&data, &backend, &[&flag]).await;
    // Half of the index is built, and reads do not use it yet.
    let explained = ask(&server, &["explain", "m{host=\"a\"}"]).expect("explained");
    assert_eq!(explained.matches("row_keys").count(), 40, "{explained}");
    let built = ask(&server, &["index", "build", "m"]).expect("built");
    let rows = built.strip_prefix("m: build done, 40 of 40 windows, ").unwrap_or_default();
    let rows: i64 = rows.split(' ').next().and_then(|rows| rows.parse().ok()).unwrap_or_default();
    assert!((3 * WINDOWS..=3 * WINDOWS + 6).contains(&rows), "it began anew: {built}");
    // This process has all series in memory by now; a restarted process has none.
    let explained = ask(&server, &["explain", "m{host=\"a\"}"]).expect("explained");
    assert_eq!(explained.matches("data_points: memory").count(), 40, "{explained}");
    assert!(server.process.terminate().success());
    let mut server = Promkairos::ready(&data, &backend, &[&flag]).await;
    let explained = ask(&server, &["explain", "m{host=\"a\"}"]).expect("explained");
    let through = "data_points: tag index host=a (partitions: 1, rows: 1)";
    assert_eq!(explained.matches(through).count(), 40, "{explained}");
    assert!(explained.contains("series: 1, partitions of data_points: 40 ("), "{explained}");
    let range = ["--start", "1970-02-01T00:00:00Z", "--end", "1970-02-02T00:00:00Z"];
    let explained = ask(&server, &[&["explain", "m{host=\"a\"}"], &range[..]].concat());
    assert_eq!(explained.expect("explained").matches(through).count(), 1);
    let found = server.read("__name__", "m").await.expect("read");
    assert_eq!(found.len(), 3);
    assert!(server.process.terminate().success());
}

/// Begins a slow build and kills the server in the middle of it.
async fn build_half(server: &mut Promkairos) {
    let url = server.url("");
    let mut building = Command::new(env!("CARGO_BIN_EXE_promkairos"))
        .args(["index", "build", "m", "--rows-per-second", "10", "--server", &url])
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("it runs");
    eventually("a part is built", async || {
        let status = ask(server, &["index", "status", "m"])?;
        let done = status.split("build running, ").nth(1).and_then(|rest| rest.split(' ').next());
        let done: Option<u32> = done.and_then(|done| done.parse().ok());
        if done.is_some_and(|done| done >= 3) { Ok(()) } else { Err(status) }
    })
    .await;
    server.process.kill();
    let output = tokio::task::spawn_blocking(move || {
        let status = building.wait().expect("it ends");
        let mut text = String::new();
        let stderr = building.stderr.as_mut().expect("piped");
        std::io::Read::read_to_string(stderr, &mut text).expect("UTF-8");
        (status, text)
    });
    let (status, text) = output.await.expect("it ends");
    assert!(!status.success() && text.contains(&url), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_embedded_store_has_no_tag_index() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Promkairos::ready(folder.path(), &Backend::Embedded, &[]).await;
    for arguments in [&["explain", "m"][..], &["index", "status"]] {
        let error = ask(&server, arguments).expect_err("refused");
        assert!(error.contains("work only with --store cassandra"), "{error}");
    }
    let error = ask(&server, &["explain", "{"]).expect_err("refused");
    assert!(error.contains(": SELECTOR (no function): 1:2: parse error: "), "{error}");
    let error = ask(&server, &["explain", "rate(x[5m])"]).expect_err("refused");
    assert!(error.contains(": SELECTOR (no function): 1:"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_of_a_job_stand_in_a_form_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let flags = ["--enable-admin-api=true"];
    let server = Promkairos::ready(folder.path(), &Backend::cassandra_store(), &flags).await;
    let url = server.url("/api/v1/admin/tag_index/build");
    for (form, why) in [
        (&[][..], "invalid parameter \"metric\""),
        (&[("metric", "m"), ("rows_per_second", "x")], "invalid parameter \"rows_per_second\""),
        (&[("metric", "m")], "m is not in tag_indexed_row_key_lookup_metrics"),
    ] {
        let (status, answer) = api::post(&url, form).await;
        let text = answer["error"].as_str().expect("an error");
        assert!(status == 400 && text.contains(why), "{status} {answer}");
    }
}
