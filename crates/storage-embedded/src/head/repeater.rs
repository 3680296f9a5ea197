//! Applies records of a replay to memory on a thread of its own, while the next one is decoded.
//!
//! Writes are applied in the order of the calls. The number and the bytes of waiting writes are
//! bounded. Call [`Repeater::settle`] before memory is changed or measured by others.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use super::byte_budget::{ByteBudget, Reserved};
use super::map::bytes_of_new;
use super::prepared::Prepared;
use super::recent_samples::RecentSamples;
use promkairos_storage::StoreError;

/// Most writes that wait.
const WAITING: usize = 16;

enum Step {
    /// A write, the acceptance time that points keep (0 = none), and its share of the byte budget.
    Write(Box<Prepared>, i64, Reserved),
    /// Answered when everything before is in memory.
    Settle(SyncSender<()>),
}

/// The handle of the thread.
pub(super) struct Repeater {
    steps: SyncSender<Step>,
    thread: JoinHandle<u64>,
    waiting: Arc<Waiting>,
    budget: ByteBudget,
}

/// Most bytes that the waiting writes will take in memory.
#[derive(Default)]
struct Waiting {
    points: AtomicU64,
    /// Series that memory did not have when the write was read.
    series: AtomicU64,
}

impl Repeater {
    /// Starts the thread. Writes of at most `most_bytes` may wait for it.
    pub(super) fn start(memory: Arc<RecentSamples>, most_bytes: u64) -> Result<Self, StoreError> {
        let (steps, taken) = sync_channel(WAITING);
        let thread = std::thread::Builder::new().name("repeat".into());
        let waiting = Arc::new(Waiting::default());
        let (left, budget) = (waiting.clone(), ByteBudget::new(most_bytes));
        let closer = budget.close_on_drop();
        let thread = thread.spawn(move || {
            let _closer = closer;
            repeat(&memory, taken, &left)
        });
        let thread = thread.map_err(|error| {
            StoreError::backend("the thread that reads the log back does not start", error)
        })?;
        Ok(Self { steps, thread, waiting, budget })
    }

    /// Queues a write.
    pub(super) fn write(&self, write: Prepared, stamp: i64) -> Result<(), StoreError> {
        self.waiting.points.fetch_add(RecentSamples::most_bytes(&write), Relaxed);
        self.waiting.series.fetch_add(series_bytes(&write), Relaxed);
        let reserved = self.budget.take(write.bytes());
        self.steps.send(Step::Write(Box::new(write), stamp, reserved)).map_err(|_| ended())
    }

    /// Most bytes of points that waiting writes will add to memory. A caller that adds the bytes of
    /// memory must call this first.
    pub(super) fn waiting_bytes(&self) -> u64 {
        self.waiting.points.load(Acquire)
    }

    /// Most bytes of series that waiting writes will add; a series counts for each write that has it.
    pub(super) fn waiting_series_bytes(&self) -> u64 {
        self.waiting.series.load(Acquire)
    }

    /// Waits until everything given so far is in memory.
    pub(super) fn settle(&self) -> Result<(), StoreError> {
        let (settled, answer) = sync_channel(1);
        self.steps.send(Step::Settle(settled)).map_err(|_| ended())?;
        answer.recv().map_err(|_| ended())
    }

    /// Waits for the end; returns the number of applied points.
    pub(super) fn finish(self) -> u64 {
        drop(self.steps);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// The error if the thread has ended: queued writes may be lost.
fn ended() -> StoreError {
    StoreError::backend("the thread that reads the log back has ended", "it has panicked")
}

fn series_bytes(write: &Prepared) -> u64 {
    write.new.iter().map(|(_, labels)| bytes_of_new(labels)).sum()
}

fn repeat(memory: &RecentSamples, steps: Receiver<Step>, waiting: &Waiting) -> u64 {
    let mut points = 0;
    for step in steps {
        match step {
            Step::Write(write, stamp, _reserved) => {
                let (bytes, series) = (RecentSamples::most_bytes(&write), series_bytes(&write));
                let outcome = memory.apply(*write, stamp);
                waiting.points.fetch_sub(bytes, Release);
                waiting.series.fetch_sub(series, Release);
                points += outcome.samples + outcome.histograms;
            }
            Step::Settle(settled) => drop(settled.send(())),
        }
    }
    points
}
