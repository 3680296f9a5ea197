//! The write-ahead log: a write is on disk before it is acknowledged.
//!
//! Requests append records to a buffer; one thread writes the buffer, syncs it and then answers all
//! requests of that round (group commit). [`record`] and [`mod@checkpoint`] define the bytes,
//! [`segment`] is a file, [`handle`] is for requests, [`writer`] is the thread, [`mod@log`] is what
//! both share. [`replay`] distinguishes a torn tail from damage at start, [`reread`] reads held
//! records again, and [`repair`](fn@repair) repairs damage with [`survey`] and [`contents`].
//! [`mark`] distinguishes a lost log from one that never existed. Files are written through
//! [`log_files`](promkairos_storage::log_files). Except for the counts of [`contents`] the log knows no
//! samples: it keeps request bodies as received.

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

use promkairos_storage::log_files::LogFiles;
use promkairos_storage::{FolderLock, NotLocked, StoreError};
use promkairos_telemetry::HeadMetrics;

use replay::OUT_OF_ORDER;

pub use contents::Contents;
pub use handle::{Admission, Commit, Wal};
pub use mark::{Mark, check_there, forget_mark, is_gone};
pub use record::{Entry, Record};
pub use repair::{Loss, RepairMode, RepairReport, repair, repair_on};
pub use unflushed::{Unflushed, unflushed};

/// Settings of the log.
#[derive(Clone)]
pub struct WalOptions {
    /// Its folder; created if absent.
    pub dir: PathBuf,
    /// Whether a file beside the folder says that the log has acknowledged records.
    pub mark: Mark,
    /// Bytes reserved for a segment file.
    pub segment_bytes: u64,
    /// The file layer.
    pub disk: Arc<dyn LogFiles>,
}

/// The last record in the store below, according to the log's checkpoint; 0 = none.
pub fn checkpoint(dir: &Path, disk: &dyn LogFiles) -> Result<u64, StoreError> {
    disk.create_dir(dir).map_err(|source| segment::io_error(dir, source))?;
    Ok(checkpoint::read(disk, dir)?.unwrap_or_default().through)
}

/// Whether no log was ever made in this folder. A folder that cannot be listed is an error: it may have a log.
pub fn is_new(dir: &Path, disk: &dyn LogFiles) -> Result<bool, StoreError> {
    match disk.list(dir) {
        Ok(files) => Ok(files.is_empty()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
        Err(source) => Err(segment::io_error(dir, source)),
    }
}

/// Called with each record of the log that is read.
pub type Visit<'v> = dyn FnMut(&Entry<'_>) -> Result<(), StoreError> + 'v;

/// A log that was read, locked and not written to yet.
pub struct LogRead {
    options: WalOptions,
    found: replay::Found,
    stored: Option<checkpoint::Checkpoint>,
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

/// Locks the log: two processes would destroy it.
fn lock(dir: &Path) -> Result<FolderLock, StoreError> {
    FolderLock::acquire(dir).map_err(|error| match error {
        NotLocked::InUse => in_use(dir),
        NotLocked::Failed(path, source) => segment::io_error(&path, source),
    })
}

/// The error for a log that another process has open. It is temporary and not the fault of a setting.
pub fn in_use(path: &Path) -> StoreError {
    let what = format!("{}: a running promkairos uses this log; stop it first", path.display());
    StoreError::Unavailable { what, retry_after: Duration::from_secs(1) }
}
