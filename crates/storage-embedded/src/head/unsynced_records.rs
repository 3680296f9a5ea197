//! Records that the store below has acknowledged and may still lose. They stay in the log until the store has had
//! time to sync them, and are handed down again if its servers were restarted meanwhile (see [`Unsynced`]).
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
use tracing::{info, warn};

use super::{Inner, blocking, open};
use promkairos_storage::clock::now_ms;
use promkairos_storage::disk::replace;
use promkairos_storage::log_files::{LogFiles, read_all, write_new};
use promkairos_storage::{SharedStore, Since, Starts, StoreError, Unsynced};

/// Name of the file.
const NAME: &str = "unsynced.json";
/// Its name while it is written.
const UNFINISHED: &str = "unsynced.json.new";
/// How often the servers of the store below are asked while records are held.
const PROBE: Duration = Duration::from_millis(500);

/// The records of one flush.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Held {
    /// The record before the first.
    after: u64,
    /// The last record.
    through: u64,
    /// When all of them were acknowledged, in milliseconds since 1970.
    acknowledged: i64,
    /// The servers of the store below just before the first record went there.
    starts: Starts,
}

impl Held {
    /// Whether the servers have had time to sync the records.
    fn is_over(&self, now: i64, period: Duration) -> bool {
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

    fn oldest(&self) -> Option<Held> {
        self.all.lock().first().cloned()
    }

    /// Holds records that follow all held ones.
    fn push(&self, held: Held) {
        {
            let mut all = self.all.lock();
            match all.last_mut() {
                // Flushes may follow each other fast. Holding records for half a second less is
                // within the margin of the period.
                Some(last)
                    if last.starts == held.starts
                        && held.acknowledged - last.acknowledged < 500 =>
                {
                    last.through = held.through;
                }
                _ => all.push(held),
            }
        }
        self.save();
        self.more.notify_one();
    }

    /// Replaces the oldest records after they were handed down again.
    fn replace_oldest(&self, through: u64, held: Held) {
        let mut all = self.all.lock();
        all.retain(|one| one.through > through);
        all.insert(0, held);
        drop(all);
        self.save();
    }

    /// Releases the records up to `through`, which are synced.
    fn release(&self, through: u64) {
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

impl Inner {
    /// Keeps the records behind `after` up to `through`, which the store below has acknowledged.
    pub(super) fn hold(&self, starts: Starts, after: u64, through: u64) {
        self.held.push(Held { after, through, acknowledged: now_ms(), starts });
    }

    /// Releases the oldest records once they are synced, or hands records down again. Returns
    /// whether records are still held.
    async fn settle_held(self: &Arc<Self>) -> Result<bool, StoreError> {
        let Some(oldest) = self.held.oldest() else { return Ok(false) };
        let Some(below) = self.below.unsynced().await else { return Ok(true) };
        let starts = below.starts().await?;
        match Since::judge(&oldest.starts, &starts, below.copies()) {
            Since::Unknown => {}
            Since::Kept if oldest.is_over(now_ms(), below.period()) || self.is_log_half_full() => {
                let (wal, through) = (self.wal.clone(), oldest.through);
                blocking(move || wal.forget(through)).await??;
                self.held.release(through);
            }
            Since::Kept => {}
            Since::Lost => self.hand_down_again(&*below, starts).await?,
        }
        Ok(self.held.oldest().is_some())
    }

    /// Hands down all held records: one restart may have lost them all.
    async fn hand_down_again(
        self: &Arc<Self>,
        below: &dyn Unsynced,
        starts: Starts,
    ) -> Result<(), StoreError> {
        let all = self.held.all.lock().clone();
        let (Some(first), Some(last)) = (all.first(), all.last()) else { return Ok(()) };
        let (after, through) = (first.after, last.through);
        warn!(
            after,
            through,
            "a server of the store below was started again before what it had acknowledged was synced for sure: \
             it is handed down again"
        );
        below.start_over().await?;
        let (inner, options) = (self.clone(), self.options.clone());
        let again = move || {
            let (wal, below) = (inner.wal.clone(), inner.below.clone());
            open::hand_down_again(&options, below, |visit| wal.read_again(after, through, visit))
        };
        let points = blocking(again).await??;
        info!(points, through, "handed down again");
        self.metrics.handed_down_again.inc_by(points);
        let held = Held { after, through, acknowledged: now_ms(), starts };
        self.held.replace_oldest(through, held);
        Ok(())
    }
}

/// Settles held records until the head is dropped.
pub(super) fn spawn(inner: &Arc<Inner>) {
    let head = Arc::downgrade(inner);
    let held = inner.held.clone();
    tokio::spawn(async move {
        loop {
            let Some(head) = head.upgrade() else { return };
            let is_more = match head.settle_held().await {
                Ok(is_more) => is_more,
                Err(error) => {
                    tracing::debug!("what is held of the log is held further: {error}");
                    true
                }
            };
            drop(head);
            match is_more {
                true => tokio::time::sleep(PROBE).await,
                // Dropping the head wakes this task.
                false => held.more.notified().await,
            }
        }
    });
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
