//! The state of the store at one moment, and how it changes.
//!
//! Invariant: a state is visible only after the manifest that describes it is durable. Readers hold
//! a [`State`], which later changes do not touch. If it is unknown whether a new manifest became
//! durable, memory keeps the old state, and the files of both states stay until a later manifest is
//! durable for certain.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, RwLock};

use promkairos_model::{Matcher, Metadata, TimeRange};
use promkairos_storage::codec::Damage;
use promkairos_storage::disk::{NotReplaced, place, replace};
use promkairos_storage::failures::Failures;
use promkairos_storage::{Clock, Stats, StoreError};
use promkairos_telemetry::StoreMetrics;

use super::cache::BlockCache;
use super::files::Files;
use super::manifest::{Manifest, PartEntry, Tombstone};
use super::metadata::{self, MetadataMap};
use super::names::{self, WIDE};
use super::options::Options;
use super::part::Part;
use super::retention_clock::RetentionClock;
use super::writer::{Sizes, Target};

/// A state of the store; never changed once it is visible.
#[derive(Clone, Default)]
pub(super) struct State {
    pub(super) manifest: Manifest,
    /// The parts of the manifest, in its order.
    pub(super) parts: Vec<Arc<Part>>,
    pub(super) metadata: Arc<MetadataMap>,
}

/// The store itself, shared by its handle, its readers and the maintenance thread.
pub(super) struct PartStore {
    pub(super) files: Arc<dyn Files>,
    pub(super) dir: PathBuf,
    /// The current retention; zero = for ever.
    pub(super) retention: RwLock<Duration>,
    /// The clock for retention and for the end of a day.
    pub(super) clock: Clock,
    pub(super) metrics: StoreMetrics,
    pub(super) cache: Arc<BlockCache>,
    /// Bytes of memory that the parts of a flush may use while they are written.
    pub(super) write_bytes: usize,
    sizes: Sizes,
    state: RwLock<Arc<State>>,
    next_id: AtomicU64,
    commits: Mutex<Commits>,
    /// `cut_through` of every flush in progress.
    flights: Mutex<Vec<u64>>,
    /// Notified when a flush has ended.
    landed: Condvar,
    /// Failures of maintenance since its last success.
    pub(super) failures: Failures,
    /// Held while a compaction runs.
    pub(super) compacting: Mutex<()>,
    /// Limits the time that retention uses.
    pub(super) horizon: Mutex<RetentionClock>,
    /// The store is being closed.
    pub(super) stopping: AtomicBool,
}

/// A flush in progress; tombstones that are added meanwhile are kept for it.
pub(super) struct Flight {
    pub(super) store: Arc<PartStore>,
    /// Tombstones up to this number were added before the flush began.
    pub(super) cut_through: u64,
}

/// Files of changes with an unknown outcome. Its lock orders all changes.
#[derive(Default)]
struct Commits {
    limbo: Vec<Arc<Part>>,
    limbo_metadata: Vec<u64>,
    /// The store is closed: nothing may change in its folder any more.
    closed: bool,
}

/// How far a change of the manifest got.
enum Failed {
    /// The old manifest is certainly in place.
    Before(StoreError),
    /// It is unknown which manifest is in place.
    Unknown(StoreError),
}

impl PartStore {
    /// Reads the manifest, checks every part that it lists, and removes files that it does not list.
    pub(super) fn open(
        files: Arc<dyn Files>,
        dir: PathBuf,
        options: Options,
        metrics: StoreMetrics,
    ) -> Result<Self, StoreError> {
        files.create_dir(&dir).map_err(|source| StoreError::io(&dir, source))?;
        let cache = Arc::new(BlockCache::new(options.cache_bytes, metrics.clone()));
        let store = Self {
            files,
            dir,
            retention: RwLock::new(options.retention),
            clock: options.clock,
            metrics,
            cache,
            write_bytes: options.write_bytes,
            sizes: options.sizes,
            state: RwLock::default(),
            next_id: AtomicU64::new(1),
            commits: Mutex::default(),
            flights: Mutex::default(),
            landed: Condvar::new(),
            failures: Failures::of(
                "maintenance of the embedded store (merges of part files, retention)",
            ),
            compacting: Mutex::default(),
            horizon: Mutex::default(),
            stopping: AtomicBool::new(false),
        };
        let listed = store.list()?;
        if listed.iter().any(|name| name == names::MANIFEST) {
            store.load()?;
        } else {
            store.begin(&listed)?;
        }
        let flushed = store.state().manifest.flushed_through;
        if flushed < options.through {
            let what = format!(
                "the log says that everything up to record {} is here, but the newest that is known \
                 here is {flushed}: part files are missing, or MANIFEST is an older one",
                options.through
            );
            return Err(StoreError::corrupt(store.dir, 0, what));
        }
        store.remove_leftovers(&listed);
        store.show_counts();
        Ok(store)
    }

    /// The current state.
    pub(super) fn state(&self) -> Arc<State> {
        self.state.read().clone()
    }

    /// An id that no file has ever had.
    pub(super) fn new_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// The folder and the sizes of new parts.
    pub(super) fn target(&self) -> Target {
        Target { files: self.files.clone(), dir: self.dir.clone(), sizes: self.sizes }
    }

    /// Registers a flush that begins.
    pub(super) fn begin_flight(store: &Arc<Self>) -> Flight {
        let mut flights = store.flights.lock();
        let cut_through = store.state().manifest.last_tombstone;
        flights.push(cut_through);
        Flight { store: store.clone(), cut_through }
    }

    /// A part whose file has just been written.
    pub(super) fn adopt(&self, entry: PartEntry) -> Part {
        Part::new(self.files.clone(), &self.dir, entry, self.cache.clone())
    }

    /// Changes the state in one durable step. `edit` gets the latest state, and no other change
    /// runs meanwhile. New parts must be complete and have their final names. After an error the
    /// state is unchanged; new parts are removed as soon as that is safe.
    pub(super) fn commit(
        &self,
        edit: impl FnOnce(&mut State) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut commits = self.commits.lock();
        if commits.closed {
            return Err(closed());
        }
        let old = self.state();
        let mut new = State::clone(&old);
        if let Err(error) = edit(&mut new) {
            retire_missing(&new.parts, &old.parts);
            return Err(error);
        }
        new.manifest.parts = new.parts.iter().map(|part| part.entry).collect();
        new.manifest.next_id = self.next_id.load(Ordering::Relaxed);
        // A flush that begins now may not see the newest tombstone yet: keep that tombstone.
        let flights = self.flights.lock().iter().min().copied().unwrap_or(u64::MAX);
        let needed_from = flights.min(old.manifest.last_tombstone);
        new.manifest.drop_spent_tombstones(needed_from);
        match self.write_manifest(&new.manifest) {
            Ok(()) => {}
            Err(Failed::Before(error)) => {
                retire_missing(&new.parts, &old.parts);
                self.remove_metadata(new.manifest.metadata, old.manifest.metadata);
                return Err(error);
            }
            Err(Failed::Unknown(error)) => {
                commits.limbo.extend(new.parts);
                commits.limbo_metadata.push(new.manifest.metadata);
                return Err(error);
            }
        }
        let current = new.manifest.metadata;
        retire_missing(&commits.limbo, &new.parts);
        retire_missing(&old.parts, &new.parts);
        commits.limbo.clear();
        for id in commits.limbo_metadata.drain(..).chain([old.manifest.metadata]) {
            self.remove_metadata(id, current);
        }
        *self.state.write() = Arc::new(new);
        self.show_counts();
        Ok(())
    }

    /// Fails if the store is being closed, so that work in progress ends early.
    pub(super) fn check_open(&self) -> Result<(), StoreError> {
        if self.stopping.load(Ordering::Relaxed) { Err(closed()) } else { Ok(()) }
    }

    /// Waits until no flush is in progress, which is soon after [`Self::shut`]. Blocks.
    pub(super) fn wait_for_flights(&self) {
        let mut flights = self.flights.lock();
        self.landed.wait_while(&mut flights, |flights| !flights.is_empty());
    }

    /// Refuses all further changes. Compactions and flushes in progress end.
    pub(super) fn shut(&self) {
        self.stopping.store(true, Ordering::Relaxed);
        self.commits.lock().closed = true;
    }

    /// Writes a file and makes its content durable, but not its name in the folder.
    pub(super) fn write_file(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let (path, temporary) = (self.dir.join(name), self.dir.join(names::temporary(name)));
        let written = place(&*self.files, &path, &temporary, |path| self.write_new(path, bytes));
        written.map_err(|error| match error {
            NotReplaced::Write(source) => StoreError::io(&temporary, source),
            NotReplaced::Rename(source) | NotReplaced::Sync(source) => {
                StoreError::io(&path, source)
            }
        })
    }

    fn write_new(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut file = self.files.create(path)?;
        file.write_all(bytes)?;
        file.sync()
    }

    fn list(&self) -> Result<Vec<String>, StoreError> {
        self.files.list(&self.dir).map_err(|source| StoreError::io(&self.dir, source))
    }

    /// Creates a store: the empty manifest is durable before anything else is written.
    fn begin(&self, listed: &[String]) -> Result<(), StoreError> {
        if listed.iter().any(|name| names::is_ours(name) && !name.ends_with(".tmp")) {
            let what = "the manifest is missing, but files that it lists are there";
            return Err(StoreError::corrupt(self.dir.join(names::MANIFEST), 0, what));
        }
        self.commit(|_| Ok(()))
    }

    fn load(&self) -> Result<(), StoreError> {
        let manifest = self.decoded(names::MANIFEST, Manifest::decode)?;
        self.next_id.store(manifest.next_id, Ordering::Relaxed);
        let mut parts = Vec::with_capacity(manifest.parts.len());
        for entry in &manifest.parts {
            let part = Arc::new(self.adopt(*entry));
            part.check()?;
            parts.push(part);
        }
        let metadata = match manifest.metadata {
            0 => MetadataMap::new(),
            id => self.decoded(&names::metadata(id), metadata::decode)?,
        };
        *self.state.write() = Arc::new(State { manifest, parts, metadata: metadata.into() });
        Ok(())
    }

    /// Reads a whole file.
    fn decoded<T>(
        &self,
        name: &str,
        decode: impl FnOnce(&[u8]) -> Result<T, Damage>,
    ) -> Result<T, StoreError> {
        let path = self.dir.join(name);
        let read = self.files.open(&path).and_then(|file| {
            let mut bytes = vec![0; file.size()? as usize];
            file.read_exact_at(&mut bytes, 0)?;
            Ok(bytes)
        });
        let bytes = read.map_err(|source| StoreError::io(&path, source))?;
        decode(&bytes).map_err(|damage| StoreError::corrupt(path, 0, damage.0))
    }

    fn remove_leftovers(&self, listed: &[String]) {
        let state = self.state();
        let mut keep: HashSet<String> = HashSet::from([names::metadata(state.manifest.metadata)]);
        let parts = state.manifest.parts.iter();
        keep.extend(parts.map(|part| names::part(part.partition, part.id)));
        for name in listed.iter().filter(|name| names::is_ours(name) && !keep.contains(*name)) {
            tracing::info!(file = %self.dir.join(name).display(), "removing an unfinished file");
            self.remove(name);
        }
    }

    fn write_manifest(&self, manifest: &Manifest) -> Result<(), Failed> {
        // The names of new parts must be durable before the manifest that lists them.
        let synced = self.files.sync_dir(&self.dir);
        synced.map_err(|source| Failed::Before(StoreError::io(&self.dir, source)))?;
        let path = self.dir.join(names::MANIFEST);
        let temporary = self.dir.join(names::temporary(names::MANIFEST));
        let write = |path: &Path| self.write_new(path, &manifest.encode());
        replace(&*self.files, &path, &temporary, write).map_err(|error| match error {
            NotReplaced::Write(source) => Failed::Before(StoreError::io(&temporary, source)),
            NotReplaced::Rename(source) => Failed::Unknown(StoreError::io(&path, source)),
            NotReplaced::Sync(source) => Failed::Unknown(StoreError::io(&self.dir, source)),
        })
    }

    /// Removes an unused file; if that fails, the next start tries again.
    fn remove(&self, name: &str) {
        if let Err(error) = self.files.remove(&self.dir.join(name)) {
            tracing::debug!(name, %error, "unlisted file stays");
        }
    }

    fn remove_metadata(&self, id: u64, current: u64) {
        if id != current && id != 0 {
            self.remove(&names::metadata(id));
        }
    }

    fn show_counts(&self) {
        let state = self.state();
        let parts = &state.manifest.parts;
        let bytes = parts.iter().map(|part| part.bytes).sum::<u64>();
        self.metrics.parts.set(parts.len() as i64);
        self.metrics.bytes.set(i64::try_from(bytes).unwrap_or(i64::MAX));
        self.metrics.tombstones.set(state.manifest.tombstones.len() as i64);
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let mut flights = self.store.flights.lock();
        if let Some(at) = flights.iter().position(|flight| *flight == self.cut_through) {
            flights.swap_remove(at);
        }
        self.store.landed.notify_all();
    }
}

fn closed() -> StoreError {
    StoreError::unavailable_for("the embedded store is closed", Duration::from_secs(1))
}

/// Retires the parts that are not in `kept`.
fn retire_missing(parts: &[Arc<Part>], kept: &[Arc<Part>]) {
    let kept: HashSet<u64> = kept.iter().map(|part| part.entry.id).collect();
    for part in parts.iter().filter(|part| !kept.contains(&part.entry.id)) {
        part.retire();
    }
}

impl State {
    /// Parts that may have points or exemplars in the range, with their positions.
    pub(super) fn parts_in(&self, range: TimeRange) -> impl Iterator<Item = (usize, &Arc<Part>)> {
        let parts = self.parts.iter().enumerate();
        parts.filter(move |(_, part)| !range.is_empty() && part.entry.range.overlaps(&range))
    }

    /// Approximate time of the newest point up to `time`; only the list of parts is read.
    pub(super) fn newest_until(&self, time: i64) -> Option<i64> {
        let parts = self.parts.iter().map(|part| &part.entry);
        let newest = |part: &PartEntry| match part.partition {
            // The list does not say what it has in between.
            WIDE if part.range.end > time => part.range.start,
            _ => part.range.end.min(time),
        };
        parts.filter(|part| part.range.start <= time).map(newest).max()
    }

    /// Deletes data in all parts and in flushes in progress.
    pub(super) fn add_tombstone(&mut self, matchers: Vec<Matcher>, range: TimeRange) {
        let number = self.manifest.last_tombstone + 1;
        self.manifest.last_tombstone = number;
        self.manifest.tombstones.push(Arc::new(Tombstone { number, matchers, range }));
    }

    pub(super) fn stats(&self) -> Stats {
        let parts = &self.manifest.parts;
        let newest = parts.iter().map(|part| part.partition).max();
        // Parts of one day share most series: the largest part gives the best estimate.
        let newest = parts.iter().filter(|part| Some(part.partition) == newest);
        Stats {
            series: newest.map(|part| part.series.into()).max().unwrap_or(0),
            points: Some(parts.iter().map(|part| part.points).sum()),
            chunks: 0,
            time_range: parts.iter().map(|part| part.range).reduce(TimeRange::hull),
            flushed_through: self.manifest.flushed_through,
            disk_bytes: Some(parts.iter().map(|part| part.bytes).sum()),
        }
    }

    /// Takes over changed metadata; returns whether anything is new.
    pub(super) fn merge_metadata(&mut self, changed: Vec<(String, Metadata)>) -> bool {
        let same = |(family, metadata): &(String, Metadata)| {
            self.metadata.get(family).is_some_and(|known| known == metadata)
        };
        if changed.iter().all(same) {
            return false;
        }
        let mut all: BTreeMap<String, Metadata> = (*self.metadata).clone();
        all.extend(changed);
        self.metadata = Arc::new(all);
        true
    }
}
