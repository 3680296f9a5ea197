//! Settings of the embedded store.

use std::time::Duration;

use super::writer::Sizes;
use promkairos_storage::Clock;

/// Settings of the embedded store.
#[derive(Debug, Clone)]
pub struct Options {
    /// Days that ended longer ago than this are removed; zero = kept for ever. If the clock jumps
    /// ahead, retention follows slowly.
    pub retention: Duration,
    /// Most bytes of unpacked index blocks in the cache.
    pub cache_bytes: usize,
    /// Bytes of memory that the open parts of a flush may use; beyond it they end and new parts
    /// begin.
    pub write_bytes: usize,
    /// Sizes at which a new part file is cut into pieces.
    pub sizes: Sizes,
    /// How often compaction and retention run in the background; `None` = only when
    /// [`Parts::maintain`](super::Parts::maintain) is called.
    pub maintenance: Option<Duration>,
    /// The clock for retention and for the end of a day.
    pub clock: Clock,
    /// The log says that every record up to this number is stored here. If the manifest knows fewer, part files are
    /// missing or the manifest is an older one: opening fails and removes no file.
    pub through: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            retention: Duration::ZERO,
            cache_bytes: 64 << 20,
            write_bytes: 64 << 20,
            sizes: Sizes::default(),
            maintenance: Some(Duration::from_secs(60)),
            clock: Clock::default(),
            through: 0,
        }
    }
}
