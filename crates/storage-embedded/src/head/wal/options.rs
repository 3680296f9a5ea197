//! Settings of the log.

use std::path::PathBuf;
use std::sync::Arc;

use super::mark::Mark;
use promkairos_storage::log_files::LogFiles;

/// Settings of the log.
#[derive(Clone)]
pub struct WalOptions {
    /// Its folder; created if absent.
    pub dir: PathBuf,
    /// Whether a file beside the folder says that the log has acknowledged records.
    pub mark: Mark,
    /// Bytes reserved for a segment file.
    pub segment_bytes: u64,
    /// The file layer.
    pub disk: Arc<dyn LogFiles>,
}
