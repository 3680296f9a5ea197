//! Files of the log: their space is reserved at creation, and they are written and read at any
//! offset. Operations on names and folders are in [`Folders`]. Nothing here retries.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use rustix::fs::{FallocateFlags, fallocate, fdatasync};

use super::disk::{Disk, Folders};

/// A file system with such files.
pub trait LogFiles: Folders {
    /// Creates `path` with `bytes` zeros; the space is reserved if the file system can. Replaces a
    /// file or a link with that name; a link is not followed.
    fn create(&self, path: &Path, bytes: u64) -> io::Result<Box<dyn LogFile>>;

    /// Opens an existing file; a link to a file is an error.
    fn open(&self, path: &Path) -> io::Result<Box<dyn LogFile>>;

    /// Makes a hard link `to` for the file `from`.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;
}

/// An open file.
pub trait LogFile: Send + Sync {
    /// Its length in bytes.
    fn size(&self) -> io::Result<u64>;
    /// Reads at `offset`; may read fewer bytes than requested; 0 is the end.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes at `offset`; may write fewer bytes than given.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;
    /// Makes written data durable.
    fn sync_data(&self) -> io::Result<()>;
    /// Returns the space behind `offset` to the file system; the length stays.
    fn release(&self, offset: u64) -> io::Result<()>;
    /// Whether `path` leads to this file: not if the file or a parent folder was removed or moved.
    fn is_at(&self, path: &Path) -> bool;
}

impl LogFiles for Disk {
    fn create(&self, path: &Path, bytes: u64) -> io::Result<Box<dyn LogFile>> {
        let file = Self::make(path)?;
        match fallocate(&file, FallocateFlags::empty(), 0, bytes) {
            Ok(()) => {}
            // Some file systems cannot reserve space; then only the length is set.
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => file.set_len(bytes)?,
            Err(error) => return Err(error.into()),
        }
        Ok(Box::new(OpenLogFile(file)))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn LogFile>> {
        Ok(Box::new(OpenLogFile(Self::open_to_write(path)?)))
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::hard_link(from, to)
    }
}

struct OpenLogFile(File);

impl LogFile for OpenLogFile {
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

    fn is_at(&self, path: &Path) -> bool {
        let place = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
        match std::fs::metadata(path) {
            Ok(there) => self.0.metadata().is_ok_and(|this| place(this) == place(there)),
            // An error that leaves the question open counts as true.
            Err(error) => !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory),
        }
    }
}

/// Creates a file with these bytes, synced.
pub fn write_new(disk: &dyn LogFiles, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let file = disk.create(path, bytes.len() as u64)?;
    write_all(file.as_ref(), bytes, 0).map_err(|(_, error)| error)?;
    file.sync_data()
}

/// All bytes of a file.
pub fn read_all(file: &dyn LogFile) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; file.size()? as usize];
    let read = read_up_to(file, &mut bytes, 0)?;
    bytes.truncate(read);
    Ok(bytes)
}

/// Fills `buffer` from `offset`, as far as the file goes. Returns the number of bytes read.
pub fn read_up_to(file: &dyn LogFile, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Writes all of `bytes`. An error includes how many of them may have reached the file.
pub fn write_all(file: &dyn LogFile, bytes: &[u8], offset: u64) -> Result<(), (usize, io::Error)> {
    let mut done = 0;
    while done < bytes.len() {
        match file.write_at(&bytes[done..], offset + done as u64) {
            Ok(0) => return Err((done, ErrorKind::WriteZero.into())),
            Ok(written) => done += written.min(bytes.len() - done),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err((done, error)),
        }
    }
    Ok(())
}
