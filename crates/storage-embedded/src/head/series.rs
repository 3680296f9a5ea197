//! The recent points of one series.
//!
//! A point newer than all before is appended to an open chunk; other points are late and go into a
//! small sorted buffer. An in-order point never has the timestamp of an earlier one. So at equal
//! timestamps the late point was accepted later, and wins. Points in a flush stay here, and in
//! reads, until the store below returns them.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use bytes::Bytes;

use promkairos_chunk::{Appended, Chunk, ChunkBuilder, ChunkError, OpenChunk, StampedPoint};
use promkairos_model::limits::{MAX_CHUNK_POINTS, PARTITION_MS};
use promkairos_model::{Exemplar, Labels, Point, Sample, TimeRange, Value};
use promkairos_storage::{DayCounts, merge};

/// Late points that are kept as points; more are encoded.
const LATE_POINTS: usize = 512;
/// Neighbouring series end their first chunks at this number of different lengths; later chunks are
/// full. Many series begin together, after a start or a flush: a scrape that filled the chunks of
/// all of them would take several times as long as others.
const FIRST_ENDS: usize = 64;
/// A chunk with fewer points a day than this goes on after the end of its day.
const FEW_POINTS: u64 = 16;
const _: () = assert!(FIRST_ENDS < MAX_CHUNK_POINTS && MAX_CHUNK_POINTS <= u8::MAX as usize);

/// One series in memory.
#[derive(Debug, Default)]
pub(super) struct MemSeries {
    open: Option<OpenChunk>,
    /// Closed chunks of points in order.
    sealed: Vec<Chunk>,
    /// Chunks of the flush in progress, in order of acceptance.
    flushing: Vec<Chunk>,
    rare: Option<Box<Rare>>,
    /// In-order points are newer than this; `None` = only the open chunk decides.
    newest: Option<i64>,
    /// Whether any point had a start timestamp or was an integer.
    sided: bool,
    /// Number, modulo 256, of the last flush that this series has joined.
    flush: u8,
    /// Position among its neighbours; decides the length of its first chunk.
    place: u8,
    /// Number of points at which an open chunk of floats ends.
    full_at: u8,
}

/// What most series do not have.
#[derive(Debug, Default)]
struct Rare {
    /// Late points by timestamp.
    late: Vec<StampedPoint>,
    late_sealed: Vec<Chunk>,
    /// Values by time and labels, which identify an exemplar within its series.
    exemplars: BTreeMap<(i64, Labels), f64>,
}

/// How a point was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    /// Newer than all before.
    InOrder,
    /// Newer than all before. It ended a chunk that was not full, because that chunk cannot hold it.
    Cut,
    /// Not newer.
    Late,
    /// The newest point again, bit for bit.
    Again,
}

impl MemSeries {
    /// A series without points, at this position among its neighbours.
    pub(super) fn new(place: u8) -> Self {
        Self { place, full_at: first_end(place), ..Self::default() }
    }

    /// Empties it, for another series at the same position.
    pub(super) fn clear(&mut self) {
        *self = Self::new(self.place);
    }

    /// Moves it to another position; an empty series stays here.
    pub(super) fn move_to(&mut self, place: u8) -> Self {
        let moved = std::mem::replace(self, Self::new(self.place));
        Self { place, ..moved }
    }

    /// Takes a float. `stamp` is its acceptance time; 0 = not kept.
    pub(super) fn push_float(&mut self, sample: &Sample, stamp: i64) -> Taken {
        let Sample { timestamp, start_timestamp, value } = *sample;
        self.sided |= start_timestamp != 0;
        let late = || StampedPoint { point: (*sample).into(), long: None, stamp };
        let Some(open) = &mut self.open else {
            if self.is_late(timestamp) {
                return self.push_late(late());
            }
            self.open = Some(OpenChunk::with_float(timestamp, start_timestamp, value, stamp));
            return Taken::InOrder;
        };
        match timestamp.cmp(&open.max_time()) {
            Ordering::Greater => {}
            Ordering::Equal if self.is_again(sample, stamp) => return Taken::Again,
            Ordering::Equal | Ordering::Less => return self.push_late(late()),
        }
        let goes_on = has_room(open, self.full_at, timestamp);
        if goes_on && open.append_float(timestamp, start_timestamp, value, stamp) == Appended::Yes {
            return Taken::InOrder;
        }
        self.begin_chunk(OpenChunk::with_float(timestamp, start_timestamp, value, stamp));
        if goes_on { Taken::Cut } else { Taken::InOrder }
    }

    /// Takes an integer.
    pub(super) fn push_long(&mut self, timestamp: i64, long: i64, stamp: i64) -> Taken {
        self.sided = true;
        if self.is_late(timestamp) {
            return self.push_late(StampedPoint::of_long(timestamp, long, stamp));
        }
        let mut goes_on = false;
        if let Some(open) = &mut self.open {
            goes_on = has_room(open, self.full_at, timestamp);
            if goes_on && open.append_long(timestamp, long, stamp) == Appended::Yes {
                return Taken::InOrder;
            }
        }
        self.begin_chunk(OpenChunk::with_long(timestamp, long, stamp));
        if goes_on { Taken::Cut } else { Taken::InOrder }
    }

    /// Closes the open chunk, and goes on in another.
    fn begin_chunk(&mut self, next: OpenChunk) {
        let Some(open) = self.open.replace(next) else { return };
        // Grows slowly: most series have few chunks until the next flush, and there may be a million.
        if self.sealed.len() == self.sealed.capacity() {
            self.sealed.reserve_exact(1 + self.sealed.len() / 4);
        }
        self.sealed.push(open.to_chunk());
        self.full_at = MAX_CHUNK_POINTS as u8;
    }

    /// Takes a point of any kind.
    pub(super) fn push(&mut self, point: Point, stamp: i64) -> Taken {
        if let Value::Float(value) = point.value {
            let Point { timestamp, start_timestamp, .. } = point;
            return self.push_float(&Sample { timestamp, start_timestamp, value }, stamp);
        }
        if self.is_late(point.timestamp) {
            return self.push_late(StampedPoint { point, long: None, stamp });
        }
        match &mut self.open {
            Some(open) if stays_open(open.range(), open.count(), point.timestamp) => {
                self.sealed.extend(open.push(&point, stamp));
            }
            open => {
                self.sealed.extend(open.take().map(|open| open.to_chunk()));
                *open = Some(OpenChunk::new(&point, stamp));
            }
        }
        Taken::InOrder
    }

    /// Keeps an exemplar; replaces one with the same labels and time.
    pub(super) fn push_exemplar(&mut self, exemplar: Exemplar) {
        let Exemplar { labels, value, timestamp } = exemplar;
        self.rare.get_or_insert_default().exemplars.insert((timestamp, labels), value);
    }

    /// The chunks that share time with `range`, in order of acceptance; they may overlap.
    pub(super) fn chunks(&self, range: &TimeRange) -> Vec<Chunk> {
        let inside = |chunk: &&Chunk| range.overlaps(&chunk.range());
        let closed = self.flushing.iter().chain(&self.sealed).filter(inside);
        let open = self.open.as_ref().filter(|open| range.overlaps(&open.range()));
        // No spare room: a query may keep the chunks of a million series.
        let mut chunks = Vec::with_capacity(closed.clone().count() + open.iter().len());
        chunks.extend(closed.cloned());
        chunks.extend(open.map(OpenChunk::to_chunk));
        if let Some(rare) = &self.rare {
            chunks.extend(rare.late_sealed.iter().filter(inside).cloned());
            chunks.extend(encode(
                rare.late.iter().filter(|late| range.contains(late.point.timestamp)),
            ));
        }
        chunks
    }

    /// Whether a point may lie in `range`.
    pub(super) fn may_have(&self, range: &TimeRange) -> bool {
        let is_late_inside =
            |rare: &Rare| rare.late.iter().any(|late| range.contains(late.point.timestamp));
        self.closed().any(|chunk| range.overlaps(&chunk.range()))
            || self.open.as_ref().is_some_and(|open| range.overlaps(&open.range()))
            || self.rare.as_deref().is_some_and(is_late_inside)
    }

    /// All chunks except the open one.
    fn closed(&self) -> impl Iterator<Item = &Chunk> + Clone {
        let late = self.rare.iter().flat_map(|rare| &rare.late_sealed);
        self.flushing.iter().chain(&self.sealed).chain(late)
    }

    /// How many chunks there are, and the first and the last time of their points.
    pub(super) fn extent(&self) -> (u64, Option<TimeRange>) {
        let chunks = self.closed().map(Chunk::range).chain(self.open.iter().map(OpenChunk::range));
        // Late points are sorted by time.
        let late = self.rare.as_ref().map(|rare| &rare.late);
        let late = late.and_then(|late| late.first().zip(late.last()));
        let late = late.map(|(a, b)| TimeRange::new(a.point.timestamp, b.point.timestamp));
        let count = chunks.clone().count() as u64;
        (count, chunks.chain(late).reduce(TimeRange::hull))
    }

    /// The number of points.
    pub(super) fn points(&self) -> u64 {
        let closed: u64 = self.closed().map(|chunk| u64::from(chunk.count)).sum();
        let open = self.open.as_ref().map_or(0, OpenChunk::count);
        let late = self.rare.as_ref().map_or(0, |rare| rare.late.len());
        closed + (open + late) as u64
    }

    /// The exemplars in `range`, by time and then by labels.
    pub(super) fn exemplars(&self, range: &TimeRange) -> impl Iterator<Item = Exemplar> + '_ {
        let end = range.end;
        // No label set comes before the empty one.
        let from = (range.start, Labels::default());
        let all = self.rare.iter().flat_map(move |rare| rare.exemplars.range(from.clone()..));
        let all = all.take_while(move |((timestamp, _), _)| *timestamp <= end);
        all.map(|((timestamp, labels), value)| {
            let (labels, value, timestamp) = (labels.clone(), *value, *timestamp);
            Exemplar { labels, value, timestamp }
        })
    }

    /// Moves all points to the flush with this number, once.
    pub(super) fn join_flush(&mut self, number: u8) -> &mut Self {
        if self.flush != number {
            self.flush = number;
            self.begin_flush();
        }
        self
    }

    fn begin_flush(&mut self) {
        let newest = self.newest();
        self.full_at = first_end(self.place);
        let open = self.open.take().map(|open| open.to_chunk());
        self.sealed.reserve_exact(open.iter().len());
        self.sealed.extend(open);
        match self.flushing.is_empty() {
            true => self.flushing = std::mem::take(&mut self.sealed),
            false => self.flushing.append(&mut self.sealed),
        }
        if let Some(rare) = &mut self.rare {
            self.flushing.append(&mut rare.late_sealed);
            self.flushing.extend(encode(&std::mem::take(&mut rare.late)));
        }
        self.sealed = Vec::new();
        // A later point that is not newer must stay late while reads include the flush.
        self.newest = newest;
    }

    /// Whether the flush with this number has points of this series.
    pub(super) fn is_in_flush(&self, number: u8) -> bool {
        match self.flush == number {
            true => !self.flushing.is_empty(),
            false => self.may_have(&TimeRange::ALL),
        }
    }

    /// The chunks of this series in the flush with this number. A series without newer points is not changed: closing
    /// the chunks of all series at once would take a good part of their memory again.
    pub(super) fn flushing(&self, number: u8) -> Vec<Chunk> {
        match self.flush == number {
            true => self.flushing.iter().map(unshared).collect(),
            false => self.chunks(&TimeRange::ALL),
        }
    }

    /// Counts the points of this series in the flush with this number.
    pub(super) fn count_days(&self, number: u8, days: &mut DayCounts) {
        let mut add = |chunk: &Chunk| days.add(chunk.min_time, chunk.max_time, chunk.count.into());
        if self.flush == number {
            return self.flushing.iter().for_each(add);
        }
        self.closed().for_each(&mut add);
        for late in self.rare.iter().flat_map(|rare| &rare.late) {
            days.add(late.point.timestamp, late.point.timestamp, 1);
        }
        if let Some(open) = &self.open {
            days.add(open.range().start, open.range().end, open.count() as u64);
        }
    }

    /// Drops the points of the flush with this number, which the store below has now. Drops
    /// `exemplars`, sorted by time and then by labels, unless their value has changed meanwhile.
    pub(super) fn end_flush(&mut self, number: u8, exemplars: &[Exemplar]) {
        if self.flush != number {
            self.flush = number;
            self.full_at = first_end(self.place);
            (self.open, self.sealed) = (None, Vec::new());
            if let Some(rare) = &mut self.rare {
                (rare.late, rare.late_sealed) = Default::default();
            }
        }
        self.flushing = Vec::new();
        // A point newer than everything that is left counts as in order again.
        self.newest = self.sealed.iter().map(|chunk| chunk.max_time).max();
        let Some(rare) = &mut self.rare else { return };
        let late = rare.late.last().map(|late| late.point.timestamp);
        let late_sealed = rare.late_sealed.iter().map(|chunk| chunk.max_time).max();
        self.newest = self.newest.max(late).max(late_sealed);
        let key = |flushed: &Exemplar, kept: &(i64, Labels)| {
            (flushed.timestamp, &flushed.labels).cmp(&(kept.0, &kept.1))
        };
        // Both are sorted.
        let mut flushed = exemplars.iter().peekable();
        rare.exemplars.retain(|kept, value| {
            while flushed.next_if(|flushed| key(flushed, kept).is_lt()).is_some() {}
            let same = flushed.next_if(|flushed| key(flushed, kept).is_eq());
            same.is_none_or(|flushed| flushed.value.to_bits() != value.to_bits())
        });
        if rare.late.is_empty() && rare.late_sealed.is_empty() && rare.exemplars.is_empty() {
            self.rare = None;
        }
    }

    /// Whether there are no points and no exemplars.
    pub(super) fn is_empty(&self) -> bool {
        let exemplars = self.rare.as_ref().is_some_and(|rare| !rare.exemplars.is_empty());
        !self.may_have(&TimeRange::ALL) && !exemplars
    }

    /// Removes the points and exemplars in `range`.
    pub(super) fn delete(&mut self, range: &TimeRange) -> Result<(), ChunkError> {
        let newest = self.newest();
        let reached = self.open.take_if(|open| range.overlaps(&open.range()));
        self.sealed.extend(reached.map(|open| open.to_chunk()));
        self.newest = newest;
        self.flushing = merge::cut(std::mem::take(&mut self.flushing), *range)?;
        self.sealed = merge::cut(std::mem::take(&mut self.sealed), *range)?;
        let Some(rare) = &mut self.rare else { return Ok(()) };
        rare.late_sealed = merge::cut(std::mem::take(&mut rare.late_sealed), *range)?;
        rare.late.retain(|late| !range.contains(late.point.timestamp));
        rare.exemplars.retain(|(timestamp, _), _| !range.contains(*timestamp));
        Ok(())
    }

    /// The newest timestamp that points in order must pass.
    fn newest(&self) -> Option<i64> {
        let open = self.open.as_ref().map(OpenChunk::max_time);
        open.max(self.newest)
    }

    fn is_late(&self, timestamp: i64) -> bool {
        self.newest().is_some_and(|newest| timestamp <= newest)
    }

    /// Whether the sample is the newest point again. Side columns are not read, so the answer is no if the
    /// series has any.
    fn is_again(&self, sample: &Sample, stamp: i64) -> bool {
        let last = self.open.as_ref().and_then(OpenChunk::last_float);
        let late = self.rare.as_ref().is_some_and(|rare| {
            // A late point at this time was accepted after the in-order point.
            !rare.late.is_empty() || !rare.late_sealed.is_empty()
        });
        stamp == 0
            && !self.sided
            && !late
            && last.is_some_and(|v| v.to_bits() == sample.value.to_bits())
    }

    fn push_late(&mut self, entry: StampedPoint) -> Taken {
        let rare = self.rare.get_or_insert_default();
        let time = entry.point.timestamp;
        match rare.late.binary_search_by_key(&time, |late| late.point.timestamp) {
            Ok(at) => rare.late[at] = entry,
            Err(at) => rare.late.insert(at, entry),
        }
        if rare.late.len() >= LATE_POINTS {
            rare.late_sealed.extend(encode(&std::mem::take(&mut rare.late)));
        }
        Taken::Late
    }
}

/// Number of points at which the first chunk of a series at this position ends.
fn first_end(place: u8) -> u8 {
    (MAX_CHUNK_POINTS - usize::from(place) % FIRST_ENDS) as u8
}

/// A copy for short use. A shared chunk would keep a reference count, for each of a million chunks.
fn unshared(chunk: &Chunk) -> Chunk {
    const FEW: usize = 1 << 10;
    if chunk.data.len() > FEW {
        return chunk.clone();
    }
    Chunk { data: Bytes::copy_from_slice(&chunk.data), ..chunk.clone() }
}

/// Whether a chunk may take a point of this time. A chunk ends with its day unless it has few points a day: a series
/// with one point a day would have a chunk for each. Callers that need single days cut the chunk.
fn stays_open(range: TimeRange, count: usize, timestamp: i64) -> bool {
    let day = |time: i64| time.div_euclid(PARTITION_MS);
    let days = day(range.end).abs_diff(day(range.start)).saturating_add(1);
    day(range.end) == day(timestamp) || (count as u64) < days.saturating_mul(FEW_POINTS)
}

/// Whether an open chunk that ends at `full_at` points may take a point of this time.
fn has_room(open: &OpenChunk, full_at: u8, timestamp: i64) -> bool {
    stays_open(open.range(), open.count(), timestamp) && open.count() < usize::from(full_at)
}

/// Encodes points with rising times, cut as in-order chunks are.
fn encode<'a>(points: impl IntoIterator<Item = &'a StampedPoint>) -> Vec<Chunk> {
    let mut chunks = Vec::new();
    let mut builder = ChunkBuilder::default();
    let (mut run, mut count): (Option<TimeRange>, _) = (None, 0);
    for entry in points {
        let time = entry.point.timestamp;
        let own = TimeRange::new(time, time);
        if run.take_if(|run| !stays_open(*run, count, time)).is_some() {
            chunks.extend(std::mem::take(&mut builder).finish());
            count = 0;
        }
        run = Some(run.map_or(own, |run| run.hull(own)));
        count += 1;
        builder.push_stamped(entry);
    }
    chunks.extend(builder.finish());
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(timestamp: i64, value: f64) -> Sample {
        Sample { timestamp, start_timestamp: 0, value }
    }

    fn points(series: &MemSeries) -> Vec<(i64, f64)> {
        let merged = merge::merge(series.chunks(&TimeRange::ALL)).expect("own chunks");
        let points = merged.iter().flat_map(|chunk| chunk.points());
        let float = |point: Point| match point.value {
            Value::Float(value) => (point.timestamp, value),
            Value::Histogram(_) => panic!("no histogram was pushed"),
        };
        points.map(|point| float(point.expect("own chunks"))).collect()
    }

    #[test]
    fn the_last_value_of_a_time_wins_before_during_and_after_a_flush() {
        let mut series = MemSeries::new(0);
        let mut pushed = Vec::new();
        for (timestamp, value, taken) in [
            (10, 1.0, Taken::InOrder),
            (20, 2.0, Taken::InOrder),
            (20, 2.0, Taken::Again),
            (20, 3.0, Taken::Late),
            (20, 2.0, Taken::Late),
            (5, 4.0, Taken::Late),
            (30, 5.0, Taken::InOrder),
        ] {
            pushed.push(series.push_float(&sample(timestamp, value), 0));
            assert_eq!(pushed.last(), Some(&taken), "{timestamp} {value}");
        }
        let want = [(5, 4.0), (10, 1.0), (20, 2.0), (30, 5.0)];
        assert_eq!(points(&series), want);
        series.begin_flush();
        assert_eq!(points(&series), want);
        assert_eq!(series.push_float(&sample(30, 6.0), 0), Taken::Late);
        series.end_flush(0, &[]);
        assert_eq!(points(&series), [(30, 6.0)]);
        // The late point left is the newest: what is not newer is late again.
        assert_eq!(series.push_float(&sample(30, 7.0), 0), Taken::Late);
        assert_eq!(points(&series), [(30, 7.0)]);
    }

    fn exemplar(timestamp: i64, id: &str, value: f64) -> Exemplar {
        let labels = Labels::from_pairs([("trace_id", id)]).expect("valid");
        Exemplar { labels, value, timestamp }
    }

    #[test]
    fn an_exemplar_is_its_time_and_labels_and_the_last_value_stays_through_a_flush() {
        let mut series = MemSeries::new(0);
        let all = |series: &MemSeries| series.exemplars(&TimeRange::ALL).collect::<Vec<_>>();
        let (a, b, c) = (exemplar(1, "a", 1.0), exemplar(2, "a", 2.0), exemplar(2, "b", f64::NAN));
        for pushed in [&c, &b, &exemplar(1, "a", 0.5), &a, &c] {
            series.push_exemplar(pushed.clone());
        }
        let flushed = all(&series);
        assert_eq!(flushed, [a, b.clone(), c]);
        assert_eq!(series.exemplars(&TimeRange::new(2, 2)).collect::<Vec<_>>(), flushed[1..]);
        assert_eq!(series.exemplars(&TimeRange::new(3, 2)).count(), 0);
        // What comes during a flush stays: a new one, and a new value of an old one.
        let (new, changed) = (exemplar(2, "aa", 3.0), exemplar(2, "b", 4.0));
        series.push_exemplar(new.clone());
        series.push_exemplar(changed.clone());
        series.end_flush(1, &flushed);
        assert_eq!(all(&series), [new.clone(), changed]);
        series.delete(&TimeRange::new(1, 1)).expect("own chunks");
        assert_eq!(all(&series).len(), 2);
        series.end_flush(2, &[exemplar(0, "a", 1.0), new, b, exemplar(2, "b", 4.0)]);
        assert!(series.is_empty() && series.rare.is_none());
    }

    /// A comparison of each exemplar with all others would take many minutes.
    #[test]
    fn very_many_exemplars_of_one_series_are_sorted_once() {
        const MANY: i64 = 100_000;
        let mut series = MemSeries::new(0);
        // Rising, falling between them, and all again.
        let rising = (0..MANY).step_by(2);
        let times = rising.clone().chain((0..MANY).rev().step_by(2)).chain(rising);
        times.for_each(|time| series.push_exemplar(exemplar(time, "a", 1.0)));
        let flushed: Vec<Exemplar> = series.exemplars(&TimeRange::ALL).collect();
        assert!(flushed.iter().map(|exemplar| exemplar.timestamp).eq(0..MANY));
        series.push_exemplar(exemplar(MANY, "a", 1.0));
        series.end_flush(1, &flushed);
        assert_eq!(series.exemplars(&TimeRange::ALL).count(), 1);
    }

    #[test]
    fn a_series_that_nothing_comes_to_is_flushed_as_it_is() {
        let filled = || {
            let mut series = MemSeries::new(70);
            for timestamp in [10, 20, 30, 5, 20] {
                series.push_float(&sample(timestamp, timestamp as f64), 0);
            }
            series
        };
        let in_flush = |series: &MemSeries| {
            let merged = merge::merge(series.flushing(1)).expect("own chunks");
            merged.iter().map(|chunk| usize::from(chunk.count)).sum::<usize>()
        };
        let (mut quiet, mut busy) = (filled(), filled());
        busy.join_flush(1).push_float(&sample(40, 40.0), 0);
        for series in [&quiet, &busy] {
            assert!(series.is_in_flush(1));
            assert_eq!(in_flush(series), 4);
        }
        assert!(quiet.open.is_some(), "it is as it was");
        quiet.end_flush(1, &[]);
        busy.end_flush(1, &[]);
        assert!(quiet.is_empty() && !quiet.is_in_flush(1) && !busy.is_in_flush(1));
        assert_eq!((quiet.full_at, busy.full_at), (first_end(70), first_end(70)));
        assert_eq!(points(&busy), [(40, 40.0)]);
        // What was late is in order again, and goes to the next flush.
        assert_eq!(quiet.join_flush(1).push_float(&sample(7, 7.0), 0), Taken::InOrder);
        assert!(quiet.is_in_flush(2) && busy.is_in_flush(2));
    }

    #[test]
    fn chunks_end_at_partitions_and_a_delete_leaves_the_rest() {
        let mut series = MemSeries::new(0);
        for i in 0..1000 {
            series.push_float(&sample(i * 1_000_000, i as f64), 0);
        }
        for i in (0..2000).rev() {
            series.push_float(&sample(i * 500_000 + 1, -1.0), 0);
        }
        let chunks = series.chunks(&TimeRange::ALL);
        let day = |time: i64| time.div_euclid(PARTITION_MS);
        for chunk in &chunks {
            // The chunk may go on after the end of a day with few points.
            let own = chunk.points().map(|point| day(point.expect("own chunks").timestamp));
            let before = own.filter(|own| *own < day(chunk.max_time)).count();
            assert!(before < FEW_POINTS as usize, "{before} points before another day");
        }
        assert_eq!(points(&series).len(), 3000);
        series.delete(&TimeRange::new(100_000_000, 899_999_999)).expect("own chunks");
        let left = points(&series);
        assert_eq!(left.len(), 600);
        assert!(left.iter().all(|(t, _)| !(100_000_000..900_000_000).contains(t)));
        assert!(series.may_have(&TimeRange::ALL) && !series.is_empty());
    }

    /// Lengths of the chunks of a series at this position, with a flush between `before` and `after` points.
    fn chunk_lengths(place: u8, before: i64, after: i64) -> (Vec<u16>, Vec<u16>) {
        let mut series = MemSeries::new(place);
        let lengths = |chunks: &[Chunk]| chunks.iter().map(|chunk| chunk.count).collect();
        for timestamp in 0..before {
            series.push_float(&sample(timestamp, 1.0), 0);
        }
        series.join_flush(1);
        for timestamp in before..before + after {
            series.push_float(&sample(timestamp, 1.0), 0);
        }
        (lengths(&series.flushing), lengths(&series.sealed))
    }

    #[test]
    fn the_first_chunks_of_neighbours_end_at_different_times_and_later_ones_are_full() {
        let full = MAX_CHUNK_POINTS as i64;
        assert_eq!(chunk_lengths(0, 300, 0), (vec![120, 120, 60], vec![]));
        assert_eq!(chunk_lengths(20, 300, 330), (vec![100, 120, 80], vec![100, 120]));
        let firsts = (0..=u8::MAX).map(|place| chunk_lengths(place, full + 1, 0).0[0]);
        let mut at_once = BTreeMap::new();
        firsts.for_each(|first| *at_once.entry(first).or_insert(0) += 1);
        let each = 256 / FIRST_ENDS;
        assert!(at_once.values().all(|count| *count == each), "{at_once:?}");
        let (least, most) = (at_once.first_key_value(), at_once.last_key_value());
        assert_eq!((least, most), (Some((&57, &each)), Some((&120, &each))));
        let mut series = MemSeries::new(20);
        series.push_float(&sample(0, 1.0), 0);
        series.clear();
        assert_eq!((series.is_empty(), series.place, series.full_at), (true, 20, 100));
    }

    #[test]
    fn a_series_in_memory_is_small() {
        assert!(size_of::<MemSeries>() <= 176, "{} bytes", size_of::<MemSeries>());
        assert!(size_of::<Chunk>() <= 72, "{} bytes", size_of::<Chunk>());
        let mut series = MemSeries::new(0);
        let (mut grown, mut capacities) = (0, Vec::new());
        for timestamp in 0..101 * MAX_CHUNK_POINTS as i64 {
            series.push_float(&sample(timestamp, 1.0), 0);
            grown += usize::from(capacities.last() != Some(&series.sealed.capacity()));
            capacities.push(series.sealed.capacity());
        }
        assert_eq!(series.sealed.len(), 100);
        assert_eq!(capacities[2 * MAX_CHUNK_POINTS], 2);
        assert!(series.sealed.capacity() <= 125 && grown < 24, "{grown}");
    }
}
