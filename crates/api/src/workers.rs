//! Threads for CPU-heavy work: decoding requests, compiling patterns and encoding remote reads;
//! their number is limited.
//!
//! On the threads that serve connections such work would delay writes. Work can ask whether its
//! caller has gone; its permit is free when the work has ended. Invariant: work must not wait for
//! anything.

use std::num::NonZero;
use std::sync::Arc;
use std::thread::available_parallelism;

use tokio::sync::{Semaphore, oneshot};
use tokio::task::spawn_blocking;

use crate::ApiError;
use promkairos_model::limits::MAX_CONCURRENT_READS;

/// Permits for work.
pub(super) struct Workers {
    pub(super) places: Arc<Semaphore>,
}

/// The caller of the work: the function returns whether it has gone.
pub(super) struct Caller<'a>(pub(super) &'a dyn Fn() -> bool);

impl Caller<'_> {
    /// An error once the caller has gone.
    pub(super) fn check(&self) -> Result<(), ApiError> {
        match (self.0)() {
            true => Err(ApiError::Aborted("the client went away")),
            false => Ok(()),
        }
    }
}

impl Workers {
    /// Half of the processors: the other half stays free for writes.
    pub(super) fn new() -> Self {
        let processors = available_parallelism().map_or(1, NonZero::get);
        let places = (processors / 2).clamp(1, MAX_CONCURRENT_READS);
        Self { places: Arc::new(Semaphore::new(places)) }
    }

    /// Runs `work` when a permit is free. Long work should call [`Caller::check`].
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Caller<'_>) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let place = self.places.clone().acquire_owned().await.expect("never closed");
        let (sender, result) = oneshot::channel();
        spawn_blocking(move || {
            let _place = place;
            let done = work(&Caller(&|| sender.is_closed()));
            // The caller may have gone.
            let _ = sender.send(done);
        });
        result.await.unwrap_or(Err(ApiError::Aborted("the work on a request broke")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one_place() -> Workers {
        Workers { places: Arc::new(Semaphore::new(1)) }
    }

    // One thread: if the work ran on it, the test could not send the value that ends the work.
    #[tokio::test]
    async fn work_does_not_hold_up_the_threads_of_others() {
        let workers = one_place();
        let (go_on, gate) = std::sync::mpsc::channel();
        let work = workers.run(move |_| Ok(gate.recv().expect("the sender lives")));
        let other = async move { go_on.send(7).expect("it waits") };
        assert_eq!(tokio::join!(work, other).0.expect("done"), 7);
    }

    #[tokio::test]
    async fn work_whose_caller_went_away_ends_and_frees_its_place() {
        let workers = one_place();
        let (began, has_begun) = oneshot::channel();
        let endless = workers.run::<()>(move |caller| {
            began.send(()).expect("the test waits");
            loop {
                caller.check()?;
                std::thread::yield_now();
            }
        });
        tokio::select! {
            _ = endless => unreachable!("it ends only after its caller"),
            begun = has_begun => begun.expect("begun"),
        }
        assert_eq!(workers.run(|_| Ok(1)).await.expect("there is a place again"), 1);
    }

    #[tokio::test]
    async fn work_that_panics_is_an_error_and_frees_its_place() {
        let workers = one_place();
        let broken = workers.run::<()>(|_| panic!("a defect")).await;
        assert!(matches!(broken, Err(ApiError::Aborted(_))));
        assert_eq!(workers.run(|_| Ok(1)).await.expect("there is a place again"), 1);
    }
}
