//! The maintenance thread: retention, and one compaction at a time.
//!
//! It runs at an interval and when it is woken. A failure is counted and logged, and the work is
//! tried again after a pause that grows up to the interval. A failure never stops the store.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use promkairos_model::limits::LEAST_FLUSH_RETRY as LEAST_RETRY;
use promkairos_storage::StoreError;

use super::compaction::Speed;
use super::state::PartStore;

/// The handle of the thread, if there is one.
pub(super) struct Maintenance {
    store: Arc<PartStore>,
    signal: Arc<Signal>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Signal {
    wishes: Mutex<Wishes>,
    changed: Condvar,
}

#[derive(Default)]
struct Wishes {
    wake: bool,
    stop: bool,
}

impl Maintenance {
    pub(super) fn start(
        store: Arc<PartStore>,
        interval: Option<Duration>,
    ) -> Result<Self, StoreError> {
        let signal = Arc::new(Signal::default());
        let mut thread = None;
        if let Some(interval) = interval {
            let (store, signal) = (store.clone(), signal.clone());
            let builder = std::thread::Builder::new().name("parts".into());
            let spawned = builder.spawn(move || run(&store, &signal, interval));
            thread = Some(spawned.map_err(|error| StoreError::Unavailable {
                what: format!("cannot start the maintenance thread: {error}"),
                retry_after: Duration::from_secs(1),
            })?);
        }
        Ok(Self { store, signal, thread: Mutex::new(thread) })
    }

    /// Wakes the thread, since there may be work.
    pub(super) fn wake(&self) {
        self.signal.wishes.lock().wake = true;
        self.signal.changed.notify_all();
    }

    /// Shuts the store and asks the thread to stop; a running compaction is abandoned. The caller waits for the thread
    /// that this returns.
    pub(super) fn stop(&self) -> Option<JoinHandle<()>> {
        self.store.shut();
        self.signal.wishes.lock().stop = true;
        self.signal.changed.notify_all();
        self.thread.lock().take()
    }
}

impl Drop for Maintenance {
    fn drop(&mut self) {
        // The folder may be opened again at once, so the thread must have ended.
        if let Some(thread) = self.stop()
            && thread.join().is_err()
        {
            tracing::error!("the maintenance thread of the embedded store has panicked");
        }
    }
}

fn run(store: &PartStore, signal: &Signal, interval: Duration) {
    let (mut pause, mut retry) = (interval, LEAST_RETRY);
    loop {
        let mut wishes = signal.wishes.lock();
        if !wishes.wake && !wishes.stop {
            signal.changed.wait_for(&mut wishes, pause);
        }
        wishes.wake = false;
        if wishes.stop {
            return;
        }
        drop(wishes);
        let Err(error) = store.maintain(&|| store.clock.now_ms(), Speed::Background) else {
            store.failures.end();
            (pause, retry) = (interval, LEAST_RETRY);
            continue;
        };
        // Work that is abandoned on closing is not a failure.
        if store.stopping.load(Ordering::Relaxed) {
            tracing::debug!(%error, "maintenance of the embedded store was given up");
            return;
        }
        store.metrics.maintenance_failures.inc();
        store.failures.note(&error);
        pause = retry.min(interval);
        retry = pause * 2;
        tracing::error!(%error, "maintenance of the embedded store failed, tried again in {pause:?}");
    }
}

impl PartStore {
    /// Runs retention and compaction until nothing is left to do. The clock is read before each
    /// piece of work, since all of them may take hours.
    pub(super) fn maintain(&self, now: &dyn Fn() -> i64, speed: Speed) -> Result<(), StoreError> {
        loop {
            self.enforce_retention(now())?;
            if !self.compact_once(now(), speed)? {
                return Ok(());
            }
        }
    }
}
