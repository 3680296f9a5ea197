//! The settings of the read cache.

use std::path::PathBuf;
use std::time::Duration;

use promkairos_storage::Clock;

/// Least age of kept points: writers treat points half as old as settled.
pub const LEAST_SETTLED_AFTER: Duration = Duration::from_secs(600);

/// Longest age of an entry: writers keep the record of their changes three times as long.
pub const MOST_CACHE_AGE: Duration = Duration::from_secs(24 * 3600);

/// Settings of the read cache.
#[derive(Debug, Clone)]
pub struct ReadCacheOptions {
    /// Folder of its files, which have no names; created when it is needed.
    pub dir: PathBuf,
    /// The most bytes of all files.
    pub bytes: u64,
    /// The most bytes of memory for the entries of pieces.
    pub memory: u64,
    /// Points are kept once they are older than this.
    pub settled_after: Duration,
    /// Points that were read for the first time are used for this time, then twice as long each time that a new
    /// read finds them unchanged.
    pub min_age: Duration,
    /// Cached points are never used for longer.
    pub max_age: Duration,
    /// The clock for ages. It must never go back.
    pub clock: Clock,
}
