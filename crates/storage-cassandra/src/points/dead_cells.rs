//! Reads a row of points in slices where Cassandra does not read it at once, and remembers where its dead part ends.
//!
//! Cassandra gives up on a read that passes over more than `tombstone_failure_threshold` (100,000) cells that
//! expired or were deleted and are not compacted away. Such a slice is cut in two by the offset in the row,
//! repeatedly, and each part is read by itself: living cells are found however many dead cells surround them. Cuts
//! are bounded.
//!
//! Where a row began with dead cells only, the next reads begin behind them for [`LASTS`]. Then one read covers the
//! whole row again, as another writer may have written there. A write of this process there ends the skipping at
//! once.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::cql::cuts::Cuts;

/// How long points of other writers in a dead part may stay unseen.
const LASTS: Duration = Duration::from_secs(10);
/// The most rows that are remembered.
const MOST_ROWS: usize = 10_000;
/// Cuts of one row: it may hold the tombstones of that many reads.
const MOST_CUTS: u32 = 500;

/// Rows that begin with a dead part.
#[derive(Default)]
pub(crate) struct DeadCells {
    rows: Mutex<HashMap<Box<[u8]>, Part>>,
    /// The number of rows, for writers, which mostly find none.
    count: AtomicUsize,
}

#[derive(Debug, Clone)]
struct Part {
    start: Box<[u8]>,
    /// The first column that is not known to be dead; empty = the search is in progress.
    end: Box<[u8]>,
    since: Instant,
}

impl DeadCells {
    /// The column at which a read of a row from `start` begins.
    fn begin(&self, key: &[u8], start: &[u8]) -> Box<[u8]> {
        if self.count.load(Ordering::Acquire) > 0
            && let Some(part) = self.rows.lock().get(key)
            && part.since.elapsed() < LASTS
            && (&*part.start..&*part.end).contains(&start)
        {
            return part.end.clone();
        }
        start.into()
    }

    /// Notes that a read from `start` searches for the end of the dead part; a write from now on cancels the note.
    /// At the bound a new row replaces the oldest one.
    fn look(&self, key: &[u8], start: &[u8], since: Instant) {
        let part = Part { start: start.into(), end: Box::default(), since };
        let mut rows = self.rows.lock();
        if rows.len() >= MOST_ROWS && !rows.contains_key(key) {
            let oldest = rows.iter().min_by_key(|(_, part)| part.since);
            if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                rows.remove(&oldest);
            }
        }
        rows.insert(key.into(), part);
        self.count.store(rows.len(), Ordering::Release);
    }

    /// Records that the row is dead up to `end`, unless it was written since the [search](Self::look) began.
    fn learn(&self, key: &[u8], end: &[u8], since: Instant) {
        if let Some(part) = self.rows.lock().get_mut(key).filter(|part| part.since == since) {
            part.end = end.into();
        }
    }

    /// Forgets a row that was written to.
    pub(crate) fn written(&self, key: &[u8]) {
        if self.count.load(Ordering::Acquire) > 0 {
            let mut rows = self.rows.lock();
            rows.remove(key);
            self.count.store(rows.len(), Ordering::Release);
        }
    }
}

/// The slices of a row to read, in the order of its columns.
pub(crate) struct Slices<'a> {
    dead: &'a DeadCells,
    key: &'a [u8],
    start: &'a [u8],
    /// Cut by column.
    cuts: Cuts<Box<[u8]>>,
    /// When the first cut happened before any living cell was found.
    looks_since: Option<Instant>,
    /// As far as was read, no cell before this column lives.
    dead_before: Box<[u8]>,
    has_met_life: bool,
}

impl<'a> Slices<'a> {
    /// The columns of a row from `start` up to, but excluding, `end`.
    pub(crate) fn of(dead: &'a DeadCells, key: &'a [u8], start: &'a [u8], end: &[u8]) -> Self {
        Self {
            dead,
            key,
            start,
            cuts: Cuts::of(dead.begin(key, start), end.into(), [], MOST_CUTS),
            looks_since: None,
            dead_before: Box::default(),
            has_met_life: false,
        }
    }

    /// The next slice: its first column, and the column behind its last. `None` = everything is read.
    pub(crate) fn next(&mut self) -> Option<(&[u8], &[u8])> {
        let next = self.cuts.next();
        if next.is_none()
            && let Some(since) = self.looks_since.take()
        {
            self.dead.learn(self.key, &self.dead_before, since);
        }
        next.map(|[start, end]| (&**start, &**end))
    }

    /// Ends the current slice: it was read to its end; `last` is the last column found.
    pub(crate) fn finish_slice(&mut self, last: Option<&[u8]>) {
        let Some([start, end]) = self.cuts.finish_slice() else { return };
        if !self.has_met_life {
            self.dead_before = if last.is_some() { start } else { end };
            self.has_met_life = last.is_some();
        }
    }

    /// Cuts the current slice in two behind the column `last`, where the server gave up. False where it cannot be
    /// cut.
    pub(crate) fn cut(&mut self, last: Option<&[u8]>) -> bool {
        let from = last.map(|last| [last, &[0]].concat().into());
        if !self.has_met_life {
            if last.is_some() {
                self.dead_before =
                    self.cuts.now().map(|[start, _]| start.clone()).unwrap_or_default();
                self.has_met_life = true;
            } else if self.looks_since.is_none() {
                let now = Instant::now();
                self.looks_since = Some(now);
                self.dead.look(self.key, self.start, now);
            }
        }
        self.cuts.cut(from, |start, end| Vec::from_iter(middle(start, end)))
    }
}

/// A column between two, by their offsets; `None` where there is none.
fn middle(start: &[u8], end: &[u8]) -> Option<Box<[u8]>> {
    let offset = |column: &[u8]| {
        let mut bytes = [0; 4];
        let length = column.len().min(4);
        bytes[..length].copy_from_slice(&column[..length]);
        u32::from_be_bytes(bytes)
    };
    let (first, last) = (offset(start), offset(end));
    let middle = first + last.saturating_sub(first) / 2;
    let column: Box<[u8]> = middle.to_be_bytes().into();
    (*column > *start && *column < *end).then_some(column)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// The content of a row on a server: live columns and dead ones. A read passes over at most `most` dead ones.
    struct Row {
        live: BTreeSet<u32>,
        dead: BTreeSet<u32>,
        most: usize,
    }

    impl Row {
        /// Answers a slice, page by page of one column; false where it gives up.
        fn read(&self, start: &[u8], end: &[u8], found: &mut Vec<u32>) -> (Option<[u8; 4]>, bool) {
            let within = |column: &&u32| {
                let column = column.to_be_bytes();
                *start <= column[..] && column[..] < *end
            };
            let mut last = None;
            let mut from = 0;
            for column in self.live.iter().filter(within) {
                if self.dead.range(from..*column).filter(within).count() > self.most {
                    return (last, false);
                }
                (last, from) = (Some(column.to_be_bytes()), *column);
                found.push(*column);
            }
            (last, self.dead.range(from..).filter(within).count() <= self.most)
        }

        /// All live columns from `start` to before `end`, and the number of reads.
        fn all(&self, dead: &DeadCells, start: u32, end: u32) -> Option<(Vec<u32>, u32)> {
            let (mut found, mut reads) = (Vec::new(), 0);
            let (start, end) = (start.to_be_bytes(), end.to_be_bytes());
            let mut slices = Slices::of(dead, b"row", &start, &end);
            loop {
                let Some((from, to)) = slices.next() else { return Some((found, reads)) };
                let (last, is_whole) = self.read(from, to, &mut found);
                reads += 1;
                let last = last.as_ref().map(|last| &last[..]);
                match is_whole {
                    true => slices.finish_slice(last),
                    false if slices.cut(last) => {}
                    false => return None,
                }
            }
        }
    }

    proptest! {
        #[test]
        fn all_that_lives_is_found_in_order(
            live in prop::collection::btree_set(0_u32..2_000, 0..40),
            dead in prop::collection::btree_set(0_u32..2_000, 0..1_500),
            most in 10_usize..200,
            (start, end) in (0_u32..2_000, 0_u32..2_100),
            again in prop::collection::vec((0_u32..2_000, 0_u32..2_100), 0..4),
        ) {
            let dead: BTreeSet<u32> = dead.difference(&live).copied().collect();
            let (row, memory) = (Row { live, dead, most }, DeadCells::default());
            for (start, end) in std::iter::once((start, end)).chain(again) {
                let want: Vec<u32> =
                    row.live.range(start..end.max(start)).copied().collect();
                let (found, _) = row.all(&memory, start, end).expect("it can be cut");
                prop_assert_eq!(found, want);
            }
        }
    }

    #[test]
    fn a_dead_part_is_passed_over_once_and_not_where_it_was_written_to() {
        let mut row = Row { live: BTreeSet::from([900]), dead: (0..800).collect(), most: 100 };
        let memory = DeadCells::default();
        let (found, reads) = row.all(&memory, 0, 1_000).expect("it can be cut");
        assert!(found == [900] && reads > 8, "{reads}");
        assert_eq!(row.all(&memory, 0, 1_000), Some((vec![900], 1)));
        // Within the dead part, and before its end.
        assert_eq!(row.all(&memory, 300, 600), Some((vec![], 0)));
        row.live.insert(500);
        row.dead.remove(&500);
        memory.written(b"row");
        assert_eq!(row.all(&memory, 0, 1_000).map(|(found, _)| found), Some(vec![500, 900]));
    }

    #[test]
    fn a_write_while_the_end_of_the_dead_part_is_looked_for_is_not_passed_over() {
        let (memory, since) = (DeadCells::default(), Instant::now());
        memory.look(b"row", &[0], since);
        memory.written(b"row");
        memory.learn(b"row", &[9], since);
        assert_eq!(*memory.begin(b"row", &[5]), [5]);
    }

    #[test]
    fn at_the_bound_the_oldest_row_is_forgotten() {
        let (memory, begin) = (DeadCells::default(), Instant::now() + LASTS);
        let mut turns = 0;
        let mut learn = |n: usize, end: u8| {
            turns += 1;
            let since = begin + Duration::from_nanos(turns);
            memory.look(&n.to_be_bytes(), &[0], since);
            memory.learn(&n.to_be_bytes(), &[end], since);
        };
        let end = |n: usize| memory.begin(&n.to_be_bytes(), &[0])[0];
        (0..MOST_ROWS).for_each(|n| learn(n, 1));
        learn(0, 2);
        assert_eq!(end(0), 2);
        assert!((1..MOST_ROWS).all(|n| end(n) == 1), "each was known before");
        learn(MOST_ROWS, 1);
        assert_eq!(end(1), 0, "the oldest one");
        assert!(end(0) == 2 && (2..=MOST_ROWS).all(|n| end(n) == 1));
    }

    #[test]
    fn what_cannot_be_cut_ends() {
        let read = |most| {
            let row = Row { live: BTreeSet::new(), dead: (5..9).collect(), most };
            row.all(&DeadCells::default(), 0, 1_000).map(|(found, _)| found)
        };
        assert_eq!((read(1), read(0)), (Some(vec![]), None));
        let dead = DeadCells::default();
        let mut slices = Slices::of(&dead, b"row", &[0, 0, 0, 0], &[0, 0, 1, 0]);
        let mut reads = 0;
        while slices.next().is_some() && slices.cut(None) {
            reads += 1;
        }
        assert!(reads <= 9, "{reads}");
    }
}
