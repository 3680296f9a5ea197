//! Permits for writes of points: as many at a time as the servers keep up with (see `concurrency`).
//!
//! Waiters are served in order. A permit that is dropped without [`WritePermits::end`] is returned without a result.

use parking_lot::Mutex;

use crate::cql::concurrency::{Concurrency, Reply};
use promkairos_storage::{Permit, Permits};
use promkairos_telemetry::CassandraMetrics;

/// The permits.
pub(crate) struct WritePermits {
    /// As many as the setting says: free, taken or withheld.
    pub(crate) permits: Permits,
    limit: Mutex<PermitLimit>,
    metrics: CassandraMetrics,
}

/// The limit, and the permits beyond it, which no write gets.
struct PermitLimit {
    concurrency: Concurrency,
    withheld: Permit,
}

impl WritePermits {
    /// Lends at most these permits, fewer at the start.
    pub(crate) fn new(permits: Permits, metrics: CassandraMetrics) -> Self {
        let concurrency = Concurrency::new(permits.limit());
        metrics.write_concurrency.set(concurrency.limit() as i64);
        let withheld = permits.try_take(permits.limit() - concurrency.limit());
        let withheld = withheld.expect("all permits are free");
        Self { permits, limit: Mutex::new(PermitLimit { concurrency, withheld }), metrics }
    }

    /// Returns a permit and learns from the result of the write.
    pub(crate) fn end(&self, permit: Permit, reply: Reply) {
        let mut current = self.limit.lock();
        let permits = self.permits.limit() - current.withheld.num_permits();
        current.concurrency.observe(reply, permits - self.permits.free().min(permits));
        let limit = current.concurrency.limit();
        if permits <= limit {
            drop(permit);
            drop(current.withheld.split(limit - permits));
        } else {
            // No waiter gets this permit. Others are withheld as they are returned.
            current.withheld.merge(permit);
            let surplus = self.permits.free().min(permits - 1 - limit);
            if let Ok(surplus) = self.permits.try_take(surplus) {
                current.withheld.merge(surplus);
            }
        }
        self.metrics.write_concurrency.set(limit as i64);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt;

    use super::*;

    fn write_permits(metrics: &CassandraMetrics) -> WritePermits {
        WritePermits::new(Permits::new("cassandra-max-in-flight", 100), metrics.clone())
    }

    /// Takes all free permits.
    fn all(of: &WritePermits) -> Vec<Permit> {
        std::iter::from_fn(|| of.permits.try_take(1).ok()).collect()
    }

    #[tokio::test]
    async fn there_are_as_many_permits_as_the_limit_says() {
        let metrics = CassandraMetrics::default();
        let all_permits = write_permits(&metrics);
        let permits = all(&all_permits);
        assert_eq!((permits.len(), metrics.write_concurrency.get()), (64, 64));
        // A waiter gets no permit before the limit has room for it.
        let later = tokio::time::Instant::now() + Duration::from_secs(3600);
        let mut waiting = Box::pin(all_permits.permits.take(1, later));
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
        let all_permits = write_permits(&metrics);
        for _ in 0..50 {
            for permit in all(&all_permits) {
                all_permits.end(permit, Reply::Done(1, Duration::from_millis(1)));
            }
        }
        assert_eq!((all(&all_permits).len(), metrics.write_concurrency.get()), (100, 100));
    }
}
