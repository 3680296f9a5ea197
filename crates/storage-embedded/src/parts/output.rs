//! A part file being written: bytes are buffered, and written and synced in pieces.
//!
//! The file has a temporary name until [`Output::publish`]; an output that is dropped before
//! removes its file. What the bytes mean is defined in [`writer`](super::writer).

use std::path::PathBuf;
use std::sync::Arc;

use promkairos_storage::StoreError;
use promkairos_storage::codec::pack;

use super::block_ref::BlockRef;
use super::files::{Files, NewFile};
use super::names;

/// Size of the write buffer, in bytes.
const WRITE_BUFFER: usize = 1 << 20;
/// Bytes between two syncs. A large part reaches the disk in pieces, so that a sync of the log
/// never waits for the whole part. The time of each piece counts as work of the writer.
const SYNC_BYTES: u64 = 8 << 20;

/// The output file. It is opened late, so that many small parts need no descriptors.
pub(super) struct Output {
    files: Arc<dyn Files>,
    dir: PathBuf,
    name: String,
    file: Option<Box<dyn NewFile>>,
    created: bool,
    buffer: Vec<u8>,
    written: u64,
    /// Written bytes that are durable.
    synced: u64,
}

impl Output {
    /// A file that begins with `head`. It is created when its first bytes are written.
    pub(super) fn new(files: Arc<dyn Files>, dir: PathBuf, name: String, head: &[u8]) -> Self {
        let (file, created) = (None, false);
        let (buffer, written, synced) = (head.to_vec(), 0, 0);
        Self { files, dir, name, file, created, buffer, written, synced }
    }

    /// The write buffer, to append to. Call [`Self::write_when_full`] afterwards.
    pub(super) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// Approximate size in memory, in bytes.
    pub(super) fn memory(&self) -> usize {
        size_of::<Self>() + self.buffer.capacity()
    }

    /// Gives the file its name, after [`Self::finish`]. The folder is not synced yet.
    pub(super) fn publish(mut self) -> Result<(), StoreError> {
        let to = self.dir.join(&self.name);
        let renamed = self.files.rename(&self.path(), &to);
        renamed.map_err(|source| StoreError::io(&to, source))?;
        self.created = false;
        Ok(())
    }

    fn path(&self) -> PathBuf {
        self.dir.join(names::temporary(&self.name))
    }

    /// Offset of the next byte.
    pub(super) fn position(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Appends bytes.
    pub(super) fn put(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.buffer.extend_from_slice(bytes);
        self.write_when_full()
    }

    /// Packs and appends a block; `raw` is empty afterwards.
    pub(super) fn put_block(&mut self, raw: &mut Vec<u8>) -> Result<BlockRef, StoreError> {
        let (offset, packed) = (self.position(), pack(raw));
        raw.clear();
        self.put(&packed)?;
        Ok(BlockRef { offset, len: packed.len() as u32 })
    }

    /// Writes the buffer if it is full.
    pub(super) fn write_when_full(&mut self) -> Result<(), StoreError> {
        if self.buffer.len() < WRITE_BUFFER {
            return Ok(());
        }
        let written = self.write().and_then(|()| match self.written - self.synced {
            SYNC_BYTES.. => self.sync(),
            _ => Ok(()),
        });
        written.map_err(|source| StoreError::io(&self.path(), source))
    }

    fn write(&mut self) -> std::io::Result<()> {
        if self.file.is_none() {
            let file = self.files.create(&self.path());
            // A failed attempt may leave the file behind too.
            self.created = true;
            self.file = Some(file?);
        }
        if let Some(file) = &mut self.file {
            file.write_all(&self.buffer)?;
        }
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Writes the rest, and makes all of it durable.
    pub(super) fn finish(&mut self) -> Result<(), StoreError> {
        let written = self.write().and_then(|()| self.sync());
        self.file = None;
        written.map_err(|source| StoreError::io(&self.path(), source))
    }

    fn sync(&mut self) -> std::io::Result<()> {
        if let Some(file) = &mut self.file {
            file.sync()?;
        }
        self.synced = self.written;
        Ok(())
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if self.created
            && let Err(error) = self.files.remove(&self.path())
        {
            // The next start removes what the manifest does not list.
            tracing::debug!(path = %self.path().display(), %error, "temporary file stays");
        }
    }
}
