//! The file that keeps the progress of a copy.
//!
//! It is replaced as a whole and synced: after a crash there is the old file or the new one. It
//! names the copy that it belongs to, and no other copy resumes from it.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::error::CopyError;
use super::progress::Progress;
use crate::storage::disk::{Disk, replace};

/// The arguments of the copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobText {
    /// The source.
    pub from: String,
    /// The target.
    pub to: String,
    /// Selectors.
    pub selectors: Vec<String>,
    /// First and last time, in milliseconds.
    pub times: (i64, i64),
}

/// The file.
#[derive(Debug)]
pub struct StateFile {
    path: PathBuf,
    job: JobText,
}

#[derive(Serialize, Deserialize)]
struct Content<J, P> {
    job: J,
    progress: P,
}

impl StateFile {
    /// Opens the file at `path`, which need not exist, and reads the progress of this copy. A file
    /// of another copy, or of another kind, is [`CopyError::OtherState`].
    pub fn open(path: &Path, job: JobText) -> Result<(Self, Progress), CopyError> {
        let file = Self { path: path.to_owned(), job };
        let progress = match std::fs::read(path) {
            Ok(bytes) => decode(&bytes, &file.job)
                .map_err(|what| CopyError::OtherState(format!("{}: {what}", path.display())))?,
            Err(error) if error.kind() == ErrorKind::NotFound => Progress::default(),
            Err(error) => return Err(file.failed(&error)),
        };
        Ok((file, progress))
    }

    /// Replaces the file durably.
    pub fn save(&self, progress: &Progress) -> Result<(), CopyError> {
        let mut next = self.path.as_os_str().to_owned();
        next.push(".next");
        let write = || -> std::io::Result<()> {
            let bytes = encode(progress, &self.job)?;
            Ok(replace(&Disk, &self.path, next.as_ref(), |path| Disk::write_new(path, &bytes))?)
        };
        write().map_err(|error| self.failed(&error))
    }

    /// Removes the file, if it exists, at the end of the copy.
    pub fn remove(&self) -> Result<(), CopyError> {
        match std::fs::remove_file(&self.path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(self.failed(&error)),
            _ => Ok(()),
        }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn failed(&self, error: &std::io::Error) -> CopyError {
        CopyError::State(format!("{}: {error}", self.path.display()))
    }
}

/// The bytes of the file of a copy.
pub fn encode(progress: &Progress, job: &JobText) -> std::io::Result<Vec<u8>> {
    Ok(serde_json::to_vec(&Content { job, progress })?)
}

/// The progress of this copy; an error says why the bytes are of another copy or of another kind.
pub fn decode(bytes: &[u8], job: &JobText) -> Result<Progress, String> {
    let content = serde_json::from_slice(bytes);
    let Content::<JobText, Progress> { job: known, progress } =
        content.map_err(|error| format!("not the progress of a copy: {error}"))?;
    if known != *job {
        let JobText { from, to, .. } = known;
        return Err(format!(
            "the progress of another copy, from {from} to {to}: end that one with the same \
             arguments, remove the file, or name another by --state"
        ));
    }
    Ok(progress)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> JobText {
        let (from, to) = ("embedded:a".to_owned(), "cassandra:b/c".to_owned());
        JobText { from, to, selectors: vec!["up".into()], times: (1, 2) }
    }

    #[test]
    fn progress_belongs_to_one_copy() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("state");
        let (file, mut progress) = StateFile::open(&path, job()).expect("new");
        assert_eq!(progress, Progress::default());
        progress.position.enter_day(3);
        file.save(&progress).expect("saved");
        assert_eq!(StateFile::open(&path, job()).expect("the same").1, progress);
        let another = JobText { times: (1, 3), ..job() };
        let error = StateFile::open(&path, another).expect_err("another");
        assert!(matches!(error, CopyError::OtherState(_)), "{error:?}");
        let error = error.to_string();
        let want = "the progress of another copy, from embedded:a to cassandra:b/c: ";
        assert!(error.starts_with(&format!("{}: {want}", path.display())), "{error}");
        file.remove().expect("removed");
        file.remove().expect("nothing to remove");
        assert_eq!(StateFile::open(&path, job()).expect("new").1, Progress::default());
        std::fs::write(&path, "{}").expect("written");
        let error = StateFile::open(&path, job()).expect_err("no progress");
        assert!(matches!(error, CopyError::OtherState(_)), "{error:?}");
        assert!(error.to_string().contains("not the progress of a copy: "), "{error}");
        let error = StateFile::open(folder.path(), job()).expect_err("a folder");
        assert!(matches!(error, CopyError::State(_)), "{error:?}");
    }

    #[test]
    fn what_stands_at_the_name_of_the_next_file_is_not_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let [path, next, target] =
            ["state", "state.next", "target"].map(|name| folder.path().join(name));
        std::fs::write(&target, "of somebody else").expect("written");
        std::os::unix::fs::symlink(&target, &next).expect("made");
        let (file, progress) = StateFile::open(&path, job()).expect("new");
        file.save(&progress).expect("saved");
        assert_eq!(StateFile::open(&path, job()).expect("the same").1, progress);
        assert_eq!(std::fs::read_to_string(&target).expect("there"), "of somebody else");
        assert!(next.symlink_metadata().is_err(), "it was replaced, and renamed");
    }
}
