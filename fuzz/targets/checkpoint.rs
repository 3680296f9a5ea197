//! The checkpoint of the log: any file is read or refused by its name; only an intact one is used.
//! Beside an intact log it is followed, refused, or repaired.
//!
//! The checksum is computed here, because no random change would get past it; the layout repeats
//! `crates/storage-embedded/src/head/wal/checkpoint.rs`.
use promkairos::storage::StoreError;
use promkairos::storage::head::wal;

use super::log;
use super::memory_disk::MemoryDisk;

const MAGICS: [(&[u8], usize); 2] = [(b"PKCKP2\r\n", 36), (b"PKCKP\r\n\x1a", 20)];
/// Three records and their seal, in the pieces of [`log`].
const PIECES: &[u8] = &[0, 1, b'a', 0, 1, b'b', 0, 1, b'c', 4, 0];

/// The file without its checksum, at most 32 bytes; then pieces of the segment.
pub(crate) fn check(data: &[u8]) {
    check_file(data, PIECES);
    let (file, pieces) = data.split_at(data.len().min(32));
    let pieces = if pieces.is_empty() { PIECES } else { pieces };
    check_file(&[file, &crc32c::crc32c(file).to_le_bytes()].concat(), pieces);
}

fn check_file(file: &[u8], pieces: &[u8]) {
    let disk = MemoryDisk::default();
    disk.put(log::dir().join("checkpoint"), file.to_vec());
    match (wal::checkpoint(&log::dir(), &disk), through(file)) {
        (Ok(read), Some(written)) => assert_eq!(read, written),
        (Err(StoreError::Corrupt { path, .. }), None) => {
            assert!(path.ends_with("checkpoint"), "{}", path.display());
        }
        (read, written) => panic!("{read:?} for {written:?}"),
    }
    log::write_segment(&disk, pieces);
    log::replay_or_repair(&disk);
}

/// What an intact checkpoint says of the store below.
fn through(file: &[u8]) -> Option<u64> {
    let (content, crc) = file.split_last_chunk::<4>()?;
    let is_whole = crc32c::crc32c(content).to_le_bytes() == *crc
        && MAGICS.iter().any(|(magic, len)| content.starts_with(magic) && file.len() == *len);
    let number = content.get(8..16)?.try_into().expect("eight bytes");
    is_whole.then_some(u64::from_le_bytes(number))
}
