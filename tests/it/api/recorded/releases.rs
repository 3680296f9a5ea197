//! This program opens the data of each release and answers as if it had written that data itself.
//!
//! `tests/data/releases/0.1` was written by e1a4bdc. It has the folder of the embedded store after `writes.jsonl`: the
//! first five requests in part files, the others in the log of a killed process. It has the keyspace after the same
//! requests as CQL, one statement a line as JSON, and the settings with their defaults. The files of a release are
//! never changed; a new release adds its own.

use std::fs::{File, OpenOptions};
use std::io::{BufReader, Read};
use std::path::Path;
use std::process::Command;

use flate2::read::GzDecoder;
use futures::{StreamExt, stream};
use serde_json::Value as Json;

use super::{ON_CASSANDRA, lines, replay, replay_but, write_case};
use crate::cassandra::doctor::examine_whole;
use crate::cassandra::keyspace::TestKeyspace;
use crate::support::cassandra;
use crate::support::promkairos::{Backend, Promkairos};
use crate::tidy::root;

/// The one request of `writes.jsonl` that 0.1 refused: it has no Content-Type.
fn refused() -> Json {
    let refused = lines("writes").into_iter().find(|case| case["id"] == "write-021");
    refused.expect("it is there")
}

/// The length of a segment of the log. The files of a release lack the zeros at its end.
const SEGMENT_BYTES: u64 = 128 << 20;
/// The number of statements that create the tables.
const TABLES: usize = 8;

/// Copies a folder recursively.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("it is there") {
        let entry = entry.expect("it can be listed");
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy(&from, &to);
        } else {
            std::fs::copy(from, to).expect("it can be copied");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_data_folder_of_0_1_with_its_log_answers_as_new_data() {
    let data = tempfile::tempdir().expect("a folder");
    copy(&root().join("tests/data/releases/0.1/embedded"), &data.path().join("embedded"));
    let segment = data.path().join("embedded/wal/00000000000000000006.wal");
    let segment = OpenOptions::new().write(true).open(segment).expect("it is there");
    segment.set_len(SEGMENT_BYTES).expect("it can be made longer");
    let mut server = Promkairos::ready(data.path(), &Backend::Embedded, &[]).await;
    write_case(&server.url(""), &refused()).await;
    replay(&server.url(""), "requests", 2930).await;
    // Again, after this program has written all data to part files.
    assert!(server.process.terminate().success(), "{}", server.process.log());
    let server = Promkairos::ready(data.path(), &Backend::Embedded, &[]).await;
    replay(&server.url(""), "requests", 2930).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_keyspace_of_0_1_answers_as_new_data() {
    let file = root().join("tests/data/releases/0.1/keyspace.jsonl.gz");
    let mut text = String::new();
    let file = GzDecoder::new(File::open(file).expect("it is there"));
    BufReader::new(file).read_to_string(&mut text).expect("it can be read");
    let keyspace = TestKeyspace::by_hand().await;
    let statements: Vec<String> =
        text.lines().map(|line| serde_json::from_str(line).expect("a text")).collect();
    let (tables, rows) = statements.split_at(TABLES);
    for table in tables {
        keyspace.cql(table).await;
    }
    let written = stream::iter(rows).for_each_concurrent(32, |row| keyspace.cql(row));
    written.await;
    let (address, name) = (cassandra(), keyspace.name.clone());
    let data = tempfile::tempdir().expect("a folder");
    let backend = Backend::CassandraStore { address, keyspace: name };
    let server = Promkairos::ready(data.path(), &backend, &[]).await;
    write_case(&server.url(""), &refused()).await;
    replay_but(&server.url(""), "requests", 2930, ON_CASSANDRA).await;
    drop(server);
    examine_whole(keyspace.options()).await;
    keyspace.drop().await;
}

#[test]
fn the_settings_of_0_1_are_valid() {
    let file = root().join("tests/data/releases/0.1/settings.toml");
    let mut check = Command::new(env!("CARGO_BIN_EXE_promkairos"));
    let output = check.arg("check-config").arg("--config").arg(file).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}
