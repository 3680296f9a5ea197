//! The checkpoint: up to which record everything is in the store below.
//!
//! A small file, replaced by rename, so that there is always a whole one. A damaged one is an
//! error, as guessing could skip records or repeat deletes.
//!
//! ```text
//! │ magic 8 B │ through u64 │ crc32c u32 │   little-endian
//! ```

use std::io;
use std::path::Path;

use super::disk::{Disk, write_all};
use super::segment::io_error;
use crate::storage::StoreError;

const NAME: &str = "checkpoint";
/// The file while it is written; a leftover is removed at start.
pub(super) const UNFINISHED: &str = "checkpoint.new";
const MAGIC: [u8; 8] = *b"PKCKP\r\n\x1a";
const LEN: usize = 20;

/// Durably notes that everything up to `through`, inclusive, is in the store below.
pub(super) fn write(disk: &dyn Disk, dir: &Path, through: u64) -> Result<(), StoreError> {
    let (path, unfinished) = (dir.join(NAME), dir.join(UNFINISHED));
    let mut bytes = [0; LEN];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..16].copy_from_slice(&through.to_le_bytes());
    let crc = crc32c::crc32c(&bytes[..16]);
    bytes[16..].copy_from_slice(&crc.to_le_bytes());
    let replace = || {
        let file = disk.create(&unfinished, LEN as u64)?;
        write_all(file.as_ref(), &bytes, 0).map_err(|(_, error)| error)?;
        file.sync_data()?;
        disk.rename(&unfinished, &path)?;
        disk.sync_dir(dir)
    };
    replace().map_err(|source| io_error(&path, source))
}

/// The number in the checkpoint; 0 when there is none yet.
pub(super) fn read(disk: &dyn Disk, dir: &Path) -> Result<u64, StoreError> {
    let path = dir.join(NAME);
    let file = match disk.open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(io_error(&path, error)),
    };
    let mut bytes = [0; LEN + 1];
    let mut len = 0;
    loop {
        match file.read_at(&mut bytes[len..], len as u64) {
            Ok(0) => break,
            Ok(read) => len += read,
            Err(error) => return Err(io_error(&path, error)),
        }
    }
    let crc = crc32c::crc32c(&bytes[..16]);
    let whole = len == LEN && bytes[..8] == MAGIC && bytes[16..LEN] == crc.to_le_bytes();
    if !whole {
        let what = "this is not a whole checkpoint".into();
        return Err(StoreError::Corrupt { path, offset: 0, what });
    }
    let mut through = [0; 8];
    through.copy_from_slice(&bytes[8..16]);
    Ok(u64::from_le_bytes(through))
}

#[cfg(test)]
mod tests {
    use super::super::disk::RealDisk;
    use super::*;

    #[test]
    fn comes_back_is_replaced_and_no_flipped_bit_or_cut_passes() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let (disk, dir) = (RealDisk, dir.path());
        assert_eq!(read(&disk, dir).ok(), Some(0));
        write(&disk, dir, 5).expect("written");
        write(&disk, dir, u64::MAX).expect("written");
        assert_eq!(read(&disk, dir).ok(), Some(u64::MAX));
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
}
