//! The series in memory: by label bytes, by id, and in a label index.
//!
//! The index has each label once, and a series refers to it: label sets are built on request.
//!
//! Lock order: the map, then the order of acceptance, then a page. Ids are dense, and reused after
//! a series was removed.
//!
//! No series is removed between being found by a write and being applied; [`leaving`] says why.

use std::sync::atomic::{AtomicU32, Ordering};

use hashbrown::HashTable;
use parking_lot::{Mutex, MutexGuard};
use roaring::RoaringBitmap;
use xxhash_rust::xxh3::xxh3_64;

use super::series::MemSeries;
use promkairos_model::{Labels, LabelsRef, Matcher};
use promkairos_storage::StoreError;
use promkairos_storage::index::{ListId, Lists, MemoryIndex, evaluate, growth, table_bytes};

pub(super) mod leaving;

/// Series under one lock. Neighbouring ids are series first seen together, which are sent
/// together too: a request takes few locks.
const PAGE: usize = 256;
/// Approximate bytes of a series with points outside its page: the beginning of its first chunk.
const POINTS_BYTES: usize = 64;
/// Approximate bytes of a new series while lists and tables grow, without its labels.
const NEW_BYTES: usize = 3 * size_of::<Option<Identity>>()
    + 3 * size_of::<u32>()
    + size_of::<MemSeries>()
    + POINTS_BYTES;

/// Approximate bytes of a series with these labels, without points, if none of the labels is known.
pub(super) fn bytes_of_new(labels: &Labels) -> u64 {
    let labels = labels.as_ref();
    let pairs = labels.labels().count() * size_of::<u32>();
    (NEW_BYTES + pairs + MemoryIndex::bytes_of_new(labels)) as u64
}

/// All series in memory.
#[derive(Default)]
pub(super) struct SeriesMap {
    table: HashTable<u32>,
    identities: Vec<Option<Identity>>,
    pages: Vec<Mutex<Box<[MemSeries]>>>,
    free: Vec<u32>,
    /// Which series have which label.
    pub(super) index: MemoryIndex,
    /// The labels of each series, as pairs of the index.
    lists: Lists,
    /// How often the ids of series were renewed.
    pub(super) renewals: u32,
    /// Old and new ids of the last renewal, sorted by old id, while a write may have old ones.
    renewed: Vec<(u32, u32)>,
}

struct Identity {
    hash: u64,
    /// Number of the last flush when a write last found it.
    found: AtomicU32,
    /// The series that followed this one in the last request; only a guess.
    next: AtomicU32,
    pairs: ListId,
}

impl Identity {
    fn note_found(&self, flush: u32) {
        // A write of the same value would evict the line from the caches of other cores.
        if self.found.load(Ordering::Relaxed) != flush {
            self.found.store(flush, Ordering::Relaxed);
        }
    }
}

impl SeriesMap {
    /// The series with exactly these canonical bytes.
    pub(super) fn find(&self, labels: &[u8]) -> Option<u32> {
        self.look_up(xxh3_64(labels), labels)
    }

    fn look_up(&self, hash: u64, labels: &[u8]) -> Option<u32> {
        let same =
            |id: &u32| self.identity(*id).is_some_and(|i| i.hash == hash && self.is_set(i, labels));
        self.table.find(hash, same).copied()
    }

    /// Whether these are the bytes of the labels of that series.
    #[inline]
    fn is_set(&self, identity: &Identity, labels: &[u8]) -> bool {
        self.index.is_set(self.lists.get(identity.pairs), labels)
    }

    /// Finds the series of one request for a write; `flush` is the number of the last flush.
    pub(super) fn finder(&self, flush: u32) -> Finder<'_> {
        Finder { map: self, flush, last: None }
    }

    fn identity(&self, id: u32) -> Option<&Identity> {
        self.identities.get(id as usize)?.as_ref()
    }

    /// The series with these labels, for a write; a new series if there is none.
    pub(super) fn find_or_insert(&mut self, labels: Labels, flush: u32) -> u32 {
        let hash = xxh3_64(labels.as_bytes());
        if let Some(id) = self.look_up(hash, labels.as_bytes()) {
            if let Some(known) = self.identity(id) {
                known.note_found(flush);
            }
            return id;
        }
        let id = self.insert(hash, labels.as_ref(), flush);
        if id as usize / PAGE == self.pages.len() {
            let page = (0..PAGE).map(|at| MemSeries::new(at as u8)).collect();
            self.pages.push(Mutex::new(page));
        }
        id
    }

    /// Gives new labels an id.
    fn insert(&mut self, hash: u64, labels: LabelsRef<'_>, found: u32) -> u32 {
        let id = self.free.pop().unwrap_or_else(|| {
            self.identities.push(None);
            (self.identities.len() - 1) as u32
        });
        let mut pairs = Vec::new();
        self.index.add_told(id, labels, |pair| pairs.push(pair));
        let (found, next) = (found.into(), (id + 1).into());
        let pairs = self.lists.insert(&pairs);
        self.identities[id as usize] = Some(Identity { hash, found, next, pairs });
        let identities = &self.identities;
        self.table.insert_unique(hash, id, |id| {
            identities[*id as usize].as_ref().map_or(0, |identity| identity.hash)
        });
        id
    }

    /// The labels of a series, as pairs of the index in order of their names.
    pub(super) fn pairs(&self, id: u32) -> &[u32] {
        let identity = self.identities[id as usize].as_ref().expect("the id is in use");
        self.lists.get(identity.pairs)
    }

    /// The labels of a series.
    pub(super) fn labels(&self, id: u32) -> Labels {
        self.index.labels(self.pairs(id))
    }

    /// Bytes of the labels of a series.
    pub(super) fn label_bytes(&self, id: u32) -> usize {
        self.index.label_bytes(self.pairs(id))
    }

    /// The series that match.
    pub(super) fn matching(&self, matchers: &[Matcher]) -> Result<RoaringBitmap, StoreError> {
        let value = |id, name: &str| self.index.value(self.pairs(id), name);
        evaluate(&self.index.with_values(value), matchers)
    }

    /// The number of series.
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// Bytes of everything except points, with free room.
    pub(super) fn bytes(&self) -> usize {
        let series = self.pages.len() * PAGE * size_of::<MemSeries>() + self.len() * POINTS_BYTES;
        let identities = self.identities.capacity() * size_of::<Option<Identity>>();
        let table = table_bytes(self.table.capacity(), size_of::<u32>());
        let renewed = self.renewed.capacity() * size_of::<(u32, u32)>();
        let free = self.free.capacity() * size_of::<u32>();
        series + identities + table + renewed + free + self.lists.bytes() + self.index.bytes()
    }

    /// Additional bytes that lists and tables take while they grow, if they grow soon.
    pub(super) fn growth(&self) -> usize {
        let identities = &self.identities;
        growth(identities.len(), identities.capacity(), size_of::<Option<Identity>>())
            + growth(self.table.len(), self.table.capacity(), size_of::<u32>())
            + self.index.growth()
    }

    /// The number of ids, in use or free.
    pub(super) fn room(&self) -> usize {
        self.identities.len()
    }

    /// A cursor over the points of series.
    pub(super) fn pager(&self) -> Pager<'_> {
        Pager { map: self, page: None }
    }

    /// Visits all series, one page locked at a time.
    pub(super) fn for_each(&self, mut visit: impl FnMut(u32, &mut MemSeries)) {
        for (number, page) in self.pages.iter().enumerate() {
            let mut page = page.lock();
            for (at, series) in page.iter_mut().enumerate() {
                let id = number * PAGE + at;
                if self.identities.get(id).is_some_and(Option::is_some) {
                    visit(id as u32, series);
                }
            }
        }
    }

    /// The current id of a series that had this id before the last renewal; `None` = no series had it.
    pub(super) fn renewed(&self, id: u32) -> Option<u32> {
        let at = self.renewed.binary_search_by_key(&id, |(before, _)| *before).ok()?;
        Some(self.renewed[at].1)
    }
}

/// Finds the series of a write, one after the other.
///
/// Senders send their series in the same order each time. So the series that followed the last one
/// before is tried first, which needs no hash and no distant memory.
pub(super) struct Finder<'m> {
    map: &'m SeriesMap,
    flush: u32,
    last: Option<&'m Identity>,
}

impl Finder<'_> {
    /// The series with exactly these canonical bytes.
    pub(super) fn find(&mut self, labels: &[u8]) -> Option<u32> {
        let guess = self.last.map(|last| last.next.load(Ordering::Relaxed));
        let is_right = |id: &u32| {
            self.map.identity(*id).is_some_and(|identity| self.map.is_set(identity, labels))
        };
        let id = match guess.filter(is_right) {
            Some(id) => id,
            None => {
                let id = self.map.find(labels)?;
                if let Some(last) = self.last {
                    last.next.store(id, Ordering::Relaxed);
                }
                id
            }
        };
        self.last = self.map.identity(id);
        if let Some(found) = self.last {
            found.note_found(self.flush);
        }
        Some(id)
    }
}

/// Walks series and keeps the lock of the last page.
pub(super) struct Pager<'m> {
    map: &'m SeriesMap,
    page: Option<(usize, MutexGuard<'m, Box<[MemSeries]>>)>,
}

impl Pager<'_> {
    /// The points of a series.
    pub(super) fn series(&mut self, id: u32) -> &mut MemSeries {
        let (number, at) = (id as usize / PAGE, id as usize % PAGE);
        if self.page.as_ref().is_none_or(|(held, _)| *held != number) {
            // The old page is unlocked first: two locked pages could cause a deadlock.
            self.page = None;
            self.page = Some((number, self.map.pages[number].lock()));
        }
        let (_, page) = self.page.as_mut().expect("it was locked above");
        &mut page[at]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::leaving::Leave;
    use super::*;

    /// Sets that share labels with others; some are long, and a name is the beginning of another.
    fn labels(number: u8) -> Labels {
        let value = |times| "v".repeat(usize::from(times) * 60);
        let pairs =
            [("__name__", format!("m{}", number % 3)), ("a", value(number / 3)), ("aa", value(2))];
        Labels::from_pairs(pairs).expect("a label set")
    }

    proptest! {
        /// Whatever series followed before, a series is found by its own bytes alone.
        #[test]
        fn a_guess_is_never_taken_for_another_series(
            requests in prop::collection::vec(prop::collection::vec(0u8..12, 1..12), 1..24),
        ) {
            let mut map = SeriesMap::default();
            for (flush, request) in requests.iter().enumerate() {
                let flush = flush as u32;
                let mut finder = map.finder(flush);
                let mut new = Vec::new();
                for number in request {
                    let labels = labels(*number);
                    let found = finder.find(labels.as_bytes());
                    prop_assert_eq!(found, map.find(labels.as_bytes()));
                    match found {
                        Some(id) => prop_assert_eq!(map.labels(id), labels),
                        None => new.push(labels),
                    }
                }
                for labels in new {
                    let id = map.find_or_insert(labels.clone(), flush);
                    prop_assert_eq!(map.labels(id), labels);
                }
                // Ids of series without points are reused after a while.
                let (leave, mut gone) = (Leave::Unseen { flush, old: flush }, RoaringBitmap::new());
                map.leaving(0..map.room(), leave, &mut gone);
                map.drop_leaving(&gone.iter().collect::<Vec<_>>(), leave);
                let found: Vec<u32> = (0..12).filter_map(|n| map.find(labels(n).as_bytes())).collect();
                prop_assert_eq!((found.len(), map.index.ids().len()), (map.len(), map.len() as u64));
            }
        }
    }
}
