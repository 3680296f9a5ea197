//! The file layer of the embedded store: every file operation goes through [`Files`].
//!
//! It is this narrow so that a test can stand a failing or forgetful disk in its place. Paths
//! are whole paths. No operation is repeated here: a failed one is the caller's to give up.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A place where files are.
pub trait Files: Send + Sync {
    /// Makes the folder, and those above it, if absent; durable.
    fn create_dir(&self, dir: &Path) -> io::Result<()>;

    /// Names of the files in a folder, in any order.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;

    /// A new empty file for writing; one of the same name is emptied.
    fn create(&self, path: &Path) -> io::Result<Box<dyn NewFile>>;

    /// A file for reading.
    fn open(&self, path: &Path) -> io::Result<Box<dyn OpenFile>>;

    /// Renames a file, replacing one of the new name. Durable after [`Files::sync_dir`].
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in a folder durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
}

/// A file being written.
pub trait NewFile: Send {
    /// Appends all of `bytes`. After an error the content is unknown.
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Makes what was written durable. After an error the file must be given up.
    fn sync(&mut self) -> io::Result<()>;
}

/// A file being read.
pub trait OpenFile: Send + Sync {
    /// Its length in bytes.
    fn size(&self) -> io::Result<u64>;

    /// Fills `buffer` from `offset`; a shorter file is an error.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
}

/// The operating system's files.
#[derive(Debug, Clone, Copy)]
pub struct Disk;

impl Files for Disk {
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
            // A name that is not UTF-8 is none of ours.
            if let Ok(name) = entry.file_name().into_string()
                && entry.file_type()?.is_file()
            {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn NewFile>> {
        Ok(Box::new(File::create(path)?))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn OpenFile>> {
        Ok(Box::new(File::open(path)?))
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

impl NewFile for File {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        Write::write_all(self, bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

impl OpenFile for File {
    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        FileExt::read_exact_at(self, buffer, offset)
    }
}
