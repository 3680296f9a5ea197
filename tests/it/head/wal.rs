//! Tests: the write-ahead log, through a file layer that keeps a trace and fails on purpose.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::ThreadId;
use std::time::Duration;

use promkairos::model::{Matcher, Protocol, Target, TimeRange};
use promkairos::storage::StoreError;
use promkairos::storage::disk::{Disk, Folders};
use promkairos::storage::head::wal::{self, Loss, Mark, Record, RepairMode, Wal, WalOptions};
use promkairos::storage::log_files::{LogFile, LogFiles};
use promkairos::telemetry::HeadMetrics;
use tempfile::TempDir;

use crate::support::eventually;

/// The real disk, which records a trace and fails on request.
#[derive(Clone, Default)]
pub(crate) struct FaultyDisk(Arc<Mutex<Faults>>);

#[derive(Default)]
pub(crate) struct Faults {
    /// Bytes that can still be written; `None` = no limit.
    pub(crate) space: Option<u64>,
    /// Bytes that a new file can reserve; `None` = no limit.
    pub(crate) largest: Option<u64>,
    /// Copies the first folder to a folder in the second one before every change.
    pub(crate) states: Option<(PathBuf, PathBuf)>,
    /// Syncs of files fail.
    pub(crate) sync_fails: bool,
    /// Syncs of the folder that still work; later ones fail. `None` = all work.
    pub(crate) dir_syncs: Option<u64>,
    /// The next removal of a file sends a message before, and then waits for one.
    removal: Option<(Sender<()>, Receiver<()>)>,
    /// The operations, in order.
    pub(crate) trace: Vec<Event>,
    /// The threads that changed something.
    pub(crate) threads: HashSet<ThreadId>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    Write { file: PathBuf, offset: u64, bytes: u64 },
    Sync { file: PathBuf },
    SyncDir,
    Answer(u64),
}

impl FaultyDisk {
    pub(crate) fn set(&self, change: impl FnOnce(&mut Faults)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn trace(&self) -> Vec<Event> {
        let mut trace = Vec::new();
        self.set(|faults| trace.clone_from(&faults.trace));
        trace
    }

    /// Before every change: copies the folder as a crash would leave it now.
    fn keep_state(&self) {
        self.set(|faults| {
            faults.threads.insert(std::thread::current().id());
            let Some((dir, states)) = &faults.states else { return };
            let number = std::fs::read_dir(states).expect("a folder").count();
            let state = states.join(number.to_string());
            std::fs::create_dir(&state).expect("made");
            for name in Disk.list(dir).expect("a folder") {
                std::fs::copy(dir.join(&name), state.join(&name)).expect("copied");
            }
        });
    }

    fn wrap(&self, path: &Path, file: Box<dyn LogFile>) -> Box<dyn LogFile> {
        Box::new(FaultyFile { path: path.to_owned(), file, disk: self.clone() })
    }
}

struct FaultyFile {
    path: PathBuf,
    file: Box<dyn LogFile>,
    disk: FaultyDisk,
}

impl Folders for FaultyDisk {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        Disk.create_dir(dir)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        Disk.list(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.keep_state();
        Disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.keep_state();
        let mut removal = None;
        self.set(|faults| removal = faults.removal.take());
        if let Some((begun, word)) = removal {
            begun.send(()).map_err(io::Error::other)?;
            word.recv_timeout(Duration::from_secs(60)).map_err(io::Error::other)?;
        }
        Disk.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.keep_state();
        let mut fails = false;
        self.set(|faults| {
            faults.trace.push(Event::SyncDir);
            fails = faults.dir_syncs == Some(0);
            faults.dir_syncs = faults.dir_syncs.map(|left| left.saturating_sub(1));
        });
        if fails {
            return Err(io::Error::other("the disk went away"));
        }
        Disk.sync_dir(dir)
    }
}

impl LogFiles for FaultyDisk {
    fn create(&self, path: &Path, bytes: u64) -> io::Result<Box<dyn LogFile>> {
        self.keep_state();
        let mut full = false;
        self.set(|faults| {
            full = faults.space == Some(0) || faults.largest.is_some_and(|most| bytes > most);
        });
        if full {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(self.wrap(path, Disk.create(path, bytes)?))
    }
    fn open(&self, path: &Path) -> io::Result<Box<dyn LogFile>> {
        Ok(self.wrap(path, Disk.open(path)?))
    }
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        Disk.link(from, to)
    }
}

impl LogFile for FaultyFile {
    fn is_at(&self, path: &Path) -> bool {
        self.file.is_at(path)
    }

    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let mut room = bytes.len();
        self.disk.set(|faults| {
            // Zeros only overwrite reserved space.
            if bytes.iter().all(|byte| *byte == 0) {
                return;
            }
            if let Some(space) = &mut faults.space {
                room = room.min(*space as usize);
                *space -= room as u64;
            }
        });
        if room == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.disk.keep_state();
        let written = self.file.write_at(&bytes[..room], offset)?;
        let event = Event::Write { file: self.path.clone(), offset, bytes: written as u64 };
        self.disk.set(|faults| faults.trace.push(event));
        Ok(written)
    }
    fn sync_data(&self) -> io::Result<()> {
        let mut fails = false;
        self.disk.set(|faults| fails = faults.sync_fails);
        if fails {
            return Err(io::Error::other("the disk went away"));
        }
        self.file.sync_data()?;
        let file = self.path.clone();
        self.disk.set(|faults| faults.trace.push(Event::Sync { file }));
        Ok(())
    }
    fn release(&self, offset: u64) -> io::Result<()> {
        self.file.release(offset)
    }
}

struct Log {
    dir: TempDir,
    disk: FaultyDisk,
}

/// The content of a record, owned.
#[derive(Debug, Clone, PartialEq)]
struct Seen {
    sequence: u64,
    accepted: i64,
    body: Vec<u8>,
}

impl Log {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().expect("a folder"), disk: FaultyDisk::default() }
    }

    fn options(&self, segment_bytes: u64) -> WalOptions {
        let disk = Arc::new(self.disk.clone());
        WalOptions { dir: self.dir.path().into(), mark: Mark::None, segment_bytes, disk }
    }

    fn open(&self) -> Result<(Wal, Vec<Seen>), StoreError> {
        self.open_after(0)
    }

    fn open_after(&self, after: u64) -> Result<(Wal, Vec<Seen>), StoreError> {
        let mut seen = Vec::new();
        let metrics = HeadMetrics::default();
        let log = wal::open(self.options(2048), metrics, after, &mut |entry| {
            let body = match &entry.record {
                Record::Write { body, .. } => body.to_vec(),
                Record::Delete { matchers, .. } => format!("{matchers:?}").into_bytes(),
                Record::Seal(_) | Record::Gap => return Ok(()),
            };
            seen.push(Seen { sequence: entry.sequence, accepted: entry.accepted, body });
            Ok(())
        })?;
        Ok((log, seen))
    }

    fn bodies(&self) -> Vec<Vec<u8>> {
        let (_, seen) = self.open().expect("the log opens");
        seen.into_iter().map(|record| record.body).collect()
    }

    /// Asserts that a loss reports the times of the records before and after it.
    fn neighbours_bound(&self, loss: &Loss) {
        let (_, seen) = self.open().expect("the log opens");
        let last = loss.last.expect("a record follows");
        let before = seen.iter().rev().find(|record| record.sequence < loss.first);
        let after = seen.iter().find(|record| record.sequence > last);
        let times = [before, after].map(|record| record.map(|record| record.accepted));
        assert_eq!([loss.accepted.0, loss.accepted.1], times, "{loss:?}");
    }

    fn files(&self) -> Vec<PathBuf> {
        let names = Disk.list(self.dir.path()).expect("a folder");
        names.iter().filter(|n| n.ends_with(".wal")).map(|n| self.dir.path().join(n)).collect()
    }
}

fn write(body: &[u8]) -> Record<'_> {
    Record::Write { protocol: Protocol::V1, rejected: vec![Target::Sample(7)], body }
}

async fn put(log: &Wal, body: &[u8]) -> Result<u64, StoreError> {
    let room = log.admit(body.len()).await;
    let commit = log.append(room, body.len() as i64, write(body))?;
    let sequence = commit.sequence;
    commit.wait().await.map(|_room| sequence)
}

fn body(number: usize) -> Vec<u8> {
    (0..=40 + number % 7).map(|at| (at * 31 + number) as u8).collect()
}

/// A log with `count` acknowledged records in small segments, cleanly closed.
async fn filled(count: usize) -> (Log, Vec<Vec<u8>>) {
    let log = Log::new();
    let bodies: Vec<Vec<u8>> = (0..count).map(body).collect();
    let (wal, seen) = log.open().expect("an empty log opens");
    assert_eq!(seen, []);
    for (body, number) in bodies.iter().zip(1..) {
        assert_eq!(put(&wal, body).await.expect("acknowledged"), number);
    }
    wal.close();
    (log, bodies)
}

#[tokio::test]
async fn what_was_acknowledged_comes_back_across_segments_and_restarts() {
    let (log, mut bodies) = filled(60).await;
    assert!(log.files().len() > 2, "several segments");
    for round in 0..3 {
        let (wal, seen) = log.open().expect("the log opens");
        assert_eq!(
            seen.iter().map(|s| &s.body).collect::<Vec<_>>(),
            bodies.iter().collect::<Vec<_>>()
        );
        assert!(seen.iter().zip(1..).all(|(record, number)| record.sequence == number));
        let more = body(100 + round);
        put(&wal, &more).await.expect("acknowledged");
        bodies.push(more);
    }
    // A record larger than a segment gets a segment of its own.
    let (wal, _) = log.open().expect("the log opens");
    put(&wal, &[5; 10_000]).await.expect("acknowledged");
    drop(wal);
    assert_eq!(log.bodies().last().map(Vec::len), Some(10_000));
}

#[tokio::test]
async fn a_delete_comes_back() {
    let log = Log::new();
    let (wal, _) = log.open().expect("the log opens");
    let matchers = vec![Matcher::equal("a", "b")];
    let text = format!("{matchers:?}").into_bytes();
    let record = Record::Delete { range: TimeRange::new(1, 2), matchers };
    let room = wal.admit(1).await;
    wal.append(room, 5, record).expect("appended").wait().await.expect("durable");
    drop(wal);
    assert_eq!(log.bodies(), [text]);
}

#[tokio::test]
async fn an_answer_comes_only_after_the_sync_of_its_record() {
    let log = Log::new();
    let (wal, _) = log.open().expect("the log opens");
    let wal = Arc::new(wal);
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..200 {
        let (wal, disk) = (wal.clone(), log.disk.clone());
        tasks.spawn(async move {
            let sequence = put(&wal, &body(number)).await.expect("acknowledged");
            disk.set(|faults| faults.trace.push(Event::Answer(sequence)));
        });
    }
    tasks.join_all().await;
    drop(wal);
    // The place of each record, read from the files themselves.
    let mut places: HashMap<u64, (PathBuf, u64)> = HashMap::new();
    for path in log.files() {
        let bytes = std::fs::read(&path).expect("readable");
        let mut at = 48;
        while let Some(length) = bytes.get(at..at + 4) {
            let length = u32::from_le_bytes(length.try_into().expect("4 bytes")) as usize;
            if length == 0 {
                break;
            }
            let sequence = bytes[at + 10..at + 18].try_into().expect("8 bytes");
            at += 8 + length;
            if bytes[at - length + 1] == 1 {
                places.insert(u64::from_le_bytes(sequence), (path.clone(), at as u64));
            }
        }
    }
    let (mut written, mut synced) = (HashMap::new(), HashMap::new());
    let mut answers = 0;
    for event in log.disk.trace() {
        match event {
            Event::Write { file, offset, bytes } => {
                written.insert(finished(&file), offset + bytes);
            }
            Event::Sync { file } => {
                let file = finished(&file);
                synced.insert(file.clone(), written.get(&file).copied().unwrap_or(0));
            }
            Event::SyncDir => {}
            Event::Answer(sequence) => {
                let (file, end) = &places[&sequence];
                assert!(synced.get(file) >= Some(end), "record {sequence} was not synced");
                answers += 1;
            }
        }
    }
    assert_eq!(answers, 200);
}

/// The final name of a segment: it has another name while it is made.
fn finished(file: &Path) -> PathBuf {
    if file.extension().is_some_and(|end| end == "new") {
        file.with_extension("")
    } else {
        file.to_owned()
    }
}

#[tokio::test]
async fn a_flipped_byte_is_an_error_that_names_the_file_or_loses_nothing() {
    let (log, bodies) = filled(40).await;
    let files = log.files();
    assert!(files.len() >= 2);
    for path in &files {
        let good = std::fs::read(path).expect("readable");
        let used = good.iter().rposition(|byte| *byte != 0).expect("not empty") + 64;
        for at in 0..used.min(good.len()) {
            let mut bad = good.clone();
            bad[at] ^= 0x41;
            std::fs::write(path, &bad).expect("written");
            match log.open() {
                Ok((_, seen)) => {
                    let seen: Vec<Vec<u8>> = seen.into_iter().map(|s| s.body).collect();
                    assert_eq!(seen, bodies, "byte {at} of {}", path.display());
                }
                Err(StoreError::Corrupt { path: named, offset, .. }) => {
                    assert_eq!(&named, path, "byte {at}");
                    assert!(offset <= at as u64, "byte {at} reported at {offset}");
                }
                Err(error) => panic!("byte {at}: {error}"),
            }
            std::fs::write(path, &good).expect("written");
        }
    }
}

#[tokio::test]
async fn a_shorter_file_is_damage() {
    let (log, _) = filled(40).await;
    for path in log.files() {
        let good = std::fs::read(&path).expect("readable");
        for len in 0..good.len() {
            std::fs::write(&path, &good[..len]).expect("written");
            match log.open() {
                Err(StoreError::Corrupt { path: named, offset, .. }) => {
                    assert_eq!(named, path);
                    assert!(offset <= len as u64);
                }
                other => panic!("{len} bytes: {:?}", other.err()),
            }
        }
        std::fs::write(&path, &good).expect("written");
    }
}

/// After a crash the end of the file may read as zeros, since it never reached the disk.
#[tokio::test]
async fn a_torn_tail_is_cut_and_everything_before_it_stays() {
    let (log, bodies) = filled(40).await;
    let files = log.files();
    let path = files.last().expect("a segment");
    let good = std::fs::read(path).expect("readable");
    let known = std::fs::read(log.dir.path().join("checkpoint")).expect("readable");
    let first_record = u32::from_le_bytes(good[48..52].try_into().expect("4 bytes")) as usize + 8;
    let mut torn = good.clone();
    torn[48..].fill(0);
    std::fs::write(path, &torn).expect("written");
    assert!(matches!(log.open(), Err(StoreError::Corrupt { .. })), "it had a durable record");
    for len in 48 + first_record..good.len() {
        let mut torn = good.clone();
        torn[len..].fill(0);
        std::fs::write(path, &torn).expect("written");
        let shown = wal::repair(log.dir.path(), RepairMode::Show).expect("readable");
        assert_eq!(shown.losses, [], "as the start sees it");
        assert!(shown.torn.is_none_or(|(file, bytes)| file == *path && bytes.end <= len as u64));
        let (wal, seen) = log.open().expect("a torn tail is no damage");
        assert!(bodies.starts_with(&seen.iter().map(|s| s.body.clone()).collect::<Vec<_>>()));
        // The record and its seal are whole, so it must be read.
        let whole = seen.last().map_or(0, |record| record.sequence);
        put(&wal, b"after").await.expect("goes on after the cut");
        drop(wal);
        let (_, again) = log.open().expect("opens again");
        assert_eq!(again.len() as u64, whole + 1);
        assert_eq!(again.last().map(|record| record.body.as_slice()), Some(b"after".as_slice()));
        for file in log.files() {
            if !files.contains(&file) {
                std::fs::remove_file(file).expect("removed");
            }
        }
        std::fs::write(log.dir.path().join("checkpoint"), &known).expect("written");
    }
}

#[tokio::test]
async fn a_full_disk_refuses_and_goes_on_when_there_is_room() {
    for space in 0..150 {
        let log = Log::new();
        let (wal, _) = log.open().expect("the log opens");
        put(&wal, b"first").await.expect("acknowledged");
        log.disk.set(|faults| faults.space = Some(space));
        let mut acknowledged = vec![b"first".to_vec()];
        let mut full = false;
        for number in 0..3 {
            full = match put(&wal, &body(number)).await {
                Ok(_) => {
                    acknowledged.push(body(number));
                    false
                }
                Err(StoreError::Unavailable { .. }) => true,
                Err(error) => panic!("{error}"),
            }
        }
        assert!(acknowledged.len() < 4, "{space} bytes are not enough for all");
        assert_eq!(wal.ready().is_err(), full);
        log.disk.set(|faults| faults.space = None);
        // Nobody writes: only `ready` makes the log try again.
        while wal.ready().is_err() {
            std::thread::yield_now();
        }
        put(&wal, b"last").await.expect("there is room again");
        acknowledged.push(b"last".to_vec());
        drop(wal);
        assert_eq!(log.bodies(), acknowledged, "{space} bytes");
    }
}

#[tokio::test]
async fn a_disk_that_is_full_from_the_start_is_known_of_before_the_first_write() {
    let log = Log::new();
    log.disk.set(|faults| faults.space = Some(0));
    let (wal, _) = log.open().expect("the log can be read");
    let error = wal.ready().expect_err("no segment").to_string();
    assert!(error.contains(&log.dir.path().display().to_string()), "{error}");
    log.disk.set(|faults| faults.space = None);
    while wal.ready().is_err() {
        std::thread::yield_now();
    }
    assert_eq!(wal.used_bytes(), 0);
    put(&wal, b"first").await.expect("there is room");
    drop(wal);
    assert_eq!(log.bodies(), [b"first"]);
}

/// After a flush there is no segment until the next record, unless `ready` asks for one.
#[tokio::test]
async fn a_disk_without_room_for_a_segment_is_known_before_the_first_write() {
    let log = Log::new();
    let (wal, _) = log.open().expect("the log opens");
    put(&wal, b"first").await.expect("acknowledged");
    wal.roll();
    eventually("the segment is closed and removed", async || {
        wal.forget(1).map_err(|error| error.to_string())?;
        if log.files().is_empty() { Ok(()) } else { Err("it is there".into()) }
    })
    .await;
    log.disk.set(|faults| faults.space = Some(0));
    eventually("it is known", async || match wal.ready() {
        Ok(()) => Err("it is ready".into()),
        Err(_) => Ok(()),
    })
    .await;
    log.disk.set(|faults| faults.space = None);
    eventually("there is room", async || wal.ready().map_err(|error| error.to_string())).await;
    put(&wal, b"second").await.expect("there is room");
    drop(wal);
    let (_, seen) = log.open_after(1).expect("the log opens");
    assert_eq!(seen.len(), 1);
}

/// The first record of a segment needs a new checkpoint, which does not fit on a full disk either.
#[tokio::test]
async fn a_disk_that_fills_up_behind_the_first_segment_is_known_before_the_first_write() {
    let log = Log::new();
    let (wal, _) = log.open().expect("the log opens");
    assert_eq!((wal.ready().is_ok(), log.files().len()), (true, 1));
    log.disk.set(|faults| faults.space = Some(0));
    eventually("it is known", async || match wal.ready() {
        Ok(()) => Err("it is ready".into()),
        Err(_) => Ok(()),
    })
    .await;
    put(&wal, b"refused").await.expect_err("no room");
    log.disk.set(|faults| faults.space = None);
    eventually("there is room", async || wal.ready().map_err(|error| error.to_string())).await;
    put(&wal, b"first").await.expect("there is room");
    drop(wal);
    assert_eq!(log.bodies(), [b"first"]);
}

#[tokio::test]
async fn a_log_that_is_gone_is_told_from_one_that_never_was() {
    let folder = tempfile::tempdir().expect("a folder");
    let (dir, mark) = (folder.path().join("wal"), folder.path().join("wal.begun"));
    let open = |mark| {
        let options =
            WalOptions { dir: dir.clone(), mark, segment_bytes: 1 << 16, disk: Arc::new(Disk) };
        wal::open(options, HeadMetrics::default(), 0, &mut |_| Ok(()))
    };
    drop(open(Mark::Beside).expect("a log is made"));
    std::fs::remove_dir_all(&dir).expect("removed");
    let wal = open(Mark::Beside).expect("nothing was acknowledged");
    // Without the mark nothing is acknowledged.
    let in_the_way = folder.path().join("wal.begun.new");
    std::fs::create_dir(&in_the_way).expect("made");
    let error = put(&wal, b"refused").await.expect_err("no mark").to_string();
    assert!(error.contains("wal.begun") && !mark.exists(), "{error}");
    wal.ready().expect_err("it would be refused again");
    std::fs::remove_dir(&in_the_way).expect("removed");
    eventually("it is ready", async || wal.ready().map_err(|error| error.to_string())).await;
    put(&wal, b"first").await.expect("acknowledged");
    assert!(mark.is_file());
    drop(wal);
    drop(open(Mark::Beside).expect("it is there"));
    // First the folder is empty, then it is gone.
    for name in std::fs::read_dir(&dir).expect("a folder") {
        std::fs::remove_file(name.expect("a file").path()).expect("removed");
    }
    for _ in 0..2 {
        assert!(wal::is_gone(&dir, &Disk).expect("readable"));
        let error = open(Mark::Beside).err().expect("it is gone").to_string();
        assert!(error.starts_with(&format!("{}: the log is gone", dir.display())), "{error}");
        if dir.exists() {
            std::fs::remove_dir_all(&dir).expect("removed");
        }
    }
    wal::forget_mark(&dir, &Disk).expect("removed");
    // A log of version 0.1 gets its mark when it is opened.
    let wal = open(Mark::None).expect("a log is made");
    put(&wal, b"first").await.expect("acknowledged");
    drop(wal);
    assert!(!mark.exists());
    drop(open(Mark::Beside).expect("it is there"));
    assert!(mark.is_file());
}

#[tokio::test]
async fn a_segment_reserves_what_there_is_room_for_and_a_full_disk_is_named() {
    let log = Log::new();
    let open = || {
        let options = log.options(16 << 20);
        wal::open(options, HeadMetrics::default(), 0, &mut |_| Ok(())).expect("the log opens")
    };
    let lengths = || -> Vec<u64> {
        let length = |path: PathBuf| std::fs::metadata(path).expect("a file").len();
        log.files().into_iter().map(length).collect()
    };
    log.disk.set(|faults| faults.largest = Some(5 << 20));
    let wal = open();
    put(&wal, b"first").await.expect("there is room for a smaller segment");
    assert_eq!(lengths(), [4 << 20]);
    // A record larger than half of the largest segment gets the space that it needs.
    wal.roll();
    put(&wal, &vec![7; 9 << 19]).await.expect("there is room for the record");
    assert!(lengths()[1] > 9 << 19 && lengths()[1] <= 5 << 20, "{:?}", lengths());
    wal.roll();
    log.disk.set(|faults| faults.largest = Some(1000));
    let error = put(&wal, b"refused").await.expect_err("no room").to_string();
    let place = log.dir.path().display().to_string();
    assert!(error.contains("no segment of 1MiB in") && error.contains(&place), "{error}");
    log.disk.set(|faults| faults.largest = None);
    put(&wal, b"last").await.expect("there is room again");
    drop(wal);
    assert_eq!(log.bodies().len(), 3);
}

#[tokio::test]
async fn a_segment_without_records_leaves_its_name_to_the_next() {
    // The second log has the files that a crash at that moment leaves of the first.
    let (log, crashed) = (Log::new(), Log::new());
    let (wal, _) = log.open().expect("the log opens");
    put(&wal, b"first").await.expect("acknowledged");
    wal.roll();
    // Room for the header of a segment, but not for a record.
    log.disk.set(|faults| faults.space = Some(60));
    put(&wal, b"refused").await.expect_err("no room");
    for file in log.files() {
        let copy = crashed.dir.path().join(file.file_name().expect("a file"));
        std::fs::copy(&file, copy).expect("copied");
    }
    log.disk.set(|faults| faults.space = None);
    assert_eq!(crashed.files().len(), 2);
    let (again, _) = crashed.open().expect("the log opens");
    for (log, wal) in [(log, wal), (crashed, again)] {
        put(&wal, b"second").await.expect("acknowledged");
        wal.roll();
        put(&wal, b"third").await.expect("acknowledged");
        wal.forget(1).expect("forgotten");
        drop(wal);
        let (_, seen) = log.open_after(1).expect("the log opens");
        let bodies: Vec<&[u8]> = seen.iter().map(|record| &record.body[..]).collect();
        assert_eq!(bodies, [b"second", &b"third"[..]]);
    }
}

#[tokio::test]
async fn after_a_failed_sync_nothing_is_accepted_any_more() {
    let log = Log::new();
    let (wal, _) = log.open().expect("the log opens");
    put(&wal, b"first").await.expect("acknowledged");
    log.disk.set(|faults| faults.sync_fails = true);
    assert!(matches!(put(&wal, b"second").await, Err(StoreError::Unavailable { .. })));
    log.disk.set(|faults| faults.sync_fails = false);
    assert!(matches!(put(&wal, b"third").await, Err(StoreError::Unavailable { .. })));
    assert!(matches!(wal.ready(), Err(StoreError::Unavailable { .. })));
    drop(wal);
    assert!(log.bodies().starts_with(&[b"first".to_vec()]));
}

#[tokio::test]
async fn a_log_that_was_taken_away_accepts_nothing_any_more() {
    let removed = |log: &Path| std::fs::remove_dir_all(log).expect("removed");
    let moved = |log: &Path| std::fs::rename(log, log.with_extension("away")).expect("moved");
    let replaced = |log: &Path| {
        moved(log);
        std::fs::create_dir(log).expect("made");
    };
    let takes: [&dyn Fn(&Path); 3] = [&removed, &moved, &replaced];
    for take in takes {
        let folder = tempfile::tempdir().expect("a folder");
        let dir = folder.path().join("wal");
        let disk = Arc::new(Disk);
        let options =
            WalOptions { dir: dir.clone(), mark: Mark::None, segment_bytes: 1 << 20, disk };
        let read = wal::read(options, 0, &mut |_| Ok(())).expect("a log is made");
        let wal = read.start(HeadMetrics::default()).expect("it starts");
        put(&wal, b"first").await.expect("acknowledged");
        take(&dir);
        let error = put(&wal, b"second").await.expect_err("it would be lost").to_string();
        assert!(error.contains("was removed or moved away"), "{error}");
        assert!(matches!(wal.ready(), Err(StoreError::Unavailable { .. })));
        put(&wal, b"third").await.expect_err("a restart is needed");
    }
}

#[tokio::test]
async fn what_is_refused_for_a_sync_of_the_folder_does_not_come_back() {
    for records in [0, 1] {
        let log = Log::new();
        let (wal, _) = log.open().expect("a log is made");
        for number in 0..records {
            put(&wal, &body(number)).await.expect("acknowledged");
            wal.roll();
        }
        let checkpoint = log.dir.path().join("checkpoint");
        let before = std::fs::read(&checkpoint).expect("readable");
        // The sync for the segment works, the one for the checkpoint does not.
        log.disk.set(|faults| faults.dir_syncs = Some(records as u64));
        put(&wal, b"refused").await.expect_err("the checkpoint is not durable");
        put(&wal, b"refused").await.expect_err("a restart is needed");
        log.disk.set(|faults| faults.dir_syncs = None);
        // The folder as a crash leaves it, with the old checkpoint or the new one.
        let crashed = [Log::new(), Log::new()];
        for other in &crashed {
            for name in Disk.list(log.dir.path()).expect("a folder") {
                let to = other.dir.path().join(&name);
                std::fs::copy(log.dir.path().join(&name), to).expect("copied");
            }
        }
        assert_ne!(std::fs::read(&checkpoint).expect("readable"), before);
        let old = crashed[0].dir.path().join("checkpoint");
        std::fs::write(old, &before).expect("written");
        drop(wal);
        for log in crashed.iter().chain([&log]) {
            let want: Vec<Vec<u8>> = (0..records).map(body).collect();
            assert_eq!(log.bodies(), want, "nothing that was refused");
            let (wal, _) = log.open().expect("the log opens");
            put(&wal, b"next").await.expect("acknowledged");
            drop(wal);
            assert_eq!(log.bodies(), [want, vec![b"next".to_vec()]].concat());
        }
    }
}

#[tokio::test]
async fn what_is_in_the_store_below_is_forgotten() {
    let (log, bodies) = filled(60).await;
    let (wal, _) = log.open().expect("the log opens");
    wal.roll();
    put(&wal, b"more").await.expect("acknowledged");
    let before = (log.files().len(), wal.used_bytes());
    wal.forget(30).expect("forgotten");
    assert!(log.files().len() < before.0 && wal.used_bytes() < before.1);
    drop(wal);
    assert_eq!(wal::checkpoint(log.dir.path(), &Disk).ok(), Some(30));
    let (wal, seen) = log.open_after(30).expect("the log opens");
    assert_eq!(seen[0].body, bodies[30]);
    assert_eq!(seen.len(), 31);
    // Without the checkpoint the first records would be missing: an error, not less data.
    drop(wal);
    assert!(matches!(log.open(), Err(StoreError::Corrupt { .. })));
    let (wal, seen) = log.open_after(1000).expect("the log opens");
    assert_eq!((seen.len(), wal.last()), (0, 1000));
    put(&wal, b"later").await.expect("acknowledged");
    drop(wal);
    let (_, seen) = log.open_after(1000).expect("the log opens");
    assert_eq!(seen.iter().map(|record| record.sequence).collect::<Vec<_>>(), [1001]);
}

#[tokio::test]
async fn records_are_answered_in_new_segments_while_an_old_one_is_removed() {
    let (log, _) = filled(60).await;
    let (wal, _) = log.open().expect("the log opens");
    let wal = Arc::new(wal);
    let old = log.files();
    let (begun, removes) = mpsc::channel();
    let (answered, word) = mpsc::channel();
    log.disk.set(|faults| faults.removal = Some((begun, word)));
    let forgetting = tokio::task::spawn_blocking({
        let wal = wal.clone();
        move || wal.forget(60)
    });
    tokio::task::spawn_blocking(move || removes.recv()).await.expect("ended").expect("removes");
    for number in 60..120 {
        put(&wal, &body(number)).await.expect("acknowledged");
    }
    answered.send(()).expect("the removal waits");
    forgetting.await.expect("ended").expect("forgotten");
    drop(wal);
    let left = log.files();
    assert!(left.len() > 2 && !left.contains(&old[0]), "{left:?} of {old:?}");
    let (_, seen) = log.open_after(60).expect("the log opens");
    let after: Vec<_> = seen.into_iter().filter(|s| s.sequence > 60).map(|s| s.body).collect();
    assert_eq!(after, (60..120).map(body).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_missing_segment_and_a_second_process_are_refused() {
    let (log, _) = filled(60).await;
    let (wal, _) = log.open().expect("the log opens");
    assert!(matches!(log.open(), Err(StoreError::Unavailable { .. })), "locked");
    assert!(wal::repair(log.dir.path(), RepairMode::Show).is_err(), "locked");
    drop(wal);
    std::fs::remove_file(&log.files()[1]).expect("removed");
    assert!(matches!(log.open(), Err(StoreError::Corrupt { .. })));
}

fn names_missing(result: Result<(Wal, Vec<Seen>), StoreError>, missing: &Path) {
    match result {
        Err(StoreError::Corrupt { path, .. }) => assert_eq!(path, missing),
        other => panic!("{} is missing: {:?}", missing.display(), other.err()),
    }
}

#[tokio::test]
async fn the_only_or_the_newest_segment_missing_is_an_error_that_names_it() {
    let log = Log::new();
    let (wal, _) = log.open().expect("a log is made");
    // The log ended before the first record: nothing can be missing.
    drop(wal);
    let (wal, _) = log.open().expect("a log without a segment opens");
    put(&wal, b"first").await.expect("acknowledged");
    let copy = Log::new();
    for name in Disk.list(log.dir.path()).expect("a folder") {
        std::fs::copy(log.dir.path().join(&name), copy.dir.path().join(&name)).expect("copied");
    }
    drop(wal);
    for log in [&log, &copy] {
        let only = log.files().remove(0);
        std::fs::remove_file(&only).expect("removed");
        names_missing(log.open(), &only);
    }

    let (log, _) = filled(60).await;
    let newest = log.files().pop().expect("a segment");
    std::fs::remove_file(&newest).expect("removed");
    names_missing(log.open(), &newest);
    names_missing(log.open_after(30), &newest);
}

#[tokio::test]
async fn a_log_without_a_checkpoint_gets_one_when_it_is_opened() {
    let (log, bodies) = filled(60).await;
    std::fs::remove_file(log.dir.path().join("checkpoint")).expect("removed");
    assert_eq!(log.bodies(), bodies);
    let newest = log.files().pop().expect("a segment");
    std::fs::remove_file(&newest).expect("removed");
    names_missing(log.open(), &newest);
}

#[tokio::test]
async fn a_crash_at_any_step_of_making_or_forgetting_segments_leaves_a_log_that_opens() {
    // Opens the log in every state of the folder between two operations on it.
    let log = Log::new();
    let states = tempfile::tempdir().expect("a folder");
    log.disk.set(|faults| faults.states = Some((log.dir.path().into(), states.path().into())));
    let (wal, _) = log.open().expect("a log is made");
    for number in 0..3 {
        put(&wal, &body(number)).await.expect("acknowledged");
        wal.roll();
    }
    wal.forget(2).expect("forgotten");
    put(&wal, &body(3)).await.expect("acknowledged");
    wal.roll();
    wal.forget(4).expect("forgotten");
    drop(wal);
    log.disk.set(|faults| faults.states = None);
    let mut opened = 0;
    for state in std::fs::read_dir(states.path()).expect("a folder") {
        let options = WalOptions { dir: state.expect("a state").path(), ..log.options(2048) };
        let through = wal::checkpoint(&options.dir, &Disk).expect("a whole checkpoint or none");
        wal::open(options, HeadMetrics::default(), through, &mut |_| Ok(())).expect("it opens");
        opened += 1;
    }
    assert!(opened > 20, "{opened} states");
}

#[tokio::test]
async fn repair_shows_and_takes_out_only_what_is_damaged() {
    let (log, bodies) = filled(40).await;
    let sound = wal::repair(log.dir.path(), RepairMode::Show).expect("readable");
    assert_eq!((sound.losses.len(), sound.valid.records), (0, 40));
    let path = log.files()[0].clone();
    let good = std::fs::read(&path).expect("readable");
    let used = good.iter().rposition(|byte| *byte != 0).expect("not empty");
    for at in (0..48).chain((48..=used).step_by(5)) {
        let mut bad = good.clone();
        bad[at] ^= 0x41;
        std::fs::write(&path, &bad).expect("written");
        assert!(matches!(log.open(), Err(StoreError::Corrupt { .. })), "byte {at}");
        let shown = wal::repair(log.dir.path(), RepairMode::Show).expect("readable");
        assert!(matches!(log.open(), Err(StoreError::Corrupt { .. })), "showing changes nothing");
        let done = wal::repair(log.dir.path(), RepairMode::Apply).expect("repaired");
        assert_eq!(shown.losses, done.losses);
        let lost: u64 = done.losses.iter().filter_map(|loss| loss.records()).sum();
        assert!(lost <= u64::from(at >= 48), "byte {at} costs {lost} records");
        assert_eq!(std::fs::read(&done.kept[0]).expect("kept"), bad);
        let left = log.bodies();
        assert_eq!(left.len() as u64, 40 - lost, "byte {at}");
        assert!(left.iter().all(|body| bodies.contains(body)));
        std::fs::remove_file(&done.kept[0]).expect("removed");
        std::fs::write(&path, &good).expect("written");
    }
}

#[tokio::test]
async fn repair_mends_the_header_of_the_only_segment_and_the_checkpoint() {
    let (log, bodies) = filled(3).await;
    let only = log.files().remove(0);
    assert_eq!(log.files().len(), 1);
    for path in [only, log.dir.path().join("checkpoint")] {
        let good = std::fs::read(&path).expect("readable");
        for at in 0..good.len().min(48) {
            let mut bad = good.clone();
            bad[at] ^= 0x41;
            std::fs::write(&path, &bad).expect("written");
            assert!(matches!(log.open(), Err(StoreError::Corrupt { .. })), "byte {at}");
            let done = wal::repair(log.dir.path(), RepairMode::Apply).expect("repaired");
            let lost: Vec<_> =
                done.losses.iter().map(|loss| (&loss.path, loss.records())).collect();
            assert_eq!(lost, [(&path, Some(0))], "byte {at}");
            assert_eq!(std::fs::read(&done.kept[0]).expect("kept"), bad);
            assert_eq!(log.bodies(), bodies, "byte {at}");
            let sound = wal::repair(log.dir.path(), RepairMode::Show).expect("readable");
            assert_eq!((sound.losses.len(), sound.valid.records), (0, 3));
            std::fs::write(&path, &good).expect("written");
        }
        std::fs::write(&path, vec![0; good.len().min(48)]).expect("written");
        if path.ends_with("checkpoint") {
            wal::repair(log.dir.path(), RepairMode::Apply).expect("repaired");
            assert_eq!(log.bodies(), bodies, "a checkpoint of zeros");
        }
        std::fs::write(&path, &good).expect("written");
    }
}

#[tokio::test]
async fn repair_does_not_call_a_segment_that_was_cut_short_no_loss() {
    for left in [0, 20, 47, 48, 60] {
        for bodies in [3, 60] {
            let (log, _) = filled(bodies).await;
            let newest = log.files().pop().expect("a segment");
            let file = std::fs::OpenOptions::new().write(true).open(&newest).expect("opened");
            file.set_len(left).expect("cut");
            assert!(log.open().is_err(), "{left} bytes are left");
            let shown = wal::repair(log.dir.path(), RepairMode::Show).expect("readable");
            let unknown: Vec<_> = shown.losses.iter().filter(|loss| loss.last.is_none()).collect();
            assert_eq!(unknown.len(), 1, "{left} bytes are left: {shown:?}");
            assert_eq!(unknown[0].path, newest);
            wal::repair(log.dir.path(), RepairMode::Apply).expect("repaired");
            assert_eq!(log.bodies().len() as u64 + 1, unknown[0].first);
        }
    }
}

#[tokio::test]
async fn without_a_checkpoint_repair_does_not_know_what_the_store_has() {
    let (log, bodies) = filled(60).await;
    std::fs::remove_file(log.dir.path().join("checkpoint")).expect("removed");
    let sound = wal::repair(log.dir.path(), RepairMode::Show).expect("readable");
    assert_eq!((sound.losses.len(), sound.valid.records), (0, 60));
    std::fs::remove_file(&log.files()[0]).expect("removed");
    let done = wal::repair(log.dir.path(), RepairMode::Apply).expect("repaired");
    let whats: Vec<&str> = done.losses.iter().map(|loss| loss.what.as_str()).collect();
    let want = "no checkpoint says what the store has; if not what came before the log begins";
    assert_eq!((whats.as_slice(), done.losses[0].first), ([want].as_slice(), 1));
    assert!(bodies.ends_with(&log.bodies()) && !log.bodies().is_empty());
}

#[tokio::test]
async fn repair_goes_on_without_the_newest_segment() {
    let (log, bodies) = filled(60).await;
    let newest = log.files().pop().expect("a segment");
    std::fs::remove_file(&newest).expect("removed");
    assert!(log.open().is_err());
    let report = wal::repair(log.dir.path(), RepairMode::Apply).expect("repaired");
    assert_eq!(report.losses.iter().map(|loss| &loss.path).collect::<Vec<_>>(), [&newest]);
    let left = log.bodies();
    assert_eq!(left.len() as u64 + 1, report.losses[0].first);
    assert!(bodies.starts_with(&left));
}

/// A torn end may not be cut off if a newer segment is gone.
#[tokio::test]
async fn a_torn_end_before_a_segment_that_is_gone_is_damage() {
    let (log, bodies) = filled(60).await;
    let mut files = log.files();
    std::fs::remove_file(files.pop().expect("a segment")).expect("removed");
    let older = files.pop().expect("another");
    let mut bytes = std::fs::read(&older).expect("readable");
    let used = bytes.iter().rposition(|byte| *byte != 0).expect("not empty");
    bytes[used - 60..=used].fill(0);
    std::fs::write(&older, &bytes).expect("written");
    let done = wal::repair(log.dir.path(), RepairMode::Apply).expect("repaired");
    assert_eq!(done.torn, None);
    assert_eq!(done.losses.iter().filter(|loss| loss.path == older).count(), 1, "{done:?}");
    assert!(bodies.starts_with(&log.bodies()));
}

#[tokio::test]
async fn lost_records_were_accepted_between_those_beside_them() {
    let (log, bodies) = filled(60).await;
    let damage = |file: &Path, at: usize| {
        let mut bytes = std::fs::read(file).expect("readable");
        bytes[at] ^= 1;
        std::fs::write(file, bytes).expect("written");
        let report = wal::repair(log.dir.path(), RepairMode::Apply).expect("repaired");
        assert_eq!(report.losses.len(), 1);
        log.neighbours_bound(&report.losses[0]);
        report.losses[0].first as usize
    };
    // The checksum of the first record of a segment; the record is lost.
    let files = log.files();
    let first = damage(&files[1], 48 + 4);
    // And the record before it: the times of the neighbours are further apart now.
    let bytes = std::fs::read(&files[0]).expect("readable");
    let body = &bodies[first - 2];
    let at = bytes.windows(body.len()).position(|part| part == body).expect("it is there");
    assert_eq!(damage(&files[0], at), first - 1);
    // Nothing precedes the first record of all, except perhaps a seal.
    assert_eq!(damage(&files[0], 48 + 4), 1);
}

#[tokio::test]
async fn repair_goes_on_after_a_segment_that_was_cut_short_or_lost() {
    let (log, bodies) = filled(60).await;
    let files = log.files();
    let good = std::fs::read(&files[1]).expect("readable");
    std::fs::write(&files[1], &good[..200]).expect("written");
    let report = wal::repair(log.dir.path(), RepairMode::Apply).expect("repaired");
    assert_eq!(report.losses.len(), 1);
    log.neighbours_bound(&report.losses[0]);
    let left = log.bodies();
    let lost = report.losses[0].records().expect("the next segment tells");
    assert_eq!(left.len() as u64, 60 - lost);
    assert_eq!(left.last(), bodies.last());
    std::fs::remove_file(&files[0]).expect("removed");
    let report = wal::repair(log.dir.path(), RepairMode::Apply).expect("repaired");
    assert_eq!(report.losses[0].first, 1);
    let left = log.bodies();
    assert_eq!(left.last(), bodies.last());
}
