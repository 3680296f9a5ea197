//! Why the server does not start, or stops with an error.
//!
//! A failed opening says what to do about the file that causes it. Reads no files: paths say what a file belongs to.

use std::path::{Path, PathBuf};

use crate::storage::StoreError;

/// Why the server did not start, or stopped with an error.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The data folder belongs to another process.
    #[error(
        "{path} is in use by another promkairos process; stop that process, or give this one another --data-dir",
        path = path.display()
    )]
    Locked {
        /// The data folder.
        path: PathBuf,
    },
    /// The data folder, or a folder in it, belongs to another user, who could not use it afterwards.
    #[error(
        "{path} belongs to the user {user}, who could not use what root writes there: run this as that \
         user (sudo -u {user} promkairos ...)",
        path = path.display()
    )]
    Foreign {
        /// The folder.
        path: PathBuf,
        /// The user, quoted for `sudo -u`.
        user: String,
    },
    /// The data folder cannot be used.
    #[error("{}", crate::storage::file_failed(path, source))]
    DataDir {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The configured store would not serve acknowledged samples of a log.
    #[error("{}", only_in_log(log))]
    Unserved {
        /// The folder of the log.
        log: PathBuf,
    },
    /// The store cannot be opened, or does not close.
    #[error("{what}: {source}{}", remedy(source))]
    Store {
        /// What was being done.
        what: &'static str,
        /// Why not.
        source: StoreError,
    },
    /// The listener failed.
    #[error("cannot serve: {0}")]
    Serve(std::io::Error),
}

impl ServerError {
    /// The error of a store while `what` was being done.
    pub(super) fn store(what: &'static str) -> impl Fn(StoreError) -> Self + Copy {
        move |source| Self::Store { what, source }
    }
}

/// Says how the samples of a log in front of Cassandra get into Cassandra.
fn only_in_log(log: &Path) -> String {
    format!(
        "{} holds acknowledged samples that Cassandra does not have yet. Start with --store cassandra --ack wal, \
         and the keyspace and cluster that {} names, to write them there. Do not delete this folder: the samples \
         are only there",
        log.display(),
        log.with_file_name("keyspace").display()
    )
}

/// The command that repairs the log to which a file or folder belongs.
fn repair_command(path: &Path) -> String {
    for (log, store) in [("embedded/wal", ""), ("cassandra/wal", " --store cassandra")] {
        let folder = path.ancestors().find(|folder| folder.ends_with(log));
        if let Some(data) = folder.and_then(|folder| folder.ancestors().nth(2)) {
            return format!("promkairos wal repair --data-dir {}{store}", data.display());
        }
    }
    "promkairos wal repair".to_owned()
}

/// The suffix of an open error: what to do about the file of the data folder that causes it.
fn remedy(error: &StoreError) -> String {
    let path = match error {
        StoreError::Corrupt { path, .. } => path,
        StoreError::Io { path, source } if source.kind() == std::io::ErrorKind::NotFound => path,
        _ => return String::new(),
    };
    let repair = repair_command(path);
    if path.ends_with("embedded/wal") || path.ends_with("cassandra/wal") {
        return format!(
            "; put it back, or {repair} --apply begins a new one (see docs/recovering.md)"
        );
    }
    let is_of_log = path.extension().is_some_and(|extension| extension == "wal")
        || path.file_name().is_some_and(|name| name == "checkpoint");
    let is_of_parts = [Some(path.as_path()), path.parent()]
        .into_iter()
        .any(|folder| folder.is_some_and(|folder| folder.ends_with("embedded/parts")));
    match (is_of_log, is_of_parts) {
        (true, _) => format!(
            "; {repair} shows what of the log is lost, and with --apply takes the damage out (see \
             docs/recovering.md)"
        ),
        (false, true) => {
            "; it has to come back from a copy: docs/recovering.md, \"A part file is damaged or missing\""
                .to_owned()
        }
        (false, false) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_keeps_a_store_from_opening_says_what_to_do() {
        let damaged = |path: &str| StoreError::Corrupt {
            path: path.into(),
            offset: 7,
            what: "checksum".into(),
        };
        let gone = |path: &str| StoreError::Io {
            path: path.into(),
            source: std::io::ErrorKind::NotFound.into(),
        };
        let log = "; promkairos wal repair --data-dir d shows";
        let log_of_cassandra = "; promkairos wal repair --data-dir d --store cassandra shows";
        let copy = "from a copy: docs/recovering.md";
        for (source, want) in [
            (damaged("d/embedded/wal/0000000001.wal"), log),
            (damaged("d/cassandra/wal/checkpoint"), log_of_cassandra),
            (damaged("d/embedded/parts/2026-11-21.0000000012.part"), copy),
            (damaged("d/embedded/parts/MANIFEST"), copy),
            (damaged("d/embedded/parts"), copy),
            (gone("d/embedded/parts/2026-11-21.0000000012.part"), copy),
            (gone("d/embedded/wal"), "wal repair --data-dir d --apply begins a new one"),
            (gone("d/cassandra/wal"), "--data-dir d --store cassandra --apply begins a new one"),
            (damaged("d/cassandra/keyspace"), ""),
            (StoreError::Invalid("x".into()), ""),
        ] {
            let text = source.to_string();
            let error = ServerError::Store { what: "cannot open", source }.to_string();
            let text =
                error.strip_prefix(&format!("cannot open: {text}")).expect("its error first");
            assert!(text.contains(want) && text.is_empty() == want.is_empty(), "{error}");
        }
    }
}
