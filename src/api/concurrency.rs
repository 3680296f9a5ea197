//! How many requests are answered at a time, whatever they ask for.
//!
//! A request counts from its head until the head of its answer, its body and all waiting included.
//! One too many is told at once to come again, and so is one that came by a spare connection. Those for
//! health and metrics do not count: they tell an operator why the others are refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::{ApiError, AppState};
use crate::limits::{MAX_CONCURRENT_REQUESTS, RETRY_AFTER};
use crate::storage::StoreError;

/// The settings of how many requests and how many connections there may be.
const REQUESTS: &str = "max-concurrent-requests";
const CONNECTIONS: &str = "max-connections";

/// What is always answered.
const UNCOUNTED: [&str; 3] = ["/-/healthy", "/-/ready", "/metrics"];

/// Stands with a request that came by a spare connection, which is for health and metrics alone.
#[derive(Debug, Clone, Copy)]
pub struct SpareConnection {
    /// How many others there may be.
    pub beyond: usize,
}

/// How many requests are under way, and how many may be.
pub(super) struct RequestLimit {
    most: AtomicUsize,
    under_way: AtomicUsize,
}

/// A request under way; dropping it makes place.
struct Counted<'a>(&'a AtomicUsize);

impl Default for RequestLimit {
    fn default() -> Self {
        Self { most: AtomicUsize::new(MAX_CONCURRENT_REQUESTS), under_way: AtomicUsize::new(0) }
    }
}

impl RequestLimit {
    /// So many may be under way from now on.
    pub(super) fn set(&self, most: usize) {
        self.most.store(most, Ordering::Relaxed);
    }

    /// One more, or how many there may be.
    fn enter(&self) -> Result<Counted<'_>, usize> {
        let before = self.under_way.fetch_add(1, Ordering::Relaxed);
        let counted = Counted(&self.under_way);
        match self.most.load(Ordering::Relaxed) {
            most if before < most => Ok(counted),
            most => Err(most),
        }
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Sends away what is too much.
pub(super) async fn bound(
    State(state): State<Arc<AppState>>,
    request: Request,
    next: Next,
) -> Response {
    if UNCOUNTED.contains(&request.uri().path()) {
        return next.run(request).await;
    }
    if let Some(SpareConnection { beyond }) = request.extensions().get() {
        return too_many(&state, &format!("{beyond} connections"), CONNECTIONS);
    }
    match state.concurrency.enter() {
        Ok(_counted) => next.run(request).await,
        Err(most) => too_many(&state, &format!("{most} requests at a time"), REQUESTS),
    }
}

fn too_many(state: &AppState, most: &str, setting: &'static str) -> Response {
    state.metrics.http.limits.reached(setting);
    let what = format!("more than {most}, which is the setting {setting}");
    ApiError::from(StoreError::Unavailable { what, retry_after: RETRY_AFTER }).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_too_many_is_refused_until_another_ends() {
        let concurrency = RequestLimit::default();
        concurrency.set(2);
        let first = concurrency.enter().map_err(drop).expect("the first");
        let _second = concurrency.enter().map_err(drop).expect("the second");
        assert_eq!(concurrency.enter().map(drop), Err(2));
        drop(first);
        concurrency.enter().map_err(drop).expect("there is place again");
        concurrency.set(1);
        assert_eq!(concurrency.enter().map(drop), Err(1));
        assert_eq!(concurrency.under_way.load(Ordering::Relaxed), 1, "refused ones do not count");
    }
}
