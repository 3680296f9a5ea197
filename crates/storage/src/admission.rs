//! Admission: permits for requests, in the number that a setting allows.
//!
//! A request beyond the limit waits until a deadline, after those that came before it. The error names the setting;
//! the caller counts the refusal and writes its text. A permit lasts until its request drops it, however long that
//! takes. New limits need new [`Permits`]: running and waiting requests keep the old ones.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

/// One or several permits, held until this is dropped.
pub type Permit = OwnedSemaphorePermit;

/// No permit became free in time.
#[derive(Debug, thiserror::Error)]
#[error("no permit became free in time: the limit is the setting {setting}")]
pub struct NoPermit {
    /// The setting whose limit was reached.
    pub setting: &'static str,
}

/// The permits of one limit.
#[derive(Debug)]
pub struct Permits {
    setting: &'static str,
    limit: u32,
    semaphore: Arc<Semaphore>,
}

impl Permits {
    /// `limit` permits, at least one, as this setting says.
    pub fn new(setting: &'static str, limit: usize) -> Self {
        let limit = u32::try_from(limit.clamp(1, Semaphore::MAX_PERMITS)).unwrap_or(u32::MAX);
        Self { setting, limit, semaphore: Arc::new(Semaphore::new(limit as usize)) }
    }

    /// Waits until `deadline` for `count` permits, or for all if the limit is lower.
    pub async fn take(&self, count: usize, deadline: Instant) -> Result<Permit, NoPermit> {
        let count = u32::try_from(count).unwrap_or(u32::MAX).min(self.limit);
        let permit = timeout_at(deadline, self.semaphore.clone().acquire_many_owned(count)).await;
        permit.ok().and_then(Result::ok).ok_or(NoPermit { setting: self.setting })
    }

    /// Takes exactly `count` permits, which have to be free now.
    pub fn try_take(&self, count: usize) -> Result<Permit, NoPermit> {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let permit = self.semaphore.clone().try_acquire_many_owned(count);
        permit.map_err(|_| NoPermit { setting: self.setting })
    }

    /// The number of permits, free or taken.
    pub fn limit(&self) -> usize {
        self.limit as usize
    }

    /// The number of free permits.
    pub fn free(&self) -> usize {
        self.semaphore.available_permits()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_request_beyond_the_limit_waits_and_is_refused_by_the_setting() {
        let (permits, now) = (Permits::new("most-of-it", 2), Instant::now());
        let first = permits.take(1, now).await.expect("free");
        let _second = permits.take(1, now).await.expect("free, so it is not late");
        for refused in [permits.take(1, now).await, permits.try_take(1)] {
            assert_eq!(refused.expect_err("all are taken").setting, "most-of-it");
        }
        drop(first);
        assert_eq!((permits.free(), permits.limit()), (1, 2));
        drop(permits.try_take(1).expect("free again"));
    }

    #[tokio::test]
    async fn requests_are_served_in_order_and_a_large_one_takes_all() {
        let permits = Permits::new("most-of-it", 3);
        let later = Instant::now() + Duration::from_secs(3600);
        let held = permits.try_take(1).expect("free");
        let mut large = Box::pin(permits.take(usize::MAX, later));
        let mut small = Box::pin(permits.take(1, later));
        assert!((&mut large).now_or_never().is_none() && (&mut small).now_or_never().is_none());
        drop(held);
        assert_eq!(large.await.expect("all are free").num_permits(), 3);
        drop(small.await.expect("free again"));
        assert!(permits.try_take(4).is_err(), "there are three");
        assert_eq!(Permits::new("most-of-it", 0).limit(), 1);
    }
}
