//! A disk in memory that fails at a chosen operation, and loses data that was not made durable.
//!
//! Every operation that changes something is counted. Clones are handles of the same disk.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use promkairos::storage::disk::Folders;
use promkairos::storage::embedded::{Files, NewFile, OpenFile};

/// The fault at the chosen operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// The operation and every later one fail, as if the process were dead.
    Stop,
    /// The operation fails with an I/O error; later ones work.
    Once,
    /// The operation fails because the disk is full; later ones work.
    NoSpace,
    /// A write writes half of its bytes, any other operation just fails. Later ones work.
    ShortWrite,
}

/// What a crash loses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Forget {
    /// All names and data that were not synced.
    Everything,
    /// Data that was not synced; all names stay.
    Data,
    /// Nothing.
    Nothing,
}

#[derive(Clone, Default)]
pub(super) struct SimulatedDisk(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    names: BTreeMap<PathBuf, Inode>,
    durable_names: BTreeMap<PathBuf, Inode>,
    operations: usize,
    /// The most bytes of one file that were written and not yet durable.
    most_unsynced: usize,
    fault: Option<(usize, Fault)>,
    failed: bool,
    failed_to_remove: bool,
    /// No new file can be created.
    full: bool,
}

type Inode = Arc<Mutex<Content>>;

#[derive(Default, Clone)]
struct Content {
    data: Vec<u8>,
    durable: Vec<u8>,
}

impl SimulatedDisk {
    /// A disk on which the operation with this number, from 0, fails.
    pub(super) fn with_fault(operation: usize, fault: Fault) -> Self {
        let state = State { fault: Some((operation, fault)), ..State::default() };
        Self(Arc::new(Mutex::new(state)))
    }

    /// A new, healthy disk with the content that a crash leaves of this one.
    pub(super) fn after_crash(&self, forget: Forget) -> Self {
        let state = self.state();
        let names = match forget {
            Forget::Everything => &state.durable_names,
            Forget::Data | Forget::Nothing => &state.names,
        };
        let survive = |(path, inode): (&PathBuf, &Inode)| {
            let content = lock(inode).clone();
            let data = if forget == Forget::Nothing { content.data } else { content.durable };
            let content = Content { durable: data.clone(), data };
            (path.clone(), Arc::new(Mutex::new(content)))
        };
        let names: BTreeMap<PathBuf, Inode> = names.iter().map(survive).collect();
        let state = State { durable_names: names.clone(), names, ..State::default() };
        Self(Arc::new(Mutex::new(state)))
    }

    pub(super) fn has_failed(&self) -> bool {
        self.state().failed
    }

    pub(super) fn failed_to_remove(&self) -> bool {
        self.state().failed_to_remove
    }

    /// From now on there is no room for new files, or room again.
    pub(super) fn fill(&self, full: bool) {
        self.state().full = full;
    }

    /// The names of all files, without their folder.
    pub(super) fn names(&self) -> Vec<String> {
        self.state().names.keys().map(|path| name_of(path)).collect()
    }

    /// The most bytes of one file that were written and not yet durable.
    pub(super) fn most_unsynced(&self) -> usize {
        self.state().most_unsynced
    }

    /// The number of bytes of the files with this name ending.
    pub(super) fn bytes_of(&self, ending: &str) -> u64 {
        let state = self.state();
        let files = state.names.iter().filter(|(path, _)| name_of(path).ends_with(ending));
        files.map(|(_, inode)| lock(inode).data.len() as u64).sum()
    }

    pub(super) fn len(&self, name: &str) -> usize {
        let mut len = 0;
        self.change(name, |bytes| len = bytes.len());
        len
    }

    /// Changes a file without the store.
    pub(super) fn change(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let state = self.state();
        let file = state.names.iter().find(|(path, _)| name_of(path) == name);
        change(&mut lock(file.expect("it exists").1).data);
    }

    /// Removes a file without the store.
    pub(super) fn lose(&self, name: &str) {
        self.state().names.retain(|path, _| name_of(path) != name);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }

    /// Counts an operation, and fails if the fault is due.
    fn operate(&self) -> Result<MutexGuard<'_, State>, (Fault, io::Error)> {
        let mut state = self.state();
        let number = state.operations;
        state.operations += 1;
        let Some((at, fault)) = state.fault else { return Ok(state) };
        if number == at || (number > at && fault == Fault::Stop) {
            state.failed = true;
            let error = match fault {
                Fault::NoSpace => io::ErrorKind::StorageFull.into(),
                _ => io::Error::other("simulated fault"),
            };
            return Err((fault, error));
        }
        Ok(state)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no test panics while it holds this")
}

fn name_of(path: &Path) -> String {
    path.file_name().and_then(|name| name.to_str()).expect("named files").to_owned()
}

fn missing() -> io::Error {
    io::ErrorKind::NotFound.into()
}

struct Handle {
    disk: SimulatedDisk,
    inode: Inode,
}

impl Folders for SimulatedDisk {
    fn create_dir(&self, _dir: &Path) -> io::Result<()> {
        self.operate().map(drop).map_err(|(_, error)| error)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let state = self.state();
        let inside = state.names.keys().filter(|path| path.parent() == Some(dir));
        Ok(inside.map(|path| name_of(path)).collect())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.operate().map_err(|(_, error)| error)?;
        let inode = state.names.remove(from).ok_or_else(missing)?;
        state.names.insert(to.to_owned(), inode);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        match self.operate() {
            Ok(mut state) => state.names.remove(path).map(drop).ok_or_else(missing),
            Err((_, error)) => {
                self.state().failed_to_remove = true;
                Err(error)
            }
        }
    }

    fn sync_dir(&self, _dir: &Path) -> io::Result<()> {
        let mut state = self.operate().map_err(|(_, error)| error)?;
        state.durable_names = state.names.clone();
        Ok(())
    }
}

impl Files for SimulatedDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn NewFile>> {
        let mut state = self.operate().map_err(|(_, error)| error)?;
        if state.full {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let inode = Inode::default();
        state.names.insert(path.to_owned(), inode.clone());
        Ok(Box::new(Handle { disk: self.clone(), inode }))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn OpenFile>> {
        let inode = self.state().names.get(path).cloned().ok_or_else(missing)?;
        Ok(Box::new(Handle { disk: self.clone(), inode }))
    }
}

impl NewFile for Handle {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self.disk.operate() {
            Ok(mut state) => {
                let mut content = lock(&self.inode);
                content.data.extend_from_slice(bytes);
                let unsynced = content.data.len() - content.durable.len();
                state.most_unsynced = state.most_unsynced.max(unsynced);
                Ok(())
            }
            Err((fault, error)) => {
                if fault == Fault::ShortWrite {
                    lock(&self.inode).data.extend_from_slice(&bytes[..bytes.len() / 2]);
                }
                Err(error)
            }
        }
    }

    fn sync(&mut self) -> io::Result<()> {
        let _state = self.disk.operate().map_err(|(_, error)| error)?;
        let mut content = lock(&self.inode);
        content.durable = content.data.clone();
        Ok(())
    }
}

impl OpenFile for Handle {
    fn size(&self) -> io::Result<u64> {
        Ok(lock(&self.inode).data.len() as u64)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let content = lock(&self.inode);
        let from = content.data.get(offset as usize..).unwrap_or_default();
        let bytes = from.get(..buffer.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(bytes);
        Ok(())
    }
}
