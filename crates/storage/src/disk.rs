//! Folders: operations on file names, and the atomic replacement of a file.
//!
//! Files with points are accessed through these traits: [`Folders`] here, `Files` for part files, and
//! [`LogFiles`](super::log_files::LogFiles) for the log and the quarantine file. The traits are narrow so that a test
//! can replace the disk by one that fails or forgets. Not behind them are folder locks, the read cache, which may be
//! lost, and small files that are read at a start (the keyspace of a log, the progress of a copy); [`replace`] writes
//! these too. Every file that is written is opened here, so none is written through a link, and none is open to
//! everybody. Paths are complete, and each operation looks its path up: a user who may replace a parent folder may
//! replace the data. Nothing here retries: the caller handles a failed operation.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;

/// Maximum permissions of a new file; the umask may remove some.
const FILE_MODE: u32 = 0o640;
/// Maximum permissions of a new folder.
const FOLDER_MODE: u32 = 0o750;

/// Names of files in folders.
pub trait Folders: Send + Sync {
    /// Makes the folder and its parents durably, if absent.
    fn create_dir(&self, dir: &Path) -> io::Result<()>;

    /// Names of the files in a folder, sorted; names that are not UTF-8 are left out.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;

    /// Renames a file and replaces a file that has the new name. Durable after [`Folders::sync_dir`].
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in a folder durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
}

/// The operating system's files.
#[derive(Debug, Clone, Copy)]
pub struct Disk;

impl Folders for Disk {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        if dir.is_dir() {
            return Ok(());
        }
        let parent = folder_of(dir);
        self.create_dir(parent)?;
        match DirBuilder::new().mode(FOLDER_MODE).create(dir) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
            _ => self.sync_dir(parent),
        }
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(dir)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                names.extend(entry.file_name().into_string());
            }
        }
        names.sort();
        Ok(names)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }
}

impl Disk {
    /// Creates an empty file. A file or link with this name is removed first, such as one left by
    /// an earlier process. A link is not followed.
    pub fn make(path: &Path) -> io::Result<File> {
        let mut options = writing();
        options.create_new(true);
        match options.open(path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                std::fs::remove_file(path)?;
                options.open(path)
            }
            made => made,
        }
    }

    /// Opens an existing file; a link to a file is an error.
    pub fn open_to_write(path: &Path) -> io::Result<File> {
        writing().open(path).map_err(of_link)
    }

    /// Opens a file and creates it if it does not exist; a link is an error.
    pub fn open_or_make(path: &Path) -> io::Result<File> {
        writing().create(true).truncate(false).open(path).map_err(of_link)
    }

    /// Creates a file with these bytes, synced.
    pub fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut file = Self::make(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    }
}

/// Options for reading and writing that do not follow links.
fn writing() -> OpenOptions {
    let flags = i32::try_from(OFlags::NOFOLLOW.bits()).expect("a flag of the system");
    let mut options = File::options();
    options.read(true).write(true).mode(FILE_MODE).custom_flags(flags);
    options
}

/// The system reports a link that is not followed as too many levels of links; this error says what is wrong.
fn of_link(error: io::Error) -> io::Error {
    match error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) {
        true => io::Error::other("a symbolic link, which is not followed: a file has to be there"),
        false => error,
    }
}

/// Why a file was not replaced, and which of the two files is at the path.
#[derive(Debug)]
pub enum NotReplaced {
    /// The new file could not be written: the old file is still there.
    Write(io::Error),
    /// The new file could not be renamed: the old file is still there, if the disk can be trusted.
    Rename(io::Error),
    /// The folder could not be synced: the new file is there, but after a power cut it may be the old one.
    Sync(io::Error),
}

impl From<NotReplaced> for io::Error {
    fn from(error: NotReplaced) -> Self {
        match error {
            NotReplaced::Write(error) | NotReplaced::Rename(error) | NotReplaced::Sync(error) => {
                error
            }
        }
    }
}

/// Replaces the file at `path`, if any, durably and atomically: there is always a complete file.
/// `write` makes the new file under the name `unfinished` in the same folder, and syncs it.
pub fn replace(
    disk: &dyn Folders,
    path: &Path,
    unfinished: &Path,
    write: impl FnOnce(&Path) -> io::Result<()>,
) -> Result<(), NotReplaced> {
    place(disk, path, unfinished, write)?;
    disk.sync_dir(folder_of(path)).map_err(NotReplaced::Sync)
}

/// The folder that a path is in.
pub fn folder_of(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// As [`replace`], but the caller has to sync the folder.
pub fn place(
    disk: &dyn Folders,
    path: &Path,
    unfinished: &Path,
    write: impl FnOnce(&Path) -> io::Result<()>,
) -> Result<(), NotReplaced> {
    let written = write(unfinished).map_err(NotReplaced::Write);
    let placed = written.and_then(|()| disk.rename(unfinished, path).map_err(NotReplaced::Rename));
    if placed.is_err()
        // The unfinished file is useless, and may use the last free space.
        && let Err(error) = disk.remove(unfinished)
    {
        tracing::debug!(file = %unfinished.display(), %error, "an unfinished file stays");
    }
    placed
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn the_old_file_stays_until_the_new_one_is_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, unfinished) = (folder.path().join("a"), folder.path().join("a.new"));
        let put =
            |bytes: &[u8]| replace(&Disk, &path, &unfinished, |path| Disk::write_new(path, bytes));
        put(b"one").expect("new");
        put(b"two").expect("replaced");
        let torn = replace(&Disk, &path, &unfinished, |path| {
            std::fs::write(path, b"th")?;
            Err(ErrorKind::StorageFull.into())
        });
        assert!(matches!(torn, Err(NotReplaced::Write(_))), "{torn:?}");
        assert_eq!(std::fs::read(&path).expect("there"), b"two");
        assert_eq!(Disk.list(folder.path()).expect("listed"), ["a"]);
        let gone = folder.path().join("no/a");
        let lost = replace(&Disk, &gone, &unfinished, |path| Disk::write_new(path, b"x"));
        assert!(matches!(lost, Err(NotReplaced::Rename(_))), "{lost:?}");
        assert_eq!(Disk.list(folder.path()).expect("listed"), ["a"]);
    }

    #[test]
    fn what_stands_at_the_name_of_a_new_file_is_replaced_and_not_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let [target, path, gone] = ["target", "a.new", "gone"].map(|name| folder.path().join(name));
        std::fs::write(&target, b"of somebody else").expect("written");
        type Plant<'a> = &'a dyn Fn() -> io::Result<()>;
        let plants: [(&str, Plant<'_>); 5] = [
            ("a link", &|| symlink(&target, &path)),
            ("a link to nothing", &|| symlink(&gone, &path)),
            ("a link to a folder", &|| symlink(folder.path(), &path)),
            ("a second name", &|| std::fs::hard_link(&target, &path)),
            ("what an earlier process left", &|| std::fs::write(&path, b"a longer text")),
        ];
        for (what, plant) in plants {
            plant().expect(what);
            Disk::write_new(&path, b"mine").expect(what);
            assert!(path.symlink_metadata().expect("there").is_file(), "{what}");
            assert_eq!(std::fs::read(&path).expect("there"), b"mine", "{what}");
            assert_eq!(std::fs::read(&target).expect("there"), b"of somebody else", "{what}");
            assert!(!gone.exists(), "{what}");
            Disk.remove(&path).expect("removed");
        }
        std::fs::create_dir(&path).expect("made");
        Disk::write_new(&path, b"mine").expect_err("a folder is nothing left over");
    }

    #[test]
    fn no_link_is_opened_for_writing() {
        let folder = tempfile::tempdir().expect("a folder");
        let [target, path, gone] = ["target", "a", "gone"].map(|name| folder.path().join(name));
        std::fs::write(&target, b"of somebody else").expect("written");
        for target in [&target, &gone] {
            symlink(target, &path).expect("made");
            for open in [Disk::open_to_write, Disk::open_or_make] {
                let error = open(&path).expect_err("a link").to_string();
                assert!(error.starts_with("a symbolic link, which is not followed"), "{error}");
            }
            Disk.remove(&path).expect("removed");
        }
        assert!(!gone.exists());
        let absent = Disk::open_to_write(&path).expect_err("absent");
        assert_eq!(absent.kind(), ErrorKind::NotFound);
        Disk::open_or_make(&path).expect("made");
        Disk::open_to_write(&path).expect("there");
    }

    #[test]
    fn nothing_that_is_made_is_open_to_everybody() {
        let folder = tempfile::tempdir().expect("a folder");
        let below = folder.path().join("a/b");
        Disk.create_dir(&below).expect("made");
        let (made, opened) = (below.join("made"), below.join("opened"));
        Disk::make(&made).expect("made");
        Disk::open_or_make(&opened).expect("made");
        // The umask of the test process may remove more permissions.
        for (path, most) in
            [(&below, 0o750), (&folder.path().join("a"), 0o750), (&made, 0o640), (&opened, 0o640)]
        {
            let mode = path.metadata().expect("there").permissions().mode() & 0o7777;
            assert_eq!(mode & !most, 0, "{}: {mode:o}", path.display());
        }
    }
}
