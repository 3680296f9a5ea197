//! A folder whose log is in use has an owner even if the lock files are removed: every command that could take the
//! folder for abandoned is refused, and none of them changes a byte.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::api::{fault, run};
use crate::cassandra::keyspace::TestKeyspace;
use crate::limits::{logged, send, series};
use crate::support::cassandra;
use crate::support::promkairos::{Backend, Promkairos};

/// The lock files, below a data folder.
const LOCKS: [&str; 2] = ["lock", "wal/lock"];

/// All files below a folder except the locks, with their lengths and modification times.
fn files(folder: &Path) -> BTreeMap<PathBuf, (u64, std::time::SystemTime)> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let entry = entry.expect("an entry");
        let (path, metadata) = (entry.path(), entry.metadata().expect("it is there"));
        if metadata.is_dir() {
            found.extend(files(&path));
        } else if !path.ends_with("lock") {
            found.insert(path, (metadata.len(), metadata.modified().expect("a time")));
        }
    }
    found
}

async fn every_command_notices_the_owner(backend: Backend, folder: &str) {
    let data = tempfile::tempdir().expect("a folder");
    let dir = data.path().to_str().expect("UTF-8").to_owned();
    let mut server = Promkairos::ready(data.path(), &backend, &[]).await;
    if matches!(backend, Backend::CassandraWal { .. }) {
        // By then all notes about Cassandra are in the folder.
        logged(&server, "Cassandra is there").await;
    }
    assert_eq!(send(&server, &[series("m", "a", 5)]).await.status, 204);
    let elsewhere = tempfile::tempdir().expect("a folder");
    let store = backend.flags();
    let command = |before: &[&str]| {
        let mut all: Vec<&str> = before.to_vec();
        all.extend(["--data-dir", dir.as_str()]);
        all.extend(store.iter().map(String::as_str));
        fault(&run(elsewhere.path(), &all, &[]))
    };
    let owned = format!(
        "{dir} is in use by another promkairos process; stop that process, or give this one another --data-dir"
    );
    // Each lock is removed alone, then both.
    for removed in [&LOCKS[..1], &LOCKS[1..], &LOCKS[..]] {
        for lock in removed {
            let below =
                if *lock == "lock" { data.path().to_owned() } else { data.path().join(folder) };
            // A refused command has created the lock again.
            drop(std::fs::remove_file(below.join(lock)));
        }
        let before = files(data.path());
        assert_eq!(command(&["--listen=127.0.0.1:0"]), owned, "{removed:?}");
        for repair in [&["wal", "repair"][..], &["wal", "repair", "--apply"]] {
            let why = command(repair);
            assert!(why.contains("a running promkairos uses this log"), "{removed:?}: {why}");
        }
        if matches!(backend, Backend::Embedded) {
            let from = format!("embedded:{dir}");
            let to = format!("embedded:{}", elsewhere.path().join("copy").display());
            let why = fault(&run(elsewhere.path(), &["copy", "--from", &from, "--to", &to], &[]));
            assert!(why.starts_with(&owned), "{removed:?}: {why}");
        }
        assert_eq!(files(data.path()), before, "{removed:?}");
    }
    // The server still runs, and its log is intact.
    assert_eq!(send(&server, &[series("m", "b", 5)]).await.status, 204);
    assert!(server.process.terminate().success(), "{}", server.process.log());
    let server = Promkairos::ready(data.path(), &backend, &[]).await;
    let found = server.read("__name__", "m").await.expect("it can be read");
    assert_eq!(found.iter().map(|series| series.points.len()).sum::<usize>(), 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_the_embedded_store() {
    every_command_notices_the_owner(Backend::Embedded, "embedded").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_log_before_cassandra() {
    let keyspace = TestKeyspace::new().await;
    // The tables exist, so reads do not wait for them.
    drop(keyspace.open().await);
    let backend = Backend::CassandraWal { address: cassandra(), keyspace: keyspace.name.clone() };
    every_command_notices_the_owner(backend, "cassandra").await;
    keyspace.drop().await;
}
