//! Cuts what a client sends into batches of whole lines.
//!
//! At most [`MAX_BUFFER`] bytes are in memory. A line that is longer than [`MAX_LINE`] is dropped, as in KairosDB, and
//! so is a line without its end when the client disconnects.

use std::io;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

/// Most bytes of a line with its end. A KairosDB takes 1,024 as delivered.
pub(super) const MAX_LINE: usize = 64 << 10;
/// Most bytes of one read.
const MAX_READ: usize = 256 << 10;
/// Bytes of the first read.
const FIRST_READ: usize = 8 << 10;
/// Most bytes of a connection in memory, without the batch that is being stored.
pub(super) const MAX_BUFFER: usize = MAX_LINE + MAX_READ;

/// Received bytes that are not in a batch yet.
#[derive(Debug)]
pub(super) struct Lines {
    bytes: BytesMut,
    /// Bytes at the beginning in which no line ends.
    scanned: usize,
    /// Bytes of the next read: more for a client that sends more than was read.
    read: usize,
    /// The beginning of the current line is dropped already.
    skips_line: bool,
}

/// Lines with their ends, to store as one batch.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Batch {
    pub(super) lines: Bytes,
    /// Lines that were too long.
    pub(super) dropped: u64,
}

impl Default for Lines {
    fn default() -> Self {
        Self { bytes: BytesMut::new(), scanned: 0, read: FIRST_READ, skips_line: false }
    }
}

impl Lines {
    /// Waits for more. 0 = the client has disconnected.
    pub(super) async fn fill(
        &mut self,
        reader: &mut (impl AsyncRead + Unpin),
    ) -> io::Result<usize> {
        let held = self.bytes.len();
        if self.bytes.capacity() - held < self.read {
            self.bytes.reserve(self.read);
        }
        let room = self.bytes.capacity() - held;
        let read = reader.read_buf(&mut self.bytes).await?;
        self.read = match read {
            _ if read == room => (2 * self.read).min(MAX_READ),
            _ if read < self.read / 4 => (self.read / 2).max(FIRST_READ),
            _ => self.read,
        };
        Ok(read)
    }

    /// At most `most` whole lines of at most `most_bytes` together; `None` = there is none. A longer line is dropped.
    pub(super) fn batch(&mut self, most: usize, most_bytes: usize) -> Option<Batch> {
        let most_bytes = most_bytes.max(1);
        let mut dropped = 0;
        loop {
            let ends = self.bytes.iter().enumerate().skip(self.scanned);
            let mut ends = ends.filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
            let Some(first) = ends.next() else { break };
            if self.skips_line || first > most_bytes.min(MAX_LINE) {
                let _ = self.bytes.split_to(first);
                (self.scanned, self.skips_line) = (0, false);
                dropped += 1;
                continue;
            }
            let fits = |end: &usize| *end <= most_bytes;
            let end = ends.take(most.saturating_sub(1)).take_while(fits).last().unwrap_or(first);
            self.scanned = 0;
            return Some(Batch { lines: self.bytes.split_to(end).freeze(), dropped });
        }
        self.scanned = self.bytes.len();
        if self.skips_line || self.scanned >= MAX_LINE {
            self.bytes.clear();
            (self.scanned, self.skips_line) = (0, true);
        }
        (dropped > 0).then_some(Batch { lines: Bytes::new(), dropped })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The batches, of which one has at most `most` lines, and the lines that were dropped.
    async fn batches(pieces: &[&[u8]], most: usize, most_bytes: usize) -> (Vec<String>, u64) {
        let (mut lines, mut found, mut all) = (Lines::default(), Vec::new(), 0);
        for piece in pieces {
            let mut reader = *piece;
            while lines.fill(&mut reader).await.expect("no file") > 0 {
                while let Some(Batch { lines, dropped }) = lines.batch(most, most_bytes) {
                    all += dropped;
                    if !lines.is_empty() {
                        found.push(String::from_utf8_lossy(&lines).into_owned());
                    }
                }
                assert!(lines.bytes.capacity() <= 2 * MAX_BUFFER, "{}", lines.bytes.capacity());
            }
        }
        (found, all)
    }

    #[tokio::test]
    async fn whole_lines_come_in_batches() {
        let pieces: [&[u8]; 4] = [b"a\nb\nc", b"c\n\nd", b"d", b"\nrest"];
        let want = ["a\nb\n", "cc\n\n", "dd\n"].map(str::to_owned).to_vec();
        assert_eq!(batches(&pieces, 9, 99).await, (want, 0));
        let want = ["a\n", "b\n", "cc\n", "\n", "dd\n"].map(str::to_owned).to_vec();
        assert_eq!(batches(&pieces, 1, 99).await, (want, 0));
        let want = ["a\n", "b\n", "\n"].map(str::to_owned).to_vec();
        assert_eq!(batches(&pieces, 9, 2).await, (want, 2));
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_is_dropped_and_the_next_one_is_not() {
        let long = vec![b'x'; 3 * MAX_BUFFER];
        let pieces: [&[u8]; 3] = [b"a\n", &long, b"x\nb\nc\n"];
        let want = ["a\n", "b\nc\n"].map(str::to_owned).to_vec();
        assert_eq!(batches(&pieces, 9, 99).await, (want, 1));
        // Its end alone, and nothing behind it.
        let pieces: [&[u8]; 2] = [&long, b"\n"];
        assert_eq!(batches(&pieces, 9, 99).await, (Vec::new(), 1));
    }

    proptest! {
        #[test]
        fn every_whole_line_is_in_one_batch_or_dropped(
            text in "[ab\n]{0,200}",
            cut in 1_usize..20,
            most in 1_usize..5,
            most_bytes in 1_usize..12,
        ) {
            let pieces: Vec<&[u8]> = text.as_bytes().chunks(cut).collect();
            let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
            let (found, dropped) = runtime.block_on(batches(&pieces, most, most_bytes));
            let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
            let (kept, long): (Vec<&str>, Vec<&str>) =
                whole.split_inclusive('\n').partition(|line| line.len() <= most_bytes);
            prop_assert_eq!(found.concat(), kept.concat());
            prop_assert_eq!(dropped, long.len() as u64);
            let fits = |batch: &String| batch.len() <= most_bytes && batch.matches('\n').count() <= most;
            prop_assert!(found.iter().all(fits), "{:?}", found);
        }
    }
}
