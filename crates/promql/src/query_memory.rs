//! The memory that all queries hold together, and its limit.
//!
//! When memory is short, a query may still hold a little. What queries took since the memory of the process was last
//! measured counts in addition. The limit of one query is in its budget.

use std::sync::Arc;

use super::error::QueryError;
use promkairos_model::ShownSize;
use promkairos_storage::{MEMORY_LIMIT, Pressure, Refused};

/// When memory is short, a query may hold the memory limit divided by this.
const LITTLE: u64 = 256;

/// The memory that all queries of an engine hold together, and its limit.
#[derive(Debug)]
pub struct QueryMemory {
    max_bytes: usize,
    /// Counts the bytes.
    pressure: Arc<Pressure>,
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
        Self { max_bytes, pressure }
    }

    /// Bytes held now.
    pub fn bytes(&self) -> u64 {
        self.pressure.queries()
    }

    /// Takes `bytes` for a query that then holds `of_query` bytes. They are held even on an error, which says why
    /// they are too much.
    pub(crate) fn try_take(&self, bytes: usize, of_query: usize) -> Result<(), String> {
        let now = self.pressure.take_for_queries(bytes as u64);
        let little = self.little();
        if bytes == 0 || of_query <= little {
            return Ok(());
        }
        if now > self.max_bytes as u64 {
            return Err(format!(
                "all queries would hold more than {} in memory, which is half of the setting \
                 {MEMORY_LIMIT}",
                ShownSize::of(self.max_bytes)
            ));
        }
        if self.pressure.has_room_for_reads() { Ok(()) } else { Err(self.short()) }
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

    /// Why a query may not hold more than a little while memory is short.
    fn short(&self) -> String {
        let (text, little) = (self.pressure.text_for_reads(), ShownSize::of(self.little()));
        format!("{text}: no query may hold more than {little} now")
    }

    /// Gives bytes back.
    pub(crate) fn release(&self, bytes: usize) {
        self.pressure.give_back_of_queries(bytes as u64);
    }
}

impl Default for QueryMemory {
    /// Without a limit.
    fn default() -> Self {
        Self::new(usize::MAX, Arc::default())
    }
}
