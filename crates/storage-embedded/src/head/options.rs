//! Settings of a head.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::prepared::Refuse;
use super::wal::Mark;
use promkairos_model::limits::{LEAST_FLUSH_RETRY, MOST_FLUSH_RETRY};
use promkairos_storage::Pressure;
use promkairos_storage::disk::Disk;
use promkairos_storage::log_files::LogFiles;

/// Settings of a head.
#[derive(Clone)]
pub struct Options {
    /// Folder of the log; created if absent.
    pub dir: PathBuf,
    /// Whether a file beside the folder says that the log has acknowledged records.
    pub mark: Mark,
    /// Most bytes of the log; beyond them writes are refused until a flush succeeds.
    pub wal_limit: u64,
    /// Size of a segment file of the log, in bytes.
    pub segment_bytes: u64,
    /// How often samples go to the store below.
    pub flush_interval: Duration,
    /// Time over which a flush is spread if only the interval started it.
    pub flush_spread: Duration,
    /// First and longest wait after a failed flush; it ends early if the store below is back.
    pub flush_backoff: (Duration, Duration),
    /// Approximate bytes of points in memory that start a flush early, also while the log is read
    /// back. At [`REFUSE_AT`](promkairos_model::limits::REFUSE_AT) times this size writes are refused.
    pub flush_memory: u64,
    /// How long a series stays in memory at least after its last write, however many flushes
    /// follow.
    pub series_stay: Duration,
    /// Whether points keep their acceptance times, for a store below that writes them.
    pub keeps_stamps: bool,
    /// Series that the store below can never take are refused at once.
    pub refuse: Option<Refuse>,
    /// Memory of the process; no new series are taken while it is short.
    pub pressure: Arc<Pressure>,
    /// The file layer of the log.
    pub disk: Arc<dyn LogFiles>,
}

impl Options {
    /// Default settings, with the log in `dir`.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            mark: Mark::None,
            wal_limit: 8 << 30,
            segment_bytes: 128 << 20,
            flush_interval: Duration::from_secs(2 * 3600),
            flush_spread: Duration::from_secs(3600),
            flush_backoff: (LEAST_FLUSH_RETRY, MOST_FLUSH_RETRY),
            flush_memory: 512 << 20,
            series_stay: Duration::ZERO,
            keeps_stamps: false,
            refuse: None,
            pressure: Arc::default(),
            disk: Arc::new(Disk),
        }
    }
}
