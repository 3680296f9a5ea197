//! Memory for answers that clients read slowly.
//!
//! An answer of more than 8 KiB takes room from a pool until its last byte is written or it is aborted. If the pool is
//! full, answers whose clients have read nothing for 4 s are aborted, longest idle first; if there is none, the new
//! answer becomes 503. An answer made with a permit ([`super::admission`]) keeps its permit and waits up to 5 s.
//!
//! Points of large query results have room of their own (`promql::unsent`). How long a client may read nothing while no
//! other answer needs the room is not decided here.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until};

use promkairos_model::limits::ANSWER_GRACE;
use promkairos_storage::Pressure;

/// Most bytes of an answer that needs no room.
pub(super) const LITTLE: usize = 8 << 10;
/// Bytes of one unit of room.
const UNIT: usize = 1 << 10;
const PATIENCE: Duration = Duration::from_secs(5);
/// How long an answer waits for others that were aborted.
const LEAVING: Duration = Duration::from_secs(1);

/// The pools of room.
pub(super) struct ResponseBudget {
    /// For answers that were made with a permit.
    pub(super) lists: Arc<Pool>,
    pub(super) metrics: Arc<Pool>,
    pub(super) others: Arc<Pool>,
    /// How long an answer that was made with a permit waits for room; its permit is not free meanwhile.
    pub(super) patience: Duration,
}

/// Room for answers of one kind.
pub(super) struct Pool {
    pub(super) free: Arc<Semaphore>,
    units: u32,
    /// Accounts for the room in use.
    pressure: Arc<Pressure>,
    /// Answers that have room, by number.
    kept: Mutex<HashMap<u64, Taken>>,
    next: AtomicU64,
}

/// The room of an answer.
struct Taken {
    units: u32,
    /// `None` = it was aborted already, or its taker is unknown.
    taker: Option<Weak<dyn Taker>>,
}

/// Room of a pool, until this is dropped.
pub(super) struct Room {
    pool: Arc<Pool>,
    number: u64,
    units: u32,
    _permit: OwnedSemaphorePermit,
}

/// The client side of an answer.
pub trait Taker: Send + Sync {
    /// Since when the client has read nothing of the answer, although there is data to read.
    fn idle_since(&self) -> Option<Instant>;

    /// Aborts the answer and drops all that it holds.
    fn give_up(&self);
}

/// Attached to a request: the taker of its answer.
#[derive(Clone)]
pub struct AnswerTo(pub Arc<dyn Taker>);

impl Default for ResponseBudget {
    /// Pools of a process without a memory limit.
    fn default() -> Self {
        Self::new(&Arc::default())
    }
}

impl ResponseBudget {
    /// Pools as parts of the memory limit: 1/8 for lists, 1/64 for metrics, 1/8 for all others.
    pub(super) fn new(pressure: &Arc<Pressure>) -> Self {
        let share = pressure.limit() / 8;
        let pool = |bytes| Pool::new(bytes, Arc::clone(pressure));
        let [lists, metrics, others] = [share, share / 8, share].map(pool);
        Self { lists, metrics, others, patience: PATIENCE }
    }

    /// A query waits for memory of other results: aborts one that its client does not read.
    pub(super) fn make_room(&self) {
        self.others.give_way(1, 0);
    }
}

impl Pool {
    pub(super) fn new(bytes: u64, pressure: Arc<Pressure>) -> Arc<Self> {
        let most = Semaphore::MAX_PERMITS.min(u32::MAX as usize) as u32;
        let units = u32::try_from(bytes / UNIT as u64).unwrap_or(most).clamp(1, most);
        let free = Arc::new(Semaphore::new(units as usize));
        let (kept, next) = (Mutex::default(), AtomicU64::new(0));
        Arc::new(Self { free, units, pressure, kept, next })
    }

    /// Room for an answer; an answer larger than the pool takes all of it. Waits for `patience`, and a moment more
    /// for answers that were aborted.
    pub(super) async fn room(
        self: &Arc<Self>,
        bytes: usize,
        taker: Option<AnswerTo>,
        patience: Duration,
    ) -> Option<Room> {
        let units = u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX).min(self.units);
        if let Ok(permit) = Arc::clone(&self.free).try_acquire_many_owned(units) {
            return Some(self.taken(permit, units, taker));
        }
        let mut until = Instant::now() + patience;
        let mut permit = std::pin::pin!(Arc::clone(&self.free).acquire_many_owned(units));
        loop {
            let look_again = match self.give_way(units, self.free.available_permits()) {
                Waiting::ForThoseThatLeave => {
                    until = until.max(Instant::now() + LEAVING);
                    until
                }
                Waiting::Until(at) => at.min(until),
            };
            tokio::select! {
                biased;
                permit = permit.as_mut() => {
                    return Some(self.taken(permit.expect("never closed"), units, taker));
                }
                () = sleep_until(look_again) => {}
            }
            if Instant::now() >= until {
                return None;
            }
        }
    }

    fn taken(
        self: &Arc<Self>,
        permit: OwnedSemaphorePermit,
        units: u32,
        taker: Option<AnswerTo>,
    ) -> Room {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let taker = taker.map(|AnswerTo(taker)| Arc::downgrade(&taker));
        self.kept.lock().insert(number, Taken { units, taker });
        let room = Room { pool: Arc::clone(self), number, units, _permit: permit };
        self.pressure.take_for_answers(room.bytes());
        room
    }

    /// Aborts answers that their clients do not read, longest idle first, until `units` will be free; `free` units
    /// already are.
    fn give_way(&self, units: u32, mut free: usize) -> Waiting {
        let now = Instant::now();
        // Without the lock: a taker may hold the last reference to an answer that returns room.
        let known = |(number, Taken { units, taker }): (&u64, &Taken)| {
            Some((*number, *units, taker.as_ref()?.upgrade()?))
        };
        let known: Vec<_> = self.kept.lock().iter().filter_map(known).collect();
        let since = |(number, units, taker): (u64, u32, Arc<dyn Taker>)| {
            Some((taker.idle_since()?, number, units, taker))
        };
        let mut idle: Vec<_> = known.into_iter().filter_map(since).collect();
        idle.sort_unstable_by_key(|(since, number, ..)| (*since, *number));
        let next = idle.first().map_or(now, |(since, ..)| *since) + ANSWER_GRACE;
        if next > now {
            return Waiting::Until(next);
        }
        for (since, number, freed, taker) in idle {
            if free >= units as usize || since + ANSWER_GRACE > now {
                break;
            }
            // Taken out, so that it is not chosen again.
            let chosen = self.kept.lock().get_mut(&number).and_then(|taken| taken.taker.take());
            if chosen.is_some() {
                free += freed as usize;
                taker.give_up();
            }
        }
        Waiting::ForThoseThatLeave
    }
}

/// What an answer without room waits for.
enum Waiting {
    ForThoseThatLeave,
    /// For room; no answer can be aborted before this.
    Until(Instant),
}

impl Room {
    fn bytes(&self) -> u64 {
        u64::from(self.units) * UNIT as u64
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.pool.pressure.give_back_of_answers(self.bytes());
        self.pool.kept.lock().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::extract::Request;
    use axum::http::header;
    use axum::response::Response;
    use tower::Service;

    use super::super::{AppState, router};
    use super::*;
    use promkairos_model::{Labels, METRIC_NAME};
    use promkairos_storage::memory::MemoryStore;
    use promkairos_storage::{MEMORY_LIMIT, Refused};

    /// A state whose pool for lists has `bytes` bytes and waits for `patience`, over a store with a label of 1,000
    /// values of 64 bytes.
    async fn state(bytes: u64, patience: Duration) -> Arc<AppState> {
        let labels = (0..1_000)
            .map(|n| Labels::from_pairs([(METRIC_NAME, "m".to_owned()), ("n", format!("{n:064}"))]))
            .map(|labels| labels.expect("valid"));
        let store = MemoryStore::of_series(labels).await.expect("stored");
        let state = AppState::new(Arc::default());
        let unsent =
            ResponseBudget { patience, ..ResponseBudget::new(&Arc::new(Pressure::new(bytes * 8))) };
        let state = AppState { unsent, ..state };
        state.open(Arc::new(store));
        Arc::new(state)
    }

    async fn ask(state: &Arc<AppState>, path: &str) -> Response {
        ask_for(state, path, None).await
    }

    async fn ask_for(state: &Arc<AppState>, path: &str, taker: Option<AnswerTo>) -> Response {
        // A compressed answer is built while it is sent.
        let request = Request::get(path).header(header::ACCEPT_ENCODING, "gzip");
        let mut request = request.body(Body::empty()).expect("a request");
        if let Some(taker) = taker {
            request.extensions_mut().insert(taker);
        }
        router(state.clone()).call(request).await.expect("infallible")
    }

    /// A taker that has read nothing since a time, and holds its answer until it is aborted.
    struct Idle {
        since: Instant,
        holds: Mutex<Option<Response>>,
    }

    impl Taker for Idle {
        fn idle_since(&self) -> Option<Instant> {
            Some(self.since)
        }

        fn give_up(&self) {
            self.holds.lock().take();
        }
    }

    /// A taker of an answer that has read nothing for `time`.
    async fn idle_for(state: &Arc<AppState>, path: &str, time: Duration) -> Arc<Idle> {
        let since = Instant::now().checked_sub(time).expect("the machine runs for longer");
        let idle = Arc::new(Idle { since, holds: Mutex::default() });
        let answer = ask_for(state, path, Some(AnswerTo(idle.clone()))).await;
        assert_eq!(answer.status().as_u16(), 200);
        *idle.holds.lock() = Some(answer);
        idle
    }

    fn is_held(idle: &Idle) -> bool {
        idle.holds.lock().is_some()
    }

    const INFO: &str = "/api/v1/status/runtimeinfo";

    /// A state with room for two answers of a path.
    async fn room_for_two(path: &str) -> Arc<AppState> {
        let forever = Duration::from_secs(3_600);
        let state_of = state;
        let roomy = state_of(1 << 30, forever).await;
        let answer = ask(&roomy, path).await;
        let pools = [&roomy.unsent.lists, &roomy.unsent.others];
        let used = pools.map(|pool| pool.units as usize - pool.free.available_permits());
        drop(answer);
        state_of((2 * UNIT * used.iter().sum::<usize>()) as u64, forever).await
    }

    #[tokio::test]
    async fn what_nobody_takes_gives_way_to_what_somebody_wants() {
        for path in [VALUES, INFO] {
            let state = room_for_two(path).await;
            let long = idle_for(&state, path, 2 * ANSWER_GRACE).await;
            let longest = idle_for(&state, path, 3 * ANSWER_GRACE).await;
            let next = ask(&state, path).await;
            assert_eq!(next.status().as_u16(), 200, "{path}");
            assert!(!is_held(&longest) && is_held(&long), "{path}");
            let last = ask(&state, path).await;
            assert_eq!(last.status().as_u16(), 200, "{path}");
            assert!(!is_held(&long), "{path}");
        }
        // Clients that stopped a moment ago are not aborted.
        let state = room_for_two(INFO).await;
        let short = idle_for(&state, INFO, Duration::ZERO).await;
        let other = idle_for(&state, INFO, Duration::ZERO).await;
        assert_eq!(ask(&state, INFO).await.status().as_u16(), 503);
        assert!(is_held(&short) && is_held(&other));
        drop(other);
        // A result waits for room that another result holds.
        let long = idle_for(&state, INFO, 2 * ANSWER_GRACE).await;
        state.unsent.make_room();
        assert!(!is_held(&long) && is_held(&short));
    }

    const VALUES: &str = "/api/v1/label/n/values";

    #[tokio::test]
    async fn a_list_waits_for_room_and_others_have_theirs() {
        // The answer takes the whole pool.
        let state = state(150_000, Duration::from_secs(3_600)).await;
        let first = ask(&state, VALUES).await;
        assert_eq!(first.status().as_u16(), 200);
        let mut second = std::pin::pin!(ask(&state, VALUES));
        for _ in 0..100 {
            assert!(futures::poll!(second.as_mut()).is_pending());
            tokio::task::yield_now().await;
        }
        assert_eq!(ask(&state, "/metrics").await.status().as_u16(), 200);
        assert_eq!(ask(&state, "/api/v1/status/runtimeinfo").await.status().as_u16(), 200);
        drop(first);
        assert_eq!(second.await.status().as_u16(), 200);
        assert_eq!(state.unsent.lists.free.available_permits(), 150_000 >> 10);
    }

    #[tokio::test]
    async fn a_list_that_finds_no_room_in_time_is_refused() {
        let state = state(150_000, Duration::from_millis(1)).await;
        let first = ask(&state, VALUES).await;
        let refused = ask(&state, VALUES).await;
        assert_eq!(refused.status().as_u16(), 503);
        assert_eq!(refused.headers().get(header::RETRY_AFTER).expect("sent"), "5");
        let text = axum::body::to_bytes(refused.into_body(), 1 << 20).await.expect("a text");
        let text = String::from_utf8_lossy(&text);
        assert!(text.contains("leave no room for this one of ") && text.contains(MEMORY_LIMIT));
        assert_eq!(state.pressure.take_refused(Refused::Read), 1);
        drop(first);
        assert_eq!(ask(&state, VALUES).await.status().as_u16(), 200);
    }

    #[tokio::test]
    async fn what_is_little_needs_no_room_and_what_is_more_is_refused_at_once() {
        let state = state(1, PATIENCE).await;
        let others = Arc::clone(&state.unsent.others);
        let is_free = async || others.room(1, None, Duration::ZERO).await.is_some();
        let held = others.room(1, None, Duration::ZERO).await.expect("there is some");
        assert_eq!(ask(&state, "/-/healthy").await.status().as_u16(), 200);
        assert_eq!(ask(&state, "/api/v1/status/runtimeinfo").await.status().as_u16(), 503);
        drop(held);
        let kept = ask(&state, "/api/v1/status/runtimeinfo").await;
        assert_eq!(kept.status().as_u16(), 200);
        assert!(!is_free().await, "until it was sent");
        drop(kept);
        assert!(is_free().await, "there is room again");
    }
}
