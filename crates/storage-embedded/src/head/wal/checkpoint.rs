//! The checkpoint: the last record that is in the store below, and the segment that must exist.
//!
//! A small file, replaced by rename, so that a complete one always exists. A damaged checkpoint is
//! an error, since a guess could skip records or repeat deletes. It names a segment after the first
//! record in that segment is durable, and before that record is acknowledged; it names none before
//! the last segment is removed. It has the key of the log, in case a segment has lost its header.
//!
//! ```text
//! version 2  │ magic 8 B │ through u64 │ newest segment u64 │ key u64 │ crc32c u32 │
//! version 1  │ magic 8 B │ through u64 │ crc32c u32 │              all little-endian
//! ```

use std::io;
use std::path::Path;

use super::segment::AppendError;
use promkairos_storage::StoreError;
use promkairos_storage::codec::{Cursor, seal, unseal};
use promkairos_storage::disk::replace;
use promkairos_storage::log_files::{LogFiles, read_up_to, write_new};

pub(super) const NAME: &str = "checkpoint";
/// Its name while it is written; a leftover is removed at start.
pub(super) const UNFINISHED: &str = "checkpoint.new";
const MAGIC: [u8; 8] = *b"PKCKP2\r\n";
const LEN: usize = 36;
const MAGIC_V1: [u8; 8] = *b"PKCKP\r\n\x1a";
const LEN_V1: usize = 20;

/// The state of a log outside its segments.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Checkpoint {
    /// Everything up to this record is in the store below; 0 = nothing.
    pub(super) through: u64,
    /// First sequence of the newest segment known to have a record; 0 = none is known.
    pub(super) newest: u64,
    /// Key of the checksums of all segments; 0 = not known.
    pub(super) key: u64,
}

/// Durably replaces the checkpoint. After a failed write the old one is in place; after a failed
/// sync it may be either.
pub(super) fn write(
    disk: &dyn LogFiles,
    dir: &Path,
    checkpoint: Checkpoint,
) -> Result<(), AppendError> {
    let (path, unfinished) = (dir.join(NAME), dir.join(UNFINISHED));
    let mut bytes = MAGIC.to_vec();
    let Checkpoint { through, newest, key } = checkpoint;
    for number in [through, newest, key] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    seal(&mut bytes, 0);
    let write = |path: &Path| write_new(disk, path, &bytes);
    let replaced = replace(disk, &path, &unfinished, write);
    replaced.map_err(|error| AppendError::not_replaced(error, &path))
}

/// The checkpoint; `None` when there is none yet.
pub(super) fn read(disk: &dyn LogFiles, dir: &Path) -> Result<Option<Checkpoint>, StoreError> {
    let path = dir.join(NAME);
    let file = match disk.open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(StoreError::io(&path, error)),
    };
    let mut bytes = [0; LEN + 1];
    let read = read_up_to(file.as_ref(), &mut bytes, 0);
    let len = read.map_err(|source| StoreError::io(&path, source))?;
    let decoded = decode(&bytes[..len]).map(Some);
    decoded.ok_or_else(|| StoreError::corrupt(path, 0, "this is not a whole checkpoint"))
}

/// The last record in the store below, according to the log's checkpoint; 0 = none.
pub fn checkpoint(dir: &Path, disk: &dyn LogFiles) -> Result<u64, StoreError> {
    disk.create_dir(dir).map_err(|source| StoreError::io(dir, source))?;
    Ok(read(disk, dir)?.unwrap_or_default().through)
}

fn decode(bytes: &[u8]) -> Option<Checkpoint> {
    let (magic, numbers) = unseal(bytes).ok()?.split_first_chunk::<8>()?;
    let mut numbers = Cursor(numbers);
    let mut number = || numbers.u64().ok();
    match (*magic, bytes.len()) {
        (MAGIC, LEN) => Some(Checkpoint { through: number()?, newest: number()?, key: number()? }),
        (MAGIC_V1, LEN_V1) => Some(Checkpoint { through: number()?, ..Checkpoint::default() }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use promkairos_storage::disk::Disk;

    #[test]
    fn comes_back_is_replaced_and_no_flipped_bit_or_cut_passes() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let (disk, dir) = (Disk, dir.path());
        assert_eq!(read(&disk, dir).ok(), Some(None));
        write(&disk, dir, Checkpoint::default()).expect("written");
        let last = Checkpoint { through: u64::MAX, newest: 5, key: 6 };
        write(&disk, dir, last).expect("written");
        assert_eq!(read(&disk, dir).ok(), Some(Some(last)));
        let path = dir.join(NAME);
        let good = std::fs::read(&path).expect("readable");
        for bit in 0..LEN * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(&path, &bad).expect("written");
            assert!(matches!(read(&disk, dir), Err(StoreError::Corrupt { .. })), "bit {bit}");
        }
        for len in 0..LEN {
            std::fs::write(&path, &good[..len]).expect("written");
            assert!(matches!(read(&disk, dir), Err(StoreError::Corrupt { .. })), "{len} bytes");
        }
    }

    #[test]
    fn a_checkpoint_of_version_1_is_read() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let bytes = b"PKCKP\r\n\x1a\x07\0\0\0\0\0\0\0";
        let crc = crc32c::crc32c(bytes).to_le_bytes();
        std::fs::write(dir.path().join(NAME), [&bytes[..], &crc].concat()).expect("written");
        let want = Checkpoint { through: 7, newest: 0, key: 0 };
        assert_eq!(read(&Disk, dir.path()).ok(), Some(Some(want)));
    }
}
