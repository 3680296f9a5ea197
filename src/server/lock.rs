//! The lock of a data folder, against two processes on one folder.
//!
//! The lock ends with the process, however the process ends.

use std::io::ErrorKind;
use std::path::Path;

use super::error::ServerError;
use crate::storage::disk::{Disk, Folders};
use crate::storage::{FolderLock, NotLocked};

/// Held while the process owns the folder.
#[derive(Debug)]
pub(super) struct DataLock {
    _lock: FolderLock,
}

impl DataLock {
    /// Creates the folder if it is missing, and locks it.
    pub(super) fn acquire(folder: &Path) -> Result<Self, ServerError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| ServerError::DataDir { path, source }
        };
        if folder.exists() && !folder.is_dir() {
            let what = std::io::Error::new(ErrorKind::NotADirectory, "a file, not a folder");
            return Err(failed(folder)(what));
        }
        Disk.create_dir(folder).map_err(failed(folder))?;
        match FolderLock::acquire(folder) {
            Ok(lock) => Ok(Self { _lock: lock }),
            Err(NotLocked::InUse) => Err(ServerError::Locked { path: folder.to_owned() }),
            Err(NotLocked::Failed(path, source)) => Err(ServerError::DataDir { path, source }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_one_owner_at_a_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path().join("data");
        let first = DataLock::acquire(&data).expect("free");
        let error = DataLock::acquire(&data).expect_err("taken").to_string();
        let want = format!("{} is in use by another promkairos process; stop that", data.display());
        assert!(error.starts_with(&want), "{error}");
        drop(first);
        DataLock::acquire(&data).expect("free again");
    }

    #[test]
    fn a_file_in_the_way_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("data");
        std::fs::write(&path, "").expect("written");
        let error = DataLock::acquire(&path).expect_err("a file").to_string();
        assert_eq!(error, format!("{}: a file, not a folder", path.display()));
    }
}
