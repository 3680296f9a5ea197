//! The folder of a log: its lock, and whether it is new.
//!
//! Invariant: the process that holds the lock is the only one that writes to the log. Reads no records.

use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use promkairos_storage::log_files::LogFiles;
use promkairos_storage::{FolderLock, NotLocked, StoreError};

/// Whether no log was ever made in this folder. A folder that cannot be listed is an error: it may have a log.
pub fn is_new(dir: &Path, disk: &dyn LogFiles) -> Result<bool, StoreError> {
    Ok(list(dir, disk)?.is_empty())
}

/// The files in a folder; none if there is no folder.
pub(super) fn list(dir: &Path, disk: &dyn LogFiles) -> Result<Vec<String>, StoreError> {
    match disk.list(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        listed => listed.map_err(|source| StoreError::io(dir, source)),
    }
}

/// Locks the log: two processes would destroy it.
pub(super) fn lock(dir: &Path) -> Result<FolderLock, StoreError> {
    FolderLock::acquire(dir).map_err(|error| match error {
        NotLocked::InUse => in_use(dir),
        NotLocked::Failed(path, source) => StoreError::io(&path, source),
    })
}

/// The error for a log that another process has open. It is temporary and not the fault of a setting.
pub fn in_use(path: &Path) -> StoreError {
    let what = format!("{}: a running promkairos uses this log; stop it first", path.display());
    StoreError::unavailable_for(what, Duration::from_secs(1))
}
