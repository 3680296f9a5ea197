//! Files of the program on the disk: nothing is written through a link, and no file is open to everybody.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

use crate::api::run;
use crate::limits::{send, series};
use crate::support::load::compress;
use crate::support::promkairos::{Backend, Message, Promkairos};
use crate::support::proto;

/// The embedded store, and a log before a Cassandra that does not exist; with the flags of each.
fn with_files() -> [(Backend, &'static [&'static str]); 2] {
    let (address, keyspace) = ("127.0.0.1:1".to_owned(), "absent".to_owned());
    // Nobody accepts the last flush.
    let soon = &["--shutdown-timeout=2s"][..];
    [(Backend::Embedded, &[]), (Backend::CassandraWal { address, keyspace }, soon)]
}

/// Sends points of one day, and the help of a metric family.
async fn fill(server: &Promkairos) {
    assert_eq!(send(server, &[series("m", "a", 500)]).await.status, 204);
    let family = proto::Message::default().varint(1, 1).bytes(2, "m").bytes(4, "what it counts");
    let body = compress(&proto::Message::default().messages(3, [family]));
    let answer = server.write(Message::V1, body).await.expect("an answer");
    assert_eq!(answer.status, 204, "{}", answer.body);
}

/// The kind and the mode of the folder and of everything below it.
fn modes(folder: &Path) -> BTreeMap<PathBuf, (bool, u32)> {
    let mut found = BTreeMap::new();
    let mut open = vec![folder.to_owned()];
    while let Some(path) = open.pop() {
        let metadata = path.symlink_metadata().expect("it is there");
        if metadata.is_dir() {
            let entries = std::fs::read_dir(&path).expect("a folder");
            open.extend(entries.map(|entry| entry.expect("an entry").path()));
        }
        found.insert(path, (metadata.is_dir(), metadata.permissions().mode() & 0o7777));
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn no_file_is_written_through_a_link() {
    let folder = tempfile::tempdir().expect("a folder");
    let (data, target) = (folder.path().join("data"), folder.path().join("target"));
    std::fs::write(&target, "of somebody else").expect("written");
    // Names of files while they are written, in groups: the program needs some name of each group.
    let parts = |end: &str| -> Vec<String> {
        (1..20)
            .map(|id| format!("embedded/parts/{}", end.replace("ID", &format!("{id:010}"))))
            .collect()
    };
    let logs = |log: &str| -> Vec<String> {
        (1..20).map(|first| format!("{log}/{first:020}.wal.new")).collect()
    };
    let embedded = [
        parts("MANIFEST.tmp"),
        parts("metadata-ID.tmp"),
        [parts("2023-11-14.ID.part.tmp"), parts("many-days.ID.part.tmp")].concat(),
        vec!["embedded/wal/checkpoint.new".to_owned()],
        logs("embedded/wal"),
    ];
    let cassandra = [
        vec!["cassandra/keyspace.new".to_owned()],
        vec!["cassandra/wal/checkpoint.new".to_owned()],
        logs("cassandra/wal"),
    ];
    for ((backend, flags), groups) in with_files().into_iter().zip([&embedded[..], &cassandra]) {
        let names: BTreeSet<&String> = groups.iter().flatten().collect();
        for name in &names {
            let path = data.join(name);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            symlink(&target, path).expect("planted");
        }
        let mut server = Promkairos::ready(&data, &backend, flags).await;
        fill(&server).await;
        // The last flush writes part files if there is a store for them.
        let ended = server.process.terminate();
        let log = server.process.log();
        assert!(ended.success() || !matches!(backend, Backend::Embedded), "{log}");
        for group in groups {
            let met = group.iter().any(|name| data.join(name).symlink_metadata().is_err());
            assert!(met, "{group:?} met no link:\n{log}");
        }
        assert_eq!(std::fs::read_to_string(&target).expect("there"), "of somebody else", "{log}");
        for (path, (is_folder, _)) in modes(&data) {
            let name = path.strip_prefix(&data).expect("below it").display().to_string();
            let is_file = path.symlink_metadata().expect("there").is_file();
            assert!(is_folder || is_file || names.contains(&&name), "{name} is a link");
        }
        // Acknowledged points are stored.
        if matches!(backend, Backend::Embedded) {
            let server = Promkairos::ready(&data, &backend, &[]).await;
            let found = server.read("__name__", "m").await.expect("it can be read");
            assert_eq!(found.iter().map(|series| series.points.len()).sum::<usize>(), 500);
        }
        std::fs::remove_dir_all(&data).expect("removed");
    }
}

/// Files that are opened, not created.
#[tokio::test(flavor = "multi_thread")]
async fn a_start_says_which_link_it_does_not_follow() {
    for name in ["lock", "embedded/wal/lock", "embedded/wal/checkpoint"] {
        let folder = tempfile::tempdir().expect("a folder");
        let (data, target) = (folder.path().join("data"), folder.path().join("target"));
        let path = data.join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        symlink(&target, &path).expect("planted");
        let data_dir = format!("--data-dir={}", data.display());
        let output = run(folder.path(), &["--listen=127.0.0.1:0", &data_dir], &[]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{said}");
        let want = format!("{}: a symbolic link, which is not followed", path.display());
        assert!(said.contains(&want), "{said}");
        assert!(!target.exists(), "{name}");
    }
}

/// With the widest umask, and with one that removes more than the program does.
#[tokio::test(flavor = "multi_thread")]
async fn files_and_folders_are_not_open_to_everybody_whatever_the_umask_is() {
    for (backend, flags) in with_files() {
        for (umask, folder_mode, file_mode) in [("000", 0o750, 0o640), ("077", 0o700, 0o600)] {
            let folder = tempfile::tempdir().expect("a folder");
            let data = folder.path().join("data");
            let script = format!("umask {umask}; exec \"$0\" \"$@\"");
            let shell = ["sh", "-c", script.as_str()];
            let mut server = Promkairos::start_under(&shell, &data, &backend, flags);
            server.wait_ready().await;
            fill(&server).await;
            let running = modes(&data);
            server.process.terminate();
            let ended = modes(&data);
            assert!(running.len() > 4 && ended.len() > 4, "{running:?} {ended:?}");
            for (path, (is_folder, mode)) in running.into_iter().chain(ended) {
                let want = if is_folder { folder_mode } else { file_mode };
                assert_eq!(mode, want, "umask {umask}: {} has {mode:o}", path.display());
            }
        }
    }
}

/// The user's server could not replace files that root writes. Only root can give a folder away.
#[tokio::test(flavor = "multi_thread")]
async fn root_does_not_serve_the_folder_of_another_user() {
    let [(embedded, _), (cassandra, _)] = with_files();
    for (backend, foreign) in [
        (&embedded, "data"),
        (&embedded, "data/embedded"),
        (&embedded, "data/embedded/wal"),
        (&embedded, "data/embedded/parts"),
        (&cassandra, "data"),
        (&cassandra, "data/cassandra"),
        (&cassandra, "data/cassandra/wal"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let (data, foreign) = (folder.path().join("data"), folder.path().join(foreign));
        std::fs::create_dir_all(&foreign).expect("made");
        let given = std::os::unix::fs::chown(&foreign, Some(65_533), None);
        assert_eq!(given.is_ok(), geteuid().is_root());
        let before = modes(&data);
        match Promkairos::try_start(&data, backend, &[]) {
            Ok(server) => assert!(given.is_err(), "it started:\n{}", server.process.log()),
            Err(log) => {
                assert!(given.is_ok() && log.contains("exit status: 2"), "{log}");
                let want = format!("{} belongs to the user '#65533'", foreign.display());
                assert!(log.contains(&want) && log.contains("sudo -u"), "{log}");
                assert_eq!(modes(&data), before, "nothing was written");
            }
        }
    }
}
