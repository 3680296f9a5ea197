//! Reads the log at start, and distinguishes its end, a torn tail and damage.
//!
//! A bad record before the sealed end of the newest segment, or anywhere in an older one, is
//! damage: acknowledged data would be missing, so reading stops with an error that names file and
//! offset. Behind the sealed end a bad record is a torn tail, which no seal has acknowledged as
//! durable: it is zeroed with a warning. Valid records there are written again and synced: they may
//! have been in the page cache only, and later records rely on them. Sequences must continue from
//! segment to segment, except for skipped records, and the newest segment in the checkpoint must
//! exist, so that no segment can be missing or cut short.

use std::path::Path;

use tracing::warn;

use super::checkpoint;
use super::record::{Entry, HEADER_LEN, Record};
use super::segment::{self, Closed, Reader, UNFINISHED};
use promkairos_storage::StoreError;
use promkairos_storage::log_files::LogFiles;

/// Called with each record of the log that is read.
pub type Visit<'v> = dyn FnMut(&Entry<'_>) -> Result<(), StoreError> + 'v;

/// What was found in the log.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The segments with the last sequence in each.
    pub(super) segments: Vec<(u64, Closed)>,
    /// The last sequence in the log; without a segment, the last skipped sequence.
    pub(super) last: u64,
    /// First sequence of the newest segment; 0 = there is none.
    pub(super) newest: u64,
    /// Key of the checksums, if there is a segment.
    pub(super) key: Option<u64>,
    /// The latest acceptance time in the records read.
    pub(super) accepted: i64,
}

/// Reads all records after `after` in order, and repairs a torn tail. `known` is the newest segment
/// that must exist; 0 = none.
pub(super) fn replay(
    disk: &dyn LogFiles,
    dir: &Path,
    after: u64,
    known: u64,
    visit: &mut Visit<'_>,
) -> Result<Found, StoreError> {
    remove_unfinished(disk, dir)?;
    let listed = segment::list(disk, dir)?;
    if known > 0 && !listed.iter().any(|(first, _)| *first == known) {
        let what = format!("the segment is missing, with the records from {known} on");
        return Err(StoreError::corrupt(dir.join(segment::name(known)), 0, what));
    }
    let (mut found, mut empty) = (Found { last: after, ..Found::default() }, Vec::new());
    for (number, (first, path)) in listed.iter().enumerate() {
        let mut reader = Reader::open(disk, path)?;
        check_header(&reader, *first)?;
        if number == 0 && reader.header.previous > after {
            let (from, to) = (after + 1, reader.header.previous);
            let what = format!("the log begins too late: records {from} to {to} are missing");
            return Err(reader.corrupt(0, what));
        }
        // Segments whose records are all in the store below are removed without a sync: a power cut
        // may bring some of them back.
        let is_forgotten = (found.last..=after).contains(&reader.header.previous);
        if number > 0 && reader.header.previous != found.last && !is_forgotten {
            // Reported for the older segment, which should have gone on.
            let what = format!("records up to {} are missing", reader.header.previous);
            let older = found.segments.last().map(|(_, older)| (older.path.clone(), older.end));
            let (path, offset) = older.unwrap_or_else(|| (path.clone(), 0));
            return Err(StoreError::corrupt(path, offset, what));
        }
        let newest = number + 1 == listed.len();
        found.last = reader.header.previous;
        let Scanned { end, sealed } = scan(&mut reader, newest, &mut |entry| {
            found.last = entry.sequence;
            found.accepted = found.accepted.max(entry.accepted);
            if entry.sequence > after { visit(entry) } else { Ok(()) }
        })?;
        found.key = Some(reader.header.key);
        if found.last < reader.header.first {
            if *first == known {
                let what = "its first record, which was durable, is missing";
                return Err(reader.corrupt(HEADER_LEN as u64, what));
            }
            // No record came before the end: another segment may get the same name. Several segments may be empty,
            // since a failing disk may not remove one while others are created.
            empty.push(path);
            continue;
        }
        if newest && sealed < end {
            segment::harden(&mut reader, sealed, end)?;
        }
        // A crash leaves the reserved space allocated; a failure to release it does no harm.
        let _ = reader.file.release(end);
        found.newest = *first;
        found.segments.push((found.last, Closed { path: path.clone(), end }));
    }
    // Only after all of the log was read: later segments continue the sequence without them.
    for path in empty {
        disk.remove(path).map_err(|source| StoreError::io(path, source))?;
    }
    Ok(found)
}

/// Removes files that a crash left unfinished.
fn remove_unfinished(disk: &dyn LogFiles, dir: &Path) -> Result<(), StoreError> {
    for file in disk.list(dir).map_err(|source| StoreError::io(dir, source))? {
        if file.ends_with(UNFINISHED) || file == checkpoint::UNFINISHED {
            let path = dir.join(file);
            disk.remove(&path).map_err(|source| StoreError::io(&path, source))?;
        }
    }
    Ok(())
}

pub(super) fn check_header(reader: &Reader, first: u64) -> Result<(), StoreError> {
    if reader.header.first != first {
        return Err(reader.corrupt(12, "the file's name is not that of its first record"));
    }
    if reader.size < reader.header.bytes {
        let what = format!("the file is shorter than the {} bytes it had", reader.header.bytes);
        return Err(reader.corrupt(reader.size, what));
    }
    Ok(())
}

/// Where the records of a segment end.
struct Scanned {
    /// Offset behind the last record.
    end: u64,
    /// Everything before is durable.
    sealed: u64,
}

/// Visits the records of one segment, without seals.
fn scan(reader: &mut Reader, newest: bool, visit: &mut Visit<'_>) -> Result<Scanned, StoreError> {
    let mut offset = HEADER_LEN as u64;
    let mut sealed = offset;
    let mut last = reader.header.first.saturating_sub(1);
    let what = loop {
        let (entry, next) = match reader.record_after(last, offset)? {
            Ok(found) => found,
            Err(what) => break what,
        };
        if let Record::Seal(through) = entry.record {
            sealed = through;
        } else {
            last = entry.sequence;
            visit(&entry)?;
        }
        offset = next;
    };
    let litter = reader.last_nonzero(offset)?;
    if litter == offset {
        return Ok(Scanned { end: offset, sealed });
    }
    if !newest {
        return Err(reader.corrupt(offset, what));
    }
    if let Some(seal) = reader.find_seal(offset)? {
        let what = format!("{what}; the seal at byte {seal} says that it was durable");
        return Err(reader.corrupt(offset, what));
    }
    warn!(
        file = %reader.path.display(), offset, bytes = litter - offset,
        "the log ends in a torn record, which no seal says to have been acknowledged; it is cut off"
    );
    let wiped = segment::wipe(reader.file.as_ref(), offset, litter);
    wiped.map_err(|error| error.at(&reader.path))?;
    Ok(Scanned { end: offset, sealed })
}
