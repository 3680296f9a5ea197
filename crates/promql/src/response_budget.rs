//! A memory limit for results that are not sent yet: a client that reads slowly keeps its result in memory long after
//! the query has ended.
//!
//! All large results together take at most the memory limit of one query. They also count in the memory of all
//! queries until they are sent. A query whose result finds no room keeps its permit, waits for up to 5 s and then
//! fails. Small results need no room. How fast a client has to read is decided elsewhere.

use std::time::Duration;

use tokio::time::Instant;

use super::budget::Held;
use super::error::QueryError;
use super::queue::Queue;
use super::setting_names::MAX_BYTES;
use super::settings::Settings;
use promkairos_storage::{NoPermit, Permit, Permits};

/// Most bytes of a result that needs no room.
const SMALL: usize = 128 << 10;
/// The unit of room, in bytes.
const UNIT: usize = 1 << 10;
/// How long a result waits for room; its query keeps its permit meanwhile.
const PATIENCE: Duration = Duration::from_secs(5);

/// The room for results of an engine.
pub(crate) struct ResponseBudget {
    units: Permits,
    /// Results that wait for room.
    waiting: Queue,
}

/// The room of a result. It is given back on drop, or bit by bit.
#[derive(Debug, Default)]
pub struct Room {
    /// The share of the budget of its query that the result holds.
    held: Option<Held>,
    taken: Option<Permit>,
    /// Units of the result that exceed the whole room.
    beyond: usize,
    /// Bytes that were given back and do not make a unit yet.
    spare: usize,
}

impl Room {
    /// For a result that has no room yet, only its share of the budget.
    pub(crate) fn holding(held: Held) -> Self {
        Self { held: Some(held), ..Self::default() }
    }

    /// The share of the budget.
    pub(crate) fn into_held(self) -> Option<Held> {
        self.held
    }

    /// Notes that `bytes` bytes of the result are no longer in memory.
    pub fn give_back(&mut self, bytes: usize) {
        if let Some(held) = &mut self.held {
            held.give(bytes);
        }
        self.spare += bytes;
        let units = self.spare / UNIT;
        self.spare %= UNIT;
        let beyond = units.min(self.beyond);
        self.beyond -= beyond;
        if let Some(taken) = &mut self.taken {
            drop(taken.split((units - beyond).min(taken.num_permits())));
        }
    }
}

impl ResponseBudget {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            units: Permits::new(MAX_BYTES, settings.max_bytes / UNIT),
            waiting: Queue::default(),
        }
    }

    /// Whether a result waits for room.
    pub(crate) fn is_wanted(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Waits until there is room for a result of `bytes` bytes, whose share of the budget is `held`. A result that is
    /// larger than the whole room gets all of it.
    pub(crate) async fn room(&self, bytes: usize, held: Option<Held>) -> Result<Room, QueryError> {
        if bytes <= SMALL {
            return Ok(Room { held, ..Room::default() });
        }
        let _waiting = self.waiting.join();
        let taken = self.units.take(bytes / UNIT, Instant::now() + PATIENCE).await;
        let taken = taken.map_err(|NoPermit { setting }| {
            let what = format!(
                "results that are being sent to other clients leave no room for this one of {bytes} bytes; \
                 together they may take the setting {setting}"
            );
            QueryError::Busy { what, setting }
        })?;
        let beyond = bytes / UNIT - taken.num_permits();
        Ok(Room { held, taken: Some(taken), beyond, spare: 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn large_results_wait_for_each_other() {
        let unsent = ResponseBudget::new(&Settings { max_bytes: 4 << 20, ..Settings::default() });
        let first = unsent.room(3 << 20, None).await.expect("there is room");
        unsent.room(SMALL, None).await.expect("it needs none");
        let mut waiting = std::pin::pin!(unsent.room(2 << 20, None));
        assert!(futures::poll!(waiting.as_mut()).is_pending());
        drop(first);
        let second = waiting.await.expect("there is room again");
        drop(second);
        // It gets the whole room.
        unsent.room(9 << 20, None).await.expect("alone");
    }

    #[tokio::test]
    async fn what_is_sent_makes_room_before_the_rest_is() {
        let unsent = ResponseBudget::new(&Settings { max_bytes: 4 << 20, ..Settings::default() });
        let mut room = unsent.room(6 << 20, None).await.expect("there is room");
        room.give_back(2 << 20);
        assert_eq!(unsent.units.free(), 0, "what is left needs all of it");
        for _ in 0..1 << 10 {
            room.give_back(UNIT / 2);
        }
        assert_eq!(unsent.units.free(), 1 << 9);
        room.give_back(9 << 20);
        assert_eq!(unsent.units.free(), 4 << 10, "never more than there was");
    }

    #[tokio::test]
    async fn nobody_waits_for_long() {
        let unsent = ResponseBudget::new(&Settings { max_bytes: 4 << 20, ..Settings::default() });
        let _first = unsent.room(4 << 20, None).await.expect("there is room");
        let error = unsent.room(2 << 20, None).await.expect_err("full").to_string();
        assert!(error.contains("may take the setting query-max-memory"), "{error}");
    }
}
