//! The mark of a log: a file beside its folder that says the log has acknowledged records. Without
//! a mark, a folder that was removed or emptied looks like a log that never existed.
//!
//! The mark is written once, durably, before the first acknowledgement, and only when the log has a checkpoint, which
//! exists as long as the log. So a log is gone if there is a mark and neither a checkpoint nor a segment. Logs of
//! version 0.1 have no mark until they are written to. The text of the mark is for people; only its existence counts.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::checkpoint;
use super::segment::{self, AppendError, explain, io_error};
use promkairos_storage::StoreError;
use promkairos_storage::disk::{NotReplaced, folder_of, replace};
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
    let folder = folder_of(&mark);
    match disk.list(folder) {
        Ok(files) => Ok(files.iter().any(|file| mark.ends_with(file))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(source) => Err(io_error(folder, source)),
    }
}

/// Whether the log in `dir` is gone though it has acknowledged records.
pub fn is_gone(dir: &Path, disk: &dyn LogFiles) -> Result<bool, StoreError> {
    if !is_there(disk, dir)? {
        return Ok(false);
    }
    match disk.list(dir) {
        Ok(files) => Ok(!files.iter().any(|file| is_of_log(file))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
        Err(source) => Err(io_error(dir, source)),
    }
}

/// Fails if the log in `dir` is gone though it has acknowledged records.
pub fn check_there(dir: &Path, disk: &dyn LogFiles) -> Result<(), StoreError> {
    if !is_gone(dir, disk)? {
        return Ok(());
    }
    let what = "the log is gone, and with it what was acknowledged and not flushed yet";
    Err(io_error(dir, io::Error::new(ErrorKind::NotFound, what)))
}

/// Removes the mark of a log, durably: the next log in `dir` is new.
pub fn forget_mark(dir: &Path, disk: &dyn LogFiles) -> Result<(), StoreError> {
    let mark = mark_of(dir);
    let removed = disk.remove(&mark).and_then(|()| disk.sync_dir(folder_of(&mark)));
    removed.map_err(|source| io_error(&mark, source))
}

/// Writes the mark of the log in `dir`, durably.
pub(super) fn write(disk: &dyn LogFiles, dir: &Path) -> Result<(), AppendError> {
    let (mark, unfinished) = (mark_of(dir), dir.with_extension("begun.new"));
    let explain = |error: &io::Error| explain(error, &mark.display().to_string());
    let write = |path: &Path| write_new(disk, path, TEXT);
    replace(disk, &mark, &unfinished, write).map_err(|error| match error {
        NotReplaced::Write(error) | NotReplaced::Rename(error) => {
            AppendError::Write(explain(&error))
        }
        NotReplaced::Sync(error) => AppendError::Sync(explain(&error)),
    })
}

fn is_of_log(file: &str) -> bool {
    file == checkpoint::NAME || file.ends_with(segment::SUFFIX)
}
