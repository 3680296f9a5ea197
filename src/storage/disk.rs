//! Folders: what is done with the names of files, and how one file takes the place of another.
//!
//! What holds points goes through these traits: [`Folders`] here, and with it [`Files`](super::embedded::Files) for
//! the part files, [`LogFiles`](super::log_files::LogFiles) for the log and the quarantine file. They are this narrow
//! so that a test can stand a failing or forgetful disk in their place. Not behind them are the locks of folders, the
//! read cache, which may be lost, and small files that are read at a start (the keyspace of a log, how far a copy
//! is); these are written by [`replace`] as others are. Paths are whole paths. No operation is repeated here: a
//! failed one is the caller's to give up.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// Names of files in folders.
pub trait Folders: Send + Sync {
    /// Makes the folder, and those above it, if absent; durable.
    fn create_dir(&self, dir: &Path) -> io::Result<()>;

    /// Names of the files in a folder, sorted; names that are not UTF-8 are left out.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;

    /// Renames a file, replacing one of the new name. Durable after [`Folders::sync_dir`].
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in a folder durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
}

/// The operating system's files.
#[derive(Debug, Clone, Copy)]
pub struct Disk;

impl Folders for Disk {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        if dir.is_dir() {
            return Ok(());
        }
        let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        self.create_dir(parent)?;
        match std::fs::create_dir(dir) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => self.sync_dir(parent),
        }
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(dir)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                names.extend(entry.file_name().into_string());
            }
        }
        names.sort();
        Ok(names)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }
}

impl Disk {
    /// A new file of these bytes, synced.
    pub(crate) fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut file = File::create(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    }
}

/// Why a file did not take the place of another, and which of the two is there.
#[derive(Debug)]
pub(crate) enum NotReplaced {
    /// It could not be written: the old one.
    Write(io::Error),
    /// It could not be renamed: the old one, if the disk can be trusted.
    Rename(io::Error),
    /// The folder could not be synced: the new one, and after a power cut either.
    Sync(io::Error),
}

impl From<NotReplaced> for io::Error {
    fn from(error: NotReplaced) -> Self {
        match error {
            NotReplaced::Write(error) | NotReplaced::Rename(error) | NotReplaced::Sync(error) => {
                error
            }
        }
    }
}

/// Puts a new file in the place of the one at `path`, if there is one, durably: so there is always a whole one.
/// `write` makes it under the name `unfinished`, in the same folder, and syncs it.
pub(crate) fn replace(
    disk: &dyn Folders,
    path: &Path,
    unfinished: &Path,
    write: impl FnOnce(&Path) -> io::Result<()>,
) -> Result<(), NotReplaced> {
    place(disk, path, unfinished, write)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    disk.sync_dir(folder.unwrap_or(Path::new("."))).map_err(NotReplaced::Sync)
}

/// The same without a sync of the folder, which is left to the caller.
pub(crate) fn place(
    disk: &dyn Folders,
    path: &Path,
    unfinished: &Path,
    write: impl FnOnce(&Path) -> io::Result<()>,
) -> Result<(), NotReplaced> {
    let written = write(unfinished).map_err(NotReplaced::Write);
    let placed = written.and_then(|()| disk.rename(unfinished, path).map_err(NotReplaced::Rename));
    if placed.is_err()
        // It is useless, and may hold the last free space.
        && let Err(error) = disk.remove(unfinished)
    {
        tracing::debug!(file = %unfinished.display(), %error, "an unfinished file stays");
    }
    placed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_old_file_stays_until_the_new_one_is_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, unfinished) = (folder.path().join("a"), folder.path().join("a.new"));
        let put =
            |bytes: &[u8]| replace(&Disk, &path, &unfinished, |path| Disk::write_new(path, bytes));
        put(b"one").expect("new");
        put(b"two").expect("replaced");
        let torn = replace(&Disk, &path, &unfinished, |path| {
            std::fs::write(path, b"th")?;
            Err(io::ErrorKind::StorageFull.into())
        });
        assert!(matches!(torn, Err(NotReplaced::Write(_))), "{torn:?}");
        assert_eq!(std::fs::read(&path).expect("there"), b"two");
        assert_eq!(Disk.list(folder.path()).expect("listed"), ["a"]);
        let gone = folder.path().join("no/a");
        let lost = replace(&Disk, &gone, &unfinished, |path| Disk::write_new(path, b"x"));
        assert!(matches!(lost, Err(NotReplaced::Rename(_))), "{lost:?}");
        assert_eq!(Disk.list(folder.path()).expect("listed"), ["a"]);
    }
}
