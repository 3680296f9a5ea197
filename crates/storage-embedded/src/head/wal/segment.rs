//! One segment file of the log: creates it, appends to it, reads it.
//!
//! A segment is complete (header, full length, durable name) before it is used, and never gets
//! shorter: a shorter file is damaged. Behind the last record there are only zeros; what a failed
//! write left is zeroed and synced before the next append.

use std::io;
use std::path::{Path, PathBuf};

use tracing::warn;

use super::record::{
    self, Entry, FRAME_LEN, HEADER_LEN, Header, KEY_AT, NO_RECORD, Record, SEAL_LEN,
};
use promkairos_model::ShownSize;
use promkairos_storage::StoreError;
use promkairos_storage::disk::NotReplaced;
use promkairos_storage::log_files::{LogFile, LogFiles, read_up_to, write_all};

pub(super) const SUFFIX: &str = ".wal";
/// Suffix of a segment that is being created; leftovers are removed at start.
pub(super) const UNFINISHED: &str = ".wal.new";
/// Bytes read at once.
const WINDOW: usize = 1 << 20;
/// A block of zeros. Most of a segment is zeros, and a comparison of blocks is much faster than of bytes.
const ZEROS: &[u8] = &[0; 4096];

/// Fewest bytes that a segment reserves, even if the disk is nearly full.
const LEAST_BYTES: u64 = 1 << 20;

/// Why an append failed.
#[derive(Debug)]
pub(super) enum AppendError {
    /// Nothing was acknowledged; a later attempt may succeed.
    Write(io::Error),
    /// A sync failed: what is on disk is unknown from now on.
    Sync(io::Error),
}

impl AppendError {
    /// The error for the store.
    pub(super) fn at(self, path: &Path) -> StoreError {
        match self {
            Self::Write(error) | Self::Sync(error) => StoreError::io(path, error),
        }
    }

    /// The error of a file at `path` that was not replaced.
    pub(super) fn not_replaced(error: NotReplaced, path: &Path) -> Self {
        let explain = |error| explain(&error, &path.display().to_string());
        match error {
            NotReplaced::Write(error) | NotReplaced::Rename(error) => Self::Write(explain(error)),
            NotReplaced::Sync(error) => Self::Sync(explain(error)),
        }
    }
}

/// A segment that takes appends.
pub(super) struct Segment {
    pub(super) path: PathBuf,
    file: Box<dyn LogFile>,
    header: Header,
    /// Where the next record goes.
    pub(super) end: u64,
    /// Bytes of a failed write may lie up to here.
    littered: u64,
}

/// The file name of the segment whose first sequence is `first`.
pub(super) fn name(first: u64) -> String {
    format!("{first:020}{SUFFIX}")
}

/// The segments in `dir` by their first sequence.
pub(super) fn list(disk: &dyn LogFiles, dir: &Path) -> Result<Vec<(u64, PathBuf)>, StoreError> {
    let names = disk.list(dir).map_err(|source| StoreError::io(dir, source))?;
    let parsed = names.iter().filter_map(|file| {
        let first = file.strip_suffix(SUFFIX)?.parse().ok()?;
        Some((first, dir.join(file)))
    });
    Ok(parsed.collect())
}

impl Segment {
    /// Creates a segment file under its final name, durably. If there is no room for all bytes it
    /// reserves less, by halves, but never less than `needed`.
    pub(super) fn create(
        disk: &dyn LogFiles,
        dir: &Path,
        header: Header,
        needed: u64,
    ) -> Result<Self, AppendError> {
        let least = needed.max(LEAST_BYTES.min(header.bytes));
        let mut bytes = header.bytes;
        loop {
            match Self::create_whole(disk, dir, Header { bytes, ..header }) {
                Err(AppendError::Write(error)) if is_full(&error) && bytes > least => {
                    bytes = (bytes / 2).max(least);
                }
                Err(AppendError::Write(error)) => {
                    let size = ShownSize::of(bytes);
                    let what = format!("no segment of {size} in {}", dir.display());
                    return Err(AppendError::Write(explain(&error, &what)));
                }
                result => return result,
            }
        }
    }

    fn create_whole(disk: &dyn LogFiles, dir: &Path, header: Header) -> Result<Self, AppendError> {
        let file = Self::put_whole(disk, dir, header, &[])?;
        let end = HEADER_LEN as u64;
        Ok(Self { path: dir.join(name(header.first)), file, header, end, littered: end })
    }

    /// Creates the file of a segment with these records under its final name, durably; replaces an existing file.
    fn put_whole(
        disk: &dyn LogFiles,
        dir: &Path,
        header: Header,
        records: &[u8],
    ) -> Result<Box<dyn LogFile>, AppendError> {
        let path = dir.join(name(header.first));
        let unfinished = path.with_extension(&UNFINISHED[1..]);
        let make = || {
            let file = disk.create(&unfinished, header.bytes)?;
            let bytes = [&header.encode()[..], records].concat();
            write_all(file.as_ref(), &bytes, 0).map_err(|(_, error)| error)?;
            Ok(file)
        };
        let file = make().map_err(|error: io::Error| {
            // The leftover is useless and may hold the last free space.
            let _ = disk.remove(&unfinished);
            AppendError::Write(error)
        })?;
        file.sync_data().map_err(AppendError::Sync)?;
        disk.rename(&unfinished, &path).map_err(AppendError::Write)?;
        disk.sync_dir(dir).map_err(AppendError::Sync)?;
        Ok(file)
    }

    /// Whether `bytes` and a seal fit behind the last record.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.end + bytes as u64 + SEAL_LEN as u64 <= self.header.bytes
    }

    /// Writes records and syncs them. After a failed write the file is restored, at the latest
    /// before the next append.
    pub(super) fn append(&mut self, records: &[u8]) -> Result<(), AppendError> {
        self.clean()?;
        if let Err((written, error)) = write_all(self.file.as_ref(), records, self.end) {
            self.littered = self.end + written as u64;
            self.clean()?;
            let what = format!("{} bytes to {}", records.len(), self.path.display());
            return Err(AppendError::Write(explain(&error, &what)));
        }
        if let Err(error) = self.file.sync_data() {
            // The content is unknown now; if the disk still takes zeros, no trace of the records is left.
            let _ = wipe(self.file.as_ref(), self.end, self.end + records.len() as u64);
            return Err(AppendError::Sync(error));
        }
        if !self.file.is_at(&self.path) {
            // The records are gone when the last process closes the file.
            let what = format!("{} was removed or moved away", self.path.display());
            return Err(AppendError::Sync(io::Error::new(io::ErrorKind::NotFound, what)));
        }
        self.end += records.len() as u64;
        self.littered = self.end;
        Ok(())
    }

    /// Checks that `bytes` fit behind the last record by writing zeros there: not every file system
    /// has reserved them.
    pub(super) fn try_room(&mut self, bytes: usize) -> Result<(), AppendError> {
        wipe(self.file.as_ref(), self.end, self.end + bytes as u64)
    }

    /// Removes its records, durably. None of them was acknowledged.
    pub(super) fn take_back(&mut self) -> Result<(), AppendError> {
        (self.littered, self.end) = (self.end, HEADER_LEN as u64);
        self.clean()
    }

    /// Replaces its records by a gap up to `sequence`, durably: a known segment must have a record.
    pub(super) fn void(
        &mut self,
        disk: &dyn LogFiles,
        dir: &Path,
        sequence: u64,
    ) -> Result<(), AppendError> {
        let mut gap = Vec::new();
        let entry = Entry { sequence, accepted: 0, record: Record::Gap };
        record::encode(&mut gap, self.header.key, &entry);
        if self.put_gap(&gap).is_ok() {
            return Ok(());
        }
        // Half a gap over a record would leave neither: a short file replaces this one.
        let end = (HEADER_LEN + gap.len()) as u64;
        let header = Header { bytes: end + SEAL_LEN as u64, ..self.header };
        let file = Self::put_whole(disk, dir, header, &gap)?;
        *self = Self { path: self.path.clone(), file, header, end, littered: end };
        Ok(())
    }

    /// Writes a gap over the first record, and zeros over what is behind it.
    fn put_gap(&mut self, gap: &[u8]) -> Result<(), AppendError> {
        let begin = HEADER_LEN as u64;
        write_all(self.file.as_ref(), gap, begin).map_err(|(_, e)| AppendError::Write(e))?;
        // No record is shorter than a gap.
        (self.littered, self.end) = (self.end, begin + gap.len() as u64);
        self.clean()
    }

    /// Records, without a sync, that everything so far is durable. A failure does no harm: the seal
    /// only distinguishes damage from a torn tail.
    pub(super) fn seal(&mut self, sequence: u64) {
        let mut seal = Vec::with_capacity(SEAL_LEN);
        let entry = Entry { sequence, accepted: 0, record: Record::Seal(self.end) };
        record::encode(&mut seal, self.header.key, &entry);
        match write_all(self.file.as_ref(), &seal, self.end) {
            Ok(()) => self.end += seal.len() as u64,
            Err((written, _)) => self.littered = self.end + written as u64,
        }
    }

    /// Syncs the last seal and releases the reserved space behind it; no append follows. Half a
    /// record must not stay: in an older segment it would count as damage.
    pub(super) fn finish(mut self) -> Result<Closed, AppendError> {
        self.clean()?;
        self.file.sync_data().map_err(AppendError::Sync)?;
        // Frees only space: the length stays, and nothing is lost if it fails.
        let _ = self.file.release(self.end);
        Ok(Closed { path: self.path, end: self.end })
    }

    /// Lowest possible sequence of its first record.
    pub(super) fn first(&self) -> u64 {
        self.header.first
    }

    fn clean(&mut self) -> Result<(), AppendError> {
        if self.littered <= self.end {
            return Ok(());
        }
        wipe(self.file.as_ref(), self.end, self.littered)?;
        self.littered = self.end;
        Ok(())
    }
}

/// Whether fewer bytes might still fit.
fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

fn explain(error: &io::Error, what: &str) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

/// A segment that takes no more appends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Closed {
    pub(super) path: PathBuf,
    pub(super) end: u64,
}

/// Zeroes a range of the file, durably.
pub(super) fn wipe(file: &dyn LogFile, from: u64, to: u64) -> Result<(), AppendError> {
    let zeros = vec![0; WINDOW.min((to - from) as usize)];
    let mut at = from;
    while at < to {
        let len = zeros.len().min((to - at) as usize);
        write_all(file, &zeros[..len], at).map_err(|(_, error)| AppendError::Write(error))?;
        at += len as u64;
    }
    file.sync_data().map_err(AppendError::Sync)
}

/// Makes a range of a file durable by writing it again. An earlier process may have left it in the
/// page cache only: written but not synced, or clean after a failed sync. If the file system needs
/// room for that and the disk is full, a warning is logged and the log is read all the same.
pub(super) fn harden(reader: &mut Reader, from: u64, to: u64) -> Result<(), StoreError> {
    let failed = |reader: &Reader, source| StoreError::io(&reader.path, source);
    let mut at = from;
    while at < to {
        let bytes = reader.bytes(at, WINDOW.min((to - at) as usize))?.to_vec();
        if bytes.is_empty() {
            return Err(reader.corrupt(at, "the file has become shorter"));
        }
        match write_all(reader.file.as_ref(), &bytes, at) {
            Err((_, error)) if is_full(&error) => {
                warn!(file = %reader.path.display(), "the end of the log is not known to be durable: {error}");
                return Ok(());
            }
            written => written.map_err(|(_, error)| failed(reader, error))?,
        }
        at += bytes.len() as u64;
    }
    reader.file.sync_data().map_err(|error| failed(reader, error))
}

/// A segment being read, through a window that moves forward.
pub(super) struct Reader {
    pub(super) path: PathBuf,
    pub(super) header: Header,
    pub(super) file: Box<dyn LogFile>,
    /// Length of the file in bytes.
    pub(super) size: u64,
    buffer: Vec<u8>,
    buffer_at: u64,
}

/// A record and the offset behind it, or why there is none.
type Found<'a> = Result<(Entry<'a>, u64), &'static str>;

impl Reader {
    /// Opens a segment and reads its header.
    pub(super) fn open(disk: &dyn LogFiles, path: &Path) -> Result<Self, StoreError> {
        let mut reader = Self::open_unread(disk, path)?;
        let decoded = Header::decode(reader.bytes(0, HEADER_LEN)?);
        reader.header = decoded.map_err(|what| reader.corrupt(0, what))?;
        Ok(reader)
    }

    /// Opens a segment with a damaged header. Its key is the first of `keys`, or else the key bytes
    /// of the file, with which a record can be read.
    pub(super) fn open_headless(
        disk: &dyn LogFiles,
        path: &Path,
        keys: &[u64],
    ) -> Result<Self, StoreError> {
        let mut reader = Self::open_unread(disk, path)?;
        reader.header.bytes = reader.size;
        let own = reader.bytes(KEY_AT, 8)?.try_into().map(u64::from_le_bytes).ok();
        for key in keys.iter().copied().chain(own) {
            reader.header.key = key;
            if reader.find(HEADER_LEN as u64, |_| true)?.is_some() {
                break;
            }
        }
        Ok(reader)
    }

    fn open_unread(disk: &dyn LogFiles, path: &Path) -> Result<Self, StoreError> {
        let file = disk.open(path).map_err(|source| StoreError::io(path, source))?;
        let size = file.size().map_err(|source| StoreError::io(path, source))?;
        let header = Header { first: 0, previous: 0, key: 0, bytes: 0 };
        let path = path.to_owned();
        Ok(Self { path, header, file, size, buffer: Vec::new(), buffer_at: 0 })
    }

    /// The error that names this file and an offset in it.
    pub(super) fn corrupt(&self, offset: u64, what: impl Into<String>) -> StoreError {
        StoreError::corrupt(&self.path, offset, what)
    }

    /// The record at `offset`.
    pub(super) fn record(&mut self, offset: u64) -> Result<Found<'_>, StoreError> {
        let head = self.bytes(offset, FRAME_LEN)?;
        let length = match <[u8; FRAME_LEN]>::try_from(head).map(record::framed_length) {
            Ok(Ok(length)) => length,
            Ok(Err(what)) => return Ok(Err(what)),
            // Fewer bytes than a frame: none of them may be nonzero.
            Err(_) if head.iter().all(|byte| *byte == 0) => return Ok(Err(NO_RECORD)),
            Err(_) => return Ok(Err("the file ends inside a record")),
        };
        let end = offset + length as u64;
        if end > self.size {
            return Ok(Err("the record is longer than the file"));
        }
        let key = self.header.key;
        Ok(record::decode(self.bytes(offset, length)?, key).map(|entry| (entry, end)))
    }

    /// The record at `offset`, which must follow the record `last`.
    pub(super) fn record_after(&mut self, last: u64, offset: u64) -> Result<Found<'_>, StoreError> {
        let found = self.record(offset)?;
        Ok(found.and_then(|(entry, end)| match entry.may_follow(last, offset) {
            true => Ok((entry, end)),
            false => Err("the record's number is out of order"),
        }))
    }

    /// The content of a damaged record, whatever its checksum, and the offset behind it.
    pub(super) fn damaged(&mut self, offset: u64) -> Result<Option<(Record<'_>, u64)>, StoreError> {
        let head = self.bytes(offset, FRAME_LEN)?.try_into();
        let Ok(Ok(length)) = head.map(record::framed_length) else { return Ok(None) };
        let record = record::decode_damaged(self.bytes(offset, length)?);
        Ok(record.map(|record| (record, offset + length as u64)))
    }

    /// The next offset, at or after `from`, of a valid record that `wanted` accepts; for use when
    /// the framing is lost.
    pub(super) fn find(
        &mut self,
        from: u64,
        wanted: impl Fn(&Entry<'_>) -> bool,
    ) -> Result<Option<u64>, StoreError> {
        let mut offset = from;
        while offset < self.size {
            let head = self.bytes(offset, FRAME_LEN + 2)?;
            // Cheap first: the version and kind bytes rule out nearly every offset.
            if head.len() < FRAME_LEN + 2 || !record::may_begin(head) {
                offset += self.without_record(offset)?;
                continue;
            }
            if let Ok((entry, _)) = self.record(offset)?
                && wanted(&entry)
            {
                return Ok(Some(offset));
            }
            offset += 1;
        }
        Ok(None)
    }

    /// The number of offsets from this one on at which no record begins: a whole block of zeros, since no version is
    /// zero, or one offset.
    fn without_record(&mut self, offset: u64) -> Result<u64, StoreError> {
        let bytes = self.bytes(offset, ZEROS.len())?;
        let zeros = if *bytes == ZEROS[..bytes.len()] { bytes.len() } else { 0 };
        Ok(zeros.saturating_sub(FRAME_LEN).max(1) as u64)
    }

    /// The next seal at or after `from`, in its place or not. Everything before a seal was durable;
    /// without a seal the end of the newest segment is only torn.
    pub(super) fn find_seal(&mut self, from: u64) -> Result<Option<u64>, StoreError> {
        self.find(from, |entry| matches!(entry.record, Record::Seal(_)))
    }

    /// Offset behind the last byte that is not zero, at least `from`.
    pub(super) fn last_nonzero(&mut self, from: u64) -> Result<u64, StoreError> {
        let (mut at, mut last) = (from, from);
        while at < self.size {
            let bytes = self.bytes(at, WINDOW)?;
            let length = bytes.len() as u64;
            if let Some(position) = last_nonzero_in(bytes) {
                last = at + position as u64 + 1;
            }
            at += length.max(1);
        }
        Ok(last)
    }

    /// Up to `len` bytes at `offset`; fewer only at the end of the file.
    pub(super) fn bytes(&mut self, offset: u64, len: usize) -> Result<&[u8], StoreError> {
        let len = len.min(self.size.saturating_sub(offset) as usize);
        let buffered = self.buffer_at..self.buffer_at + self.buffer.len() as u64;
        if len > 0 && (offset < buffered.start || offset + len as u64 > buffered.end) {
            self.fill(offset, len)?;
        }
        let start = (offset.saturating_sub(self.buffer_at)) as usize;
        Ok(self.buffer.get(start..start + len).unwrap_or(&[]))
    }

    fn fill(&mut self, offset: u64, len: usize) -> Result<(), StoreError> {
        let want = len.max(WINDOW).min((self.size - offset) as usize);
        self.buffer.resize(want, 0);
        self.buffer_at = offset;
        let read = read_up_to(self.file.as_ref(), &mut self.buffer, offset);
        self.buffer.truncate(read.map_err(|source| StoreError::io(&self.path, source))?);
        Ok(())
    }
}

/// The place of the last byte that is not zero.
fn last_nonzero_in(bytes: &[u8]) -> Option<usize> {
    let mut blocks = bytes.chunks(ZEROS.len());
    let start = blocks.rposition(|block| *block != ZEROS[..block.len()])? * ZEROS.len();
    let end = bytes.len().min(start + ZEROS.len());
    let place = bytes[start..end].iter().rposition(|byte| *byte != 0)?;
    Some(start + place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_byte_that_is_not_zero_is_found_anywhere() {
        let block = ZEROS.len();
        for length in [0, 1, block - 1, block, block + 1, 3 * block + 7] {
            let mut bytes = vec![0; length];
            assert_eq!(last_nonzero_in(&bytes), None, "{length}");
            for place in [0, block - 1, block, length / 2, length.saturating_sub(1)] {
                if place < length {
                    bytes.fill(0);
                    bytes[0] = 1;
                    bytes[place] = 1;
                    assert_eq!(last_nonzero_in(&bytes), Some(place), "{length}");
                }
            }
        }
    }
}
