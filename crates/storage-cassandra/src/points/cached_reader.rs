//! Reads series through the read cache: settled points from the cache, the rest from Cassandra. Settled
//! points that Cassandra returned are added to the cache.
//!
//! A run of series takes one look-up in the cache, one read of its files, reads of the missing ranges,
//! and one write. Chunks of another piece are encoded without knowing the point before them.

use std::collections::BTreeSet;
use std::iter::repeat_n;
use std::ops::Range;
use std::sync::Arc;

use futures::FutureExt;

use crate::cql::concurrent::all;
use crate::cql::stamp::now_ms;
use crate::identity::Identity;
use crate::index::found::{Candidates, FoundRow, FoundSeries, windows_of};
use crate::options::read_cache::ReadCacheOptions;
use crate::points::epochs::{Epoch, EpochLog, EpochsByMetric};
use crate::points::point_store::PointStore;
use crate::points::read_cache::{Filled, FoundPieces, ReadCache, Wanted};
use crate::points::reader::{Cells, SERIES_AT_ONCE};
use promkairos_chunk::{Chunk, StampedPoint, encode_stamped};
use promkairos_model::TimeRange;
use promkairos_storage::{StoreError, bytes_of_chunk, check_series_bytes};

/// Where the selected range continues behind the settled part, settled points are kept up to a multiple
/// of this many milliseconds. So a range that ends now adds a piece once per step, not with every query.
const STEP: i64 = 600_000;

/// The most epochs that are read ahead.
const EPOCHS_AHEAD: usize = 100;

/// The points behind the read cache.
pub(crate) struct CachedPoints {
    points: Arc<PointStore>,
    epochs: Arc<EpochLog>,
    /// None where the cache is off, or the keyspace keeps no epochs.
    cache: Option<Arc<ReadCache>>,
}

/// What a selection needs to read through the cache.
pub(crate) struct Cached {
    points: Arc<PointStore>,
    cache: Arc<ReadCache>,
    /// The last settled millisecond.
    settled: i64,
    /// The epoch of the metric of each series, read before any of its rows.
    epochs: Vec<Epoch>,
}

/// The rows of one series in one window.
struct Group<'a> {
    rows: &'a [FoundRow],
    /// The part of the selected range in this window.
    range: TimeRange,
    /// The part of `range` that is kept in the cache; None = nothing.
    kept: Option<Wanted>,
    /// The last millisecond that may be kept.
    last: i64,
}

/// What the cache has of a group, and what is missing.
struct Partly {
    chunks: Vec<Chunk>,
    pieces: usize,
    missing: Option<TimeRange>,
    /// The last millisecond of the pieces.
    end: Option<i64>,
}

/// The chunks of a series that was read.
#[derive(Default)]
struct Whole {
    chunks: Vec<Chunk>,
    /// What is to be added to the cache.
    filled: Vec<Filled>,
}

impl CachedPoints {
    pub(crate) fn new(
        points: &Arc<PointStore>,
        epochs: &Arc<EpochLog>,
        options: Option<ReadCacheOptions>,
    ) -> Self {
        let options = options.filter(|_| epochs.is_kept());
        let metrics = points.cql.executor.metrics.clone();
        let cache = options.map(|options| Arc::new(ReadCache::new(options, metrics)));
        Self { points: Arc::clone(points), epochs: Arc::clone(epochs), cache }
    }

    /// Frees memory. Blocks.
    pub(crate) fn relieve(&self) {
        if let Some(cache) = &self.cache {
            cache.relieve();
        }
    }

    /// Prepares a read of these series through the cache. None where the cache is off, has no use for the
    /// range, or cannot be checked to be current. Epochs that were read ahead are not read again.
    pub(crate) async fn open(
        &self,
        found: &[FoundSeries],
        range: TimeRange,
        ahead: Result<EpochsByMetric, StoreError>,
    ) -> Option<Cached> {
        let cache = self.cache.as_ref()?;
        let settled = cache.settled(now_ms());
        if kept_part(range, settled).is_none() || self.points.cql.skew.check().is_err() {
            return None;
        }
        // Series of one metric mostly follow each other.
        let runs = found.chunk_by(|a, b| a.metric() == b.metric());
        let runs: Vec<(&str, usize)> = runs.map(|run| (run[0].metric(), run.len())).collect();
        let read = async {
            let mut by_metric = ahead?;
            let metrics = runs.iter().map(|(metric, _)| *metric);
            let missing = metrics.filter(|metric| !by_metric.contains_key(*metric)).collect();
            by_metric.extend(self.epochs.read(missing).await?);
            Ok::<_, StoreError>(by_metric)
        };
        let by_metric = match read.await {
            Ok(by_metric) => by_metric,
            Err(error) => {
                cache.warn_of_epochs(&error);
                return None;
            }
        };
        let of_run = |(metric, count): (&str, usize)| repeat_n(by_metric[metric], count);
        let epochs = runs.into_iter().flat_map(of_run).collect();
        let points = Arc::clone(&self.points);
        Some(Cached { points, cache: Arc::clone(cache), settled, epochs })
    }

    /// Reads the epochs of those metrics whose series are in memory, for [`Self::open`], while the series
    /// are looked up: one wait instead of two. Returns no epochs where there are more than [`EPOCHS_AHEAD`]
    /// metrics, because the other matchers may leave few of them.
    pub(crate) async fn epochs_ahead(
        &self,
        metrics: &Candidates<'_>,
        range: TimeRange,
    ) -> Result<EpochsByMetric, StoreError> {
        let Some(cache) = &self.cache else { return Ok(EpochsByMetric::new()) };
        if kept_part(range, cache.settled(now_ms())).is_none()
            || self.points.cql.skew.check().is_err()
        {
            return Ok(EpochsByMetric::new());
        }
        let in_memory: BTreeSet<&str> = metrics.in_memory.iter().map(|key| key.metric).collect();
        if in_memory.len() > EPOCHS_AHEAD {
            return Ok(EpochsByMetric::new());
        }
        self.epochs.read(in_memory).await
    }

    /// Counts the rows of these series whose settled part of the range is entirely in the cache.
    pub(crate) async fn count_cached(&self, found: &[FoundSeries], range: TimeRange) -> usize {
        let cached = self.open(found, range, Ok(EpochsByMetric::new())).await;
        let Some(cached) = cached else { return 0 };
        let mut rows = 0;
        for (series, epoch) in found.iter().zip(&cached.epochs) {
            for group in cached.groups(&series.rows, range, *epoch) {
                let Some(kept) = group.kept else { continue };
                let is_whole = cached.cache.look_up(&[kept])[0].missing.is_none();
                rows += if is_whole { group.rows.len() } else { 0 };
            }
        }
        rows
    }
}

impl Cached {
    /// The chunks of some series of a selection; each series may have at most `most_bytes`.
    pub(crate) async fn read(
        &self,
        range: TimeRange,
        (rows, most_bytes): (&[Vec<FoundRow>], usize),
        run: Range<usize>,
    ) -> Result<Vec<Vec<Chunk>>, StoreError> {
        let series = rows[run.clone()].iter().zip(&self.epochs[run]);
        let series: Vec<Vec<Group<'_>>> =
            series.map(|(rows, epoch)| self.groups(rows, range, *epoch).collect()).collect();
        let wanted: Vec<Wanted> = series.iter().flatten().filter_map(|group| group.kept).collect();
        let mut found = self.look_up(wanted).await?.into_iter();
        let mut with_found = |group| {
            let Group { kept, .. } = group;
            (group, kept.and_then(|_| found.next()))
        };
        let series: Vec<Vec<_>> = series
            .into_iter()
            .map(|groups| groups.into_iter().map(&mut with_found).collect())
            .collect();
        let reads = series.into_iter().map(|groups| self.read_series(groups, most_bytes).boxed());
        let read = all(SERIES_AT_ONCE, Box::new(reads)).await?;
        let (mut chunks, mut filled) = (Vec::with_capacity(read.len()), Vec::new());
        for whole in read {
            chunks.push(whole.chunks);
            filled.extend(whole.filled);
        }
        if !filled.is_empty() {
            let cache = Arc::clone(&self.cache);
            blocking(move || cache.keep(filled)).await?;
        }
        Ok(chunks)
    }

    /// The windows of one series, in order of time.
    fn groups<'a>(
        &self,
        rows: &'a [FoundRow],
        range: TimeRange,
        epoch: Epoch,
    ) -> impl Iterator<Item = Group<'a>> {
        let (width, settled) = (self.points.spec.width(), self.settled);
        windows_of(rows).map(move |rows| {
            let row_time = rows[0].row_time.millis();
            let end = row_time.saturating_add(width - 1);
            let own = TimeRange::new(row_time, end).intersection(range);
            let Some(range) = own.filter(|_| row_time >= 0) else {
                // For times before 1970 the set of rows depends on the range.
                return Group { rows, range, kept: None, last: range.end };
            };
            let kept = kept_part(range, settled);
            let last = end.min(settled);
            let kept = kept.map(|range| Wanted { key: key_of(rows), range, last, epoch });
            Group { rows, range, kept, last }
        })
    }

    /// What the cache has of each wanted range.
    async fn look_up(&self, wanted: Vec<Wanted>) -> Result<Vec<Partly>, StoreError> {
        let found = self.cache.look_up(&wanted);
        let cache = Arc::clone(&self.cache);
        let (found, chunks) = match found.iter().any(FoundPieces::has_points) {
            false => {
                let none = found.iter().map(|_| Some(Vec::new())).collect();
                (found, none)
            }
            true => {
                blocking(move || {
                    let chunks = cache.read(&found);
                    (found, chunks)
                })
                .await?
            }
        };
        let whole = chunks.iter().zip(&found);
        let whole = whole.filter(|(chunks, found)| chunks.is_some() && found.missing.is_none());
        let hits = whole.count();
        let metrics = &self.points.cql.executor.metrics;
        metrics.read_cache_hits.inc_by(hits as u64);
        metrics.read_cache_misses.inc_by((wanted.len() - hits) as u64);
        let partly = wanted.iter().zip(found).zip(chunks).map(|((wanted, found), chunks)| {
            let Some(chunks) = chunks else {
                let missing = Some(wanted.range);
                return Partly { chunks: Vec::new(), pieces: 0, missing, end: None };
            };
            Partly { chunks, pieces: found.pieces, missing: found.missing, end: found.end }
        });
        Ok(partly.collect())
    }

    /// Reads the missing ranges, window by window.
    async fn read_series(
        &self,
        groups: Vec<(Group<'_>, Option<Partly>)>,
        most_bytes: usize,
    ) -> Result<Whole, StoreError> {
        let (mut whole, mut bytes) = (Whole::default(), 0);
        for (group, partly) in groups {
            let begin = whole.chunks.len();
            let (mut missing, mut end) = (None, None);
            if let Some(partly) = partly {
                let chunks = partly.chunks.into_iter();
                whole.chunks.extend(chunks.filter(|chunk| group.selects(chunk)));
                end = partly.end;
                missing = partly.missing.map(|missing| group.stretch(missing, partly.pieces));
            }
            for range in group.reads(missing, end) {
                self.read_part(&group, (range, missing), &mut whole).await?;
            }
            whole.chunks[begin..].sort_by_key(|chunk| chunk.min_time);
            bytes += whole.chunks[begin..].iter().map(bytes_of_chunk).sum::<usize>();
            check_series_bytes(&group.rows[0].row.labels, bytes, most_bytes)?;
        }
        Ok(whole)
    }

    /// Reads a range of a window. The part of it in `missing` is to be kept.
    async fn read_part(
        &self,
        group: &Group<'_>,
        (range, missing): (TimeRange, Option<TimeRange>),
        whole: &mut Whole,
    ) -> Result<(), StoreError> {
        let missing = missing.filter(|missing| missing.overlaps(&range));
        let begin = self.cache.now();
        let (Some(missing), Some(Wanted { key, epoch, .. })) = (missing, group.kept) else {
            let read = self.points.read_window_points(group.rows, range, Cells::Bare).await?;
            whole.chunks.extend(encode_stamped(&read.points));
            return Ok(());
        };
        let mut read = self.points.read_window_points(group.rows, range, Cells::WithTtl).await?;
        let is_kept = |entry: &StampedPoint| entry.point.timestamp <= missing.end;
        let rest = read.points.split_off(read.points.partition_point(is_kept));
        let chunks = encode_stamped(&read.points);
        whole.chunks.extend_from_slice(&chunks);
        whole.chunks.extend(encode_stamped(&rest));
        if let Some(good) = self.cache.good(begin, read.expires) {
            whole.filled.push(Filled { key, range: missing, epoch, good, chunks });
        }
        Ok(())
    }
}

impl Group<'_> {
    /// Whether a chunk from the cache overlaps the range. Chunks behind the kept part count too, because
    /// the read from Cassandra begins behind the pieces.
    fn selects(&self, chunk: &Chunk) -> bool {
        TimeRange::new(chunk.min_time, chunk.max_time).overlaps(&self.range)
    }

    /// Extends a missing range at the end of a sliding settled range, so that not every query has a new
    /// end to read.
    fn stretch(&self, missing: TimeRange, pieces: usize) -> TimeRange {
        if pieces == 0 || missing.end != self.range.end {
            return missing;
        }
        let end = missing.end.saturating_add(STEP - missing.end.rem_euclid(STEP) - 1);
        TimeRange::new(missing.start, end.min(self.last).max(missing.end))
    }

    /// The ranges to read: `missing`, and what lies neither in the kept part nor in pieces, which end at
    /// `end` and may reach further. Adjacent ranges are joined.
    fn reads(
        &self,
        missing: Option<TimeRange>,
        end: Option<i64>,
    ) -> impl Iterator<Item = TimeRange> {
        let known = self.kept.map(|kept| end.map_or(kept.range.end, |end| end.max(kept.range.end)));
        let rest = match known {
            None => Some(self.range),
            Some(known) if known < self.range.end => {
                Some(TimeRange::new(known + 1, self.range.end))
            }
            Some(_) => None,
        };
        let ranges = match (missing, rest) {
            (Some(missing), Some(rest)) if missing.end + 1 == rest.start => {
                [Some(missing.hull(rest)), None]
            }
            both => [both.0, both.1],
        };
        ranges.into_iter().flatten()
    }
}

/// The cache key of the rows of a window; there is at least one row.
fn key_of(rows: &[FoundRow]) -> Identity {
    let rest = rows[1..].iter().map(FoundRow::identity);
    rest.fold(rows[0].identity(), Identity::join)
}

/// The part of a range that is kept in the cache, if any.
fn kept_part(range: TimeRange, settled: i64) -> Option<TimeRange> {
    let end = match range.end <= settled {
        true => range.end,
        false => settled - settled.rem_euclid(STEP) - 1,
    };
    let part = TimeRange::new(range.start, end);
    (!part.is_empty()).then_some(part)
}

/// Runs work on files where it does not block async tasks.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, StoreError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| StoreError::Backend {
        what: "the read cache".into(),
        source: Box::new(error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::index_row::IndexRow;
    use promkairos_kairos::{DataType, RowTime};

    fn range((start, end): (i64, i64)) -> TimeRange {
        TimeRange::new(start, end)
    }

    fn group(selected: (i64, i64), kept: Option<(i64, i64)>, last: i64) -> Group<'static> {
        let (key, epoch) = (Identity::of(&[]), Identity::of(&[]));
        let kept = kept.map(|kept| Wanted { key, range: range(kept), last, epoch });
        Group { rows: &[], range: range(selected), kept, last }
    }

    #[test]
    fn rows_are_kept_by_all_of_them_in_their_order() {
        let row = |host: &str, time: i64| {
            let row = IndexRow::of_tags("m", DataType::Double, &[("host", host)]);
            FoundRow { row: Arc::new(row.expect("labels")), row_time: RowTime::from_stored(time) }
        };
        let (a, b, later) = (row("a", 0), row("b", 0), row("a", 1_814_400_000));
        assert_eq!(key_of(std::slice::from_ref(&a)), a.identity());
        assert_eq!(key_of(&[a.clone(), b.clone()]), key_of(&[row("a", 0), row("b", 0)]));
        let lists = [
            vec![a.clone()],
            vec![b.clone()],
            vec![later.clone()],
            vec![a.clone(), b.clone()],
            vec![b.clone(), a.clone()],
            vec![a.clone(), a.clone()],
            vec![a.clone(), later],
            vec![a.clone(), b, a],
        ];
        let keys: Vec<Identity> = lists.iter().map(|rows| key_of(rows)).collect();
        for (at, key) in keys.iter().enumerate() {
            assert!(!keys[..at].contains(key), "{at}");
        }
    }

    #[test]
    fn what_is_settled_is_kept_up_to_a_step_where_the_rest_is_read_anyway() {
        let settled = 10 * STEP + 5;
        for (selected, want) in [
            ((0, settled), Some((0, settled))),
            ((0, settled + 1), Some((0, 10 * STEP - 1))),
            ((10 * STEP - 1, i64::MAX), Some((10 * STEP - 1, 10 * STEP - 1))),
            ((10 * STEP, i64::MAX), None),
            ((7, 7), Some((7, 7))),
            ((8, 7), None),
        ] {
            assert_eq!(kept_part(range(selected), settled), want.map(range), "{selected:?}");
        }
    }

    #[test]
    fn one_read_where_what_is_missing_and_the_rest_touch() {
        let check_with =
            |group: Group<'_>, missing: Option<(i64, i64)>, end, want: &[(i64, i64)]| {
                let reads: Vec<TimeRange> = group.reads(missing.map(range), end).collect();
                let want: Vec<TimeRange> = want.iter().copied().map(range).collect();
                assert_eq!(reads, want);
            };
        let check = |group, missing, want: &[_]| check_with(group, missing, None, want);
        check(group((0, 99), Some((0, 99)), 99), None, &[]);
        check(group((0, 99), Some((0, 99)), 99), Some((3, 5)), &[(3, 5)]);
        check(group((0, 99), Some((0, 49)), 49), None, &[(50, 99)]);
        check(group((0, 99), Some((0, 49)), 49), Some((40, 49)), &[(40, 99)]);
        check(group((0, 99), Some((0, 49)), 49), Some((0, 4)), &[(0, 4), (50, 99)]);
        check(group((0, 99), None, 49), None, &[(0, 99)]);
        // Pieces that end before, at and behind the kept part of this range.
        let to_49 = || group((0, 99), Some((0, 49)), 49);
        check_with(to_49(), Some((40, 49)), Some(39), &[(40, 99)]);
        check_with(to_49(), None, Some(49), &[(50, 99)]);
        check_with(to_49(), None, Some(70), &[(71, 99)]);
        check_with(to_49(), Some((0, 4)), Some(70), &[(0, 4), (71, 99)]);
        check_with(to_49(), None, Some(99), &[]);
        check_with(to_49(), None, Some(i64::MAX), &[]);
    }

    #[test]
    fn the_end_of_a_range_that_slides_is_read_ahead() {
        let stretch = |last, missing, pieces| {
            let group = group((0, 1_000), Some((0, 1_000)), last);
            let stretched = group.stretch(range(missing), pieces);
            (stretched.start, stretched.end)
        };
        assert_eq!(stretch(i64::MAX, (900, 1_000), 1), (900, STEP - 1));
        assert_eq!(stretch(5_000, (900, 1_000), 1), (900, 5_000), "not into the next window");
        assert_eq!(stretch(i64::MAX, (0, 1_000), 0), (0, 1_000), "only if it slides");
        assert_eq!(stretch(i64::MAX, (0, 999), 1), (0, 999), "only at the end");
    }
}
