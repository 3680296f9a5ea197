//! The write-ahead log: a segment of right and broken records is replayed, refused or repaired.
//!
//! Checksums are made here, as no random change would get past them; the layout is that of
//! `src/storage/head/wal/record.rs`, said a second time.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use promkairos::storage::disk::Disk;
use promkairos::storage::head::wal::{self, RepairMode, WalOptions};
use promkairos::telemetry::HeadMetrics;

const KEY: u64 = 7;
const BYTES: u64 = 1 << 16;

/// Pieces of the segment, each an action and a length before its bytes: see [`piece`].
pub(crate) fn check(data: &[u8]) {
    let folder = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
    write_segment(folder.path(), data);
    replay_or_repair(folder.path());
}

/// Writes the only segment of a log, made of pieces.
pub(super) fn write_segment(dir: &Path, data: &[u8]) {
    let mut segment = header();
    let mut rest = data;
    let mut sequence = 0;
    while let [action, length, tail @ ..] = rest {
        let (bytes, tail) = tail.split_at(usize::from(*length).min(tail.len()));
        piece(&mut segment, *action, bytes, &mut sequence);
        rest = tail;
    }
    segment.resize(segment.len().max(BYTES as usize), 0);
    fs::write(dir.join("00000000000000000001.wal"), &segment).expect("a file");
}

/// What can be opened has rising records; what was repaired can be opened.
pub(super) fn replay_or_repair(dir: &Path) {
    let open = || {
        let mut last = 0;
        let options =
            WalOptions { dir: dir.to_owned(), segment_bytes: BYTES, disk: Arc::new(Disk) };
        wal::open(options, HeadMetrics::default(), 0, &mut |entry| {
            assert!(entry.sequence > last, "{} after {last}", entry.sequence);
            last = entry.sequence;
            Ok(())
        })
    };
    if open().is_err() && wal::repair(dir, RepairMode::Apply).is_ok() {
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

/// Appends a piece: 0 to 3 a write, delete, seal or gap with these bytes as its payload, 4 a seal
/// of all before it, 5 a record whose kind, sequence and time are given, other bytes as they are.
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
