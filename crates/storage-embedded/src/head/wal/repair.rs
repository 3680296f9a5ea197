//! Repairs a damaged log: reports what would be lost, and removes it on request.
//!
//! A damaged segment is rewritten from its valid records, with a gap record in place of the bad
//! bytes; the damaged file is kept beside it with the suffix `.damaged` and a number. Undamaged
//! segments are not touched. A lost header costs no record: its numbers follow from the neighbours,
//! and its key is in the checkpoint too. If the checkpoint is damaged, all segments count as not
//! yet in the store below, which costs time, not data. Repair locks the log: it never runs on a log
//! in use.

use std::ops::Range;
use std::path::{Path, PathBuf};

use super::checkpoint::{self, Checkpoint};
use super::contents::{Contents, Tally};
use super::folder::lock;
use super::loss::{Loss, bound};
use super::record::Header;
use super::segment::{self, Reader};
use super::survey::{Survey, keep};
use promkairos_storage::StoreError;
use promkairos_storage::disk::Disk;
use promkairos_storage::log_files::LogFiles;

/// Whether to report or to act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepairMode {
    /// Only report what would be lost.
    Show,
    /// Remove the damage.
    Apply,
}

/// What repair found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RepairReport {
    /// The damage, oldest first; empty = the log is sound.
    pub losses: Vec<Loss>,
    /// The torn end of the newest segment: it was being written when the process ended, and no seal
    /// says that it was acknowledged. The next start cuts it off.
    pub torn: Option<(PathBuf, Range<u64>)>,
    /// Counts of the valid records.
    pub valid: Contents,
    /// Damaged files that were kept under another name.
    pub kept: Vec<PathBuf>,
}

/// Checks the log in `dir` and, with [`RepairMode::Apply`], removes damaged records.
pub fn repair(dir: &Path, mode: RepairMode) -> Result<RepairReport, StoreError> {
    repair_on(&Disk, dir, mode)
}

/// As [`repair()`], for a log on `disk`; only its lock is a file of the operating system.
pub fn repair_on(
    disk: &dyn LogFiles,
    dir: &Path,
    mode: RepairMode,
) -> Result<RepairReport, StoreError> {
    let _lock = lock(dir)?;
    let mut report = RepairReport::default();
    let listed = segment::list(disk, dir)?;
    let found = Found::of(disk, dir, &listed, &mut report)?;
    let through = found.checkpoint.through;
    let known = found.checkpoint.newest;
    let is_known_there = listed.iter().any(|(first, _)| *first == known);
    let mut listed = listed.into_iter().peekable();
    let (mut last, mut newest, mut accepted) = (None, 0, None);
    let mut valid = Tally::default();
    while let Some((first, path)) = listed.next() {
        // The first segment follows what is in the store below.
        let previous = last.unwrap_or_else(|| through.max(first.saturating_sub(1)));
        let mut survey = Survey::of(disk, &path, first, last, previous, &found.keys)?;
        survey.accepted = accepted;
        // A torn end is damage if a newer segment had begun, even if that segment is gone.
        let is_newest = listed.peek().is_none() && first >= found.checkpoint.newest;
        survey.read(&mut valid, is_newest)?;
        if let Some(accepted) = survey.first_accepted {
            bound(&mut report.losses, accepted);
        }
        if last.is_none() && survey.header.previous > through {
            survey.missing_before(through, found.why_late);
        }
        if let Some((_, next)) = listed.peek() {
            let expected = Reader::open(disk, next).ok().map(|next| next.header.previous);
            // Records in the store below may have been removed.
            survey.expect_last(expected.filter(|expected| *expected > through));
        }
        (last, accepted) = (Some(survey.last), survey.accepted);
        if survey.last >= first {
            newest = first;
        }
        if mode == RepairMode::Apply && !survey.losses.is_empty() {
            report.kept.push(survey.rewrite(disk, dir)?);
        }
        let torn = survey.torn.filter(|_| mode == RepairMode::Show || survey.losses.is_empty());
        report.torn = torn.map(|bytes| (path, bytes));
        report.losses.extend(survey.losses);
    }
    report.valid = valid.contents();
    let path = dir.join(segment::name(known));
    let is_reported = report.losses.iter().any(|loss| loss.path == path && loss.last.is_none());
    // The lost records follow the newest segment that exists.
    let accepted = (accepted.filter(|_| newest < known), None);
    if known > 0 && !is_known_there {
        let loss = Loss::of(path, 0..0, "the segment is missing", known);
        report.losses.push(Loss { accepted, ..loss });
    } else if newest < known && !is_reported {
        // It had a durable record, and none is left: the file was cut short.
        let size = disk.open(&path).and_then(|file| file.size());
        let size = size.map_err(|source| StoreError::io(&path, source))?;
        let first = known.max(through.saturating_add(1));
        let loss = Loss::of(path, 0..size, "no record of the segment is left", first);
        report.losses.push(Loss { accepted, ..loss });
    }
    if mode == RepairMode::Apply && !report.losses.is_empty() {
        if found.is_damaged {
            report.kept.push(keep(disk, dir, checkpoint::NAME)?);
        }
        let written = checkpoint::write(disk, dir, Checkpoint { newest, ..found.checkpoint });
        written.map_err(|error| error.at(dir))?;
    }
    Ok(report)
}

/// What the checkpoint and the headers of the segments say.
struct Found {
    /// As stored, or as it must be written if it is damaged.
    checkpoint: Checkpoint,
    is_damaged: bool,
    /// What is wrong if the log begins late.
    why_late: &'static str,
    /// Keys that the log may have.
    keys: Vec<u64>,
}

impl Found {
    fn of(
        disk: &dyn LogFiles,
        dir: &Path,
        listed: &[(u64, PathBuf)],
        report: &mut RepairReport,
    ) -> Result<Self, StoreError> {
        let headers = listed.iter().map(|(_, path)| Reader::open(disk, path).ok());
        let headers: Vec<Option<Header>> = headers.map(|r| Some(r?.header)).collect();
        let mut keys: Vec<u64> = headers.iter().flatten().map(|header| header.key).collect();
        keys.dedup();
        let (mut is_damaged, mut why_late) = (false, "the log begins too late");
        let mut checkpoint = match checkpoint::read(disk, dir) {
            Ok(Some(stored)) => stored,
            Ok(None) => {
                why_late =
                    "no checkpoint says what the store has; if not what came before the log begins";
                Checkpoint::default()
            }
            Err(StoreError::Corrupt { path, what, .. }) => {
                let file = disk.open(&path).map_err(|source| StoreError::io(&path, source))?;
                let size = file.size().map_err(|source| StoreError::io(&path, source))?;
                report.losses.push(Loss { last: Some(0), ..Loss::of(path, 0..size, &what, 1) });
                // A replay must not skip a record that is still in the log.
                let before = |(first, _): &(u64, PathBuf)| first.saturating_sub(1);
                let through = match headers.first() {
                    Some(Some(header)) => header.previous,
                    _ => listed.first().map_or(0, before),
                };
                is_damaged = true;
                Checkpoint { through, ..Checkpoint::default() }
            }
            Err(error) => return Err(error),
        };
        if checkpoint.key == 0 {
            checkpoint.key = keys.last().copied().unwrap_or(0);
        } else {
            keys.push(checkpoint.key);
        }
        Ok(Self { checkpoint, is_damaged, why_late, keys })
    }
}
