//! Acknowledged writes survive kill -9 at random moments, a store that goes away and damaged files;
//! and a trace of the system calls shows that they are synced before the answer.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use crate::api::run;
use crate::limits::logged;
use crate::support::load::{Load, compress};
use crate::support::promkairos::{Answer, Backend, Message, Promkairos};
use crate::support::proto;
use crate::support::proxy::Proxy;
use crate::support::{eventually, long, seed, trace};

#[tokio::test(flavor = "multi_thread")]
async fn kill_loses_nothing_embedded() {
    kill_rounds(&Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kill_loses_nothing_cassandra_acknowledged_by_it() {
    kill_rounds(&Backend::cassandra_store()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kill_loses_nothing_cassandra_behind_the_log() {
    kill_rounds(&Backend::cassandra_wal()).await;
}

/// Each round: load, kill -9, in some rounds kill -9 again during recovery, start, compare.
async fn kill_rounds(backend: &Backend) {
    let rounds = if long() { 50 } else { 5 };
    let mut random = StdRng::seed_from_u64(seed());
    let data = tempfile::tempdir().expect("a folder");
    let load = Load::default();
    for round in 0..rounds {
        // In some rounds the kill falls into a flush.
        let flags: &[&str] = if round % 2 == 0 { &["--flush-interval=200ms"] } else { &[] };
        let mut server = Promkairos::ready(data.path(), backend, flags).await;
        load.check(&server).await;
        let before = load.acknowledged();
        let seed = random.random();
        let moment = Duration::from_millis(random.random_range(0..1_500));
        let sending = load.send_until_gone(&server, 4, seed);
        tokio::select! {
            () = sending => panic!("the server went by itself:\n{}", server.process.log()),
            () = async {
                eventually("something is acknowledged", async || match load.acknowledged() {
                    more if more > before => Ok(()),
                    _ => Err(format!("round {round}")),
                })
                .await;
                tokio::time::sleep(moment).await;
            } => {}
        }
        server.process.kill();
        if random.random_bool(0.6) {
            let mut recovering = Promkairos::start(data.path(), backend, flags);
            tokio::time::sleep(Duration::from_millis(random.random_range(0..100))).await;
            recovering.process.kill();
        }
    }
    let mut server = Promkairos::ready(data.path(), backend, &[]).await;
    load.check(&server).await;
    assert!(server.process.terminate().success(), "{}", server.process.log());
    let server = Promkairos::ready(data.path(), backend, &[]).await;
    load.check(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_answer_leaves_before_its_record_is_synced() {
    const MARKER: &str = "marker";
    let folder = tempfile::tempdir().expect("a folder");
    let (data, output) = (folder.path().join("data"), folder.path().join("trace"));
    let output_text = output.to_str().expect("UTF-8");
    let strace = ["strace", "-f", "-y", "-s", "1000000", "-e", trace::CALLS, "-o", output_text];
    let mut server = Promkairos::start_under(&strace, &data, &Backend::Embedded, &[]);
    server.wait_ready().await;
    let requests = 200;
    let one = |number: usize| {
        let server = &server;
        async move {
            let labels = [("__name__", "traced".to_owned()), ("m", format!("{MARKER}{number}x"))];
            let answer = server.write(Message::V1, one_sample(&labels, 1.0)).await;
            assert_eq!(answer.expect("it answers").status, 204);
        }
    };
    // One by one first, then at the same time, which makes groups of records.
    for number in 0..requests / 2 {
        one(number).await;
    }
    futures::future::join_all((requests / 2..requests).map(one)).await;
    // strace does not pass the signal on: end the server by its own process id.
    drop_traced(&mut server);
    let text = std::fs::read_to_string(&output).expect("a trace");
    let answers = trace::check(&text, data.to_str().expect("UTF-8"), MARKER);
    assert_eq!(answers, Ok(requests));
}

#[test]
fn the_trace_check_sees_an_answer_that_is_too_early() {
    let wal = "9</data/wal/1>";
    let check = |lines: &[String]| trace::check(&lines.join("\n"), "/data", "marker");
    let ask = "7 recvfrom(5<socket:[1]>, \"..marker12x..\", 8192, 0, NULL, NULL) = 90".to_owned();
    let write = format!("8 write({wal}, \"..marker12x..\", 99) = 99");
    let sync = format!("8 fdatasync({wal}) = 0");
    let begun = format!("8 fdatasync({wal} <unfinished ...>");
    let done = "8 <... fdatasync resumed>) = 0".to_owned();
    let answer =
        "7 sendto(5<socket:[1]>, \"HTTP/1.1 204 No Content..\", 90, 0, NULL, 0) = 90".to_owned();
    let good = [&ask, &write, &sync, &answer].map(String::clone);
    assert_eq!(check(&good), Ok(1));
    let good = [&ask, &write, &begun, &done, &answer].map(String::clone);
    assert_eq!(check(&good), Ok(1));
    for bad in [
        [&ask, &write, &answer, &sync, &sync].map(String::clone),
        [&ask, &sync, &write, &answer, &sync].map(String::clone),
        [&ask, &write, &begun, &answer, &done].map(String::clone),
        [&ask, &begun, &write, &done, &answer].map(String::clone),
    ] {
        assert!(check(&bad).is_err(), "{bad:?}");
    }
    let failed = format!("8 fdatasync({wal}) = -1 EIO (Input/output error)");
    assert!(check(&[ask, write, failed, answer]).is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flipped_byte_after_a_clean_stop_is_never_silent() {
    let stop = |server: &mut Promkairos| assert!(server.process.terminate().success());
    flipped_bytes(&Backend::Embedded, stop).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flipped_byte_after_a_kill_is_never_silent() {
    flipped_bytes(&Backend::Embedded, |server| server.process.kill()).await;
}

/// The writes of the last run are in the log alone.
#[tokio::test(flavor = "multi_thread")]
async fn a_flipped_byte_of_the_log_before_cassandra_is_never_silent() {
    flipped_bytes(&Backend::cassandra_wal(), |server| server.process.kill()).await;
}

async fn flipped_bytes(backend: &Backend, stop: impl Fn(&mut Promkairos)) {
    let rounds = match (long(), backend) {
        (true, Backend::Embedded) => 300,
        (false, Backend::Embedded) => 24,
        // Each of these rounds connects to Cassandra first.
        (true, _) => 80,
        (false, _) => 8,
    };
    let mut random = StdRng::seed_from_u64(seed());
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let load = Load::default();
    // Two runs with flushes and one without: files of every kind.
    for flush in ["100ms", "100ms", "2h"] {
        let flag = format!("--flush-interval={flush}");
        let mut server = Promkairos::ready(&data, backend, &[&flag]).await;
        for _ in 0..60 {
            assert_eq!(load.send(&server, &mut random).await.expect("it answers"), 204);
        }
        stop(&mut server);
    }
    let files = files_below(&data);
    assert!(files.len() >= 2, "{files:?}");
    for round in 0..rounds {
        // One file after the other, so that small ones are not missed.
        let file = &files[round % files.len()];
        let damaged = folder.path().join("damaged");
        copy(&data, &damaged);
        let Some(offset) = flip(&damaged.join(file), &mut random) else { continue };
        let name = file.file_name().and_then(|name| name.to_str()).expect("UTF-8");
        let what = format!("{} at {offset}", file.display());
        start_is_loud_or_right(backend, &damaged, &load, name, &what).await;
        std::fs::remove_dir_all(&damaged).expect("removed");
    }
}

/// The server refuses to start or to answer and names the file, or all data is right.
#[tokio::test(flavor = "multi_thread")]
async fn a_part_of_the_embedded_store_that_is_gone_is_missed() {
    let folder = tempfile::tempdir().expect("a folder");
    let (data, copied) = (folder.path().join("data"), folder.path().join("copy"));
    let (load, mut random) = (Load::default(), StdRng::seed_from_u64(seed()));
    let mut server = Promkairos::ready(&data, &Backend::Embedded, &[]).await;
    assert_eq!(load.send(&server, &mut random).await.expect("it answers"), 204);
    assert!(server.process.terminate().success(), "{}", server.process.log());
    copy(&data, &copied);

    std::fs::remove_dir_all(data.join("embedded/parts")).expect("removed");
    let log = match Promkairos::try_start(&data, &Backend::Embedded, &[]) {
        Ok(mut server) => {
            let status = server.ready_or_ended().await.expect_err("points are missing");
            assert!(!status.success(), "{}", server.process.log());
            server.process.log()
        }
        Err(log) => log,
    };
    assert!(log.contains("embedded/parts: damaged at byte 0: the log says"), "{log}");

    // The part files have the same data, but the server cannot know that.
    std::fs::remove_dir_all(copied.join("embedded/wal")).expect("removed");
    let log = refused_start(&copied, &Backend::Embedded).await;
    assert!(log.contains("embedded/wal: the log is gone"), "{log}");
    // Version 0.1 had no such mark.
    std::fs::remove_file(copied.join("embedded/wal.begun")).expect("removed");
    let server = Promkairos::ready(&copied, &Backend::Embedded, &[]).await;
    let log = server.process.log();
    assert!(log.contains("ERROR") && log.contains("embedded/wal is gone"), "{log}");
    load.check(&server).await;
}

/// The log of a start that ends with 1.
async fn refused_start(data: &Path, backend: &Backend) -> String {
    match Promkairos::try_start(data, backend, &[]) {
        Ok(mut server) => {
            let status = server.ready_or_ended().await.expect_err("it cannot serve");
            assert_eq!(status.code(), Some(1), "{}", server.process.log());
            server.process.log()
        }
        Err(log) => {
            assert!(log.contains("exit status: 1"), "{log}");
            log
        }
    }
}

/// Nothing was flushed: only the mark beside the log records that there was one.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_is_gone_before_the_first_flush_is_missed() {
    // Nobody listens at this address; the log accepts writes nevertheless.
    let (address, keyspace) = ("127.0.0.1:1".to_owned(), "k".to_owned());
    let wal = Backend::CassandraWal { address: address.clone(), keyspace: keyspace.clone() };
    let store = Backend::CassandraStore { address, keyspace };
    for (backend, others, place) in [
        (Backend::Embedded, vec![], "embedded/wal"),
        (wal, vec![store, Backend::Embedded], "cassandra/wal"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let (load, mut random) = (Load::default(), StdRng::seed_from_u64(seed()));
        let mut server = Promkairos::ready(folder.path(), &backend, &[]).await;
        assert_eq!(load.send(&server, &mut random).await.expect("it answers"), 204);
        server.process.kill();
        let (log, mark) = (folder.path().join(place), folder.path().join(format!("{place}.begun")));
        std::fs::remove_dir_all(&log).expect("removed");
        for backend in others.iter().chain([&backend]) {
            let said = refused_start(folder.path(), backend).await;
            let want = format!("{}: the log is gone", log.display());
            assert!(said.contains(&want) && said.contains("promkairos wal repair"), "{said}");
        }
        let flags: Vec<String> = backend.flags().into_iter().collect();
        let data = folder.path().to_str().expect("UTF-8");
        for (more, code, want) in [
            (None, 1, "Nothing was changed. "),
            (Some("--apply"), 0, "The next start begins a new log.\n"),
        ] {
            let arguments = ["wal", "repair", "--data-dir", data].into_iter().chain(more);
            let arguments = arguments.chain(flags.iter().map(String::as_str));
            let output = run(folder.path(), &arguments.collect::<Vec<_>>(), &[]);
            let said = String::from_utf8_lossy(&output.stdout);
            assert_eq!(output.status.code(), Some(code), "{output:?}");
            assert!(said.contains("the log is gone. ") && said.contains(want), "{said}");
            assert_eq!(mark.exists(), code == 1, "{output:?}");
        }
        let server = Promkairos::ready(folder.path(), &backend, &[]).await;
        assert_eq!(load.send(&server, &mut random).await.expect("it answers"), 204);
        assert!(mark.is_file());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_manifest_takes_no_part_with_it() {
    let data = tempfile::tempdir().expect("a folder");
    let manifest = data.path().join("embedded/parts/MANIFEST");
    let (load, mut random) = (Load::default(), StdRng::seed_from_u64(seed()));
    let mut manifests = Vec::new();
    for _ in 0..2 {
        let mut server = Promkairos::ready(data.path(), &Backend::Embedded, &[]).await;
        assert_eq!(load.send(&server, &mut random).await.expect("it answers"), 204);
        assert!(server.process.terminate().success(), "{}", server.process.log());
        manifests.push(std::fs::read(&manifest).expect("there is one"));
    }
    std::fs::write(&manifest, &manifests[0]).expect("written");
    let log = match Promkairos::try_start(data.path(), &Backend::Embedded, &[]) {
        Ok(mut server) => {
            let status = server.ready_or_ended().await.expect_err("points are missing");
            format!("{status}\n{}", server.process.log())
        }
        Err(log) => log,
    };
    // A part that the manifest lists may have been merged since. Then that part is reported.
    let want = ["part files are missing", ".part: No such file"];
    assert!(want.iter().any(|want| log.contains(want)), "{log}");
    std::fs::write(&manifest, &manifests[1]).expect("written");
    let server = Promkairos::ready(data.path(), &Backend::Embedded, &[]).await;
    load.check(&server).await;
}

async fn start_is_loud_or_right(
    backend: &Backend,
    data: &Path,
    load: &Load,
    name: &str,
    what: &str,
) {
    let mut server = match Promkairos::try_start(data, backend, &[]) {
        Ok(server) => server,
        Err(log) => return assert!(log.contains(name), "{what}: does not name it:\n{log}"),
    };
    let is_settled = |status: u16, why: &str| {
        status == 200 || status == 503 && why.contains("Cassandra cannot be used")
    };
    if let Err(status) = server.settled(is_settled).await {
        let log = server.process.log();
        assert!(!status.success(), "{what}: ended as if all were well:\n{log}");
        assert!(log.contains(name), "{what}: does not name it:\n{log}");
        return;
    }
    if let Backend::CassandraWal { .. } = backend {
        // The server is ready before Cassandra has answered.
        eventually("Cassandra is there", async || {
            let log = server.process.log();
            let is_settled = ["Cassandra is there", "Cassandra cannot be used"];
            if is_settled.iter().any(|end| log.contains(end)) { Ok(()) } else { Err(log) }
        })
        .await;
    }
    match load.difference(&server).await {
        Ok(None) => {}
        Ok(Some(wrong)) => panic!("{what}: {wrong}\n{}", server.process.log()),
        Err(error) => {
            let log = server.process.log();
            assert!(error.contains(name) || log.contains(name), "{what}: {error}\n{log}");
        }
    }
}

/// Flips bits of one byte of a file; returns its offset, or nothing for an empty file. Mostly
/// chooses a byte before the last one that is not zero, since logs are preallocated.
fn flip(file: &Path, random: &mut StdRng) -> Option<usize> {
    const ZEROS: &[u8] = &[0; 4096];
    let bytes = std::fs::read(file).expect("a file");
    // Block by block, because a log has 128 MiB of zeros.
    let mut blocks = bytes.chunks(ZEROS.len());
    let block = blocks.rposition(|block| *block != ZEROS[..block.len()]).map_or(0, |last| last + 1);
    let written = &bytes[..bytes.len().min(block * ZEROS.len())];
    let used = written.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    let end = if used == 0 || random.random_bool(0.1) { bytes.len() } else { used };
    if end == 0 {
        return None;
    }
    let offset = *[0, end - 1, random.random_range(0..end), random.random_range(0..end)]
        .choose(random)
        .expect("not empty");
    let flipped = bytes[offset] ^ random.random_range(1..=255_u8);
    let file = std::fs::File::options().write(true).open(file).expect("a file");
    file.write_all_at(&[flipped], offset as u64).expect("written");
    Some(offset)
}

/// Files below a folder that hold data, relative to it.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            let entries = std::fs::read_dir(&path).expect("a folder");
            open.extend(entries.map(|entry| entry.expect("an entry").path()));
        } else if path.metadata().expect("a file").len() > 0 {
            files.push(path.strip_prefix(folder).expect("below it").to_owned());
        }
    }
    files.sort();
    files
}

/// Copies a folder as sparse files, so that the preallocated part of logs costs nothing.
fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").args(["-a", "--sparse=always"]).arg(from).arg(to).status();
    assert!(status.expect("cp runs").success());
}

#[tokio::test(flavor = "multi_thread")]
async fn while_cassandra_is_away_the_log_takes_writes_up_to_its_limit() {
    let (proxy, backend) = behind_a_proxy().await;
    let Backend::CassandraStore { address, keyspace } = backend else { panic!("{backend:?}") };
    let wal = Backend::CassandraWal { address, keyspace: keyspace.clone() };
    let mut random = StdRng::seed_from_u64(seed());
    let (data, load) = (tempfile::tempdir().expect("a folder"), Load::default());
    let flags = ["--wal-limit=64MiB", "--flush-interval=1s"];
    let mut server = Promkairos::ready(data.path(), &wal, &flags).await;
    assert_eq!(load.send(&server, &mut random).await.expect("it answers"), 204);

    proxy.cut();
    for _ in 0..20 {
        assert_eq!(load.send(&server, &mut random).await.expect("it answers"), 204);
    }
    let (accepted, answer) = fill_the_log(&server, &mut random).await;
    assert_eq!(answer.status, 503, "{answer:?}");
    assert!(answer.retry_after.is_some(), "{answer:?}");
    logged(&server, "remote writes are refused: the log has ").await;
    assert!(accepted > 32 << 20, "refused after {accepted} bytes");
    // Small requests still fit for a while.
    while load.send(&server, &mut random).await.expect("it answers") == 204 {}
    assert_eq!(server.get("/-/ready").await.expect("it answers").0, 503);

    proxy.mend();
    eventually("writes are accepted again", async || match load.send(&server, &mut random).await {
        Ok(204) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    server.wait_ready().await;
    load.check(&server).await;
    assert!(server.process.terminate().success(), "{}", server.process.log());

    // All data has arrived: a process without that log reads it.
    let other = tempfile::tempdir().expect("a folder");
    let direct = Backend::CassandraStore { address: crate::support::cassandra(), keyspace };
    let server = Promkairos::ready(other.path(), &direct, &[]).await;
    load.check(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_cassandra_is_away_writes_that_it_must_acknowledge_are_refused() {
    let (proxy, backend) = behind_a_proxy().await;
    let address = proxy.address.to_string();
    let mut random = StdRng::seed_from_u64(seed());
    let (data, load) = (tempfile::tempdir().expect("a folder"), Load::default());
    let flags = ["--cassandra-request-timeout=24h"];
    let mut server = Promkairos::ready(data.path(), &backend, &flags).await;
    assert_eq!(load.send(&server, &mut random).await.expect("it answers"), 204);

    // The timeout never ends in this test: the server does not wait for an unreachable Cassandra.
    proxy.cut();
    for number in 0..3 {
        let labels = [("__name__", "away".to_owned()), ("n", number.to_string())];
        let answer = server.write(Message::V1, one_sample(&labels, 1.0)).await;
        let answer = answer.expect("it answers");
        assert_eq!(answer.status, 503, "{answer:?}");
        assert!(answer.retry_after.is_some(), "{answer:?}");
        let body = answer.body.trim_end();
        assert!(!body.contains('\n') && body.len() < 200, "{body:?}");
        assert!(body.contains(&address), "{body:?}");
    }
    eventually("/-/ready says so", async || match server.get("/-/ready").await {
        Ok((503, _)) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;

    proxy.mend();
    eventually("writes are accepted again", async || match load.send(&server, &mut random).await {
        Ok(204) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    server.wait_ready().await;
    load.check(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_takes_writes_before_cassandra_was_ever_there() {
    let (proxy, backend) = behind_a_proxy().await;
    let Backend::CassandraStore { address, keyspace } = backend else { panic!("{backend:?}") };
    let wal = Backend::CassandraWal { address: address.clone(), keyspace: keyspace.clone() };
    let mut random = StdRng::seed_from_u64(seed());
    let (data, load) = (tempfile::tempdir().expect("a folder"), Load::default());

    proxy.cut();
    for _ in 0..2 {
        let mut server = Promkairos::ready(data.path(), &wal, &["--flush-interval=200ms"]).await;
        for _ in 0..20 {
            assert_eq!(load.send(&server, &mut random).await.expect("it answers"), 204);
        }
        // A read never returns less data: it fails and names the Cassandra that it cannot ask.
        let error = server.read("__name__", "load").await.expect_err("Cassandra is away");
        assert!(error.contains("503") && error.contains(&address), "{error}");
        eventually("a flush fails", async || match server.process.log() {
            log if log.contains("a flush failed, tried again") => Ok(()),
            log => Err(log),
        })
        .await;
        assert_eq!(server.get("/-/ready").await.expect("it answers").0, 200);
        server.process.kill();
    }

    let mut server = Promkairos::ready(data.path(), &wal, &[]).await;
    proxy.mend();
    eventually("Cassandra is found", async || load.difference(&server).await).await;
    load.check(&server).await;
    assert!(server.process.terminate().success(), "{}", server.process.log());
    let other = tempfile::tempdir().expect("a folder");
    let direct = Backend::CassandraStore { address: crate::support::cassandra(), keyspace };
    load.check(&Promkairos::ready(other.path(), &direct, &[]).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cassandra_that_refuses_for_good_is_loud_and_the_log_keeps_everything() {
    let keyspace = crate::support::keyspace();
    let session = crate::support::cassandra::session(&crate::support::cassandra()).await;
    let cql = async |cql: String| session.query_unpaged(cql, ()).await.expect("CQL");
    let replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
    cql(format!("CREATE KEYSPACE {keyspace} WITH REPLICATION = {replication}")).await;
    cql(format!("CREATE TABLE {keyspace}.data_points (key text PRIMARY KEY)")).await;

    let wal = Backend::CassandraWal { address: crate::support::cassandra(), keyspace };
    let Backend::CassandraWal { keyspace, .. } = &wal else { panic!("{wal:?}") };
    let mut random = StdRng::seed_from_u64(seed());
    let (data, load) = (tempfile::tempdir().expect("a folder"), Load::default());
    let mut server = Promkairos::start(data.path(), &wal, &[]);
    let foreign = format!("table {keyspace}.data_points is not KairosDB's");
    eventually("/-/ready names the table", async || match server.get("/-/ready").await {
        Ok((503, why)) if why.contains(&foreign) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    assert!(server.process.log().contains("ERROR"), "{}", server.process.log());
    for _ in 0..20 {
        assert_eq!(load.send(&server, &mut random).await.expect("it answers"), 204);
    }
    cql(format!("DROP TABLE {keyspace}.data_points")).await;
    server.wait_ready().await;
    load.check(&server).await;
    assert!(server.process.terminate().success(), "{}", server.process.log());
}

/// A proxy before the shared Cassandra, and a keyspace reached through it.
async fn behind_a_proxy() -> (Proxy, Backend) {
    let proxy = Proxy::to(&crate::support::cassandra()).await;
    let address = proxy.address.to_string();
    (proxy, Backend::CassandraStore { address, keyspace: crate::support::keyspace() })
}

/// Sends metadata, which makes a large log of few rows, until refused. Returns bytes and refusal.
async fn fill_the_log(server: &Promkairos, random: &mut StdRng) -> (usize, Answer) {
    let mut accepted = 0;
    while accepted < 256 << 20 {
        let entries = (0..100).map(|number| {
            let help: String = (0..8_000).map(|_| random.random_range('!'..='~')).collect();
            let family = format!("family_{number}");
            proto::Message::default().varint(1, 2).bytes(2, family).bytes(4, help)
        });
        let block = compress(&proto::Message::default().messages(3, entries));
        let length = block.len();
        let answer = server.write(Message::V1, block).await.expect("it answers");
        if answer.status != 204 {
            return (accepted, answer);
        }
        accepted += length;
    }
    panic!("the log has no limit: {accepted} bytes accepted")
}

/// A request with one sample.
fn one_sample(labels: &[(&str, String)], value: f64) -> Vec<u8> {
    let label =
        |(name, value): &(&str, String)| proto::Message::default().bytes(1, name).bytes(2, value);
    let sample = proto::Message::default().double(1, value).varint(2, 1_700_000_000_000);
    let series =
        proto::Message::default().messages(1, labels.iter().map(label)).messages(2, [sample]);
    compress(&proto::Message::default().bytes(1, series.0))
}

/// Ends a server that runs under strace; strace ends with it.
fn drop_traced(server: &mut Promkairos) {
    let children = format!("/proc/{0}/task/{0}/children", server.process.id());
    let children = std::fs::read_to_string(children).expect("strace runs");
    let child = children.split_whitespace().next().expect("a child of strace");
    let pid = child.parse().ok().and_then(rustix::process::Pid::from_raw).expect("a process id");
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it runs");
    server.process.wait();
}
