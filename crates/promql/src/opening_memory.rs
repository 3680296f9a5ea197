//! The memory of a selection while a store makes it, taken from the budget of its query.
//!
//! A store knows nothing of queries, so the error of the budget is kept here. When the selection is there, its query
//! takes over what is held and corrects it to what the selection has.

use parking_lot::Mutex;

use super::budget::Held;
use super::error::QueryError;
use promkairos_storage::{SelectionMemory, StoreError};

/// Takes the memory of one selection from the budget of a query.
#[derive(Debug)]
pub struct OpeningMemory(Mutex<State>);

#[derive(Debug)]
struct State {
    held: Held,
    /// The first error of the budget.
    refused: Option<QueryError>,
}

impl OpeningMemory {
    /// Takes more into `held`.
    pub fn new(held: Held) -> Self {
        Self(Mutex::new(State { held, refused: None }))
    }

    /// What was taken. It counts no longer here.
    pub fn take_held(&self) -> Held {
        let held = &mut self.0.lock().held;
        let nothing = held.another();
        std::mem::replace(held, nothing)
    }

    /// Why a selection failed for which a store returned `error`.
    pub fn error(&self, error: StoreError) -> QueryError {
        self.0.lock().refused.take().unwrap_or_else(|| QueryError::of_selection(error))
    }
}

impl SelectionMemory for OpeningMemory {
    fn take(&self, bytes: usize) -> Result<(), StoreError> {
        let State { held, refused } = &mut *self.0.lock();
        held.take(0, bytes).map_err(|error| {
            let text = error.to_string();
            refused.get_or_insert(error);
            StoreError::Limit(text)
        })
    }
}
