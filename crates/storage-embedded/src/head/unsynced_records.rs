//! Records that the store below has acknowledged and may still lose. They stay in the log until
//! [`unsynced_task`](super::unsynced_task) releases them or hands them down again.
//!
//! A file in the log's folder lists the held records for a restart of this process. Invariant: no
//! segment with a held record is removed. A file that cannot be read fails the start: it may list
//! records that the store below has lost. A file that cannot be written costs safety after a
//! restart, and is a warning.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tracing::warn;

use promkairos_storage::clock::now_ms;
use promkairos_storage::disk::replace;
use promkairos_storage::log_files::{LogFiles, read_all, write_new};
use promkairos_storage::{SharedStore, Starts, StoreError};

/// Name of the file.
const NAME: &str = "unsynced.json";
/// Its name while it is written.
const UNFINISHED: &str = "unsynced.json.new";

/// The records of one flush.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Held {
    /// The record before the first.
    after: u64,
    /// The last record.
    pub(super) through: u64,
    /// When all of them were acknowledged, in milliseconds since 1970.
    acknowledged: i64,
    /// The servers of the store below just before the first record went there.
    pub(super) starts: Starts,
}

impl Held {
    /// The records behind `after` up to `through`, acknowledged just now.
    pub(super) fn new(after: u64, through: u64, starts: Starts) -> Self {
        Self { after, through, acknowledged: now_ms(), starts }
    }

    /// Whether the servers have had time to sync the records.
    pub(super) fn is_over(&self, now: i64, period: Duration) -> bool {
        let period = i64::try_from(period.as_millis()).unwrap_or(i64::MAX);
        now >= self.acknowledged.saturating_add(period)
    }
}

/// All held records, oldest first.
pub(super) struct UnsyncedRecords {
    path: PathBuf,
    unfinished: PathBuf,
    disk: Arc<dyn LogFiles>,
    all: parking_lot::Mutex<Vec<Held>>,
    /// Notified when more records are held.
    pub(super) more: tokio::sync::Notify,
}

impl UnsyncedRecords {
    /// Reads the file of a log; without a file nothing is held.
    pub(super) fn read(dir: &Path, disk: &Arc<dyn LogFiles>) -> Result<Self, StoreError> {
        let path = dir.join(NAME);
        let all = match disk.open(&path).and_then(|file| read_all(file.as_ref())) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| {
                StoreError::Invalid(format!(
                    "{}: damaged: {error}; it lists samples that Cassandra may have lost if it was restarted; if it \
                     was not, remove the file",
                    path.display()
                ))
            })?,
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            Err(source) => return Err(StoreError::Io { path, source }),
        };
        let (unfinished, disk) = (dir.join(UNFINISHED), disk.clone());
        let all = parking_lot::Mutex::new(all);
        Ok(Self { path, unfinished, disk, all, more: tokio::sync::Notify::new() })
    }

    /// Whether nothing is held.
    pub(super) fn is_empty(&self) -> bool {
        self.all.lock().is_empty()
    }

    pub(super) fn oldest(&self) -> Option<Held> {
        self.all.lock().first().cloned()
    }

    /// The record before the first held one, and the last held one; `None` = nothing is held.
    pub(super) fn span(&self) -> Option<(u64, u64)> {
        let all = self.all.lock();
        Some((all.first()?.after, all.last()?.through))
    }

    /// Holds records that follow all held ones.
    pub(super) fn push(&self, held: Held) {
        let mut all = self.all.lock();
        // Flushes may follow each other fast. Half a second less of holding is within the margin of the period.
        let is_soon = |last: &&mut Held| {
            last.starts == held.starts && held.acknowledged - last.acknowledged < 500
        };
        match all.last_mut().filter(is_soon) {
            Some(last) => last.through = held.through,
            None => all.push(held),
        }
        drop(all);
        self.save();
        self.more.notify_one();
    }

    /// Replaces the oldest records after they were handed down again.
    pub(super) fn replace_oldest(&self, through: u64, held: Held) {
        let mut all = self.all.lock();
        all.retain(|one| one.through > through);
        all.insert(0, held);
        drop(all);
        self.save();
    }

    /// Releases the records up to `through`, which are synced.
    pub(super) fn release(&self, through: u64) {
        self.all.lock().retain(|held| held.through > through);
        self.save();
    }

    fn save(&self) {
        let all = self.all.lock();
        let bytes = serde_json::to_vec(&*all).unwrap_or_default();
        let write = |path: &Path| write_new(self.disk.as_ref(), path, &bytes);
        let replaced = replace(self.disk.as_ref(), &self.path, &self.unfinished, write);
        if let Err(error) = replaced.map_err(io::Error::from) {
            warn!(
                file = %self.path.display(),
                %error,
                "cannot write the list of unsynced records; if this process and Cassandra are both killed now, \
                 acknowledged samples may be lost"
            );
        }
    }
}

/// The servers of a store below, before records are handed down to it; `None` = the store loses nothing.
pub(super) async fn starts_of(below: &SharedStore) -> Result<Option<Starts>, StoreError> {
    match below.unsynced().await.filter(|below| !below.period().is_zero()) {
        Some(below) => below.starts().await.map(Some),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use promkairos_storage::disk::Disk;

    #[test]
    fn what_is_held_survives_a_restart() {
        let dir = tempfile::tempdir().expect("a folder");
        let disk: Arc<dyn LogFiles> = Arc::new(Disk);
        let read = || UnsyncedRecords::read(dir.path(), &disk).expect("readable");
        let held = |after, through, acknowledged, start| Held {
            after,
            through,
            acknowledged,
            starts: Starts::from([("a".to_owned(), start)]),
        };
        let all = read();
        assert_eq!(all.oldest(), None);
        all.push(held(0, 5, 1_000, 7));
        all.push(held(5, 6, 1_200, 7));
        all.push(held(6, 9, 5_000, 8));
        let again = read();
        assert_eq!(*again.all.lock(), [held(0, 6, 1_000, 7), held(6, 9, 5_000, 8)]);
        again.release(6);
        assert_eq!(read().oldest(), Some(held(6, 9, 5_000, 8)));
        again.replace_oldest(9, held(6, 9, 9_000, 9));
        assert_eq!(*read().all.lock(), [held(6, 9, 9_000, 9)]);
        let one = held(0, 1, 1_000, 1);
        let period = Duration::from_secs(2);
        assert_eq!([2_999, 3_000].map(|now| one.is_over(now, period)), [false, true]);
    }

    #[test]
    fn a_file_that_cannot_be_read_is_an_error() {
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(dir.path().join(NAME)).expect("a folder in place of the file");
        let disk: Arc<dyn LogFiles> = Arc::new(Disk);
        let read = UnsyncedRecords::read(dir.path(), &disk);
        let error = read.map(drop).expect_err("what is held is not known");
        assert!(matches!(&error, StoreError::Io { path, .. } if path.ends_with(NAME)), "{error}");
        std::fs::remove_dir(dir.path().join(NAME)).expect("removed");
        std::fs::write(dir.path().join(NAME), "damaged").expect("written");
        let error = UnsyncedRecords::read(dir.path(), &disk).map(drop).expect_err("damaged");
        assert!(error.to_string().contains("unsynced.json: damaged: "), "{error}");
    }
}
