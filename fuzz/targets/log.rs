//! The write-ahead log: a segment of valid and broken records is replayed, refused or repaired.
//!
//! Checksums are computed here, because no random change would get past them; the layout repeats
//! `crates/storage-embedded/src/head/wal/record.rs`.

use std::path::PathBuf;
use std::sync::Arc;

use promkairos::storage::StoreError;
use promkairos::storage::head::wal::{self, Mark, RepairMode, WalOptions};
use promkairos::telemetry::HeadMetrics;
use tempfile::TempDir;

use super::memory_disk::MemoryDisk;

const KEY: u64 = 7;
const BYTES: u64 = 1 << 13;

thread_local! {
    /// The logs of all runs of a thread use this folder one after the other; only their lock is a file.
    static FOLDER: TempDir = tempfile::tempdir().expect("a folder for the lock");
}

/// Pieces of the segment, each an action and a length before its bytes: see [`piece`].
pub(crate) fn check(data: &[u8]) {
    let disk = MemoryDisk::default();
    write_segment(&disk, data);
    replay_or_repair(&disk);
}

/// The folder of the log.
pub(super) fn dir() -> PathBuf {
    FOLDER.with(|folder| folder.path().to_owned())
}

/// Writes the only segment of a log, made of pieces.
pub(super) fn write_segment(disk: &MemoryDisk, data: &[u8]) {
    let mut segment = header();
    let mut rest = data;
    let mut sequence = 0;
    while let [action, length, tail @ ..] = rest {
        let (bytes, tail) = tail.split_at(usize::from(*length).min(tail.len()));
        piece(&mut segment, *action, bytes, &mut sequence);
        rest = tail;
    }
    segment.resize(segment.len().max(BYTES as usize), 0);
    disk.put(dir().join("00000000000000000001.wal"), segment);
}

/// An opened log has ascending records; a repaired log can be opened, and needs no further repair.
pub(super) fn replay_or_repair(disk: &MemoryDisk) {
    let open = || {
        let mut last = 0;
        let disk = Arc::new(disk.clone());
        let options = WalOptions { dir: dir(), mark: Mark::None, segment_bytes: BYTES, disk };
        wal::open(options, HeadMetrics::default(), 0, &mut |entry| {
            assert!(entry.sequence > last, "{} after {last}", entry.sequence);
            last = entry.sequence;
            Ok(())
        })
    };
    let repair = |mode| wal::repair_on(disk, &dir(), mode);
    let Err(error) = open() else { return };
    assert!(!matches!(error, StoreError::Invalid(_)), "{error}");
    if repair(RepairMode::Apply).is_ok() {
        let left = repair(RepairMode::Show).expect("it was read before").losses;
        assert!(left.is_empty(), "{left:?}");
        open().map(drop).expect("a repaired log opens");
    }
}

fn header() -> Vec<u8> {
    let mut header = b"PKWAL\r\n\x1a".to_vec();
    header.extend(1u32.to_le_bytes());
    for number in [1, 0, KEY, BYTES] {
        header.extend(number.to_le_bytes());
    }
    header.extend(crc32c::crc32c(&header).to_le_bytes());
    header
}

/// Appends a piece: 0 to 3 a write, delete, seal or gap with these bytes as its payload, 4 a seal of
/// all before it, 5 a record with given kind, sequence and time, other actions the bytes unchanged.
fn piece(segment: &mut Vec<u8>, action: u8, bytes: &[u8], sequence: &mut u64) {
    let record = |segment: &mut Vec<u8>, content: &[u8]| {
        let mut counted = KEY.to_le_bytes().to_vec();
        counted.extend((content.len() as u32).to_le_bytes());
        counted.extend(content);
        segment.extend((content.len() as u32).to_le_bytes());
        segment.extend(crc32c::crc32c(&counted).to_le_bytes());
        segment.extend(content);
    };
    let mut content = vec![1, action % 8 + 1];
    match action % 8 {
        0..=3 => *sequence += 1,
        4 => content[1] = 3,
        5 => {
            content.truncate(1);
            content.extend(bytes);
            return record(segment, &content);
        }
        _ => return segment.extend(bytes),
    }
    content.extend(sequence.to_le_bytes());
    content.extend(0i64.to_le_bytes());
    match action % 8 {
        4 => content.extend((segment.len() as u64).to_le_bytes()),
        _ => content.extend(bytes),
    }
    record(segment, &content);
}
