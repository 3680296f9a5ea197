//! Keeps the process below its memory limit. Measures resident memory 50 times a second, publishes the level to
//! the code that allocates, and makes the store release memory that it can do without. While memory is short, or
//! after a large release, freed memory in the allocator is returned to the system, because it counts as resident
//! too.
//!
//! The measure is what the system counts as resident. `storage::Pressure` and its callers decide what is refused
//! at which level.

use std::io;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::sleep;

use super::allocator;
use crate::api::AppState;
use crate::storage::{Level, MEMORY_LIMIT, Pressure, Refused};
use crate::telemetry::{Throttle, resident_bytes};

/// Between two measurements. A process allocates some megabytes in that time. A measurement takes 20 µs.
const LOOK: Duration = Duration::from_millis(20);
/// Measurements between two rounds of the work below, while the level stays the same.
const REST: u32 = 5;
/// How often freed memory is returned to the system while memory is short: memory that is soon
/// needed again costs a page fault.
const GIVE_BACK: Duration = Duration::from_secs(10);
/// Longest time between two releases while memory is short.
const LONGEST_PAUSE: Duration = Duration::from_secs(1800);

/// Watches until the server stops. Sets the metric of the limit at once. Fails without a thread for the measurements.
pub(super) fn watch(
    state: Arc<AppState>,
    stopped: watch::Receiver<bool>,
) -> io::Result<impl Future<Output = ()> + Send> {
    let limit = i64::try_from(state.pressure.limit()).unwrap_or(i64::MAX);
    state.metrics.memory.limit.set(limit);
    let weak = Arc::downgrade(&state.pressure);
    thread::Builder::new().name("memory".into()).spawn(|| measure(weak))?;
    Ok(look_again_and_again(state, stopped))
}

/// Measures until nobody needs it any more. A thread of its own: on a busy machine, a task of the threads that serve
/// requests would wait for seconds, in which memory grows.
fn measure(pressure: Weak<Pressure>) {
    let mut unknown = Throttle::default();
    while let Some(pressure) = pressure.upgrade() {
        // It may fail for a while, for example when no descriptor is free.
        let is_known = pressure.measure(resident_bytes).is_some();
        if !is_known && unknown.count(1, Instant::now()).is_some() {
            tracing::warn!("cannot read how much memory the process has");
        }
        drop(pressure);
        thread::sleep(LOOK);
    }
}

async fn look_again_and_again(state: Arc<AppState>, stopped: watch::Receiver<bool>) {
    let metrics = &state.metrics.memory;
    let mut pace = ReliefTimes::default();
    let mut level = Level::Ample;
    let mut relief: Option<JoinHandle<()>> = None;
    let mut giving_back: Option<(Instant, JoinHandle<()>)> = None;
    let mut looks = 0_u32;
    while !*stopped.borrow() {
        let before = std::mem::replace(&mut level, state.pressure.level());
        if level != before {
            tell(before, level, &state.pressure);
        }
        looks = looks.wrapping_add(1);
        if level == before && !looks.is_multiple_of(REST) {
            sleep(LOOK).await;
            continue;
        }
        metrics.level.set(level as i64);
        publish(&state);
        state.ingest.publish();
        state.make_room_for_results();
        let is_under_way = relief.as_ref().is_some_and(|relief| !relief.is_finished());
        if !is_under_way && pace.is_due(level, Instant::now()) {
            relief = Some(tokio::spawn(relieve(state.clone())));
        }
        let is_idle = giving_back.as_ref().is_none_or(|(_, task)| task.is_finished());
        let is_due = giving_back.as_ref().is_none_or(|(at, _)| at.elapsed() >= GIVE_BACK);
        if is_idle && (state.pressure.take_freed() || is_due && level > Level::Ample) {
            giving_back = Some((Instant::now(), spawn_blocking(allocator::give_back)));
        }
        sleep(LOOK).await;
    }
}

/// Makes the store release memory that it can do without.
async fn relieve(state: Arc<AppState>) {
    // Before the store is open there is nothing to release.
    let Ok(store) = state.store() else { return };
    state.metrics.memory.relieved.inc();
    if let Err(error) = store.relieve().await {
        tracing::warn!("memory is short, and the store could not release any: {error}");
    }
    let _ = spawn_blocking(allocator::give_back).await;
}

fn tell(before: Level, level: Level, pressure: &Pressure) {
    let text = pressure.text();
    match level {
        Level::Ample => tracing::info!("memory is no longer short: {text}"),
        Level::Tight if before > level => {
            tracing::info!("nothing is refused any more, memory is still given up early: {text}");
        }
        Level::Tight => tracing::info!("memory is given up early: {text}"),
        Level::Full => tracing::warn!("new series and large queries are refused: {text}"),
        Level::Over => tracing::warn!("writes are refused: {text}"),
    }
}

/// Updates the metrics.
fn publish(state: &AppState) {
    let metrics = &state.metrics.memory;
    for (part, bytes) in state.held_by_part() {
        metrics.set_held(part, bytes);
    }
    for refused in Refused::ALL {
        let kind = match refused {
            Refused::Write => "write",
            Refused::Series => "series",
            Refused::Query => "query",
            Refused::Read => "read",
        };
        let times = state.pressure.take_refused(refused);
        metrics.add_refused(kind, times);
        state.metrics.http.limits.add(MEMORY_LIMIT, times);
    }
}

/// When to release memory. An early flush costs work and creates small files, and only inactive series
/// leave memory after some flushes; so the pauses grow while memory stays short.
#[derive(Debug, Default)]
struct ReliefTimes {
    /// The highest level since memory was ample, and the time of the last release.
    last: Option<(Level, Instant)>,
    /// The number of repeated releases since memory was ample.
    times: u32,
}

impl ReliefTimes {
    /// Whether a release is due; if so, counts it as done.
    fn is_due(&mut self, level: Level, now: Instant) -> bool {
        let first = match level {
            Level::Ample => {
                *self = Self::default();
                return false;
            }
            Level::Tight | Level::Full => Duration::from_secs(120),
            // Writes are refused at this level, so the cost of a flush does not matter.
            Level::Over => Duration::from_secs(5),
        };
        let (highest, due) = match self.last {
            None => (level, true),
            Some((highest, at)) => {
                let pause = match level {
                    Level::Over => first,
                    _ => (first * 2_u32.pow(self.times.min(5))).min(LONGEST_PAUSE),
                };
                let has_passed = now.saturating_duration_since(at) >= pause;
                (highest.max(level), level > highest || has_passed)
            }
        };
        if due {
            self.times += u32::from(level < Level::Over && self.last.is_some());
            self.last = Some((highest, now));
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_given_up_at_once_and_then_ever_less_often() {
        let begin = Instant::now();
        let mut pace = ReliefTimes::default();
        let mut is_due = |level, seconds| pace.is_due(level, begin + Duration::from_secs(seconds));
        assert!(!is_due(Level::Ample, 0));
        assert!(is_due(Level::Tight, 1));
        assert!(!is_due(Level::Tight, 120));
        assert!(is_due(Level::Full, 120), "it got worse");
        assert!(!is_due(Level::Tight, 121));
        assert!(!is_due(Level::Full, 359));
        assert!(is_due(Level::Full, 360), "twice as long");
        assert!(!is_due(Level::Full, 839));
        assert!(is_due(Level::Full, 840), "and again");
        assert!(is_due(Level::Over, 841));
        assert!(!is_due(Level::Over, 845));
        assert!(is_due(Level::Over, 846));
        assert!(!is_due(Level::Ample, 847));
        assert!(is_due(Level::Tight, 848), "all over again");
    }

    #[test]
    fn the_system_tells_how_much_the_process_has() {
        let resident = resident_bytes().expect("it tells");
        assert!(resident > 100_000, "{resident}");
    }
}
