//! The keyspace to which a log in front of Cassandra belongs, recorded beside the log.
//!
//! Records that Cassandra does not have yet are written only to the keyspace and the cluster that
//! they were accepted for. While there are any, a start with a different keyspace is refused, and a
//! cluster with a different name receives none of them. An empty log may change its keyspace.
//!
//! ```text
//! keyspace kairosdb
//! cluster Test Cluster       once it was reached
//! ```

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::limits::RETRY_AFTER;
use crate::storage::StoreError;
use crate::storage::cassandra::ExpectedCluster;
use crate::storage::disk::{Disk, Folders, replace};
use crate::storage::head::wal::{self, Unflushed};

/// The keyspace and the cluster of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WalOwner {
    path: PathBuf,
    keyspace: String,
    cluster: Option<String>,
}

impl WalOwner {
    /// Reads or creates the record of a log in `folder`. Refuses a keyspace that differs from the
    /// one of pending records.
    pub(super) fn settle(folder: &Path, log: &Path, keyspace: &str) -> Result<Self, StoreError> {
        let path = folder.join("keyspace");
        let new = Self { path: path.clone(), keyspace: keyspace.to_owned(), cluster: None };
        let known = match wal::unflushed(log, &Disk)? {
            Unflushed::Something => read(&path)?,
            Unflushed::Nothing => None,
            // Not in use by a server, because this one owns the data folder: the log is being repaired.
            Unflushed::InUse => return Err(wal::in_use(log)),
        };
        match known {
            Some((known, cluster)) if known == keyspace => Ok(Self { cluster, ..new }),
            Some((known, _)) => Err(StoreError::Invalid(format!(
                "{}: the log holds acknowledged samples for the keyspace {known}, which Cassandra \
                 does not have yet, and not for {keyspace}; --cassandra-keyspace {known} flushes them",
                path.display()
            ))),
            None => {
                let written = Disk.create_dir(folder).and_then(|()| new.write());
                written.map_err(|error| StoreError::Unavailable {
                    what: crate::storage::file_failed(&path, &error),
                    retry_after: RETRY_AFTER,
                })?;
                Ok(new)
            }
        }
    }

    /// The only cluster that may receive the records; `None` = none was reached yet.
    pub(super) fn expected_cluster(&self) -> Option<ExpectedCluster> {
        let name = self.cluster.clone()?;
        Some(ExpectedCluster { name, said_in: self.path.clone() })
    }

    /// Records the cluster that was reached.
    pub(super) fn learn(&self, cluster: &str) {
        if self.cluster.as_deref() == Some(cluster) {
            return;
        }
        // A full disk must not stop the flush to Cassandra, which frees space.
        if let Err(error) = (Self { cluster: Some(cluster.to_owned()), ..self.clone() }).write() {
            tracing::warn!("{}: {error}", self.path.display());
        }
    }

    /// Replaces the file, durably.
    fn write(&self) -> io::Result<()> {
        let text = encode(&self.keyspace, self.cluster.as_deref());
        let unfinished = self.path.with_extension("new");
        let write = |path: &Path| Disk::write_new(path, text.as_bytes());
        Ok(replace(&Disk, &self.path, &unfinished, write)?)
    }
}

/// The recorded keyspace and cluster; `None` for a log from before this file existed.
fn read(path: &Path) -> Result<Option<(String, Option<String>)>, StoreError> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(StoreError::Io { path: path.to_owned(), source }),
    };
    let what = "not the keyspace and the cluster of a log".into();
    let damaged = || StoreError::Corrupt { path: path.to_owned(), offset: 0, what };
    decode(&text).map(Some).ok_or_else(damaged)
}

/// The text of the file.
pub fn encode(keyspace: &str, cluster: Option<&str>) -> String {
    match cluster {
        Some(cluster) => format!("keyspace {keyspace}\ncluster {cluster}\n"),
        None => format!("keyspace {keyspace}\n"),
    }
}

/// The inverse of [`encode`]; `None` for any other text. The name of a cluster may contain line breaks.
pub fn decode(text: &str) -> Option<(String, Option<String>)> {
    let (keyspace, rest) = text.strip_prefix("keyspace ")?.split_once('\n')?;
    let cluster = match rest {
        "" => None,
        _ => Some(rest.strip_prefix("cluster ")?.strip_suffix('\n')?.to_owned()),
    };
    Some((keyspace.to_owned(), cluster))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_and_half_a_text_is_refused() {
        for cluster in [None, Some("Test Cluster"), Some(""), Some("a\nb\r"), Some("\n")] {
            let text = encode("kairosdb", cluster);
            let want = ("kairosdb".to_owned(), cluster.map(str::to_owned));
            assert_eq!(decode(&text), Some(want), "{text:?}");
        }
        for text in
            ["", "keyspace", "keyspace a", "keyspace a\ncluster b", "keyspace a\nb\n", "x\n"]
        {
            assert_eq!(decode(text), None, "{text:?}");
        }
    }
}
