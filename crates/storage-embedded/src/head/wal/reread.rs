//! Reads records of closed segments again while the log is written to.
//!
//! Invariant: only complete records in order are visited; all else there is damage. Writes nothing.

use super::handle::Wal;
use super::record::{HEADER_LEN, Record};
use super::replay::Visit;
use super::segment::{Closed, Reader};
use promkairos_storage::StoreError;

impl Wal {
    /// Passes the records behind `after` up to `through` to `visit`. [`StoreError::Unavailable`] if
    /// the segment with the last of them still takes appends, which ends soon.
    pub fn read_again(
        &self,
        after: u64,
        through: u64,
        visit: &mut Visit<'_>,
    ) -> Result<(), StoreError> {
        let Some(segments) = self.closed_between(after, through) else {
            return Err(StoreError::unavailable("the log is not cut there yet"));
        };
        let disk = self.disk();
        for Closed { path, end } in segments {
            let mut reader = Reader::open(disk.as_ref(), &path)?;
            let (mut offset, mut last) = (HEADER_LEN as u64, reader.header.first.saturating_sub(1));
            while offset < end {
                let (entry, next) = match reader.record_after(last, offset)? {
                    Ok(found) => found,
                    Err(what) => return Err(reader.corrupt(offset, what)),
                };
                if !matches!(entry.record, Record::Seal(_)) {
                    last = entry.sequence;
                    if after < last && last <= through {
                        visit(&entry)?;
                    }
                }
                offset = next;
            }
        }
        Ok(())
    }
}
