//! A file of the cache, and what is known of it. Both only grow; the oldest file goes as a whole.
//!
//! A file has no name, so it is gone with its last user, however the process ends: nothing is left
//! of it on disk, and no other process can take it for its own. What is read of it is checked:
//! frames by their checksum, and that their points lie where they should.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use hashbrown::HashTable;

use super::{Moment, Piece};
use crate::chunk::Chunk;
use crate::model::TimeRange;
use crate::storage::cassandra::identity::Identity;
use crate::storage::cassandra::mtime::random;
use crate::storage::frame;

/// Frames with at most so many bytes between them are read in one go.
const READ_GAP: u64 = 16 << 10;
/// Bytes read in one go at most, but for a single larger frame.
const READ_SPAN: u64 = 4 << 20;

/// A file with its index.
pub(super) struct Segment {
    /// No other segment of the cache has it.
    pub(super) number: u64,
    pub(super) file: Arc<File>,
    /// Bytes that are written.
    pub(super) len: u64,
    entries: HashTable<Entry>,
}

struct Entry {
    key: Identity,
    piece: Piece,
}

/// A frame in a file.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) segment: u64,
    file: Arc<File>,
    piece: Piece,
}

impl Segment {
    /// An empty one in a folder.
    pub(super) fn new(number: u64, dir: &Path) -> io::Result<Self> {
        let file = Arc::new(nameless(dir)?);
        Ok(Self { number, file, len: 0, entries: HashTable::new() })
    }

    pub(super) fn entries(&self) -> usize {
        self.entries.len()
    }

    /// The pieces of a group of rows.
    pub(super) fn pieces(&self, key: Identity) -> impl Iterator<Item = &Piece> {
        let alike = self.entries.iter_hash(key.short());
        alike.filter(move |entry| entry.key == key).map(|entry| &entry.piece)
    }

    /// Where a piece of this segment is; None when it has no points.
    pub(super) fn place(&self, piece: &Piece) -> Option<Place> {
        let place =
            || Place { segment: self.number, file: self.file.clone(), piece: piece.clone() };
        (piece.len > 0).then(place)
    }

    /// Adds a piece, in the place of one that it makes useless.
    pub(super) fn add(&mut self, key: Identity, piece: Piece, now: Moment) {
        let is_useless = |old: &Entry| {
            let inside = piece.range.start <= old.piece.range.start
                && old.piece.range.end <= piece.range.end;
            old.key == key && (inside || !old.piece.is_good(piece.epoch, now))
        };
        match self.entries.find_mut(key.short(), is_useless) {
            Some(old) => old.piece = piece,
            None => {
                let entry = Entry { key, piece };
                self.entries.insert_unique(key.short(), entry, |entry| entry.key.short());
            }
        }
    }
}

/// A new file without a name.
fn nameless(dir: &Path) -> io::Result<File> {
    fs::create_dir_all(dir)?;
    let path = dir.join(format!("{:016x}.frames", random()));
    let file = File::options().read(true).write(true).create_new(true).open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}

/// The chunks at these places, neighbouring frames read in one go. Of what cannot be read or is
/// not what was written: why.
pub(super) fn read(places: &[&Place]) -> Vec<Result<Vec<Chunk>, String>> {
    let mut order: Vec<usize> = (0..places.len()).collect();
    order.sort_by_key(|at| (places[*at].segment, places[*at].piece.offset));
    let mut read: Vec<Result<Vec<Chunk>, String>> = vec![Ok(Vec::new()); places.len()];
    let mut rest = order.as_slice();
    while let Some(first) = rest.first() {
        let (count, end) = together(places, rest);
        let start = places[*first].piece.offset;
        let bytes = read_at(&places[*first].file, start, end - start);
        for at in &rest[..count] {
            let piece = &places[*at].piece;
            let from = (piece.offset - start) as usize;
            read[*at] = match &bytes {
                Ok(bytes) => chunks(&bytes.slice(from..from + piece.len as usize), piece.range),
                Err(error) => Err(error.to_string()),
            };
        }
        rest = &rest[count..];
    }
    read
}

/// How many of the places at the front, sorted, are read in one go, and where they end.
fn together(places: &[&Place], order: &[usize]) -> (usize, u64) {
    let mut count = 0;
    let (mut segment, mut start, mut end) = (0, 0, 0);
    for at in order {
        let Place { segment: own, piece, .. } = places[*at];
        let piece_end = piece.offset + u64::from(piece.len);
        if count == 0 {
            (segment, start, end) = (*own, piece.offset, piece_end);
        } else if *own != segment || piece.offset > end + READ_GAP || piece_end - start > READ_SPAN
        {
            break;
        }
        end = end.max(piece_end);
        count += 1;
    }
    (count, end)
}

fn read_at(file: &File, offset: u64, len: u64) -> io::Result<Bytes> {
    let mut buffer = vec![0; len as usize];
    file.read_exact_at(&mut buffer, offset)?;
    Ok(buffer.into())
}

/// The chunks of a frame, whose points lie in `range`.
fn chunks(frame: &Bytes, range: TimeRange) -> Result<Vec<Chunk>, String> {
    let chunks = frame::chunks_of(frame, range.start).map_err(|damage| damage.0.to_owned())?;
    let mut after = range.start;
    for chunk in &chunks {
        if chunk.min_time < after || chunk.max_time > range.end {
            return Err("points of another time".into());
        }
        after = chunk.max_time.saturating_add(1);
    }
    Ok(chunks)
}
