//! Folders: what the log and the part files do with the names of their files.
//!
//! Every operation on a file goes through these traits: [`Folders`] here, and with it
//! [`Files`](super::embedded::Files) for part files or [`LogFiles`](super::head::wal::files::LogFiles)
//! for the log. They are this narrow so that a test can stand a failing or forgetful disk in their
//! place. Paths are whole paths. No operation is repeated here: a failed one is the caller's to give
//! up.

use std::fs::File;
use std::io;
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
