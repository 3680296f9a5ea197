//! The read cache: settled points that were read lately, as chunks in files of a bounded size.
//!
//! The rows of one series in one window are kept as pieces. A piece has all points of a range of time, or the
//! fact that there are none. A piece is used as long as it has earned (see `age`), no point in it has
//! expired, and the metric still has its epoch from before the rows were read (see `epochs`). The cache is
//! expendable: a file that cannot be written or read, or is damaged, only costs a read of the rows.
//!
//! Times are those of a monotonic clock. Methods that block say so; none knows Cassandra.

mod age;
mod cover;
mod piece;
mod segment;

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::identity::Identity;
use crate::options::read_cache::ReadCacheOptions;
use crate::points::epochs::Epoch;
use crate::points::read_cache::age::{Ages, Before, Part, parts};
use crate::points::read_cache::cover::{Cover, MOST_PIECES};
use crate::points::read_cache::piece::{Millis, Piece};
use crate::points::read_cache::segment::{PieceLocation, Segment};
use promkairos_chunk::Chunk;
use promkairos_model::TimeRange;
use promkairos_storage::StoreError;
use promkairos_storage::frame::put_frame;
use promkairos_telemetry::{CassandraMetrics, Throttle};

/// The most files. The oldest file is removed when another is needed.
const SEGMENTS: usize = 8;
/// A file has at most one piece per this many bytes of its limit.
const BYTES_A_PIECE: u64 = 2 << 10;
/// Bytes of memory for the entry of a piece, with the spare capacity of a table that has just grown.
const MEMORY_A_PIECE: u64 = 186;
/// The least limit on the pieces of a file, however small it is.
const LEAST_PIECES: usize = 64;
/// How long nothing is kept after a failed write.
const REST: Duration = Duration::from_secs(60);

/// A range to look up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    /// The key of the rows.
    pub(crate) key: Identity,
    /// The range; not empty.
    pub(crate) range: TimeRange,
    /// The last settled millisecond. A piece that reaches beyond was kept while the clock was ahead.
    pub(crate) last: i64,
    /// The epoch of the metric.
    pub(crate) epoch: Epoch,
}

/// The pieces found for a range.
#[derive(Debug)]
pub(crate) struct FoundPieces {
    locations: Vec<PieceLocation>,
    /// The number of pieces, including those without points.
    pub(crate) pieces: usize,
    /// The range to be read.
    pub(crate) missing: Option<TimeRange>,
    /// The last millisecond of the pieces, which may lie behind the wanted range; the chunks include
    /// points up to there.
    pub(crate) end: Option<i64>,
}

impl FoundPieces {
    /// Whether there are chunks to read.
    pub(crate) fn has_points(&self) -> bool {
        !self.locations.is_empty()
    }
}

/// A range to keep, with all its points.
pub(crate) struct Filled {
    pub(crate) key: Identity,
    pub(crate) range: TimeRange,
    /// The epoch of the metric before the rows were read.
    pub(crate) epoch: Epoch,
    pub(crate) good: Good,
    /// In order of time; none = there are no points.
    pub(crate) chunks: Vec<Chunk>,
}

/// Until when something may be used.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Good {
    /// When the read began; the age counts from there.
    read: Millis,
    /// When the first of the cells expires.
    expires: Millis,
}

/// A piece to write.
struct Kept {
    key: Identity,
    epoch: Epoch,
    until: Millis,
    part: Part,
}

/// The cache of one keyspace.
pub(crate) struct ReadCache {
    options: ReadCacheOptions,
    metrics: CassandraMetrics,
    segments: Mutex<Segments>,
    /// Held by the task that writes to the newest file.
    writing: Mutex<()>,
    rests_until: Mutex<Option<Instant>>,
    warnings: Mutex<Throttle>,
}

#[derive(Default)]
struct Segments {
    /// The newest last.
    all: VecDeque<Segment>,
    next: u64,
}

impl ReadCache {
    pub(crate) fn new(options: ReadCacheOptions, metrics: CassandraMetrics) -> Self {
        Self {
            options,
            metrics,
            segments: Mutex::default(),
            writing: Mutex::default(),
            rests_until: Mutex::default(),
            warnings: Mutex::default(),
        }
    }

    /// The last settled millisecond.
    pub(crate) fn settled(&self, now_ms: i64) -> i64 {
        let after = i64::try_from(self.options.settled_after.as_millis()).unwrap_or(i64::MAX);
        now_ms.saturating_sub(after)
    }

    pub(crate) fn now(&self) -> Millis {
        u64::try_from(self.options.clock.now_ms()).unwrap_or(0)
    }

    fn ages(&self) -> Ages {
        Ages { first: self.options.min_age, last: self.options.max_age }
    }

    /// How long rows may be used whose read began at `read` and whose first cell expires in `expires`
    /// seconds; None = not at all.
    pub(crate) fn good(&self, read: Millis, expires: Option<i32>) -> Option<Good> {
        // Cassandra counts whole seconds, and the current second ends sooner.
        let lasts = expires.map(|seconds| u64::try_from(i64::from(seconds) - 1).unwrap_or(0));
        let expires = lasts.map_or(Millis::MAX, |seconds| read.saturating_add(seconds * 1_000));
        (self.now() < expires).then_some(Good { read, expires })
    }

    /// The pieces found for each range.
    pub(crate) fn look_up(&self, wanted: &[Wanted]) -> Vec<FoundPieces> {
        let now = self.now();
        let segments = self.segments.lock();
        wanted.iter().map(|wanted| segments.look_up(wanted, now)).collect()
    }

    /// The chunks of the pieces found, in order of time; None where a file is damaged. Blocks.
    pub(crate) fn read(&self, found: &[FoundPieces]) -> Vec<Option<Vec<Chunk>>> {
        let locations: Vec<&PieceLocation> =
            found.iter().flat_map(|found| &found.locations).collect();
        let mut read = segment::read(&locations).into_iter().zip(&locations);
        let mut all = Vec::with_capacity(found.len());
        for found in found {
            let mut chunks = Some(Vec::new());
            for (frame, location) in read.by_ref().take(found.locations.len()) {
                match frame {
                    Ok(mut frame) => match &mut chunks {
                        Some(chunks) if chunks.is_empty() => *chunks = frame,
                        Some(chunks) => chunks.append(&mut frame),
                        None => {}
                    },
                    Err(why) => {
                        self.give_up_segment(location.segment, &why);
                        chunks = None;
                    }
                }
            }
            all.push(chunks);
        }
        all
    }

    /// Keeps what was read, if possible. Blocks.
    pub(crate) fn keep(&self, filled: Vec<Filled>) {
        let kept: Vec<Kept> = self.with_ages(filled);
        let _one = self.writing.lock();
        let rests = self.rests_until.lock().is_some_and(|until| Instant::now() < until);
        if !rests && let Err(error) = self.write(&kept) {
            self.rest(&error);
        }
    }

    /// Compares each range with the pieces kept before, which decides how long it is used.
    fn with_ages(&self, filled: Vec<Filled>) -> Vec<Kept> {
        let before: Vec<Vec<Old>> = {
            let segments = self.segments.lock();
            filled.iter().map(|filled| segments.before(filled)).collect()
        };
        let locations: Vec<&PieceLocation> =
            before.iter().flatten().filter_map(|old| old.location.as_ref()).collect();
        let mut read = segment::read(&locations).into_iter().zip(&locations);
        let mut frame = |location: &Option<PieceLocation>| match location {
            None => Some(Vec::new()),
            Some(_) => match read.next()? {
                (Ok(chunks), _) => Some(chunks),
                (Err(why), location) => {
                    self.give_up_segment(location.segment, &why);
                    None
                }
            },
        };
        let ages = self.ages();
        let mut kept = Vec::with_capacity(filled.len());
        for (filled, before) in filled.into_iter().zip(&before) {
            let Filled { key, range, epoch, good, chunks } = filled;
            let before = before.iter().filter_map(|Old { range, location, doublings, is_over }| {
                let doublings = if *is_over { ages.next(*doublings) } else { *doublings };
                Some(Before { range: *range, chunks: frame(location)?, doublings })
            });
            let before = before.collect();
            kept.extend(parts(range, chunks, before).into_iter().map(|part| {
                let until = good.read.saturating_add(ages.millis(part.doublings));
                Kept { key, epoch, until: until.min(good.expires), part }
            }));
        }
        kept
    }

    fn segment_bytes(&self) -> u64 {
        self.options.bytes / SEGMENTS as u64
    }

    fn segment_pieces(&self) -> usize {
        let by_memory = self.options.memory / SEGMENTS as u64 / MEMORY_A_PIECE;
        let most = (self.segment_bytes() / BYTES_A_PIECE).min(by_memory);
        usize::try_from(most).unwrap_or(usize::MAX).max(LEAST_PIECES)
    }

    fn write(&self, kept: &[Kept]) -> io::Result<()> {
        let mut bytes = Vec::new();
        let frame = |Kept { part, .. }: &Kept| match &part.chunks[..] {
            [] => 0,
            chunks => put_frame(&mut bytes, part.range.start, chunks),
        };
        let lens: Vec<usize> = kept.iter().map(frame).collect();
        let is_too_much = bytes.len() as u64 > self.segment_bytes().min(u32::MAX.into())
            || kept.len() > self.segment_pieces();
        if is_too_much {
            let (first, second) = kept.split_at(kept.len() / 2);
            if first.is_empty() {
                return Ok(());
            }
            self.write(first)?;
            return self.write(second);
        }
        let (number, file, mut offset) = self.room(bytes.len() as u64, kept.len())?;
        file.write_all_at(&bytes, offset)?;
        let now = self.now();
        let mut segments = self.segments.lock();
        // It may have been given up meanwhile.
        if let Some(segment) = segments.all.iter_mut().find(|segment| segment.number == number) {
            for (kept, len) in kept.iter().zip(lens) {
                let Kept { key, epoch, until, part: Part { range, doublings, .. } } = kept;
                let (range, epoch, until, doublings) = (*range, *epoch, *until, *doublings);
                let len = len as u32;
                let piece = Piece { range, epoch, until, offset, len, doublings };
                segment.add(*key, piece, now);
                offset += u64::from(len);
            }
            segment.len = offset;
        }
        self.show(&segments);
        Ok(())
    }

    /// The newest segment, its file and the end of the file. Only the caller writes.
    fn room(&self, bytes: u64, pieces: usize) -> io::Result<(u64, Arc<File>, u64)> {
        let number = {
            let mut segments = self.segments.lock();
            if let Some(last) = segments.all.back()
                && last.len + bytes <= self.segment_bytes()
                && last.entries() + pieces <= self.segment_pieces()
            {
                return Ok((last.number, last.file.clone(), last.len));
            }
            while segments.all.len() >= SEGMENTS {
                segments.all.pop_front();
                self.metrics.read_cache_evictions.inc();
            }
            segments.next += 1;
            segments.next
        };
        let segment = Segment::new(number, &self.options.dir)?;
        let file = segment.file.clone();
        self.segments.lock().all.push_back(segment);
        Ok((number, file, 0))
    }

    /// Drops a whole file that does not hold what was written.
    fn give_up_segment(&self, number: u64, why: &str) {
        self.metrics.read_cache_damaged.inc();
        let mut segments = self.segments.lock();
        segments.all.retain(|segment| segment.number != number);
        self.show(&segments);
        drop(segments);
        if let Some(times) = self.warnings.lock().count(1, Instant::now()) {
            let dir = self.options.dir.display();
            tracing::warn!(%dir, why, times, "a file of the read cache is damaged and given up");
        }
    }

    /// Gives up the older half of the files, because the entries of their pieces take memory. Blocks.
    pub(crate) fn relieve(&self) {
        let mut segments = self.segments.lock();
        let half = segments.all.len().div_ceil(2);
        let given_up: Vec<Segment> = segments.all.drain(..half).collect();
        self.metrics.read_cache_evictions.inc_by(half as u64);
        self.show(&segments);
        drop(segments);
        // Closing frees their space on the disk, which takes a while.
        drop(given_up);
    }

    /// Frees the disk for other uses, and keeps nothing for a while.
    fn rest(&self, error: &io::Error) {
        *self.rests_until.lock() = Some(Instant::now() + REST);
        let mut segments = self.segments.lock();
        segments.all.clear();
        self.show(&segments);
        drop(segments);
        if let Some(times) = self.warnings.lock().count(1, Instant::now()) {
            let dir = self.options.dir.display();
            tracing::warn!(%dir, %error, times, "the read cache cannot be written; it rests");
        }
    }

    /// Warns that the cache cannot be checked to be current.
    pub(crate) fn warn_of_epochs(&self, error: &StoreError) {
        if let Some(times) = self.warnings.lock().count(1, Instant::now()) {
            tracing::warn!(%error, times, "the read cache is not used: its epochs cannot be read");
        }
    }

    fn show(&self, segments: &Segments) {
        let bytes: u64 = segments.all.iter().map(|segment| segment.len).sum();
        let entries: usize = segments.all.iter().map(Segment::entries).sum();
        self.metrics.read_cache_bytes.set(i64::try_from(bytes).unwrap_or(i64::MAX));
        self.metrics.read_cache_entries.set(i64::try_from(entries).unwrap_or(i64::MAX));
    }
}

/// The part of a kept piece that overlaps a new read.
struct Old {
    range: TimeRange,
    /// None = no points.
    location: Option<PieceLocation>,
    doublings: u8,
    /// Whether its time of use was over.
    is_over: bool,
}

impl Segments {
    /// The newest pieces that overlap a new read, of which no two overlap each other.
    fn before(&self, filled: &Filled) -> Vec<Old> {
        let mut all: Vec<Old> = Vec::new();
        for segment in self.all.iter().rev() {
            let mut pieces: Vec<&Piece> = segment.pieces(filled.key).collect();
            pieces.sort_by_key(|piece| std::cmp::Reverse(piece.offset));
            for piece in pieces {
                let Some(range) = piece.range.intersection(filled.range) else { continue };
                let is_free = all.iter().all(|old| !old.range.overlaps(&range));
                if is_free && all.len() < MOST_PIECES {
                    let (location, doublings) = (segment.location(piece), piece.doublings);
                    let is_over = piece.until <= filled.good.read;
                    all.push(Old { range, location, doublings, is_over });
                }
            }
        }
        all
    }

    fn look_up(&self, wanted: &Wanted, now: Millis) -> FoundPieces {
        let mut ranges = Vec::new();
        let mut pieces = Vec::new();
        for segment in &self.all {
            for piece in segment.pieces(wanted.key) {
                if piece.is_good(wanted.epoch, now) && piece.range.end <= wanted.last {
                    // Mostly one piece has the whole range, and then no other is chosen.
                    if piece.range.start <= wanted.range.start
                        && wanted.range.end <= piece.range.end
                    {
                        let (locations, end) =
                            (segment.location(piece).into_iter().collect(), Some(piece.range.end));
                        return FoundPieces { locations, pieces: 1, missing: None, end };
                    }
                    ranges.push(piece.range);
                    pieces.push((segment, piece));
                }
            }
        }
        let Cover { chosen, missing } = Cover::of(wanted.range, &ranges);
        let locations =
            chosen.iter().filter_map(|at| pieces[*at].0.location(pieces[*at].1)).collect();
        let end = chosen.last().map(|at| ranges[*at].end);
        FoundPieces { locations, pieces: chosen.len(), missing, end }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use promkairos_chunk::encode_points;
    use promkairos_model::{Point, Value};
    use promkairos_storage::Clock;

    const HOUR: Duration = Duration::from_secs(3600);

    fn cache(dir: &tempfile::TempDir, bytes: u64) -> ReadCache {
        let dir = dir.path().join("made/when/needed");
        let (memory, settled_after, min_age, max_age) = (1 << 20, HOUR, HOUR, HOUR);
        let clock = Clock::new(|| 5);
        let options =
            ReadCacheOptions { dir, bytes, memory, settled_after, min_age, max_age, clock };
        ReadCache::new(options, CassandraMetrics::default())
    }

    fn key(number: i64) -> Identity {
        Identity::of(&[b"rows"]).with(number)
    }

    fn epoch(number: i64) -> Epoch {
        Identity::of(&[b"epoch"]).with(number)
    }

    /// A point each millisecond.
    fn filled(cache: &ReadCache, key: Identity, range: (i64, i64)) -> Filled {
        let point = |timestamp: i64| {
            let value = Value::Float(timestamp as f64 / 3.0);
            Point { timestamp, start_timestamp: 0, value }
        };
        let points: Vec<Point> = (range.0..=range.1).map(point).collect();
        let good = cache.good(cache.now(), None).expect("good");
        let (range, epoch) = (TimeRange::new(range.0, range.1), epoch(1));
        Filled { key, range, epoch, good, chunks: encode_points(&points) }
    }

    fn look_up(cache: &ReadCache, key: Identity, epoch: Epoch, range: (i64, i64)) -> FoundPieces {
        let range = TimeRange::new(range.0, range.1);
        cache.look_up(&[Wanted { key, range, last: i64::MAX, epoch }]).remove(0)
    }

    /// The times of the kept points, and what is missing.
    fn times(cache: &ReadCache, found: FoundPieces) -> (Vec<i64>, Option<(i64, i64)>) {
        let missing = found.missing.map(|range| (range.start, range.end));
        let chunks = cache.read(&[found]).remove(0).expect("as it was written");
        let points = chunks.iter().flat_map(Chunk::points);
        (points.map(|point| point.expect("sound").timestamp).collect(), missing)
    }

    #[test]
    fn what_is_kept_comes_back_as_long_as_it_is_good() {
        let dir = tempfile::tempdir().expect("a folder");
        let cache = cache(&dir, 1 << 20);
        let none = Filled { chunks: Vec::new(), ..filled(&cache, key(1), (3, 5)) };
        cache.keep(vec![filled(&cache, key(1), (0, 2)), none, filled(&cache, key(2), (0, 9))]);
        let found = |range| times(&cache, look_up(&cache, key(1), epoch(1), range));
        assert_eq!(found((0, 5)), (vec![0, 1, 2], None));
        assert_eq!(found((4, 5)), (vec![], None));
        assert_eq!(found((1, 9)), (vec![0, 1, 2], Some((6, 9))));
        cache.keep(vec![filled(&cache, key(1), (6, 9))]);
        assert_eq!(found((1, 9)), (vec![0, 1, 2, 6, 7, 8, 9], None));
        let other = look_up(&cache, key(1), epoch(2), (0, 2));
        assert_eq!((other.pieces, other.missing), (0, Some(TimeRange::new(0, 2))));
        assert_eq!(look_up(&cache, key(3), epoch(1), (0, 2)).pieces, 0);
        assert_eq!(cache.metrics.read_cache_entries.get(), 4);
        // Kept while the clock was ahead.
        let (key, range) = (key(1), TimeRange::new(0, 9));
        for (last, missing) in [(9, None), (8, Some(TimeRange::new(6, 9)))] {
            let wanted = Wanted { key, range, last, epoch: epoch(1) };
            assert_eq!(cache.look_up(&[wanted])[0].missing, missing);
        }
    }

    #[test]
    fn nothing_is_good_for_longer_than_its_points_last() {
        let dir = tempfile::tempdir().expect("a folder");
        let cache = cache(&dir, 1 << 20);
        let until = |expires| cache.good(cache.now(), expires).map(|good| good.expires);
        assert_eq!(until(None), Some(Millis::MAX));
        assert_eq!(until(Some(60)), Some(5 + 59_000));
        assert_eq!([until(Some(1)), until(Some(0)), until(Some(-5))], [None; 3]);
        let good = cache.good(cache.now(), Some(60));
        cache.keep(vec![Filled { good: good.expect("good"), ..filled(&cache, key(1), (0, 2)) }]);
        assert_eq!(cache.segments.lock().all[0].pieces(key(1)).next().expect("one").until, 59_005);
    }

    /// With a clock that is moved: how long points are used when each new read finds them unchanged.
    #[test]
    fn an_unchanged_entry_is_used_for_twice_as_long() {
        use std::sync::atomic::{AtomicI64, Ordering};
        let dir = tempfile::tempdir().expect("a folder");
        let mut cache = cache(&dir, 1 << 20);
        let time = Arc::new(AtomicI64::new(0));
        let shown = Arc::clone(&time);
        cache.options.clock = Clock::new(move || shown.load(Ordering::Relaxed));
        cache.options.min_age = Duration::from_secs(10);
        let is_used = |range| look_up(&cache, key(1), epoch(1), range).missing.is_none();
        // Seconds from the read to the last time at which it is used.
        let age = |range| {
            let mut seconds = 0;
            while is_used(range) {
                time.fetch_add(1_000, Ordering::Relaxed);
                seconds += 1;
            }
            seconds
        };
        let read = |range| cache.keep(vec![filled(&cache, key(1), range)]);
        let mut ages = Vec::new();
        for _ in 0..11 {
            read((0, 99));
            // A new read before that time is over earns nothing.
            read((0, 99));
            ages.push(age((0, 99)));
        }
        assert_eq!(ages, [10, 20, 40, 80, 160, 320, 640, 1_280, 2_560, 3_600, 3_600]);
        // Points beside the old ones are new; the old ones keep their age.
        read((0, 120));
        assert_eq!(age((0, 120)), 10);
        assert!(is_used((0, 99)));
        // Changed.
        let none = Filled { chunks: Vec::new(), ..filled(&cache, key(1), (0, 99)) };
        cache.keep(vec![none]);
        assert_eq!(age((0, 99)), 10);
        assert_eq!(cache.metrics.read_cache_damaged.get(), 0);
    }

    #[test]
    fn the_oldest_file_goes_and_the_bounds_hold() {
        let dir = tempfile::tempdir().expect("a folder");
        let bytes = 16 << 10;
        let cache = cache(&dir, bytes);
        let metrics = &cache.metrics;
        for number in 0..200 {
            cache.keep(vec![filled(&cache, key(number), (0, 99))]);
            assert_eq!(look_up(&cache, key(number), epoch(1), (0, 99)).missing, None);
            assert!(metrics.read_cache_bytes.get() <= bytes as i64);
        }
        assert!(metrics.read_cache_evictions.get() > 0);
        assert!(look_up(&cache, key(0), epoch(1), (0, 99)).missing.is_some());
        // Pieces without bytes are bounded too, and a piece larger than a file is not kept.
        for number in 0..10_000 {
            let none = Filled { chunks: Vec::new(), ..filled(&cache, key(number), (0, 0)) };
            cache.keep(vec![none]);
            assert!(metrics.read_cache_entries.get() <= (SEGMENTS * LEAST_PIECES) as i64);
        }
        let large = vec![filled(&cache, key(-1), (0, 9_999)), filled(&cache, key(-2), (0, 9))];
        cache.keep(large);
        assert!(look_up(&cache, key(-1), epoch(1), (0, 9)).missing.is_some());
        assert!(look_up(&cache, key(-2), epoch(1), (0, 9)).missing.is_none());
    }

    #[test]
    fn what_is_known_of_pieces_has_a_share_of_memory() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut cache = cache(&dir, 1 << 30);
        let most = 2 * LEAST_PIECES as u64;
        cache.options.memory = SEGMENTS as u64 * MEMORY_A_PIECE * most;
        let none = |number| Filled { chunks: Vec::new(), ..filled(&cache, key(number), (0, 0)) };
        for number in 0..20 * most as i64 {
            cache.keep(vec![none(number)]);
            assert!(cache.metrics.read_cache_entries.get() <= (SEGMENTS as u64 * most) as i64);
            assert_eq!(look_up(&cache, key(number), epoch(1), (0, 0)).pieces, 1);
        }
        assert!(cache.metrics.read_cache_evictions.get() > 0);
    }

    #[test]
    fn the_older_half_is_given_up_where_memory_is_short() {
        let dir = tempfile::tempdir().expect("a folder");
        let cache = cache(&dir, 16 << 10);
        let files = || cache.segments.lock().all.len();
        let mut last = 0;
        while files() < SEGMENTS {
            last += 1;
            cache.keep(vec![filled(&cache, key(last), (0, 99))]);
        }
        for left in [4, 2, 1] {
            cache.relieve();
            assert_eq!(files(), left);
            assert_eq!(look_up(&cache, key(last), epoch(1), (0, 99)).missing, None);
        }
        cache.relieve();
        cache.relieve();
        assert_eq!((files(), cache.metrics.read_cache_entries.get()), (0, 0));
        cache.keep(vec![filled(&cache, key(1), (0, 9))]);
        assert_eq!(look_up(&cache, key(1), epoch(1), (0, 9)).missing, None);
    }

    #[test]
    fn what_is_useless_makes_room_in_its_place() {
        let dir = tempfile::tempdir().expect("a folder");
        let cache = cache(&dir, 1 << 20);
        for number in 0..20 {
            let again = Filled { epoch: epoch(number), ..filled(&cache, key(1), (0, 9)) };
            cache.keep(vec![again]);
        }
        assert_eq!(cache.metrics.read_cache_entries.get(), 1);
        assert_eq!(look_up(&cache, key(1), epoch(19), (0, 9)).missing, None);
    }

    #[test]
    fn a_file_that_is_not_what_was_written_is_given_up() {
        let dir = tempfile::tempdir().expect("a folder");
        for at in 0..40 {
            let cache = cache(&dir, 1 << 20);
            cache.keep(vec![filled(&cache, key(1), (0, 9)), filled(&cache, key(2), (0, 9))]);
            let file = cache.segments.lock().all[0].file.clone();
            let mut byte = [0];
            match at {
                0 => file.set_len(20).expect("cut"),
                at => {
                    file.read_exact_at(&mut byte, at).expect("read");
                    file.write_all_at(&[byte[0] ^ 4], at).expect("written");
                }
            }
            let found = [1, 2].map(|number| look_up(&cache, key(number), epoch(1), (0, 9)));
            let read = cache.read(&found);
            assert!(read.iter().any(Option::is_none), "byte {at}");
            assert!(cache.metrics.read_cache_damaged.get() > 0);
            assert_eq!(look_up(&cache, key(1), epoch(1), (0, 9)).pieces, 0);
            cache.keep(vec![filled(&cache, key(1), (0, 9))]);
            let (times, missing) = times(&cache, look_up(&cache, key(1), epoch(1), (0, 9)));
            assert_eq!((times.len(), missing), (10, None));
        }
    }

    #[test]
    fn without_a_place_to_write_nothing_is_kept() {
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::write(dir.path().join("made"), "a file").expect("written");
        let cache = cache(&dir, 1 << 20);
        for _ in 0..3 {
            cache.keep(vec![filled(&cache, key(1), (0, 9))]);
            assert!(look_up(&cache, key(1), epoch(1), (0, 9)).missing.is_some());
        }
        std::fs::remove_file(dir.path().join("made")).expect("removed");
        *cache.rests_until.lock() = Some(Instant::now());
        cache.keep(vec![filled(&cache, key(1), (0, 9))]);
        assert!(look_up(&cache, key(1), epoch(1), (0, 9)).missing.is_none());
        let left = std::fs::read_dir(dir.path().join("made/when/needed")).expect("a folder");
        assert_eq!(left.count(), 0, "files have no names");
    }
}
