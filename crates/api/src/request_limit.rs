//! The limit of concurrent requests of all kinds.
//!
//! The limit is the smaller of a setting and a share of the memory limit. Requests that share a connection leave a
//! quarter of it to requests that do not, so that a few clients cannot lock others out.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use promkairos_model::limits::MAX_CONCURRENT_REQUESTS;
use promkairos_storage::{MEMORY_LIMIT, Pressure};

/// The setting that limits requests.
const REQUESTS: &str = "max-concurrent-requests";

/// Approximate memory of a waiting request, rounded up, without the memory of its work.
const REQUEST_BYTES: u64 = 64 << 10;
/// All requests together may use one part in this many of the memory limit.
const PART: u64 = 8;

/// Attached to a request on a spare connection, which serves only health and metrics.
#[derive(Debug, Clone, Copy)]
pub struct SpareConnection {
    /// The limit of usual connections.
    pub beyond: usize,
}

/// Attached to a request that arrives while others of its connection are running.
#[derive(Debug, Clone, Copy)]
pub struct SharedConnection;

/// The number of running requests, and its limits.
pub(super) struct RequestLimit {
    /// The limit of the setting.
    most: AtomicUsize,
    /// The limit by memory.
    affordable: usize,
    under_way: AtomicUsize,
    /// Accounts for the memory of requests.
    pressure: Arc<Pressure>,
}

/// Why a request is refused.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooMany {
    most: usize,
    pub(super) setting: &'static str,
}

/// A running request; dropping it ends the count.
pub(super) struct Counted<'a>(&'a RequestLimit);

impl Default for RequestLimit {
    /// The default limit, without a limit by memory.
    fn default() -> Self {
        Self::within(Arc::default())
    }
}

impl RequestLimit {
    /// A limit for a process with this memory limit.
    pub(super) fn within(pressure: Arc<Pressure>) -> Self {
        let affordable = pressure.limit() / PART / REQUEST_BYTES;
        let affordable = usize::try_from(affordable).unwrap_or(usize::MAX);
        let [most, under_way] = [MAX_CONCURRENT_REQUESTS, 0].map(AtomicUsize::new);
        Self { most, affordable, under_way, pressure }
    }

    /// Sets the limit of the setting.
    pub(super) fn set(&self, most: usize) {
        self.most.store(most, Ordering::Relaxed);
    }

    /// Counts one more request; `is_alone` = no other request of its connection is running.
    pub(super) fn enter(&self, is_alone: bool) -> Result<Counted<'_>, TooMany> {
        let before = self.under_way.fetch_add(1, Ordering::Relaxed);
        self.pressure.take_for_answers(REQUEST_BYTES);
        let counted = Counted(self);
        let most = self.most.load(Ordering::Relaxed);
        let (most, setting) = match self.affordable < most {
            true => (self.affordable, MEMORY_LIMIT),
            false => (most, REQUESTS),
        };
        let kept_free = if is_alone { 0 } else { most / 4 };
        if before < most - kept_free { Ok(counted) } else { Err(TooMany { most, setting }) }
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.pressure.give_back_of_answers(REQUEST_BYTES);
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

impl TooMany {
    pub(super) fn text(&self, is_alone: bool) -> String {
        let Self { most, setting } = self;
        let why = match *setting {
            MEMORY_LIMIT => "as many as the setting memory-limit has room for".to_owned(),
            setting => format!("which is the setting {setting}"),
        };
        let shared = match is_alone {
            true => "",
            false => "; a quarter of it is kept for connections without another request",
        };
        format!("more than {most} requests at a time, {why}{shared}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_setting(most: usize) -> TooMany {
        TooMany { most, setting: REQUESTS }
    }

    #[test]
    fn one_too_many_is_refused_until_another_ends() {
        let concurrency = RequestLimit::default();
        concurrency.set(2);
        let first = concurrency.enter(true).expect("the first");
        let _second = concurrency.enter(true).expect("the second");
        assert_eq!(concurrency.enter(true).err(), Some(of_setting(2)));
        drop(first);
        drop(concurrency.enter(true).expect("there is room again"));
        concurrency.set(1);
        assert_eq!(concurrency.enter(true).err(), Some(of_setting(1)));
        assert_eq!(concurrency.under_way.load(Ordering::Relaxed), 1, "refused ones do not count");
    }

    #[test]
    fn requests_that_share_connections_leave_a_quarter_to_others() {
        let concurrency = RequestLimit::default();
        concurrency.set(8);
        let shared: Vec<_> = (0..6).map(|_| concurrency.enter(false).expect("room")).collect();
        assert_eq!(concurrency.enter(false).err(), Some(of_setting(8)));
        let alone: Vec<_> = (0..2).map(|_| concurrency.enter(true).expect("room")).collect();
        assert_eq!(concurrency.enter(true).err(), Some(of_setting(8)));
        drop((shared, alone));
        concurrency.set(1);
        concurrency.enter(false).map(drop).expect("one is always taken");
    }

    #[test]
    fn memory_bounds_them_where_the_setting_is_larger() {
        let concurrency = RequestLimit::within(Arc::new(Pressure::new(PART * REQUEST_BYTES * 3)));
        let held: Vec<_> = (0..3).map(|_| concurrency.enter(true).expect("room")).collect();
        let refused = concurrency.enter(true).err().expect("one too many");
        assert_eq!(refused, TooMany { most: 3, setting: MEMORY_LIMIT });
        let why =
            "more than 3 requests at a time, as many as the setting memory-limit has room for";
        assert_eq!(refused.text(true), why);
        drop(held);
        concurrency.set(2);
        let _held =
            [concurrency.enter(true).expect("room"), concurrency.enter(true).expect("room")];
        assert_eq!(concurrency.enter(true).err(), Some(of_setting(2)));
    }
}
