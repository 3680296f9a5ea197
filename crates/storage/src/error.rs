//! Why a store failed: a variant for each answer to the client.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use promkairos_model::limits::RETRY_AFTER;

/// The result of an operation on a store.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;

/// Why a store failed. Each variant needs a different answer to the client.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The store cannot be reached or cannot keep its promise now; retry after the given time.
    #[error("{what}")]
    Unavailable {
        /// What is unavailable, and why.
        what: String,
        /// When to retry.
        retry_after: Duration,
    },
    /// The backend denies access or an operation. This may pass while it starts; otherwise a
    /// setting or a permission has to change.
    #[error("{0}")]
    Denied(String),
    /// The request exceeds a limit. Names the limit.
    #[error("{0}")]
    Limit(String),
    /// The request makes no sense to this store.
    #[error("{0}")]
    Invalid(String),
    /// Bytes on disk or in a row differ from what was written.
    #[error("{path}: damaged at byte {offset}: {what}", path = path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Where in the file.
        offset: u64,
        /// What is wrong.
        what: String,
    },
    /// A file operation failed.
    #[error("{}", file_failed(path, source))]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The backend returned an error other than unavailability.
    #[error("{what}: {source}")]
    Backend {
        /// What was being done.
        what: String,
        /// The backend's error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl StoreError {
    /// The backend's error `source`, with what was being done.
    pub fn backend(
        what: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Backend { what: what.into(), source: source.into() }
    }

    /// Bytes of a file that differ from what was written.
    pub fn corrupt(path: impl Into<PathBuf>, offset: u64, what: impl Into<String>) -> Self {
        Self::Corrupt { path: path.into(), offset, what: what.into() }
    }

    /// A failed operation on a file or folder.
    pub fn io(path: &Path, source: io::Error) -> Self {
        Self::Io { path: path.to_owned(), source }
    }

    /// An error that passes; retry after the usual time.
    pub fn unavailable(what: impl Into<String>) -> Self {
        Self::unavailable_for(what, RETRY_AFTER)
    }

    /// An error that passes; retry after the given time.
    pub fn unavailable_for(what: impl Into<String>, retry_after: Duration) -> Self {
        Self::Unavailable { what: what.into(), retry_after }
    }
}

/// The text of a failed file operation. If there is no room, the folder comes first, because the
/// operator has to act on its file system and not on the file.
pub fn file_failed(path: &Path, source: &io::Error) -> String {
    let folder = path.parent().unwrap_or(path).display();
    let full = match source.kind() {
        ErrorKind::StorageFull => format!("the file system of {folder} is full, make room there: "),
        ErrorKind::QuotaExceeded => format!("the quota for {folder} is used up, make room there: "),
        _ => String::new(),
    };
    format!("{full}{}: {source}", path.display())
}
