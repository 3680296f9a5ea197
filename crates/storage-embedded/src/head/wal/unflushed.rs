//! Checks whether a log has acknowledged records that are not in the store below, for callers that
//! do not serve it. It only reads and repairs nothing. A log that another process has open cannot
//! be checked: that process serves or repairs it.

use std::path::Path;

use super::checkpoint;
use super::folder::is_new;
use super::record::{Entry, HEADER_LEN, Record};
use super::segment::{self, Reader};
use promkairos_storage::log_files::LogFiles;
use promkairos_storage::{FolderLock, NotLocked, StoreError};

/// What [`unflushed`] says of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unflushed {
    /// All its records are in the store below, or there are none.
    Nothing,
    /// It has a record that is not.
    Something,
    /// Another process has it open.
    InUse,
}

/// Whether the log in `dir` has a record that is not in the store below.
/// Fails if a file is damaged or the folder cannot be read.
pub fn unflushed(dir: &Path, disk: &dyn LogFiles) -> Result<Unflushed, StoreError> {
    if is_new(dir, disk)? {
        return Ok(Unflushed::Nothing);
    }
    let _lock = match FolderLock::acquire_to_look(dir) {
        Ok(lock) => lock,
        Err(NotLocked::InUse) => return Ok(Unflushed::InUse),
        Err(NotLocked::Failed(path, source)) => return Err(StoreError::io(&path, source)),
    };
    let through = checkpoint::read(disk, dir)?.unwrap_or_default().through;
    let is_unflushed = |entry: &Entry<'_>| {
        !matches!(entry.record, Record::Seal(_) | Record::Gap) && entry.sequence > through
    };
    for (_, path) in segment::list(disk, dir)? {
        let mut reader = Reader::open(disk, &path)?;
        let mut offset = HEADER_LEN as u64;
        // Up to a torn end, or damage with sound records behind it.
        while let Ok((entry, next)) = reader.record(offset)? {
            if is_unflushed(&entry) {
                return Ok(Unflushed::Something);
            }
            offset = next;
        }
        let has_more = reader.last_nonzero(offset)? > offset;
        if has_more && reader.find(offset, is_unflushed)?.is_some() {
            return Ok(Unflushed::Something);
        }
    }
    Ok(Unflushed::Nothing)
}
