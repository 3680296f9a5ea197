//! The files that a web configuration was read from, with digests, so that changes are noticed.
//!
//! Contents are compared, not times: a volume that is swapped by a link, or a file written twice in
//! a second, is noticed.

use std::io;
use std::path::{Path, PathBuf};

use super::super::digest::{Digest, sha256};
use super::super::file;

/// Files, and the digests of their contents when they were read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Files {
    read: Vec<(PathBuf, Digest)>,
    /// Files with a secret.
    secret: Vec<PathBuf>,
}

impl Files {
    /// Reads a file and remembers it.
    pub(super) fn read(&mut self, path: &Path) -> io::Result<Vec<u8>> {
        let bytes = file::read(path)?;
        self.read.push((path.to_owned(), sha256(&bytes)));
        Ok(bytes)
    }

    /// Records that a file holds a secret.
    pub(super) fn holds_secret(&mut self, path: PathBuf) {
        if !self.secret.contains(&path) {
            self.secret.push(path);
        }
    }

    /// The files with a secret.
    pub(super) fn secret(&self) -> impl Iterator<Item = &Path> {
        self.secret.iter().map(PathBuf::as_path)
    }

    /// The file that was read first.
    pub(super) fn first(&self) -> Option<&Path> {
        self.read.first().map(|(path, _)| path.as_path())
    }

    /// Whether the content of a file has changed since, or cannot be read.
    pub(super) fn have_changed(&self) -> bool {
        self.read.iter().any(|(path, was)| !file::read(path).is_ok_and(|is| sha256(&is) == *was))
    }
}
