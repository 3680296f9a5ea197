//! The checkpoint of the log: any file is read or refused by its name, and never believed but whole.
//! Beside a log that is whole it is followed, refused, or repaired.
//!
//! The checksum is made here, as no random change would get past it; the layout is that of
//! `src/storage/head/wal/checkpoint.rs`, said a second time.
use std::fs;

use promkairos::storage::StoreError;
use promkairos::storage::disk::Disk;
use promkairos::storage::head::wal;

use super::log;

const MAGICS: [(&[u8], usize); 2] = [(b"PKCKP2\r\n", 36), (b"PKCKP\r\n\x1a", 20)];

/// The file without its checksum.
pub(crate) fn check(data: &[u8]) {
    check_file(data);
    check_file(&[data, &crc32c::crc32c(data).to_le_bytes()].concat());
}

fn check_file(file: &[u8]) {
    let folder = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
    fs::write(folder.path().join("checkpoint"), file).expect("a file");
    match (wal::checkpoint(folder.path(), &Disk), through(file)) {
        (Ok(read), Some(written)) => assert_eq!(read, written),
        (Err(StoreError::Corrupt { path, .. }), None) => {
            assert!(path.ends_with("checkpoint"), "{}", path.display());
        }
        (read, written) => panic!("{read:?} for {written:?}"),
    }
    // Three records and the seal of them.
    log::write_segment(folder.path(), &[0, 1, b'a', 0, 1, b'b', 0, 1, b'c', 4, 0]);
    log::replay_or_repair(folder.path());
}

/// What a whole checkpoint says of the store below.
fn through(file: &[u8]) -> Option<u64> {
    let (content, crc) = file.split_last_chunk::<4>()?;
    let is_whole = crc32c::crc32c(content).to_le_bytes() == *crc
        && MAGICS.iter().any(|(magic, len)| content.starts_with(magic) && file.len() == *len);
    let number = content.get(8..16)?.try_into().expect("eight bytes");
    is_whole.then_some(u64::from_le_bytes(number))
}
