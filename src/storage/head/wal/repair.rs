//! The way out of a damaged log: shows what would be lost, and takes it out on request.
//!
//! A segment with damage is written anew from its valid records, with a gap record where the bad
//! bytes were, and the damaged file is kept beside it with the suffix `.damaged`. Undamaged
//! segments are not touched. A header that is lost costs no record: its numbers are those of the
//! neighbours and its key lies in the checkpoint too. After a damaged checkpoint all segments
//! count as not yet in the store below, which costs time, not data. Never run on a log in use:
//! it takes the log's lock.

use std::ops::Range;
use std::path::{Path, PathBuf};

use super::checkpoint::{self, Checkpoint};
use super::disk::{Disk, RealDisk, write_all};
use super::record::{self, Entry, HEADER_LEN, Header, Record, SEAL_LEN};
use super::replay::OUT_OF_ORDER;
use super::segment::{self, Frame, Reader, io_error};
use crate::storage::StoreError;

/// Whether to look or to act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepairMode {
    /// Only say what would be lost.
    Show,
    /// Take the damage out.
    Apply,
}

/// A stretch of the log that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// The segment, or the checkpoint.
    pub path: PathBuf,
    /// The bytes of the file that are bad.
    pub bytes: Range<u64>,
    /// What is wrong there.
    pub what: String,
    /// Sequence numbers that may be lost, both ends included.
    pub first: u64,
    /// The last of them, where a later record or segment tells.
    pub last: Option<u64>,
    /// Acceptance times (milliseconds since 1970) of the valid records before and behind; what
    /// is lost was accepted between them.
    pub accepted: (Option<i64>, Option<i64>),
}

/// What repair found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RepairReport {
    /// The damage, oldest first; empty = the log is sound.
    pub losses: Vec<Loss>,
    /// Records that are read without trouble.
    pub valid_records: u64,
    /// Damaged files that were kept under another name.
    pub kept: Vec<PathBuf>,
}

/// Checks the log in `dir` and, if told to, takes damaged records out of it.
pub fn repair(dir: &Path, mode: RepairMode) -> Result<RepairReport, StoreError> {
    let disk = RealDisk;
    let _lock = super::lock(dir)?;
    let mut report = RepairReport::default();
    let listed = segment::list(&disk, dir)?;
    let found = Found::of(&disk, dir, &listed, &mut report)?;
    let through = found.checkpoint.through;
    let mut listed = listed.into_iter().peekable();
    let (mut last, mut newest) = (None, 0);
    while let Some((first, path)) = listed.next() {
        // The first segment follows what is in the store below.
        let previous = last.unwrap_or_else(|| through.max(first.saturating_sub(1)));
        let mut survey = Survey::of(&disk, &path, first, last, previous, &found.keys)?;
        if last.is_none() && survey.header.previous > through {
            survey.missing_before(through);
        }
        if let Some((_, next)) = listed.peek() {
            let expected = Reader::open(&disk, next).ok().map(|next| next.header.previous);
            survey.expect_last(expected);
        }
        report.valid_records += survey.records.len() as u64;
        last = Some(survey.last);
        if survey.last >= first {
            newest = first;
        }
        if mode == RepairMode::Apply && !survey.losses.is_empty() {
            report.kept.push(survey.rewrite(&disk, dir)?);
        }
        report.losses.extend(survey.losses);
    }
    let known = found.checkpoint.newest;
    let path = dir.join(segment::name(known));
    let is_told = report.losses.iter().any(|loss| loss.path == path && loss.last.is_none());
    if known > 0 && !path.exists() {
        report.losses.push(Loss::of(path, 0..0, "the segment is missing", known));
    } else if newest < known && !is_told {
        // It had a durable record, and none is left: a file cut short.
        let size = disk.open(&path).and_then(|file| file.size());
        let size = size.map_err(|source| io_error(&path, source))?;
        let first = known.max(through + 1);
        report.losses.push(Loss::of(path, 0..size, "no record of the segment is left", first));
    }
    if mode == RepairMode::Apply && !report.losses.is_empty() {
        if found.is_damaged {
            report.kept.push(keep(&disk, dir, checkpoint::NAME)?);
        }
        let written = checkpoint::write(&disk, dir, Checkpoint { newest, ..found.checkpoint });
        written.map_err(|error| error.at(dir))?;
    }
    Ok(report)
}

/// What the checkpoint and the headers of the segments say.
struct Found {
    /// As it is, or as it has to be made when it is damaged.
    checkpoint: Checkpoint,
    is_damaged: bool,
    /// Keys that the log may have.
    keys: Vec<u64>,
}

impl Found {
    fn of(
        disk: &dyn Disk,
        dir: &Path,
        listed: &[(u64, PathBuf)],
        report: &mut RepairReport,
    ) -> Result<Self, StoreError> {
        let headers = listed.iter().map(|(_, path)| Reader::open(disk, path).ok());
        let headers: Vec<Option<Header>> = headers.map(|r| Some(r?.header)).collect();
        let mut keys: Vec<u64> = headers.iter().flatten().map(|header| header.key).collect();
        keys.dedup();
        let (mut checkpoint, is_damaged) = match checkpoint::read(disk, dir) {
            Ok(stored) => (stored.unwrap_or_default(), false),
            Err(StoreError::Corrupt { path, what, .. }) => {
                let file = disk.open(&path).map_err(|source| io_error(&path, source))?;
                let size = file.size().map_err(|source| io_error(&path, source))?;
                let mut loss = Loss::of(path, 0..size, &what, 1);
                loss.last = Some(0);
                report.losses.push(loss);
                // Nothing that is still in the log is left out of a replay.
                let before = |(first, _): &(u64, PathBuf)| first.saturating_sub(1);
                let through = match headers.first() {
                    Some(Some(header)) => header.previous,
                    _ => listed.first().map_or(0, before),
                };
                (Checkpoint { through, ..Checkpoint::default() }, true)
            }
            Err(error) => return Err(error),
        };
        if checkpoint.key == 0 {
            checkpoint.key = keys.last().copied().unwrap_or(0);
        } else {
            keys.push(checkpoint.key);
        }
        Ok(Self { checkpoint, is_damaged, keys })
    }
}

/// One segment, read as far as it can be.
struct Survey {
    path: PathBuf,
    reader: Reader,
    header: Header,
    /// Offsets of valid records, seals and gaps left out.
    records: Vec<(u64, Range<u64>)>,
    losses: Vec<Loss>,
    last: u64,
    accepted: Option<i64>,
}

impl Survey {
    /// `last` is the last sequence of the segment before; `previous` is what a lost header would
    /// have said of it.
    fn of(
        disk: &dyn Disk,
        path: &Path,
        first: u64,
        last: Option<u64>,
        previous: u64,
        keys: &[u64],
    ) -> Result<Self, StoreError> {
        let mut losses = Vec::new();
        let mut lose_header = |what: &str| {
            let mut loss = Loss::of(path.to_owned(), 0..HEADER_LEN as u64, what, previous + 1);
            loss.last = Some(previous);
            losses.push(loss);
        };
        let reader = match Reader::open(disk, path) {
            Ok(reader) => {
                if reader.header.first != first {
                    lose_header("the file's name is not that of its first record");
                }
                reader
            }
            Err(StoreError::Corrupt { what, .. }) => {
                lose_header(&what);
                let mut reader = Reader::open_headless(disk, path, keys)?;
                reader.header.previous = previous;
                reader
            }
            Err(error) => return Err(error),
        };
        let previous = reader.header.previous.max(last.unwrap_or(0));
        let header = Header { first, previous, ..reader.header };
        let mut survey = Self {
            path: path.to_owned(),
            header,
            records: Vec::new(),
            losses,
            last: header.previous,
            accepted: None,
            reader,
        };
        survey.read()?;
        Ok(survey)
    }

    fn read(&mut self) -> Result<(), StoreError> {
        let mut offset = HEADER_LEN as u64;
        loop {
            let before = self.before();
            let what = match self.reader.frame(offset)? {
                Frame::Record(entry, next) if entry.may_follow(before, offset) => {
                    if !matches!(entry.record, Record::Seal(_)) {
                        let (sequence, accepted) = (entry.sequence, entry.accepted);
                        self.records.push((sequence, offset..next));
                        self.last = sequence;
                        self.accepted = Some(accepted);
                    }
                    offset = next;
                    continue;
                }
                Frame::Record(..) => OUT_OF_ORDER,
                Frame::None => "zeros where a record should be",
                Frame::Bad(what) => what,
            };
            let next = self.reader.find(offset + 1, |entry| {
                matches!(entry.record, Record::Seal(_)) || entry.sequence > before
            })?;
            let Some(next) = next else {
                return self.tail(offset, what);
            };
            self.lose(offset..next, what)?;
            offset = next;
        }
    }

    /// The next record has a higher number than this.
    fn before(&self) -> u64 {
        self.last.max(self.header.first.saturating_sub(1))
    }

    /// What lies behind the last valid record: nothing, a torn tail, or a cut file.
    fn tail(&mut self, offset: u64, what: &str) -> Result<(), StoreError> {
        let size = self.reader.size();
        if size < self.header.bytes {
            let loss = self.loss(offset..size, "the file is shorter than it was");
            self.losses.push(loss);
        } else if self.reader.last_nonzero(offset)? > offset {
            // Replay zeroes a torn tail of the newest segment by itself; in an older one it is
            // damage. Either way the bytes are not a record.
            let end = self.reader.last_nonzero(offset)?;
            let loss = self.loss(offset..end, what);
            self.losses.push(loss);
        }
        Ok(())
    }

    fn lose(&mut self, bytes: Range<u64>, what: &str) -> Result<(), StoreError> {
        let mut loss = self.loss(bytes.clone(), what);
        if let Frame::Record(entry, _) = self.reader.frame(bytes.end)? {
            match entry.record {
                // A seal carries the sequence of the last record before it.
                Record::Seal(_) => loss.last = Some(entry.sequence),
                _ => {
                    loss.last = Some(entry.sequence - 1);
                    loss.accepted.1 = Some(entry.accepted);
                }
            }
        }
        // Damage to a seal alone loses nothing, but the file still has to be written anew.
        self.last = self.last.max(loss.last.unwrap_or(0));
        self.losses.push(loss);
        Ok(())
    }

    fn loss(&self, bytes: Range<u64>, what: &str) -> Loss {
        let loss = Loss::of(self.path.clone(), bytes, what, self.last + 1);
        Loss { accepted: (self.accepted, None), ..loss }
    }

    /// The log before this segment is gone.
    fn missing_before(&mut self, through: u64) {
        let mut loss = self.loss(0..0, "the log begins too late");
        loss.first = through + 1;
        loss.last = Some(self.header.previous);
        self.losses.insert(0, loss);
        self.header.previous = through;
    }

    /// The next segment says where this one should have ended.
    fn expect_last(&mut self, expected: Option<u64>) {
        let Some(expected) = expected.filter(|expected| *expected > self.last) else { return };
        let size = self.reader.size();
        match self.losses.last_mut().filter(|loss| loss.last.is_none()) {
            Some(loss) => loss.last = Some(expected),
            None => {
                let end = self.records.last().map_or(HEADER_LEN as u64, |(_, range)| range.end);
                let mut loss = self.loss(end..size, "the segment ends too early");
                loss.last = Some(expected);
                self.losses.push(loss);
            }
        }
        self.last = expected;
    }

    /// Writes the segment anew and puts it in the place of the damaged one. Gives the name under
    /// which that is kept.
    fn rewrite(&mut self, disk: &dyn Disk, dir: &Path) -> Result<PathBuf, StoreError> {
        let mut out = vec![0; HEADER_LEN];
        let key = self.header.key;
        let mut before = self.header.previous.max(self.header.first.saturating_sub(1));
        for (sequence, range) in std::mem::take(&mut self.records) {
            if sequence > before + 1 {
                push_gap(&mut out, key, sequence - 1);
            }
            let len = (range.end - range.start) as usize;
            out.extend_from_slice(self.reader.bytes(range.start, len)?);
            before = sequence;
        }
        if self.last > before {
            push_gap(&mut out, key, self.last);
        }
        let end = out.len() as u64;
        let seal = Entry { sequence: self.last, accepted: 0, record: Record::Seal(end) };
        record::encode(&mut out, key, &seal);
        self.header.bytes = (out.len() + SEAL_LEN) as u64;
        out[..HEADER_LEN].copy_from_slice(&self.header.encode());

        let kept = keep(disk, dir, &segment::name(self.header.first))?;
        let unfinished = self.path.with_extension(&segment::UNFINISHED[1..]);
        let replace = || {
            let file = disk.create(&unfinished, self.header.bytes)?;
            write_all(file.as_ref(), &out, 0).map_err(|(_, error)| error)?;
            file.sync_data()?;
            disk.rename(&unfinished, &self.path)?;
            disk.sync_dir(dir)
        };
        replace().map_err(|source| io_error(&self.path, source))?;
        Ok(kept)
    }
}

/// Gives a damaged file a second name that an earlier repair has not used.
fn keep(disk: &dyn Disk, dir: &Path, name: &str) -> Result<PathBuf, StoreError> {
    let taken = disk.list(dir).map_err(|source| io_error(dir, source))?;
    let mut names = (1..).map(|number| format!("{name}.damaged{number}"));
    let free = names.find(|name| !taken.contains(name));
    let kept = dir.join(free.expect("there are more numbers than files"));
    disk.link(&dir.join(name), &kept).map_err(|source| io_error(&kept, source))?;
    Ok(kept)
}

impl Loss {
    fn of(path: PathBuf, bytes: Range<u64>, what: &str, first: u64) -> Self {
        Self { path, bytes, what: what.into(), first, last: None, accepted: (None, None) }
    }

    /// How many records are lost at most; `None` when nothing behind tells.
    pub fn records(&self) -> Option<u64> {
        Some((self.last? + 1).saturating_sub(self.first))
    }
}

fn push_gap(out: &mut Vec<u8>, key: u64, sequence: u64) {
    record::encode(out, key, &Entry { sequence, accepted: 0, record: Record::Gap });
}
