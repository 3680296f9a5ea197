//! A disk in memory, for the log and for the part files, that fails at random. A power cut loses what
//! was not synced, sector by sector.
//!
//! Reads have their own random numbers, so that a reader beside a writer does not change the writer's
//! faults. After a failed sync the pages count as clean, as in Linux: a later sync does not write
//! them. Clones are handles of the same disk; handles of a disk whose power was cut fail for ever.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use promkairos::storage::disk::Folders;
use promkairos::storage::embedded::{Files, NewFile, OpenFile};
use promkairos::storage::log_files::{LogFile, LogFiles};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rustix::io::Errno;

const SECTOR: usize = 512;

/// A handle of a disk.
#[derive(Clone)]
pub struct PowerDisk(Arc<Mutex<State>>);

struct State {
    names: BTreeMap<PathBuf, Inode>,
    durable_names: BTreeMap<PathBuf, Inode>,
    random: StdRng,
    /// One in this number of operations fails; 0 = none.
    one_in: u32,
    /// Operations until one fails that otherwise would not; 0 = none does.
    fails_in: u32,
    /// Random numbers for reads only.
    reads: StdRng,
    /// One in this number of reads fails; 0 = none.
    reads_one_in: u32,
    /// The disk is full.
    full: bool,
    /// Operations until the power cut.
    power: Option<u32>,
    /// Writes until a misdirected one.
    misdirects_in: u32,
    /// Where a misdirected write went.
    misdirected: Option<String>,
    dead: bool,
    met: Failed,
    /// A write was done in part: the next operation fails.
    breaks_off: bool,
}

/// Counts of faults, by kind.
#[derive(Debug, Clone, Copy, Default)]
pub struct Failed {
    /// Operations that change something, failed at random or because the power is gone.
    pub operations: u32,
    /// Failed syncs among these operations, of a file or a folder, with the power on.
    pub syncs: u32,
    /// Operations that failed because the disk is full.
    pub full: u32,
    /// Writes into reserved space that were done in part.
    pub short_writes: u32,
    /// Reads.
    pub reads: u32,
}

impl Failed {
    /// Whether there was any fault.
    pub fn any(self) -> bool {
        self.operations + self.full + self.short_writes + self.reads > 0
    }
}

type Inode = Arc<Mutex<Content>>;

#[derive(Default, Clone)]
struct Content {
    data: Vec<u8>,
    durable: Vec<u8>,
    /// Sectors that the next sync writes.
    dirty: BTreeSet<usize>,
}

impl Content {
    fn write_at(&mut self, bytes: &[u8], offset: usize) {
        let end = offset + bytes.len();
        if self.data.len() < end {
            self.data.resize(end, 0);
        }
        self.data[offset..end].copy_from_slice(bytes);
        self.dirty.extend(offset / SECTOR..end.div_ceil(SECTOR));
    }

    fn sync(&mut self) {
        self.durable.resize(self.data.len(), 0);
        for sector in std::mem::take(&mut self.dirty) {
            let at = sector * SECTOR..((sector + 1) * SECTOR).min(self.data.len());
            self.durable[at.clone()].copy_from_slice(&self.data[at]);
        }
    }

    /// The content after a power cut: for each sector the old or the new.
    fn cut(&self, random: &mut StdRng) -> Vec<u8> {
        let mut left = self.durable.clone();
        if random.random_bool(0.5) {
            left.resize(self.data.len(), 0);
        }
        for (sector, old) in left.chunks_mut(SECTOR).enumerate() {
            let new = self.data.get(sector * SECTOR..).unwrap_or_default();
            let new = &new[..new.len().min(old.len())];
            if new.len() == old.len() && random.random_bool(0.5) {
                old.copy_from_slice(new);
            }
        }
        left
    }
}

impl PowerDisk {
    /// An empty disk, whose faults follow from the seed.
    pub fn new(seed: u64) -> Self {
        Self::holding(BTreeMap::new(), StdRng::seed_from_u64(seed))
    }

    fn holding(names: BTreeMap<PathBuf, Inode>, mut random: StdRng) -> Self {
        let state = State {
            durable_names: names.clone(),
            names,
            reads: StdRng::seed_from_u64(random.random()),
            random,
            one_in: 0,
            fails_in: 0,
            reads_one_in: 0,
            full: false,
            power: None,
            misdirects_in: 0,
            misdirected: None,
            dead: false,
            met: Failed::default(),
            breaks_off: false,
        };
        Self(Arc::new(Mutex::new(state)))
    }

    /// From now on one in `one_in` operations fails; 0 = none.
    pub fn fail(&self, one_in: u32) {
        self.state().one_in = one_in;
    }

    /// The operation with this number, counted from now and from 1, fails; 0 = none.
    pub fn fail_once(&self, number: u32) {
        self.state().fails_in = number;
    }

    /// From now on one in `one_in` reads fails, without side effects; 0 = none.
    pub fn fail_reads(&self, one_in: u32) {
        self.state().reads_one_in = one_in;
    }

    /// Sets whether the disk is full.
    pub fn fill(&self, full: bool) {
        self.state().full = full;
    }

    /// Cuts the power after this number of operations.
    pub fn cut_after(&self, operations: u32) {
        self.state().power = Some(operations);
    }

    /// The write with this number, counted from now and from 1, is misdirected; 0 = none.
    pub fn misdirect(&self, number: u32) {
        self.state().misdirects_in = number;
    }

    /// The misdirected write, if there was one.
    pub fn misdirected(&self) -> Option<String> {
        self.state().misdirected.clone()
    }

    /// Whether the power is gone.
    pub fn is_dead(&self) -> bool {
        self.state().dead
    }

    /// The faults so far.
    pub fn failed(&self) -> Failed {
        self.state().met
    }

    /// A healthy disk with what a power cut leaves. This one is dead.
    pub fn after_cut(&self) -> Self {
        let mut state = self.state();
        state.dead = true;
        let seed = state.random.random();
        let State { names, durable_names, random, .. } = &mut *state;
        // Each name that was not synced is the old or the new, independently of the others.
        let paths: BTreeSet<_> = names.keys().chain(durable_names.keys()).cloned().collect();
        let names = paths.into_iter().filter_map(|path| {
            let (new, old) = (names.get(&path), durable_names.get(&path));
            let is_synced = new.map(Arc::as_ptr) == old.map(Arc::as_ptr);
            let left = if is_synced || random.random_bool(0.5) { new } else { old };
            left.cloned().map(|inode| (path, inode))
        });
        let names: Vec<_> = names.collect();
        let left = names.into_iter().map(|(path, inode)| {
            let data = lock(&inode).cut(random);
            let (durable, dirty) = (data.clone(), BTreeSet::new());
            (path, Arc::new(Mutex::new(Content { data, durable, dirty })))
        });
        Self::holding(left.collect(), StdRng::seed_from_u64(seed))
    }

    /// A disk with everything that was written, as kill -9 leaves it. This one is dead.
    pub fn after_kill(&self) -> Self {
        let mut state = self.state();
        state.dead = true;
        let seed = state.random.random();
        let all = state.names.iter().map(|(path, inode)| {
            let content = Arc::new(Mutex::new(lock(inode).clone()));
            (path.clone(), content)
        });
        let names: BTreeMap<PathBuf, Inode> = all.collect();
        let durable = state
            .durable_names
            .keys()
            .filter_map(|path| names.get(path).map(|inode| (path.clone(), inode.clone())));
        let durable_names: BTreeMap<PathBuf, Inode> = durable.collect();
        let killed = Self::holding(names, StdRng::seed_from_u64(seed));
        killed.state().durable_names = durable_names;
        killed
    }

    /// Flips a bit of one file, truncates it or removes it; returns a description.
    pub fn damage(&self) -> String {
        let mut state = self.state();
        let paths: Vec<PathBuf> = state.names.keys().cloned().collect();
        let path = paths[state.random.random_range(0..paths.len())].clone();
        let length = lock(&state.names[&path]).data.len();
        let at = state.random.random_range(0..length.max(1));
        match state.random.random_range(0..3) {
            0 if length > 0 => {
                lock(&state.names[&path]).data[at] ^= 1 << (at % 8);
                format!("a bit of byte {at} of {length} of {}", path.display())
            }
            1 => {
                lock(&state.names[&path]).data.truncate(at);
                format!("{} cut at {at} of {length}", path.display())
            }
            _ => {
                state.names.remove(&path);
                format!("{} is gone", path.display())
            }
        }
    }

    /// Writes into a file, or, if this write is misdirected, into sectors of another file or
    /// elsewhere in the same file.
    fn write(&self, inode: &Inode, bytes: &[u8], offset: usize) {
        let mut state = self.state();
        let is_this = state.misdirects_in == 1 && !bytes.is_empty();
        state.misdirects_in = state.misdirects_in.saturating_sub(u32::from(!bytes.is_empty()));
        if !is_this {
            drop(state);
            return lock(inode).write_at(bytes, offset);
        }
        let files: Vec<_> =
            state.names.iter().map(|(path, inode)| (path.clone(), inode.clone())).collect();
        let (path, other) = files[state.random.random_range(0..files.len())].clone();
        let sectors = lock(&other).data.len() / SECTOR;
        let sector = state.random.random_range(0..=sectors);
        // A disk writes whole sectors: the position within the sector stays.
        let wrong = sector * SECTOR + offset % SECTOR;
        let hits = Arc::ptr_eq(inode, &other) && wrong == offset;
        if !hits {
            state.misdirected =
                Some(format!("a write of {} bytes at {wrong} of {}", bytes.len(), path.display()));
            // The file itself has its length, and zeros in place of the bytes.
            let mut own = lock(inode);
            let end = own.data.len().max(offset + bytes.len());
            own.data.resize(end, 0);
        }
        drop(state);
        lock(&other).write_at(bytes, wrong);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }

    /// A read, which may fail.
    fn look(&self) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.state();
        let one_in = state.reads_one_in;
        if one_in > 0 && state.reads.random_ratio(1, one_in) {
            state.met.reads += 1;
            return Err(Errno::IO.into());
        }
        Ok(state)
    }

    /// An operation that changes something. Fails at random, and for ever once the power is gone.
    fn operate(&self) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.state();
        if let Some(left) = &mut state.power {
            *left = left.saturating_sub(1);
            state.dead |= *left == 0;
        }
        let one_in = state.one_in;
        let fails = one_in > 0 && state.random.random_ratio(1, one_in);
        let fails = std::mem::take(&mut state.breaks_off) || fails || state.fails_in == 1;
        state.fails_in = state.fails_in.saturating_sub(1);
        if state.dead || fails {
            state.met.operations += 1;
            return Err(io::Error::other("simulated fault"));
        }
        Ok(state)
    }

    /// The same for a sync.
    fn sync(&self) -> io::Result<MutexGuard<'_, State>> {
        let operated = self.operate();
        if operated.is_err() {
            let mut state = self.state();
            state.met.syncs += u32::from(!state.dead);
        }
        operated
    }

    /// The same for an operation that takes space.
    fn grow(&self) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.operate()?;
        if state.full {
            state.met.full += 1;
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(state)
    }

    fn handle(&self, path: &Path) -> io::Result<Handle> {
        let inode = self.look()?.names.get(path).cloned().ok_or(io::ErrorKind::NotFound)?;
        Ok(Handle { disk: self.clone(), inode })
    }

    fn make(&self, path: &Path, data: Vec<u8>) -> io::Result<Handle> {
        let mut state = self.grow()?;
        let inode = Inode::default();
        lock(&inode).write_at(&data, 0);
        state.names.insert(path.to_owned(), inode.clone());
        Ok(Handle { disk: self.clone(), inode })
    }

    fn give_name(&self, from: &Path, to: &Path, and_take: bool) -> io::Result<()> {
        let mut state = self.operate()?;
        let inode = state.names.get(from).cloned().ok_or(io::ErrorKind::NotFound)?;
        state.names.insert(to.to_owned(), inode);
        if and_take {
            state.names.remove(from);
        }
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no test panics while it holds this")
}

struct Handle {
    disk: PowerDisk,
    inode: Inode,
}

impl Handle {
    fn sync_content(&self) -> io::Result<()> {
        let operated = self.disk.sync().map(drop);
        let mut content = lock(&self.inode);
        match operated {
            Ok(()) => content.sync(),
            Err(_) => content.dirty.clear(),
        }
        operated
    }

    /// How much of a write of this number of bytes is done: all, or a part where it fails.
    fn room(&self, bytes: usize) -> (usize, io::Result<()>) {
        let grown = self.disk.grow().map(drop);
        let part = match &grown {
            Ok(()) => bytes,
            Err(_) if self.disk.state().dead || bytes == 0 => 0,
            Err(_) => self.disk.state().random.random_range(0..bytes),
        };
        (part, grown)
    }

    /// How much of a write into reserved space is done. After a partial write the next one fails,
    /// as a disk then returns the reason.
    fn reserved(&self, bytes: usize) -> io::Result<usize> {
        let operated = self.disk.operate().map(drop);
        let mut state = self.disk.state();
        match operated {
            Ok(()) => Ok(bytes),
            Err(_) if !state.dead && bytes > 1 => {
                state.met.short_writes += 1;
                state.breaks_off = true;
                Ok(state.random.random_range(1..bytes))
            }
            failed => failed.map(|()| 0),
        }
    }

    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        drop(self.disk.look()?);
        let content = lock(&self.inode);
        let from = content.data.get(offset as usize..).unwrap_or_default();
        let count = from.len().min(buffer.len());
        buffer[..count].copy_from_slice(&from[..count]);
        Ok(count)
    }
}

impl Folders for PowerDisk {
    fn create_dir(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let state = self.look()?;
        let inside = state.names.keys().filter(|path| path.parent() == Some(dir));
        let name = |path: &PathBuf| path.file_name()?.to_str().map(str::to_owned);
        Ok(inside.filter_map(name).collect())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.give_name(from, to, true)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.operate()?;
        state.names.remove(path).map(drop).ok_or(io::ErrorKind::NotFound.into())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.sync()?;
        let State { names, durable_names, .. } = &mut *state;
        durable_names.retain(|path, _| path.parent() != Some(dir));
        let inside = names.iter().filter(|(path, _)| path.parent() == Some(dir));
        durable_names.extend(inside.map(|(path, inode)| (path.clone(), inode.clone())));
        Ok(())
    }
}

impl Files for PowerDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn NewFile>> {
        Ok(Box::new(self.make(path, Vec::new())?))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn OpenFile>> {
        Ok(Box::new(self.handle(path)?))
    }
}

impl NewFile for Handle {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        let (part, done) = self.room(bytes.len());
        let end = lock(&self.inode).data.len();
        self.disk.write(&self.inode, &bytes[..part], end);
        done
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_content()
    }
}

impl OpenFile for Handle {
    fn size(&self) -> io::Result<u64> {
        drop(self.disk.look()?);
        Ok(lock(&self.inode).data.len() as u64)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        match self.read(buffer, offset)? == buffer.len() {
            true => Ok(()),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

impl LogFiles for PowerDisk {
    fn create(&self, path: &Path, bytes: u64) -> io::Result<Box<dyn LogFile>> {
        Ok(Box::new(self.make(path, vec![0; bytes as usize])?))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn LogFile>> {
        Ok(Box::new(self.handle(path)?))
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.give_name(from, to, false)
    }
}

impl LogFile for Handle {
    fn is_at(&self, _path: &Path) -> bool {
        // Only the store removes names here.
        true
    }

    fn size(&self) -> io::Result<u64> {
        OpenFile::size(self)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.read(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        // Writes into reserved space succeed on a full disk.
        if lock(&self.inode).data.len() >= offset as usize + bytes.len() {
            let part = self.reserved(bytes.len())?;
            self.disk.write(&self.inode, &bytes[..part], offset as usize);
            return Ok(part);
        }
        let (part, done) = self.room(bytes.len());
        self.disk.write(&self.inode, &bytes[..part], offset as usize);
        if part > 0 { Ok(part) } else { done.map(|()| 0) }
    }

    fn sync_data(&self) -> io::Result<()> {
        self.sync_content()
    }

    fn release(&self, _offset: u64) -> io::Result<()> {
        Ok(())
    }
}
