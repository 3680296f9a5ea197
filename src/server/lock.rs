//! The lock of a data folder, against two processes on one folder.
//!
//! The lock ends with the process, however the process ends.

use std::io::ErrorKind;
use std::path::Path;

use super::error::ServerError;
use crate::storage::disk::{Disk, Folders};
use crate::storage::{FolderLock, NotLocked};

/// Creates the folder if it is missing, and locks it until the lock is dropped.
pub(super) fn acquire(folder: &Path) -> Result<FolderLock, ServerError> {
    let failed = |source| ServerError::DataDir { path: folder.to_owned(), source };
    if folder.exists() && !folder.is_dir() {
        let what = std::io::Error::new(ErrorKind::NotADirectory, "a file, not a folder");
        return Err(failed(what));
    }
    Disk.create_dir(folder).map_err(failed)?;
    FolderLock::acquire(folder).map_err(|error| match error {
        NotLocked::InUse => ServerError::Locked { path: folder.to_owned() },
        NotLocked::Failed(path, source) => ServerError::DataDir { path, source },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_one_owner_at_a_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path().join("data");
        let first = acquire(&data).expect("free");
        let error = acquire(&data).expect_err("taken").to_string();
        let want = format!("{} is in use by another promkairos process; stop that", data.display());
        assert!(error.starts_with(&want), "{error}");
        drop(first);
        acquire(&data).expect("free again");
    }

    #[test]
    fn a_file_in_the_way_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("data");
        std::fs::write(&path, "").expect("written");
        let error = acquire(&path).expect_err("a file").to_string();
        assert_eq!(error, format!("{}: a file, not a folder", path.display()));
    }
}
