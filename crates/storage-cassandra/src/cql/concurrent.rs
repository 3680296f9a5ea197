//! Runs many futures, a bounded number of them at the same time.

use futures::future::BoxFuture;
use futures::{StreamExt, TryStreamExt, stream};

use promkairos_storage::Result;

/// Futures that are created one by one.
pub(crate) type Futures<'a, T> = Box<dyn Iterator<Item = BoxFuture<'a, Result<T>>> + Send + 'a>;

/// Runs some futures at a time; returns their results in order, or the first error.
pub(crate) async fn all<T>(at_once: usize, futures: Futures<'_, T>) -> Result<Vec<T>> {
    stream::iter(futures).buffered(at_once).try_collect().await
}
