//! File I/O for the part files of the embedded store: each is written once from beginning to end,
//! then read at any offset. Names and folders are for [`Folders`].

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use promkairos_storage::disk::{Disk, Folders};

/// A file layer with part files.
pub trait Files: Folders {
    /// Creates an empty file for writing. Replaces an existing file or link of that name; does not follow a link.
    fn create(&self, path: &Path) -> io::Result<Box<dyn NewFile>>;

    /// A file for reading.
    fn open(&self, path: &Path) -> io::Result<Box<dyn OpenFile>>;
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

impl Files for Disk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn NewFile>> {
        Ok(Box::new(Self::make(path)?))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn OpenFile>> {
        Ok(Box::new(File::open(path)?))
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
