//! The folder of a log: its lock, and whether it is new.
//!
//! Invariant: the process that holds the lock is the only one that writes to the log. Reads no records.

use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use super::segment::io_error;
use promkairos_storage::log_files::LogFiles;
use promkairos_storage::{FolderLock, NotLocked, StoreError};

/// Whether no log was ever made in this folder. A folder that cannot be listed is an error: it may have a log.
pub fn is_new(dir: &Path, disk: &dyn LogFiles) -> Result<bool, StoreError> {
    match disk.list(dir) {
        Ok(files) => Ok(files.is_empty()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
        Err(source) => Err(io_error(dir, source)),
    }
}

/// Locks the log: two processes would destroy it.
pub(super) fn lock(dir: &Path) -> Result<FolderLock, StoreError> {
    FolderLock::acquire(dir).map_err(|error| match error {
        NotLocked::InUse => in_use(dir),
        NotLocked::Failed(path, source) => io_error(&path, source),
    })
}

/// The error for a log that another process has open. It is temporary and not the fault of a setting.
pub fn in_use(path: &Path) -> StoreError {
    let what = format!("{}: a running promkairos uses this log; stop it first", path.display());
    StoreError::Unavailable { what, retry_after: Duration::from_secs(1) }
}
