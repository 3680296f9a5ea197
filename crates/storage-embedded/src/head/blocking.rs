//! Long work of the head, on threads that answer no requests.

use promkairos_storage::StoreError;

/// Runs long work on a thread that does not answer requests.
pub(super) async fn blocking<R: Send + 'static>(
    work: impl FnOnce() -> R + Send + 'static,
) -> Result<R, StoreError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| StoreError::Backend {
        what: "a task of the head ended early".into(),
        source: Box::new(error),
    })
}
