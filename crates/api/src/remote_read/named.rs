//! Names the setting in an error about the memory of a read.

use promkairos_storage::{MEMORY_LIMIT, StoreError};

/// Adds the setting of which the limit is a part.
pub(super) fn named(error: StoreError) -> StoreError {
    match error {
        StoreError::Limit(what) => {
            let part = "which is a part of the setting";
            StoreError::Limit(format!("{what}, {part} {MEMORY_LIMIT}: ask for less at a time"))
        }
        error => error,
    }
}
