//! The lock that keeps a second process out of a folder.
//!
//! Both the file `lock` and the folder itself are locked: the file is empty and looks useless, but the lock remains if
//! somebody removes it. Both locks are held by the kernel and end with the process. On a file system that cannot lock
//! folders, such as some network file systems, only the file is locked.

use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::disk::Disk;

/// The file in the folder.
const NAME: &str = "lock";

/// A lock that is held until it is dropped or the process ends.
#[derive(Debug)]
pub struct FolderLock {
    locked: Vec<File>,
}

/// Why a folder is not locked.
#[derive(Debug)]
pub enum NotLocked {
    /// Another process holds the lock.
    InUse,
    /// The lock cannot be used.
    Failed(PathBuf, io::Error),
}

impl FolderLock {
    /// Locks an existing folder.
    pub fn acquire(folder: &Path) -> Result<Self, NotLocked> {
        let path = folder.join(NAME);
        let file = Disk::open_or_make(&path).map_err(|error| NotLocked::Failed(path, error))?;
        Self { locked: Vec::with_capacity(2) }.with(folder, Some(file))
    }

    /// As `acquire`, but does not create the file: for a caller that changes nothing.
    pub fn acquire_to_look(folder: &Path) -> Result<Self, NotLocked> {
        let path = folder.join(NAME);
        let file = match File::open(&path) {
            Ok(file) => Some(file),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(NotLocked::Failed(path, error)),
        };
        Self { locked: Vec::with_capacity(2) }.with(folder, file)
    }

    fn with(mut self, folder: &Path, file: Option<File>) -> Result<Self, NotLocked> {
        let failed = |error| NotLocked::Failed(folder.to_owned(), error);
        if let Some(file) = file {
            match file.try_lock() {
                Ok(()) => self.locked.push(file),
                Err(TryLockError::WouldBlock) => return Err(NotLocked::InUse),
                Err(TryLockError::Error(error)) => {
                    return Err(NotLocked::Failed(folder.join(NAME), error));
                }
            }
        }
        let folder = File::open(folder).map_err(failed)?;
        match folder.try_lock() {
            Ok(()) => self.locked.push(folder),
            Err(TryLockError::WouldBlock) => return Err(NotLocked::InUse),
            Err(TryLockError::Error(error)) => tracing::debug!(%error, "a folder cannot be locked"),
        }
        Ok(self)
    }
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        for file in &self.locked {
            // Unlocked explicitly: a child process that is just being started holds a copy of the handle.
            let _ = file.unlock();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_one_owner_whatever_becomes_of_the_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        for remove in [false, true] {
            let owner = FolderLock::acquire(folder).expect("free");
            if remove {
                std::fs::remove_file(folder.join(NAME)).expect("it is there");
            }
            for _ in 0..2 {
                let second = FolderLock::acquire(folder);
                assert!(matches!(second, Err(NotLocked::InUse)), "{second:?}");
                let second = FolderLock::acquire_to_look(folder);
                assert!(matches!(second, Err(NotLocked::InUse)), "{second:?}");
            }
            drop(owner);
            drop(FolderLock::acquire(folder).expect("free again"));
        }
    }

    #[test]
    fn who_only_looks_makes_no_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let look = FolderLock::acquire_to_look(folder.path()).expect("free");
        assert!(!folder.path().join(NAME).exists());
        let owner = FolderLock::acquire(folder.path());
        assert!(matches!(owner, Err(NotLocked::InUse)), "{owner:?}");
        drop(look);
        FolderLock::acquire(folder.path()).expect("free again");
    }

    #[test]
    fn a_link_in_the_place_of_the_file_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, target) = (folder.path().join(NAME), folder.path().join("target"));
        std::os::unix::fs::symlink(&target, &path).expect("made");
        let Err(NotLocked::Failed(named, error)) = FolderLock::acquire(folder.path()) else {
            panic!("it is followed");
        };
        assert_eq!(named, path);
        assert!(error.to_string().starts_with("a symbolic link"), "{error}");
        assert!(!target.exists());
    }
}
