//! The write-ahead log: what was acknowledged is on disk first.
//!
//! Requests append records to a buffer; one thread writes the buffer, syncs it and then answers
//! all requests of that round (group commit). [`record`] and [`mod@checkpoint`] fix the bytes,
//! [`segment`] is a file, [`handle`] what requests use, [`writer`] the thread, [`mod@log`] what the
//! two have in common. [`replay`] decides at start what is a torn tail and what is damage,
//! [`reread`] reads what is kept longer once more,
//! [`repair`](fn@repair) is the way out of damage; it looks around with [`survey`] and counts what is
//! lost with [`contents`]. [`mark`] tells a log that is gone from one that never was. What writes the log goes
//! through [`log_files`](crate::storage::log_files). But for that count the log knows no samples: it keeps request
//! bodies as they came.

mod checkpoint;
mod contents;
mod handle;
mod log;
mod mark;
mod record;
mod repair;
mod replay;
mod reread;
mod segment;
mod survey;
mod unflushed;
mod writer;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::storage::log_files::LogFiles;
use crate::storage::{FolderLock, NotLocked, StoreError};
use crate::telemetry::HeadMetrics;

use replay::OUT_OF_ORDER;

pub use contents::Contents;
pub use handle::{Admission, Commit, Wal};
pub use mark::{Mark, check_there, forget_mark, is_gone};
pub use record::{Entry, Record};
pub use repair::{Loss, RepairMode, RepairReport, repair, repair_on};
pub use unflushed::{Unflushed, unflushed};

/// Where the log lies and how it is cut.
#[derive(Clone)]
pub struct WalOptions {
    /// Its folder; made when absent.
    pub dir: PathBuf,
    /// Whether a file beside the folder says that the log has acknowledged records.
    pub mark: Mark,
    /// Bytes reserved for a segment file.
    pub segment_bytes: u64,
    /// The file layer.
    pub disk: Arc<dyn LogFiles>,
}

/// Everything up to this record is in the store below, says the log's own checkpoint; 0 = nothing.
pub fn checkpoint(dir: &Path, disk: &dyn LogFiles) -> Result<u64, StoreError> {
    disk.create_dir(dir).map_err(|source| segment::io_error(dir, source))?;
    Ok(checkpoint::read(disk, dir)?.unwrap_or_default().through)
}

/// Whether no log was ever made in this folder. A folder that cannot be listed is an error: it may hold one.
pub fn is_new(dir: &Path, disk: &dyn LogFiles) -> Result<bool, StoreError> {
    match disk.list(dir) {
        Ok(files) => Ok(files.is_empty()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
        Err(source) => Err(segment::io_error(dir, source)),
    }
}

/// Takes the records of the log as they are read.
pub type Visit<'v> = dyn FnMut(&Entry<'_>) -> Result<(), StoreError> + 'v;

/// A log that was read, locked and not written to yet.
pub struct LogRead {
    options: WalOptions,
    found: replay::Found,
    stored: Option<checkpoint::Checkpoint>,
    after: u64,
    lock: FolderLock,
}

/// Locks the log and hands every record after `after` to `visit` in order. Fails with
/// [`StoreError::Corrupt`] when an acknowledged record is damaged, and where all of them are gone.
pub fn read(options: WalOptions, after: u64, visit: &mut Visit<'_>) -> Result<LogRead, StoreError> {
    let WalOptions { dir, mark, disk, .. } = &options;
    if *mark == Mark::Beside {
        check_there(dir, disk.as_ref())?;
    }
    disk.create_dir(dir).map_err(|source| segment::io_error(dir, source))?;
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

/// Two processes on one log would destroy it.
fn lock(dir: &Path) -> Result<FolderLock, StoreError> {
    FolderLock::acquire(dir).map_err(|error| match error {
        NotLocked::InUse => in_use(dir),
        NotLocked::Failed(path, source) => segment::io_error(&path, source),
    })
}

/// Another process has a log open. No fault of a setting, and it passes.
pub fn in_use(path: &Path) -> StoreError {
    let what = format!("{}: a running promkairos uses this log; stop it first", path.display());
    StoreError::Unavailable { what, retry_after: Duration::from_secs(1) }
}
