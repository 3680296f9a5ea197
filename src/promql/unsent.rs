//! Room for results that wait for their clients: a client that reads slowly keeps its result in memory
//! long after the query has ended.
//!
//! All large results together take no more than one query may. A query whose result finds no room keeps
//! its turn and waits, at most until its time is over; small results are only as many as there are
//! connections, and never wait. How fast a client has to read is not known here.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::error::QueryError;
use super::settings::Settings;
use super::value::QueryValue;

/// Bytes of a result that needs no room.
const SMALL: usize = 1 << 20;
/// Bytes by which room is given.
const UNIT: usize = 1 << 10;

/// The room of an engine.
pub(super) struct Unsent {
    free: Arc<Semaphore>,
    units: u32,
}

/// Room that is free again when this is dropped.
#[derive(Debug, Default)]
pub struct Room {
    _taken: Option<OwnedSemaphorePermit>,
}

impl Unsent {
    pub(super) fn new(settings: &Settings) -> Self {
        let units = (settings.max_bytes / UNIT).max(1);
        let units = units.min(Semaphore::MAX_PERMITS).min(u32::MAX as usize);
        Self { free: Arc::new(Semaphore::new(units)), units: units as u32 }
    }

    /// Waits until there is room for a result; one that is larger than all of it gets all.
    pub(super) async fn room(&self, result: &QueryValue) -> Result<Room, QueryError> {
        let bytes = result.bytes();
        if bytes <= SMALL {
            return Ok(Room::default());
        }
        let units = u32::try_from(bytes / UNIT).unwrap_or(u32::MAX).min(self.units);
        let taken = Arc::clone(&self.free).acquire_many_owned(units).await;
        Ok(Room { _taken: Some(taken.map_err(|_| QueryError::Canceled)?) })
    }
}
