//! Files of a log in memory: written data can be read, and operations fail only where the operating
//! system fails as well.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use promkairos::storage::disk::Folders;
use promkairos::storage::log_files::{LogFile, LogFiles};

/// Clones are handles of the same files.
#[derive(Clone, Default)]
pub(super) struct MemoryDisk(Arc<Mutex<BTreeMap<PathBuf, File>>>);

type Content = Mutex<Vec<u8>>;

#[derive(Clone, Default)]
struct File(Arc<Content>);

impl MemoryDisk {
    /// Creates a file with content.
    pub(super) fn put(&self, path: PathBuf, bytes: Vec<u8>) {
        self.files().insert(path, File(Arc::new(Mutex::new(bytes))));
    }

    fn files(&self) -> MutexGuard<'_, BTreeMap<PathBuf, File>> {
        self.0.lock().expect("nobody panics while it holds this")
    }

    fn found(&self, path: &Path) -> io::Result<File> {
        self.files().get(path).cloned().ok_or(io::ErrorKind::NotFound.into())
    }
}

impl Folders for MemoryDisk {
    fn create_dir(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let files = self.files();
        let inside = files.keys().filter(|path| path.parent() == Some(dir));
        Ok(inside.filter_map(|path| path.file_name()?.to_str().map(str::to_owned)).collect())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let file = self.found(from)?;
        self.files().remove(from);
        self.files().insert(to.to_owned(), file);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.files().remove(path).map(drop).ok_or(io::ErrorKind::NotFound.into())
    }

    fn sync_dir(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
    }
}

impl LogFiles for MemoryDisk {
    fn create(&self, path: &Path, bytes: u64) -> io::Result<Box<dyn LogFile>> {
        self.put(path.to_owned(), vec![0; bytes as usize]);
        self.open(path)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn LogFile>> {
        Ok(Box::new(self.found(path)?))
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let file = self.found(from)?;
        self.files().insert(to.to_owned(), file);
        Ok(())
    }
}

impl File {
    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().expect("nobody panics while it holds this")
    }
}

impl LogFile for File {
    fn is_at(&self, _path: &Path) -> bool {
        true
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.bytes().len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let bytes = self.bytes();
        let from = bytes.get(offset as usize..).unwrap_or_default();
        let count = from.len().min(buffer.len());
        buffer[..count].copy_from_slice(&from[..count]);
        Ok(count)
    }

    fn write_at(&self, new: &[u8], offset: u64) -> io::Result<usize> {
        let (mut bytes, end) = (self.bytes(), offset as usize + new.len());
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[offset as usize..end].copy_from_slice(new);
        Ok(new.len())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn release(&self, offset: u64) -> io::Result<()> {
        let mut bytes = self.bytes();
        let from = (offset as usize).min(bytes.len());
        bytes[from..].fill(0);
        Ok(())
    }
}
