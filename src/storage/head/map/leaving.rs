//! Series leave memory, and most of the room that they had goes with them.
//!
//! Series are dropped at the end of a flush, and only those that no write has found since the flush before it
//! began: that flush ended with the map locked, so such a write was a step before this one began, and the beginning
//! of a flush is a step behind it. A write keeps the map locked for reading from when it finds its series until it
//! is among the steps to be applied.
//!
//! As a rule the places of those that leave are for the next ones. Where most places are free, the series that stay
//! get a new map, which costs what they cost and not what has left: their labels are copied while writes go on, and
//! only then, with the map locked, are their points moved. Ids change by that. For the reason above no write waits
//! longer than until the end of the next flush with ids from before, and the map knows until then which ones they
//! are now.

use std::ops::Range;
use std::sync::atomic::Ordering;

use parking_lot::{Mutex, RwLock};
use roaring::RoaringBitmap;

use super::{Identity, PAGE, SeriesMap};
use crate::storage::head::series::MemSeries;

/// The map is locked for so many series.
const AT_ONCE: usize = 1 << 11;
/// A series without points goes when so many flushes have begun since a write found it: the first takes
/// its points, the second finds nothing. Fewer would not be safe, as said above.
const GONE_AFTER: u32 = 2;
/// Where a map has room for so many times its series, the rest of it is given up ...
const MOST_ROOM: usize = 3;
/// ... if it is more than for so many.
const LEAST_ROOM: usize = 16 * PAGE;

/// Which series without points go.
#[derive(Debug, Clone, Copy)]
pub(in crate::storage::head) enum Leave {
    /// Those that no write has found for a while.
    Unseen {
        /// Number of the last flush.
        flush: u32,
        /// Number of a flush since which a write must have found what stays.
        old: u32,
    },
    /// All: no write waits to be applied.
    All,
}

impl Leave {
    /// Whether one goes that a write found last when this was the number of the last flush.
    fn takes(self, found: u32) -> bool {
        match self {
            Self::Unseen { flush, old } => {
                let is_unseen = old.wrapping_sub(found).cast_signed() > 0;
                is_unseen && flush.wrapping_sub(found) >= GONE_AFTER
            }
            Self::All => true,
        }
    }
}

/// What became of the room of the series that have left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::storage::head) enum Room {
    /// It is for the next ones.
    Kept,
    /// It was given up.
    Freed,
}

/// Has series without points leave. Nobody else does meanwhile, and no flush is under way.
pub(in crate::storage::head) fn leave(map: &RwLock<SeriesMap>, leave: Leave) -> Room {
    let mut gone = RoaringBitmap::new();
    each_slice(map, |map, ids| map.leaving(ids, leave, &mut gone));
    let stay = map.read().len().saturating_sub(gone.len() as usize);
    if map.read().is_too_large_for(stay) {
        renew(map, &gone, leave);
        return Room::Freed;
    }
    let gone: Vec<u32> = gone.iter().collect();
    gone.chunks(AT_ONCE).for_each(|gone| map.write().drop_leaving(gone, leave));
    Room::Kept
}

/// Makes a new map of the series that are not among `gone`, or do not leave after all.
fn renew(map: &RwLock<SeriesMap>, gone: &RoaringBitmap, leave: Leave) {
    let mut new = SeriesMap::default();
    each_slice(map, |map, ids| new.copy_all(map, ids, gone));
    let mut map = map.write();
    let old = new.replace(&mut map, gone, leave);
    drop(map);
    // Takes a while, and nobody waits for it.
    drop(old);
}

/// Visits the ids of a map, which is locked for a few at a time.
fn each_slice(map: &RwLock<SeriesMap>, mut visit: impl FnMut(&SeriesMap, Range<usize>)) {
    let mut from = 0;
    loop {
        let map = map.read();
        if from >= map.room() {
            return;
        }
        let end = map.room().min(from + AT_ONCE);
        visit(&map, from..end);
        from = end;
    }
}

impl SeriesMap {
    /// No write has ids from before the last renewal any more.
    pub(in crate::storage::head) fn forget_renewed(&mut self) {
        self.renewed = Vec::new();
    }

    /// Whether there is far too much room for so many series.
    fn is_too_large_for(&self, series: usize) -> bool {
        self.room() >= LEAST_ROOM && series.saturating_mul(MOST_ROOM) <= self.room()
    }

    /// Ids of series that go, of these.
    pub(super) fn leaving(&self, ids: Range<usize>, leave: Leave, gone: &mut RoaringBitmap) {
        let mut pager = self.pager();
        for id in ids {
            let Some(Some(identity)) = self.identities.get(id) else { continue };
            let takes = leave.takes(identity.found.load(Ordering::Relaxed));
            if takes && pager.series(id as u32).is_empty() {
                gone.insert(id as u32);
            }
        }
    }

    /// Drops those of these series that still go.
    pub(super) fn drop_leaving(&mut self, ids: &[u32], leave: Leave) {
        for id in ids {
            let Some(slot) = self.identities.get_mut(*id as usize) else { continue };
            // A write may have found it meanwhile. If none has, no points have come either.
            let goes = |identity: &mut Identity| leave.takes(*identity.found.get_mut());
            let Some(identity) = slot.take_if(goes) else { continue };
            let (number, at) = (*id as usize / PAGE, *id as usize % PAGE);
            self.pages[number].get_mut()[at].clear();
            self.index.remove(*id, self.lists.get(identity.pairs));
            self.lists.remove(identity.pairs);
            if let Ok(entry) = self.table.find_entry(identity.hash, |other| other == id) {
                entry.remove();
            }
            self.free.push(*id);
        }
    }

    /// Takes over the labels of a series of another map, which has another id here.
    fn copy(&mut self, other: &Self, id: usize, renewed: &mut Vec<(u32, u32)>) {
        let Some(Some(identity)) = other.identities.get(id) else { return };
        let labels = other.labels(id as u32);
        let found = identity.found.load(Ordering::Relaxed);
        renewed.push((id as u32, self.insert(identity.hash, labels.as_ref(), found)));
    }

    /// Takes over the labels of these series of another map, but for those of `gone`. The map is not whole before
    /// [`replace`](Self::replace).
    fn copy_all(&mut self, other: &Self, ids: Range<usize>, gone: &RoaringBitmap) {
        let mut renewed = std::mem::take(&mut self.renewed);
        for id in ids.filter(|id| !gone.contains(*id as u32)) {
            self.copy(other, id, &mut renewed);
        }
        self.renewed = renewed;
    }

    /// Takes the place of another map, of which it has the labels but for series that came late or that are
    /// among `gone`; of these it takes those that do not go after all. The cost is that of the series that stay, as
    /// they are moved, and of a look at what the others are.
    fn replace(mut self, other: &mut Self, gone: &RoaringBitmap, leave: Leave) -> Self {
        let mut renewed = std::mem::take(&mut self.renewed);
        let known: RoaringBitmap = renewed.iter().map(|(before, _)| *before).collect();
        for id in other.index.ids() - &known {
            let identity = other.identities[id as usize].as_ref();
            let found = identity.map(|identity| identity.found.load(Ordering::Relaxed));
            if !gone.contains(id) || !found.is_some_and(|found| leave.takes(found)) {
                self.copy(other, id as usize, &mut renewed);
            }
        }
        for (page, ids) in renewed.chunks(PAGE).enumerate() {
            let moved = |(at, (before, id)): (usize, &(u32, u32))| {
                debug_assert_eq!(page * PAGE + at, *id as usize, "ids rise from 0 in a new map");
                let found = other.identities[*before as usize].as_ref().map(|known| &known.found);
                let found = found.map_or(0, |found| found.load(Ordering::Relaxed));
                if let Some(identity) = &mut self.identities[*id as usize] {
                    *identity.found.get_mut() = found;
                }
                let (number, before) = (*before as usize / PAGE, *before as usize % PAGE);
                other.pages[number].get_mut()[before].move_to(at as u8)
            };
            let mut series: Vec<MemSeries> = ids.iter().enumerate().map(moved).collect();
            series.extend((series.len()..PAGE).map(|at| MemSeries::new(at as u8)));
            self.pages.push(Mutex::new(series.into()));
        }
        renewed.sort_unstable();
        self.renewed = renewed;
        self.renewals = other.renewals.wrapping_add(1);
        std::mem::replace(other, self)
    }
}
