//! The files that a web configuration was read from, with digests, so that changes are noticed; and what its entries
//! name.
//!
//! Contents are compared, not times: a volume that is swapped by a link, or a file written twice in
//! a second, is noticed.

use std::io;
use std::path::{Path, PathBuf};

use rustls::pki_types::CertificateDer;

use super::super::digest::{Digest, sha256};
use super::super::error::ConfigError;
use super::super::{file, pem};
use super::yaml::{Entry, Table};

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

/// The path of a file that an entry names.
pub(super) fn named(entry: &Entry<'_>) -> Result<PathBuf, ConfigError> {
    let folder = entry.file().parent().unwrap_or(Path::new(""));
    Ok(folder.join(&*entry.text()?))
}

/// The content of a file that an entry names.
pub(super) fn read_named(entry: &Entry<'_>, files: &mut Files) -> Result<Vec<u8>, ConfigError> {
    let path = named(entry)?;
    files.read(&path).map_err(|error| entry.refuse(format!("{}: {error}", path.display())))
}

/// The PEM under a key, or in the file that the key with `_file` names; and the entry of that key.
pub(super) fn pem<'t, 'a>(
    table: &'t Table<'a>,
    key: &str,
    files: &mut Files,
) -> Result<Option<(&'t Entry<'a>, Vec<u8>)>, ConfigError> {
    match (table.get(key), table.get(&format!("{key}_file"))) {
        (Some(_), Some(file)) => Err(file.refuse(format!("{key} stands beside it: one is enough"))),
        (Some(entry), None) => Ok(Some((entry, entry.text()?.as_bytes().to_vec()))),
        (None, Some(file)) => Ok(Some((file, read_named(file, files)?))),
        (None, None) => Ok(None),
    }
}

/// The certificates of a PEM.
pub(super) fn certificates(
    entry: &Entry<'_>,
    pem: &[u8],
) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    pem::certificates(pem).map_err(|why| entry.refuse(why))
}
