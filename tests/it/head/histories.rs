//! Tests: random histories of the log alone. Synced records are read back whole and in order, or an
//! error names the file. Refused records are not read back.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use promkairos::model::{Protocol, Target};
use promkairos::storage::StoreError;
use promkairos::storage::disk::{Disk, Folders};
use promkairos::storage::head::wal::{self, Mark, Record, Wal, WalOptions};
use promkairos::storage::log_files::LogFiles;
use promkairos::telemetry::HeadMetrics;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tempfile::TempDir;

use super::wal::FaultyDisk;
use crate::support::{long, seed};

/// A record as written, or as read back.
#[derive(Debug, Clone, PartialEq)]
struct Written {
    sequence: u64,
    accepted: i64,
    rejected: Vec<Target>,
    body: Vec<u8>,
}

/// A log and the records that must be in it.
struct History {
    dir: TempDir,
    disk: FaultyDisk,
    wal: Wal,
    durable: Vec<Written>,
    through: u64,
    random: StdRng,
}

#[tokio::test]
async fn what_was_synced_is_read_back_in_order_or_an_error_names_the_file() {
    let seed = seed();
    let (mut opened, mut refused) = (0, 0);
    let histories = if long() { 400 } else { 12 };
    for number in 0..histories {
        let mut history = History::new(StdRng::seed_from_u64(seed.wrapping_add(number)));
        for _ in 0..25 {
            history = match history.random.random_range(0..10) {
                0..4 => history.append(None).await,
                4 => {
                    let space = history.random.random_range(0..500);
                    history.append(Some(space)).await
                }
                5 => {
                    history.wal.roll();
                    history
                }
                6 => history.forget(),
                7 => history.restart(),
                8 => history.crash(),
                _ => {
                    let (good, bad) = history.damage().await;
                    (opened, refused) = (opened + good, refused + bad);
                    history
                }
            };
        }
        history.restart();
    }
    assert!(opened > 0 && refused > 0, "{opened} opened, {refused} refused");
}

fn open(dir: &Path, disk: Arc<dyn LogFiles>) -> Result<(Wal, u64, Vec<Written>), StoreError> {
    let through = wal::checkpoint(dir, disk.as_ref())?;
    let options = WalOptions { dir: dir.into(), mark: Mark::None, segment_bytes: 2048, disk };
    let mut read = Vec::new();
    let wal = wal::open(options, HeadMetrics::default(), through, &mut |entry| {
        let Record::Write { rejected, body, .. } = &entry.record else { return Ok(()) };
        let (sequence, accepted) = (entry.sequence, entry.accepted);
        let (rejected, body) = (rejected.clone(), body.to_vec());
        read.push(Written { sequence, accepted, rejected, body });
        Ok(())
    })?;
    Ok((wal, through, read))
}

fn copy(from: &Path, to: &Path) {
    for name in Disk.list(from).expect("a folder") {
        std::fs::copy(from.join(&name), to.join(&name)).expect("copied");
    }
}

impl History {
    fn new(random: StdRng) -> Self {
        let (dir, disk) = (tempfile::tempdir().expect("a folder"), FaultyDisk::default());
        let (wal, _, read) = open(dir.path(), Arc::new(disk.clone())).expect("a log is made");
        assert_eq!(read, []);
        Self { dir, disk, wal, durable: Vec::new(), through: 0, random }
    }

    /// Appends some records, synced together or not; `space` limits the bytes of the disk.
    async fn append(mut self, space: Option<u64>) -> Self {
        self.disk.set(|faults| faults.space = space);
        let mut commits = Vec::new();
        for _ in 0..self.random.random_range(1..6) {
            let longest = if self.random.random_bool(0.05) { 5000 } else { 300 };
            let length = self.random.random_range(0..longest);
            let body: Vec<u8> = (0..length).map(|_| self.random.random()).collect();
            let targets = 0..self.random.random_range(0..3);
            let rejected: Vec<Target> = targets.map(Target::Sample).collect();
            let accepted = self.random.random_range(0..1_000_000);
            let room = self.wal.admit(body.len()).await;
            let record =
                Record::Write { protocol: Protocol::V2, rejected: rejected.clone(), body: &body };
            let commit = self.wal.append(room, accepted, record).expect("it is open");
            let sequence = commit.sequence;
            commits.push((commit, Written { sequence, accepted, rejected, body }));
        }
        for (commit, written) in commits {
            match commit.wait().await {
                Ok(_room) => self.durable.push(written),
                Err(StoreError::Unavailable { .. }) if space.is_some() => {}
                Err(error) => panic!("{error}"),
            }
        }
        self.disk.set(|faults| faults.space = None);
        self
    }

    fn forget(mut self) -> Self {
        self.through = self.random.random_range(self.through..=self.wal.last());
        self.wal.forget(self.through).expect("forgotten");
        self
    }

    /// Closes the log and opens it again.
    fn restart(mut self) -> Self {
        self.wal.close();
        let disk = Arc::new(self.disk.clone());
        let (wal, through, read) = open(self.dir.path(), disk).expect("a sound log");
        assert_eq!(through, self.through);
        assert_eq!(read, self.left());
        self.wal = wal;
        self
    }

    /// Goes on with the files of a kill, perhaps with the beginning of a record that was not
    /// synced.
    fn crash(mut self) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        copy(self.dir.path(), dir.path());
        if let Some(newest) = segments(dir.path()).pop() {
            let mut bytes = std::fs::read(&newest).expect("readable");
            // A segment gets its name only when its header is durable, including zeros in it.
            const HEADER: usize = 48;
            let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            let end = end.max(HEADER);
            let torn = self.random.random_range(0..200).min(bytes.len() - end);
            bytes[end..end + torn].fill_with(|| self.random.random());
            std::fs::write(&newest, bytes).expect("written");
        }
        let disk = Arc::new(self.disk.clone());
        let (wal, _, read) = open(dir.path(), disk).expect("a torn tail is no damage");
        assert_eq!(read, self.left());
        (self.wal, self.dir) = (wal, dir);
        self
    }

    /// Flips a byte, or cuts or removes a file, in a copy. Counts how often the log opened, and
    /// not.
    async fn damage(&mut self) -> (u32, u32) {
        // The last seal marks all records as durable, unless the disk had no room for it.
        let room = self.wal.admit(1).await;
        let record = Record::Write { protocol: Protocol::V1, rejected: vec![], body: b"end" };
        let commit = self.wal.append(room, 1, record).expect("it is open");
        let (sequence, rejected, body) = (commit.sequence, vec![], b"end".to_vec());
        commit.wait().await.expect("there is room");
        self.durable.push(Written { sequence, accepted: 1, rejected, body });
        let (mut opened, mut refused) = (0, 0);
        let mut files = segments(self.dir.path());
        files.push(self.dir.path().join("checkpoint"));
        for path in files {
            let good = std::fs::read(&path).expect("readable");
            let used = good.iter().rposition(|byte| *byte != 0).map_or(1, |last| last + 1);
            let at = self.random.random_range(0..used);
            let mut flipped = good.clone();
            flipped[at] ^= self.random.random_range(1..=255u8);
            let cut = good[..at].to_vec();
            for bad in [Some(flipped), Some(cut), None] {
                let copied = tempfile::tempdir().expect("a folder");
                copy(self.dir.path(), copied.path());
                let damaged = copied.path().join(path.file_name().expect("a file"));
                match &bad {
                    Some(bytes) => std::fs::write(&damaged, bytes).expect("written"),
                    None => std::fs::remove_file(&damaged).expect("removed"),
                }
                let what = format!("{} at {at} of {used}", damaged.display());
                match open(copied.path(), Arc::new(Disk)) {
                    Ok((_, through, read)) => {
                        // Without a checkpoint, more records may be read than needed.
                        let left = self.durable.iter().filter(|w| w.sequence > through);
                        assert_eq!(read, left.cloned().collect::<Vec<_>>(), "{what}");
                        opened += 1;
                    }
                    Err(StoreError::Corrupt { path: named, .. }) => {
                        let known = named == damaged || bad.is_none();
                        assert!(known, "{what}: {} is named", named.display());
                        refused += 1;
                    }
                    Err(error) => panic!("{what}: {error}"),
                }
            }
        }
        (opened, refused)
    }

    /// The records that must be read back.
    fn left(&self) -> Vec<Written> {
        let left = self.durable.iter().filter(|written| written.sequence > self.through);
        left.cloned().collect()
    }
}

fn segments(dir: &Path) -> Vec<PathBuf> {
    let names = Disk.list(dir).expect("a folder");
    names.iter().filter(|name| name.ends_with(".wal")).map(|name| dir.join(name)).collect()
}
