//! One segment of a damaged log: finds what can be read and what is lost, and rewrites it.
//!
//! Reading goes on behind damage with the next valid record, so that only damaged records are lost.
//! Only [`Survey::rewrite`] changes files, and it keeps the damaged file. A survey knows one
//! segment and what its neighbours say of it; the whole log is for [`super::repair()`].

use std::ops::Range;
use std::path::{Path, PathBuf};

use super::contents::{Contents, Tally};
use super::loss::{Loss, bound};
use super::record::{self, Entry, HEADER_LEN, Header, Record, SEAL_LEN};
use super::segment::{self, Reader};
use promkairos_storage::StoreError;
use promkairos_storage::disk::replace;
use promkairos_storage::log_files::{LogFiles, write_new};

/// One segment, read as far as it can be.
pub(super) struct Survey {
    path: PathBuf,
    reader: Reader,
    pub(super) header: Header,
    /// Sequences and offsets of valid records, without seals.
    records: Vec<(u64, Range<u64>)>,
    pub(super) losses: Vec<Loss>,
    /// Bytes behind the end of the newest segment that were never durable.
    pub(super) torn: Option<Range<u64>>,
    /// The last sequence that it has or had.
    pub(super) last: u64,
    /// When the last valid record was accepted; at first, that of the segments before.
    pub(super) accepted: Option<i64>,
    /// When the first valid record of this segment was accepted.
    pub(super) first_accepted: Option<i64>,
    /// Number of losses with a known latest acceptance time.
    bounded: usize,
}

impl Survey {
    /// Reads the header. `last` is the last sequence of the segment before; `previous` replaces
    /// that number in a lost header.
    pub(super) fn of(
        disk: &dyn LogFiles,
        path: &Path,
        first: u64,
        last: Option<u64>,
        previous: u64,
        keys: &[u64],
    ) -> Result<Self, StoreError> {
        let mut losses = Vec::new();
        let mut lose_header = |what: &str| {
            let loss = Loss::of(path.to_owned(), 0..HEADER_LEN as u64, what, previous + 1);
            losses.push(Loss { last: Some(previous), ..loss });
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
        Ok(Self {
            path: path.to_owned(),
            header,
            records: Vec::new(),
            losses,
            torn: None,
            last: header.previous,
            accepted: None,
            first_accepted: None,
            bounded: 0,
            reader,
        })
    }

    /// Reads the records and adds the valid ones to `valid`. Behind the records of the newest
    /// segment a torn tail is no damage.
    pub(super) fn read(&mut self, valid: &mut Tally, newest: bool) -> Result<(), StoreError> {
        let mut offset = HEADER_LEN as u64;
        loop {
            let before = self.before();
            let what = match self.reader.record_after(before, offset)? {
                Ok((entry, next)) => {
                    if !matches!(entry.record, Record::Seal(_)) {
                        let (sequence, accepted) = (entry.sequence, entry.accepted);
                        // A gap has no such time.
                        let has_time = !matches!(entry.record, Record::Gap);
                        valid.add(&entry.record);
                        self.records.push((sequence, offset..next));
                        self.last = sequence;
                        if has_time {
                            self.accept(accepted);
                        }
                    }
                    offset = next;
                    continue;
                }
                Err(what) => what,
            };
            let next = self.reader.find(offset + 1, |entry| {
                matches!(entry.record, Record::Seal(_)) || entry.sequence > before
            })?;
            let Some(next) = next else {
                return self.tail(offset, what, newest);
            };
            self.lose(offset..next, what)?;
            offset = next;
        }
    }

    /// Notes when a valid record was accepted.
    fn accept(&mut self, accepted: i64) {
        self.accepted = Some(accepted);
        self.first_accepted.get_or_insert(accepted);
        bound(&mut self.losses[self.bounded..], accepted);
        self.bounded = self.losses.len();
    }

    /// The next record must have a higher sequence than this.
    fn before(&self) -> u64 {
        self.last.max(self.header.first.saturating_sub(1))
    }

    /// Examines the bytes behind the last valid record: zeros, a torn tail, or a cut file.
    fn tail(&mut self, offset: u64, what: &str, newest: bool) -> Result<(), StoreError> {
        let size = self.reader.size;
        let end = self.reader.last_nonzero(offset)?;
        if size < self.header.bytes {
            let loss = self.loss(offset..size, "the file is shorter than it was");
            self.losses.push(loss);
        } else if end > offset && newest && self.reader.find_seal(offset)?.is_none() {
            // Replay cuts it off by itself.
            self.torn = Some(offset..end);
        } else if end > offset {
            let contents = self.contents(offset..end)?;
            self.losses.push(Loss { contents, ..self.loss(offset..end, what) });
        }
        Ok(())
    }

    fn lose(&mut self, bytes: Range<u64>, what: &str) -> Result<(), StoreError> {
        let mut loss = self.loss(bytes.clone(), what);
        loss.contents = self.contents(bytes.clone())?;
        if let Ok((entry, _)) = self.reader.record(bytes.end)? {
            loss.last = Some(match entry.record {
                // A seal carries the sequence of the last record before it.
                Record::Seal(_) => entry.sequence,
                _ => entry.sequence - 1,
            });
        }
        // Damage to a seal alone loses nothing, but the file still has to be written anew.
        self.last = self.last.max(loss.last.unwrap_or(0));
        self.losses.push(loss);
        Ok(())
    }

    /// Counts what can be decoded of damaged records, as far as each ends where the next begins.
    fn contents(&mut self, bytes: Range<u64>) -> Result<Contents, StoreError> {
        let mut lost = Tally::default();
        let mut at = bytes.start;
        while at < bytes.end
            && let Some((record, next)) = self.reader.damaged(at)?
            && next <= bytes.end
        {
            lost.add(&record);
            at = next;
        }
        Ok(lost.contents())
    }

    fn loss(&self, bytes: Range<u64>, what: &str) -> Loss {
        let loss = Loss::of(self.path.clone(), bytes, what, self.last + 1);
        Loss { accepted: (self.accepted, None), ..loss }
    }

    /// Adds a loss: the records between `through` and this segment are gone.
    pub(super) fn missing_before(&mut self, through: u64, what: &str) {
        let (first, last) = (through + 1, Some(self.header.previous));
        let accepted = (None, self.first_accepted);
        self.losses.insert(0, Loss { first, last, accepted, ..self.loss(0..0, what) });
        self.header.previous = through;
    }

    /// Adds a loss if the segment ends before the sequence that the next segment expects.
    pub(super) fn expect_last(&mut self, expected: Option<u64>) {
        let Some(expected) = expected.filter(|expected| *expected > self.last) else { return };
        let size = self.reader.size;
        match self.losses.last_mut().filter(|loss| loss.last.is_none()) {
            Some(loss) => loss.last = Some(expected),
            None => {
                let end = self.records.last().map_or(HEADER_LEN as u64, |(_, range)| range.end);
                let loss = self.loss(end..size, "the segment ends too early");
                self.losses.push(Loss { last: Some(expected), ..loss });
            }
        }
        self.last = expected;
    }

    /// Rewrites the segment in place of the damaged file. Returns the new name of the damaged file.
    pub(super) fn rewrite(
        &mut self,
        disk: &dyn LogFiles,
        dir: &Path,
    ) -> Result<PathBuf, StoreError> {
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
        // Behind the last record a segment has zeros.
        out.resize(self.header.bytes as usize, 0);
        let write = |path: &Path| write_new(disk, path, &out);
        let replaced = replace(disk, &self.path, &unfinished, write);
        replaced.map_err(|error| StoreError::io(&self.path, error.into()))?;
        Ok(kept)
    }
}

/// Gives a damaged file a second name that an earlier repair has not used.
pub(super) fn keep(disk: &dyn LogFiles, dir: &Path, name: &str) -> Result<PathBuf, StoreError> {
    let taken = disk.list(dir).map_err(|source| StoreError::io(dir, source))?;
    let mut names = (1..).map(|number| format!("{name}.damaged{number}"));
    let free = names.find(|name| !taken.contains(name));
    let kept = dir.join(free.expect("there are more numbers than files"));
    disk.link(&dir.join(name), &kept).map_err(|source| StoreError::io(&kept, source))?;
    Ok(kept)
}

fn push_gap(out: &mut Vec<u8>, key: u64, sequence: u64) {
    record::encode(out, key, &Entry { sequence, accepted: 0, record: Record::Gap });
}
