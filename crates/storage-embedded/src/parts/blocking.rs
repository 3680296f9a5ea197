//! File work, on threads that may block.

use std::time::Duration;

use promkairos_storage::StoreError;

/// Runs file work on a thread that may block.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(error) => {
                Err(StoreError::unavailable_for(error.to_string(), Duration::from_secs(1)))
            }
        },
    }
}
