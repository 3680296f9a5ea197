//! Opens a log: locks it, reads its records and starts the thread that writes it.
//!
//! Until [`LogRead::start`] nothing is appended, and the log stays locked.

use super::checkpoint::{self, Checkpoint};
use super::folder::lock;
use super::handle::Wal;
use super::mark::{Mark, check_there};
use super::options::WalOptions;
use super::replay::{self, Found, Visit};
use promkairos_storage::{FolderLock, StoreError};
use promkairos_telemetry::HeadMetrics;

/// A log that was read, locked and not written to yet.
pub struct LogRead {
    options: WalOptions,
    found: Found,
    stored: Option<Checkpoint>,
    after: u64,
    lock: FolderLock,
}

/// Locks the log and passes every record after `after` to `visit` in order. Fails with
/// [`StoreError::Corrupt`] if an acknowledged record is damaged, or if all of them are gone.
pub fn read(options: WalOptions, after: u64, visit: &mut Visit<'_>) -> Result<LogRead, StoreError> {
    let WalOptions { dir, mark, disk, .. } = &options;
    if *mark == Mark::Beside {
        check_there(dir, disk.as_ref())?;
    }
    disk.create_dir(dir).map_err(|source| StoreError::io(dir, source))?;
    let lock = lock(dir)?;
    let stored = checkpoint::read(disk.as_ref(), dir)?;
    let newest = stored.unwrap_or_default().newest;
    let found = replay::replay(disk.as_ref(), dir, after, newest, visit)?;
    Ok(LogRead { options, found, stored, after, lock })
}

impl LogRead {
    /// Starts the writer.
    pub fn start(self, metrics: HeadMetrics) -> Result<Wal, StoreError> {
        let Self { options, found, stored, after, lock } = self;
        Wal::start(options, metrics, found, stored, after, lock)
    }
}

/// Reads the log and starts the writer.
pub fn open(
    options: WalOptions,
    metrics: HeadMetrics,
    after: u64,
    visit: &mut Visit<'_>,
) -> Result<Wal, StoreError> {
    read(options, after, visit)?.start(metrics)
}
