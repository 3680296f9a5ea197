//! A file of the cache, and the entries of its pieces. Both only grow; the oldest file is removed as a whole.
//!
//! A file has no name, so it disappears with its last user, however the process ends: nothing is left on
//! disk, and no other process can take the file for its own. Reads are checked: frames by their checksum, and
//! their points by their range of time.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use hashbrown::HashTable;

use crate::identity::Identity;
use crate::index::mtime::random;
use crate::points::read_cache::piece::{Millis, Piece};
use promkairos_chunk::Chunk;
use promkairos_model::TimeRange;
use promkairos_storage::disk::{Disk, Folders};
use promkairos_storage::frame;

/// A file with its index.
pub(super) struct Segment {
    /// Unique among the segments of the cache.
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
pub(super) struct PieceLocation {
    pub(super) segment: u64,
    file: Arc<File>,
    piece: Piece,
}

impl Segment {
    /// An empty segment in a folder.
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
    pub(super) fn location(&self, piece: &Piece) -> Option<PieceLocation> {
        let location = || PieceLocation {
            segment: self.number,
            file: self.file.clone(),
            piece: piece.clone(),
        };
        (piece.len > 0).then(location)
    }

    /// Adds a piece, which replaces one that it makes useless. A piece of another range is kept, even when its time is
    /// over: it is compared with the next read.
    pub(super) fn add(&mut self, key: Identity, piece: Piece, now: Millis) {
        let is_useless = |old: &Entry| {
            let inside = piece.range.start <= old.piece.range.start
                && old.piece.range.end <= piece.range.end;
            let is_over = !old.piece.is_good(piece.epoch, now);
            old.key == key && (inside || is_over && old.piece.range.overlaps(&piece.range))
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
    Disk.create_dir(dir)?;
    let path = dir.join(format!("{:016x}.frames", random()));
    let file = Disk::make(&path)?;
    Disk.remove(&path)?;
    Ok(file)
}

/// The chunks at these locations; neighbouring frames are read together. An error says why a frame
/// cannot be read or is damaged.
pub(super) fn read(locations: &[&PieceLocation]) -> Vec<Result<Vec<Chunk>, String>> {
    let mut order: Vec<usize> = (0..locations.len()).collect();
    order.sort_by_key(|at| (locations[*at].segment, locations[*at].piece.offset));
    let mut read: Vec<Result<Vec<Chunk>, String>> = vec![Ok(Vec::new()); locations.len()];
    let mut rest = order.as_slice();
    while let Some(first) = rest.first() {
        let of_file = rest.iter().map(|at| locations[*at]);
        let of_file = of_file.take_while(|location| location.segment == locations[*first].segment);
        let (count, end) =
            frame::together(of_file.map(|location| (location.piece.offset, location.piece.len)));
        let start = locations[*first].piece.offset;
        let bytes = read_at(&locations[*first].file, start, end - start);
        for at in &rest[..count] {
            let piece = &locations[*at].piece;
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
