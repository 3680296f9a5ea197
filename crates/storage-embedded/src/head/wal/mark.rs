//! The mark of a log: a file beside its folder that says the log has acknowledged records. Without
//! a mark, a folder that was removed or emptied looks like a log that never existed.
//!
//! The mark is written once, durably, before the first acknowledgement, and only when the log has a checkpoint, which
//! exists as long as the log. So a log is gone if there is a mark and neither a checkpoint nor a segment. Logs of
//! version 0.1 have no mark until they are written to. The text of the mark is for people; only its existence counts.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::checkpoint;
use super::folder::list;
use super::segment::{self, AppendError};
use promkairos_storage::StoreError;
use promkairos_storage::disk::{folder_of, replace};
use promkairos_storage::log_files::{LogFiles, write_new};

const TEXT: &[u8] =
    b"The folder wal beside this file is the log of promkairos, and has acknowledged samples.\n\
                      Where it is gone: promkairos wal repair\n";

/// Whether a log gets a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// Beside its folder.
    Beside,
    /// No mark.
    None,
}

fn mark_of(dir: &Path) -> PathBuf {
    dir.with_extension("begun")
}

/// Whether the log in `dir` has a mark.
pub(super) fn is_there(disk: &dyn LogFiles, dir: &Path) -> Result<bool, StoreError> {
    let mark = mark_of(dir);
    Ok(list(folder_of(&mark), disk)?.iter().any(|file| mark.ends_with(file)))
}

/// Whether the log in `dir` is gone though it has acknowledged records.
pub fn is_gone(dir: &Path, disk: &dyn LogFiles) -> Result<bool, StoreError> {
    let is_of_log = |file: &String| file == checkpoint::NAME || file.ends_with(segment::SUFFIX);
    Ok(is_there(disk, dir)? && !list(dir, disk)?.iter().any(is_of_log))
}

/// Fails if the log in `dir` is gone though it has acknowledged records.
pub fn check_there(dir: &Path, disk: &dyn LogFiles) -> Result<(), StoreError> {
    if !is_gone(dir, disk)? {
        return Ok(());
    }
    let what = "the log is gone, and with it what was acknowledged and not flushed yet";
    Err(StoreError::io(dir, io::Error::new(ErrorKind::NotFound, what)))
}

/// Removes the mark of a log, durably: the next log in `dir` is new.
pub fn forget_mark(dir: &Path, disk: &dyn LogFiles) -> Result<(), StoreError> {
    let mark = mark_of(dir);
    let removed = disk.remove(&mark).and_then(|()| disk.sync_dir(folder_of(&mark)));
    removed.map_err(|source| StoreError::io(&mark, source))
}

/// Writes the mark of the log in `dir`, durably.
pub(super) fn write(disk: &dyn LogFiles, dir: &Path) -> Result<(), AppendError> {
    let (mark, unfinished) = (mark_of(dir), dir.with_extension("begun.new"));
    let write = |path: &Path| write_new(disk, path, TEXT);
    let replaced = replace(disk, &mark, &unfinished, write);
    replaced.map_err(|error| AppendError::not_replaced(error, &mark))
}
