//! The file layer of the log: every write to its files goes through [`Disk`].
//!
//! There are two implementations: [`RealDisk`] here, and in the tests one around it that fails on
//! purpose and keeps a trace. Nothing here retries or decides.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{FallocateFlags, fallocate, fdatasync};

/// Operations on files and folders.
pub trait Disk: Send + Sync {
    /// Makes a folder and those above it.
    fn create_dir(&self, dir: &Path) -> io::Result<()>;
    /// Creates `path` with `bytes` zeros, the space reserved where the file system can. An old
    /// file of that name is replaced.
    fn create(&self, path: &Path, bytes: u64) -> io::Result<Box<dyn DiskFile>>;
    /// Opens an existing file.
    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// Puts `from` in the place of `to`.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Gives the file `from` a second name.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes the names in a folder durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Names of the entries of a folder, sorted; names that are not UTF-8 are left out.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
}

/// An open file.
pub trait DiskFile: Send + Sync {
    /// Its length in bytes.
    fn size(&self) -> io::Result<u64>;
    /// Reads at `offset`; fewer bytes than asked for are possible, 0 is the end.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes at `offset`; fewer bytes than given are possible.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;
    /// Makes what was written durable.
    fn sync_data(&self) -> io::Result<()>;
    /// Gives the space behind `offset` back to the file system and keeps the length.
    fn release(&self, offset: u64) -> io::Result<()>;
}

/// The file system.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
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

    fn create(&self, path: &Path, bytes: u64) -> io::Result<Box<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(true).open(path)?;
        match fallocate(&file, FallocateFlags::empty(), 0, bytes) {
            Ok(()) => {}
            // Not every file system can reserve space; the length alone is then what we get.
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => file.set_len(bytes)?,
            Err(error) => return Err(error.into()),
        }
        Ok(Box::new(RealFile(file)))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        Ok(Box::new(RealFile(file)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::hard_link(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(dir)? {
            names.extend(entry?.file_name().into_string());
        }
        names.sort();
        Ok(names)
    }
}

struct RealFile(File);

impl DiskFile for RealFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.0.write_at(bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(fdatasync(&self.0)?)
    }

    fn release(&self, offset: u64) -> io::Result<()> {
        let length = self.size()?.saturating_sub(offset);
        if length == 0 {
            return Ok(());
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(fallocate(&self.0, flags, offset, length)?)
    }
}

/// Writes all of `bytes`. On failure says how many of them may have reached the file.
pub(super) fn write_all(
    file: &dyn DiskFile,
    bytes: &[u8],
    offset: u64,
) -> Result<(), (usize, io::Error)> {
    let mut done = 0;
    while done < bytes.len() {
        match file.write_at(&bytes[done..], offset + done as u64) {
            Ok(0) => return Err((done, io::ErrorKind::WriteZero.into())),
            Ok(written) => done += written.min(bytes.len() - done),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err((done, error)),
        }
    }
    Ok(())
}
