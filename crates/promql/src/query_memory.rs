//! The memory that all queries hold together, its limit, and the permits to open selections.
//!
//! When memory is short, a query may still hold a little. What queries took since the memory of the process was last
//! measured counts in addition. The limit of one query is in its budget.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use tokio::sync::{Semaphore, SemaphorePermit};

use super::error::QueryError;
use promkairos_model::ShownSize;
use promkairos_storage::{MEMORY_LIMIT, Pressure, Refused};

/// When memory is short, a query may hold the memory limit divided by this.
const LITTLE: u64 = 256;
/// A selection is opened with the limit of a query divided by this; only if that is too little, with the whole limit.
const OPENINGS: u32 = 16;

/// The memory that all queries of an engine hold together, and its limit.
#[derive(Debug)]
pub struct QueryMemory {
    bytes: AtomicUsize,
    /// Bytes held when the memory of the process was last measured.
    looked_at: AtomicUsize,
    max_bytes: usize,
    pressure: Arc<Pressure>,
    /// A selection that is being opened holds label sets that no budget counts yet. These permits limit such
    /// selections together, except one large selection, to the limit of one query.
    openings: Semaphore,
    /// The permit for a selection that needs the whole limit of a query.
    large_opening: Semaphore,
}

/// The permit to open a selection.
pub(crate) struct Opening<'a> {
    /// Most bytes that its label sets may have.
    pub(crate) max_bytes: usize,
    _permit: SemaphorePermit<'a>,
}

impl PartialEq for QueryMemory {
    /// Whether both are the same object.
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for QueryMemory {}

impl QueryMemory {
    /// Room for `max_bytes`, as long as the process is not short of memory.
    pub fn new(max_bytes: usize, pressure: Arc<Pressure>) -> Self {
        let openings = Semaphore::new(OPENINGS as usize);
        let large_opening = Semaphore::new(1);
        let [bytes, looked_at] = [0, 0].map(AtomicUsize::new);
        Self { bytes, looked_at, max_bytes, pressure, openings, large_opening }
    }

    /// Notes that the memory of the process was measured, with all that is held now.
    pub fn looked_at(&self) {
        self.looked_at.store(self.bytes(), Relaxed);
    }

    /// Bytes held now.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// Waits for the permit to open a selection, with a share of the limit `of_query` of its query.
    pub(crate) async fn opening(&self, of_query: usize) -> Result<Opening<'_>, QueryError> {
        let permit = self.openings.acquire().await.map_err(|_| QueryError::Canceled)?;
        let mut max_bytes = of_query / OPENINGS as usize;
        if self.is_short(self.bytes()) {
            max_bytes = max_bytes.min(self.little());
        }
        Ok(Opening { max_bytes, _permit: permit })
    }

    /// Like `opening`, with the whole limit of the query. Fails if memory is short.
    pub(crate) async fn large_opening(&self, of_query: usize) -> Result<Opening<'_>, QueryError> {
        let permit = self.large_opening.acquire().await.map_err(|_| QueryError::Canceled)?;
        let now = self.bytes();
        if self.is_short(now) {
            return Err(self.refuse(self.short(now)));
        }
        Ok(Opening { max_bytes: of_query, _permit: permit })
    }

    /// Takes `bytes` for a query that then holds `of_query` bytes. They are held even on an error, which says why
    /// they are too much.
    pub(crate) fn try_take(&self, bytes: usize, of_query: usize) -> Result<(), String> {
        let now = self.bytes.fetch_add(bytes, Relaxed) + bytes;
        let little = self.little();
        if bytes == 0 || of_query <= little {
            return Ok(());
        }
        if now > self.max_bytes {
            return Err(format!(
                "all queries would hold more than {} in memory, which is half of the setting \
                 {MEMORY_LIMIT}",
                ShownSize::of(self.max_bytes)
            ));
        }
        if self.is_short(now) { Err(self.short(now)) } else { Ok(()) }
    }

    /// Counts a refused query and returns its error.
    pub(crate) fn refuse(&self, why: String) -> QueryError {
        self.pressure.count(Refused::Query);
        QueryError::Limit { what: why, setting: MEMORY_LIMIT }
    }

    /// Bytes that a query may always hold.
    fn little(&self) -> usize {
        usize::try_from(self.pressure.limit() / LITTLE).unwrap_or(usize::MAX)
    }

    /// Bytes that queries took since the last measurement, if they hold `now` bytes.
    fn taken(&self, now: usize) -> u64 {
        now.saturating_sub(self.looked_at.load(Relaxed)) as u64
    }

    /// Whether memory is short, if all queries hold `now` bytes.
    fn is_short(&self, now: usize) -> bool {
        !self.pressure.has_room_for_answers(self.taken(now))
    }

    /// Why a query may not hold more than a little while memory is short.
    fn short(&self, now: usize) -> String {
        let (text, little) = (self.pressure.text(), ShownSize::of(self.little()));
        let more = match self.taken(now) {
            _ if !self.pressure.has_room_for_answers(0) => String::new(),
            taken => {
                let taken = ShownSize::of(taken);
                format!(", and queries took {taken} more since it was looked at")
            }
        };
        format!("{text}{more}: no query may hold more than {little} now")
    }

    /// Gives bytes back.
    pub(crate) fn release(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Relaxed);
    }
}

impl Default for QueryMemory {
    /// Without a limit.
    fn default() -> Self {
        Self::new(usize::MAX, Arc::default())
    }
}
