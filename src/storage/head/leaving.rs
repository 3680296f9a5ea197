//! Series leave memory, and most of the room that they had goes with them.
//!
//! As a rule the places of those that leave are for the next ones. Where most places are free, the series that
//! stay get a new map, which costs what they cost and not what has left: their labels are copied while
//! writes go on, and only then, with the map locked, are their points moved. Ids change by that; for how long
//! the old ones are known is said in [`super::map`].

use parking_lot::RwLock;
use roaring::RoaringBitmap;

use super::map::{Leave, SeriesMap};

/// The map is locked for so many series.
const AT_ONCE: usize = 1 << 11;

/// What became of the room of the series that have left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    /// It is for the next ones.
    Kept,
    /// It was given up.
    Freed,
}

/// Has series without points leave. Nobody else does meanwhile, and no flush is under way.
pub(super) fn leave(map: &RwLock<SeriesMap>, leave: Leave) -> Room {
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
fn each_slice(map: &RwLock<SeriesMap>, mut visit: impl FnMut(&SeriesMap, std::ops::Range<usize>)) {
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
