//! A part on disk, as readers use it.
//!
//! The file is immutable, and removed after its last reader. Every byte is checked before it is
//! used: the footer and the directory when the store is opened, blocks and frames whenever they are
//! read. No file stays open between reads, so that years of parts need no descriptors.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;

use promkairos_chunk::{Chunk, ChunkError};
use promkairos_storage::StoreError;
use promkairos_storage::codec::{Damage, unpack};

use super::block_ref::BlockRef;
use super::cache::{BlockCache, Cached};
use super::directory::{
    Directory, DirectoryReader, FOOTER_BYTES, Footer, HEAD_BYTES, footer_crc, part_head,
};
use super::files::{Files, OpenFile};
use super::manifest::PartEntry;
use super::{names, old_directory};

/// A part that the manifest lists.
pub(super) struct Part {
    pub(super) entry: PartEntry,
    file: Arc<PartFile>,
    cache: Arc<BlockCache>,
}

/// The file of a part, shared by its readers. A retired file is removed after its last reader.
struct PartFile {
    path: PathBuf,
    files: Arc<dyn Files>,
    retired: AtomicBool,
}

/// A part with its file open and its directory loaded.
pub(super) struct PartReader<'a> {
    pub(super) part: &'a Part,
    pub(super) directory: Arc<Directory>,
    file: Box<dyn OpenFile>,
}

impl Part {
    /// The part that `entry` lists; does not read its file.
    pub(super) fn new(
        files: Arc<dyn Files>,
        dir: &Path,
        entry: PartEntry,
        cache: Arc<BlockCache>,
    ) -> Self {
        let path = dir.join(names::part(entry.partition, entry.id));
        let file = Arc::new(PartFile { path, files, retired: AtomicBool::new(false) });
        Self { entry, file, cache }
    }

    /// The same file, listed with another entry.
    pub(super) fn listed_as(&self, entry: PartEntry) -> Self {
        Self { entry, file: self.file.clone(), cache: self.cache.clone() }
    }

    fn path(&self) -> &Path {
        &self.file.path
    }

    /// Opens the part for reading.
    pub(super) fn reader(&self) -> Result<PartReader<'_>, StoreError> {
        let file = self.file()?;
        let directory = self.directory(&*file)?;
        Ok(PartReader { part: self, directory, file })
    }

    /// Its file, opened.
    pub(super) fn file(&self) -> Result<Box<dyn OpenFile>, StoreError> {
        self.file.files.open(self.path()).map_err(|source| StoreError::io(self.path(), source))
    }

    /// Reads bytes of the file; a range outside the file is damage.
    pub(super) fn read(
        &self,
        file: &dyn OpenFile,
        offset: u64,
        len: u64,
    ) -> Result<Bytes, StoreError> {
        if offset.checked_add(len).is_none_or(|end| end > self.entry.bytes) {
            return Err(self.damage(offset, Damage("points beyond the end of the file")));
        }
        let mut buffer = vec![0; len as usize];
        file.read_exact_at(&mut buffer, offset)
            .map_err(|source| StoreError::io(self.path(), source))?;
        Ok(buffer.into())
    }

    /// The error for damage found in this part.
    pub(super) fn damage(&self, offset: u64, damage: Damage) -> StoreError {
        StoreError::corrupt(self.path(), offset, damage.0)
    }

    /// The error for a malformed chunk of this part.
    pub(super) fn chunk_damage(&self, offset: u64, error: ChunkError) -> StoreError {
        StoreError::corrupt(self.path(), offset, error.to_string())
    }

    /// The error for chunks of one series that cannot be merged. It names the part and the offset
    /// of the malformed chunk.
    pub(super) fn merge_damage<'a>(
        sources: impl IntoIterator<Item = (&'a Self, u64, Vec<Chunk>)>,
        error: ChunkError,
    ) -> StoreError {
        for (part, offset, chunks) in sources {
            let mut points = chunks.iter().flat_map(Chunk::stamped_points);
            if let Some(error) = points.find_map(Result::err) {
                return part.chunk_damage(offset, error);
            }
        }
        StoreError::backend("the chunks of a series cannot be merged", error)
    }

    /// Removes the file after its last reader. The manifest must not list it any more.
    pub(super) fn retire(&self) {
        self.file.retired.store(true, Ordering::Release);
    }

    /// Checks the file's length, footer and directory.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        let file = &*self.file()?;
        let size = file.size().map_err(|source| StoreError::io(self.path(), source))?;
        if size != self.entry.bytes {
            let what = format!("the file has {size} bytes, not {}", self.entry.bytes);
            return Err(StoreError::corrupt(self.path(), size, what));
        }
        let footer = self.footer(file)?;
        let head = self.read(file, 0, HEAD_BYTES as u64)?;
        if head != part_head(footer.version).as_slice() {
            return Err(self.damage(0, Damage("it does not begin as a part does")));
        }
        let entry = &self.entry;
        let same = (footer.partition, footer.series, footer.points, footer.exemplars)
            == (entry.partition, entry.series, entry.points, entry.exemplars);
        if !same || (footer.min_time, footer.max_time) != (entry.range.start, entry.range.end) {
            return Err(self.damage(size, Damage("the footer is not that of the manifest")));
        }
        let directory = self.load_directory(file)?;
        let series = directory.series.last();
        if series.map_or(0, |last| last.first.saturating_add(last.count)) != footer.series {
            return Err(self.damage(footer.directory.offset, Damage("series are missing")));
        }
        Ok(())
    }

    fn footer(&self, file: &dyn OpenFile) -> Result<Footer, StoreError> {
        let at = self.entry.bytes.saturating_sub(FOOTER_BYTES as u64);
        let bytes = self.read(file, at, FOOTER_BYTES as u64)?;
        if footer_crc(&bytes) != self.entry.footer_crc {
            return Err(self.damage(at, Damage("the footer is not that of the manifest")));
        }
        Footer::decode(&bytes).map_err(|damage| self.damage(at, damage))
    }

    fn load_directory(&self, file: &dyn OpenFile) -> Result<Directory, StoreError> {
        let footer = self.footer(file)?;
        let BlockRef { offset, len } = footer.directory;
        if footer.version < 3 {
            let block = self.read(file, offset, len.into())?;
            let read = unpack(&block).and_then(|raw| old_directory::decode(&raw));
            return read.map_err(|damage| self.damage(offset, damage));
        }
        let end = self.entry.bytes.saturating_sub(FOOTER_BYTES as u64);
        let mut reader = DirectoryReader::default();
        let mut at = offset;
        while at < end {
            let len = self.read(file, at, 4)?;
            let len = u32::from_le_bytes([len[0], len[1], len[2], len[3]]);
            let from = at + 4;
            if u64::from(len) > end.saturating_sub(from) {
                return Err(self.damage(at, Damage("a piece of the directory is too long")));
            }
            let piece = self.read(file, from, len.into())?;
            let read = unpack(&piece).and_then(|raw| reader.read(&raw));
            read.map_err(|damage| self.damage(at, damage))?;
            at = from + u64::from(len);
        }
        reader.finish().map_err(|damage| self.damage(offset, damage))
    }

    fn directory(&self, file: &dyn OpenFile) -> Result<Arc<Directory>, StoreError> {
        // No block begins at offset 0, so the directory can have that key.
        let key = (self.entry.id, 0);
        if let Some(Cached::Directory(directory)) = self.cache.get(key) {
            return Ok(directory);
        }
        let directory = Arc::new(self.load_directory(file)?);
        self.cache.insert(key, Cached::Directory(directory.clone()));
        Ok(directory)
    }
}

impl Drop for PartFile {
    fn drop(&mut self) {
        if self.retired.load(Ordering::Acquire)
            && let Err(error) = self.files.remove(&self.path)
        {
            // The next start removes what the manifest does not list.
            tracing::debug!(path = %self.path.display(), %error, "retired part stays");
        }
    }
}

impl PartReader<'_> {
    /// The content of a block, from the cache if possible.
    pub(super) fn block(&self, block: BlockRef) -> Result<Bytes, StoreError> {
        let key = (self.part.entry.id, block.offset);
        if let Some(Cached::Block(raw)) = self.part.cache.get(key) {
            return Ok(raw);
        }
        let raw = self.uncached_block(block)?;
        self.part.cache.insert(key, Cached::Block(raw.clone()));
        Ok(raw)
    }

    /// The content of a block, not cached: it will hardly be read again.
    pub(super) fn uncached_block(&self, block: BlockRef) -> Result<Bytes, StoreError> {
        let packed = self.bytes(block.offset, block.len.into())?;
        unpack(&packed).map_err(|damage| self.part.damage(block.offset, damage))
    }

    /// Bytes of the file as they are.
    pub(super) fn bytes(&self, offset: u64, len: u64) -> Result<Bytes, StoreError> {
        self.part.read(&*self.file, offset, len)
    }
}

#[cfg(test)]
mod tests {
    use super::super::manifest::Resolution;
    use super::*;
    use promkairos_chunk::encode_points;
    use promkairos_model::{Point, TimeRange, Value};
    use promkairos_storage::disk::Disk;
    use promkairos_telemetry::StoreMetrics;

    fn part(id: u64) -> Part {
        let range = TimeRange::new(0, 1);
        let (partition, bytes, series, points) = (0, 100, 1, 2);
        let (exemplars, cut_through, footer_crc, merged) = (0, 0, 0, 0);
        let entry = PartEntry {
            id,
            partition,
            bytes,
            range,
            series,
            points,
            exemplars,
            cut_through,
            footer_crc,
            merged,
            resolution: Resolution::Raw,
        };
        let cache = Arc::new(BlockCache::new(1 << 10, StoreMetrics::default()));
        Part::new(Arc::new(Disk), Path::new("parts"), entry, cache)
    }

    #[test]
    fn damage_that_shows_in_a_merge_is_that_of_the_part_with_the_bytes() {
        let point = |timestamp| Point { timestamp, start_timestamp: 0, value: Value::Float(1.5) };
        let good = encode_points([&point(0), &point(1)]);
        let mut bad = good.clone();
        bad[0].data.truncate(1);
        let parts = [part(1), part(2), part(3)];
        for which in 0..parts.len() {
            let sources = parts.iter().enumerate().map(|(at, part)| {
                let chunks = if at == which { &bad } else { &good };
                (part, at as u64 * 10, chunks.clone())
            });
            let error = Part::merge_damage(sources, ChunkError::Truncated);
            let StoreError::Corrupt { path, offset, .. } = error else { panic!("{error}") };
            assert_eq!((&*path, offset), (parts[which].path(), which as u64 * 10));
        }
    }
}
