//! Removes series from memory, and most of the room that they had.
//!
//! A series is removed at the end of a flush if no write has found it since the previous flush began. A write holds
//! the map locked for reading from finding its series until it is among the steps to be applied. The previous flush
//! ended with the map locked, so every write that found the series before was a step before this flush began, and was
//! applied: the beginning of a flush is a step too.
//!
//! Usually the ids of removed series are reused. If most ids are free, the other series get a new
//! map, at a cost that depends on them and not on the removed ones. Their labels are copied while
//! writes go on; then the map is locked and their points are moved. This changes ids. For the
//! reason above, no write has old ids after the next flush ends; until then the map translates old
//! ids.

use std::ops::Range;
use std::sync::atomic::Ordering;

use parking_lot::{Mutex, RwLock};
use roaring::RoaringBitmap;

use super::super::series::MemSeries;
use super::{Identity, PAGE, SeriesMap};

/// Series that are visited under one lock of the map.
const AT_ONCE: usize = 1 << 11;
/// A series without points is removed after this number of flushes have begun since a write found it: the first takes
/// its points, the second finds none. A lower number is not safe, for the reason above.
const GONE_AFTER: u32 = 2;
/// A map with room for this number of times its series is replaced by a small one ...
const MOST_ROOM: usize = 3;
/// ... if it has room for at least this number of series.
const LEAST_ROOM: usize = 16 * PAGE;

/// Which series without points are removed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Leave {
    /// Series that no write has found for a while.
    Unseen {
        /// Number of the last flush.
        flush: u32,
        /// A series stays if a write has found it since the flush with this number.
        old: u32,
    },
    /// All: no write waits to be applied.
    All,
}

impl Leave {
    /// Whether a series is removed if the last flush had this number when a write last found it.
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

/// Removes series without points. Returns whether their room was freed; otherwise it is kept for new series. No other
/// call runs meanwhile, and no flush is in progress.
pub(crate) fn leave(map: &RwLock<SeriesMap>, leave: Leave) -> bool {
    let mut gone = RoaringBitmap::new();
    each_slice(map, |map, ids| map.leaving(ids, leave, &mut gone));
    let stay = map.read().len().saturating_sub(gone.len() as usize);
    if map.read().is_too_large_for(stay) {
        renew(map, &gone, leave);
        return true;
    }
    let gone: Vec<u32> = gone.iter().collect();
    gone.chunks(AT_ONCE).for_each(|gone| map.write().drop_leaving(gone, leave));
    false
}

/// Makes a new map of the series that are not in `gone` or stay after all.
fn renew(map: &RwLock<SeriesMap>, gone: &RoaringBitmap, leave: Leave) {
    let mut new = SeriesMap::default();
    each_slice(map, |map, ids| new.copy_all(map, ids, gone));
    let mut map = map.write();
    let old = new.replace(&mut map, gone, leave);
    drop(map);
    // Slow, so done after the unlock.
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
    /// Drops the old ids, which no write has any more.
    pub(crate) fn forget_renewed(&mut self) {
        self.renewed = Vec::new();
    }

    /// Whether there is far too much room for `series` series.
    fn is_too_large_for(&self, series: usize) -> bool {
        self.room() >= LEAST_ROOM && series.saturating_mul(MOST_ROOM) <= self.room()
    }

    /// Adds those of `ids` to `gone` whose series are to be removed.
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

    /// Removes these series, unless a write has found them meanwhile.
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

    /// Copies the labels of a series of another map; the series gets a new id.
    fn copy(&mut self, other: &Self, id: usize, renewed: &mut Vec<(u32, u32)>) {
        let Some(Some(identity)) = other.identities.get(id) else { return };
        let labels = other.labels(id as u32);
        let found = identity.found.load(Ordering::Relaxed);
        renewed.push((id as u32, self.insert(identity.hash, labels.as_ref(), found)));
    }

    /// Copies the labels of these series of another map, except those of `gone`. The map is
    /// complete only after [`replace`](Self::replace).
    fn copy_all(&mut self, other: &Self, ids: Range<usize>, gone: &RoaringBitmap) {
        let mut renewed = std::mem::take(&mut self.renewed);
        for id in ids.filter(|id| !gone.contains(*id as u32)) {
            self.copy(other, id, &mut renewed);
        }
        self.renewed = renewed;
    }

    /// Replaces another map, whose labels it has except for new series and series in `gone`; it
    /// copies those of them that stay. The cost depends on the number of series that stay, which
    /// are moved, and a little on the others.
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
