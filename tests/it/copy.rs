//! `promkairos copy`: from the embedded store to a real Cassandra and back, from a running server,
//! interrupted and resumed, and with differences that the comparison has to find.

mod cut_off;
mod found;
mod kept;
mod left_out;
mod odd;
mod served;
mod serving;
mod terminal;
mod times;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};

use promkairos::wire;
use serde_json::Value as Json;

use crate::cassandra::keyspace::Request;
use crate::support::load::compress;
use crate::support::promkairos::{Backend, Message, Promkairos};
use crate::support::proto;
use crate::support::remote_read::ReadSeries;
use crate::support::{self, api};

/// 2023-11-14T22:13:20Z: points from here on soon pass the end of the day.
const AT: i64 = 1_700_000_000_000;
const DAY: i64 = 86_400_000;

/// The command, run in a folder of its own.
fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_promkairos"));
    // Creating tables is slow on a busy machine. Flags override the variable.
    command.env("PROMKAIROS_CASSANDRA_REQUEST_TIMEOUT", "100s");
    command.current_dir(folder).arg("copy").args(arguments);
    command
}

fn copy(folder: &Path, arguments: &[&str]) -> Output {
    command(folder, arguments).output().expect("it runs")
}

/// The report of a copy, which must have succeeded.
#[track_caller]
fn said(output: &Output) -> String {
    assert!(output.status.success(), "{}", text(output));
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

/// The text of both output streams.
fn text(output: &Output) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr);
    format!("{}{stderr}", String::from_utf8_lossy(&output.stdout))
}

/// The name of an embedded store as source or target: `embedded:` and its data folder.
fn embedded(data: &Path) -> String {
    format!("embedded:{}", data.display())
}

/// The name of a keyspace of the shared Cassandra as source or target.
fn keyspace(name: &str) -> String {
    format!("cassandra:{}/{name}", support::cassandra())
}

/// A server over a keyspace of the shared Cassandra.
fn over_cassandra(name: &str) -> Backend {
    Backend::CassandraStore { address: support::cassandra(), keyspace: name.to_owned() }
}

/// Sends a request by remote write 2.0.
async fn send(server: &Promkairos, request: &Request) {
    let body = compress(&proto::Message(wire::encode_v2(&request.batch())));
    let answer = server.write(Message::V2, body).await.expect("it answers");
    assert!(matches!(answer.status, 200 | 204), "{answer:?}");
}

/// Makes an embedded store with the data of the requests, and ends its server.
async fn made(data: &Path, requests: &[Request]) {
    let mut server = Promkairos::ready(data, &Backend::Embedded, &[]).await;
    for request in requests {
        send(&server, request).await;
    }
    assert!(server.process.terminate().success(), "{}", server.process.log());
}

/// All data of a server: samples, exemplars and metadata.
#[derive(Debug, PartialEq)]
struct All {
    series: Vec<ReadSeries>,
    exemplars: BTreeMap<String, Json>,
    metadata: Json,
}

impl All {
    async fn of(server: &Promkairos) -> Self {
        let mut series = server.read("__name__", ".+").await.expect("it can be read");
        series.retain(|series| !series.points.is_empty());
        let range = [("query", "{__name__=~\".+\"}"), ("start", "0"), ("end", "4000000000")];
        let url = server.url("/api/v1/query_exemplars");
        let (status, answer) = api::get(&url, &range).await;
        assert_eq!(status, 200, "{answer}");
        let exemplars = answer["data"].as_array().expect("a list").iter();
        let exemplars =
            exemplars.map(|one| (one["seriesLabels"].to_string(), one["exemplars"].clone()));
        let exemplars = exemplars.collect();
        let (status, answer) = api::get(&server.url("/api/v1/metadata"), &[]).await;
        assert_eq!(status, 200, "{answer}");
        Self { series, exemplars, metadata: answer["data"].clone() }
    }

    /// All data of the embedded store in a folder.
    async fn in_folder(data: &Path) -> Self {
        Self::of(&Promkairos::ready(data, &Backend::Embedded, &[]).await).await
    }

    fn points(&self) -> usize {
        self.series.iter().map(|series| series.points.len()).sum()
    }
}
