//! Permits for writes of points: as many at a time as the servers keep up with (see `concurrency`).
//!
//! Waiters are served in order. A permit that is dropped without [`WritePermits::end`] is returned without a result.

use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::cql::concurrency::{Concurrency, Reply};
use promkairos_telemetry::CassandraMetrics;

/// The permits.
pub(crate) struct WritePermits {
    /// Has [`PermitLimit::permits`] permits in total, free or taken.
    pub(crate) permits: Semaphore,
    limit: Mutex<PermitLimit>,
    metrics: CassandraMetrics,
}

/// The limit, and the permits that there are now.
struct PermitLimit {
    concurrency: Concurrency,
    permits: usize,
}

impl WritePermits {
    /// Permits of which at most `most` are taken at a time.
    pub(crate) fn new(most: usize, metrics: CassandraMetrics) -> Self {
        let concurrency = Concurrency::new(most);
        let permits = concurrency.limit();
        metrics.write_concurrency.set(permits as i64);
        let limit = Mutex::new(PermitLimit { concurrency, permits });
        Self { permits: Semaphore::new(permits), limit, metrics }
    }

    /// Returns a permit and learns from the result of the write.
    pub(crate) fn end(&self, permit: SemaphorePermit<'_>, reply: Reply) {
        let mut current = self.limit.lock();
        let in_flight = current.permits - self.permits.available_permits().min(current.permits);
        current.concurrency.observe(reply, in_flight);
        let limit = current.concurrency.limit();
        if current.permits <= limit {
            drop(permit);
            self.permits.add_permits(limit - current.permits);
            current.permits = limit;
        } else {
            // No waiter gets this permit. Others are removed as they are returned.
            permit.forget();
            current.permits -= 1;
            current.permits -= self.permits.forget_permits(current.permits - limit);
        }
        self.metrics.write_concurrency.set(limit as i64);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt;

    use super::*;

    fn permit(of: &WritePermits) -> Option<SemaphorePermit<'_>> {
        of.permits.acquire().now_or_never().map(|permit| permit.expect("never closed"))
    }

    /// Takes all free permits.
    fn all(of: &WritePermits) -> Vec<SemaphorePermit<'_>> {
        std::iter::from_fn(|| permit(of)).collect()
    }

    #[test]
    fn there_are_as_many_permits_as_the_limit_says() {
        let metrics = CassandraMetrics::default();
        let all_permits = WritePermits::new(100, metrics.clone());
        let permits = all(&all_permits);
        assert_eq!((permits.len(), metrics.write_concurrency.get()), (64, 64));
        // A waiter gets no permit before the limit has room for it.
        let mut waiting = Box::pin(all_permits.permits.acquire());
        assert!((&mut waiting).now_or_never().is_none());
        let mut permits = permits.into_iter();
        for _ in 0..32 {
            all_permits.end(permits.next().expect("64"), Reply::Overload);
            assert!((&mut waiting).now_or_never().is_none());
        }
        assert_eq!(metrics.write_concurrency.get(), 32);
        all_permits.end(permits.next().expect("64"), Reply::Other);
        assert!((&mut waiting).now_or_never().is_some());
        drop(permits);
        assert_eq!(all(&all_permits).len(), 32);
    }

    #[test]
    fn quick_answers_make_more_permits() {
        let metrics = CassandraMetrics::default();
        let all_permits = WritePermits::new(100, metrics.clone());
        for _ in 0..50 {
            for permit in all(&all_permits) {
                all_permits.end(permit, Reply::Done(1, Duration::from_millis(1)));
            }
        }
        assert_eq!((all(&all_permits).len(), metrics.write_concurrency.get()), (100, 100));
    }
}
