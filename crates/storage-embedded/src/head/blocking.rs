//! Long work of the head, on threads that answer no requests.

use promkairos_storage::StoreError;

/// Runs long work on a thread that does not answer requests.
pub(super) async fn blocking<R: Send + 'static>(
    work: impl FnOnce() -> R + Send + 'static,
) -> Result<R, StoreError> {
    let ended = tokio::task::spawn_blocking(work).await;
    ended.map_err(|error| StoreError::backend("a task of the head ended early", error))
}
