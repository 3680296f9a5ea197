//! The pool of connections: who has one, what each waits for, and who gives way when none is free.
//!
//! A connection that waits for its client keeps its place for a bounded time: for a complete head, the next request,
//! or the client to read its answer. When all places are taken, a new connection displaces the one that has been idle
//! longest, or else the one that has waited longest for a body: clients that only hold connections lock nobody out. A
//! connection whose answers are all ready and whose client reads nothing for a while gives way too. On a server with
//! users or tokens, connections without a login give way sooner. A connection with a complete request that is being
//! worked on never does. If no connection can give way soon, there are a few spare places, which serve only health
//! and metrics.
//!
//! If memory is short, a client has less time to read its answer. Other limits of bodies and answers are not here.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, sleep_until};

use super::phase::{Kind, Limits, MOST_REFUSED, Overdue, Owed, Phase, Stalled};
use crate::api::Login;
use crate::storage::Level;

/// All places.
pub(super) struct ConnectionPool {
    pub(super) limits: Limits,
    /// How short memory is.
    levels: watch::Receiver<Level>,
    free: Arc<Semaphore>,
    spare: Arc<Semaphore>,
    taken: Mutex<HashMap<u64, watch::Sender<Phase>>>,
    next: AtomicU64,
    /// Notified when a connection becomes able to give way, or stops being so.
    left_off: Notify,
}

/// The place of one connection.
pub(super) struct Slot {
    number: u64,
    kind: Kind,
    phase: watch::Sender<Phase>,
    places: Arc<ConnectionPool>,
    _permit: OwnedSemaphorePermit,
}

impl ConnectionPool {
    pub(super) fn new(limits: Limits, levels: watch::Receiver<Level>) -> Arc<Self> {
        Arc::new(Self {
            limits,
            levels,
            free: Arc::new(Semaphore::new(limits.connections.min(Semaphore::MAX_PERMITS))),
            spare: Arc::new(Semaphore::new(limits.spare)),
            taken: Mutex::default(),
            next: AtomicU64::new(0),
            left_off: Notify::new(),
        })
    }

    /// Waits for a place: one that is free or given up, or a spare one if no connection can give way.
    pub(super) async fn take(self: &Arc<Self>) -> Slot {
        let mut asked = Asked::Nobody(None);
        loop {
            if !matches!(asked, Asked::One) && self.free.available_permits() == 0 {
                asked = self.ask_one_to_leave(Kind::Usual);
            }
            let soon = Instant::now() + self.limits.body_grace;
            let nobody_can = match asked {
                Asked::One => false,
                Asked::Nobody(at) => at.is_none_or(|at| at > soon),
            };
            if nobody_can && self.free.available_permits() + self.spare.available_permits() == 0 {
                self.ask_one_to_leave(Kind::Spare);
            }
            let one_may = async {
                match asked {
                    Asked::Nobody(Some(at)) => sleep_until(at).await,
                    Asked::Nobody(None) | Asked::One => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                permit = self.free.clone().acquire_owned() => {
                    return self.place(permit.expect("the semaphore is never closed"), Kind::Usual);
                }
                permit = self.spare.clone().acquire_owned(), if nobody_can => {
                    return self.place(permit.expect("the semaphore is never closed"), Kind::Spare);
                }
                // The connection that was asked may stay after all.
                () = self.left_off.notified() => asked = Asked::Nobody(None),
                () = one_may => {}
            }
        }
    }

    fn place(self: &Arc<Self>, permit: OwnedSemaphorePermit, kind: Kind) -> Slot {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let phase = watch::Sender::new(Phase::new(kind));
        self.taken.lock().insert(number, phase.clone());
        Slot { number, kind, phase, places: self.clone(), _permit: permit }
    }

    /// Asks the connection of this kind to leave that ranks first, see [`Phase::rank`].
    fn ask_one_to_leave(&self, kind: Kind) -> Asked {
        let (taken, now) = (self.taken.lock(), Instant::now());
        let leaves = |phase: &Phase| phase.kind == kind && phase.gives_way;
        if taken.values().any(|phase| leaves(&phase.borrow())) {
            return Asked::One;
        }
        let from = |phase: &Phase| phase.gives_way_from(&self.limits);
        let mut waiting: Vec<_> = taken
            .iter()
            .map(|(number, phase)| (*phase.borrow(), *number, phase))
            .filter(|(phase, ..)| phase.kind == kind && from(phase).is_some())
            .collect();
        waiting.sort_by_key(|(phase, number, _)| (phase.rank(now), phase.since, *number));
        let next = waiting.iter().filter_map(|(phase, ..)| from(phase)).min();
        // A request may have arrived meanwhile.
        let asked = waiting.into_iter().any(|(_, _, phase)| {
            phase.send_if_modified(|phase| {
                phase.gives_way = phase.gives_way || from(phase).is_some_and(|from| from <= now);
                phase.gives_way
            })
        });
        if asked { Asked::One } else { Asked::Nobody(next) }
    }
}

/// Whether a connection was asked to leave.
#[derive(Debug, Clone, Copy)]
enum Asked {
    /// One connection.
    One,
    /// None can be asked, or none before this moment.
    Nobody(Option<Instant>),
}

impl Slot {
    /// Restarts the clock when serving begins.
    pub(super) fn served(&self) {
        self.phase.send_modify(|phase| phase.since = Instant::now());
    }

    /// Begins a request. It runs until the first returned value is dropped, and waits for its body
    /// until the second one is dropped. `is_multiplexed` = requests share the connection (HTTP/2).
    pub(super) fn begin(self: &Arc<Self>, is_multiplexed: bool) -> (UnderWay, BodyOwed) {
        let mut stays = false;
        self.phase.send_modify(|phase| {
            if phase.requests == 0 {
                phase.since = Instant::now();
                // The connection was asked to leave because it had no request.
                stays = std::mem::take(&mut phase.gives_way);
            }
            phase.requests += 1;
            phase.bodies += 1;
            phase.multiplexed = is_multiplexed;
        });
        if stays {
            self.places.left_off.notify_one();
        }
        (UnderWay(self.clone()), BodyOwed(self.clone()))
    }

    /// Whether requests are running.
    pub(super) fn has_requests(&self) -> bool {
        self.phase.borrow().requests > 0
    }

    /// Notes received bytes.
    pub(super) fn received(&self) {
        self.phase.send_if_modified(|phase| {
            let begins = phase.requests == 0 && phase.owed == Owed::Nothing && !phase.multiplexed;
            if begins {
                phase.owed = Owed::Head;
                phase.since = Instant::now();
            }
            begins
        });
    }

    /// Notes that the client accepts no data for now.
    pub(super) fn blocked(&self) {
        let begins = self.phase.send_if_modified(|phase| {
            let begins = phase.blocked.is_none();
            phase.blocked = phase.blocked.or_else(|| Some(Instant::now()));
            begins
        });
        if begins {
            self.places.left_off.notify_one();
        }
    }

    /// Notes that an answer has data to read, after it had none.
    pub(super) fn unread(&self) {
        self.change_unread(|phase| {
            if phase.unread == 0 {
                phase.read = Instant::now();
            }
            phase.unread += 1;
        });
    }

    /// Notes that the client has read all available data of an answer, or that the answer was aborted.
    pub(super) fn read(&self) {
        self.change_unread(|phase| {
            phase.read = Instant::now();
            phase.unread -= 1;
        });
    }

    /// Notes that the client has read data of an answer that has more.
    pub(super) fn read_some(&self) {
        self.phase.send_if_modified(|phase| {
            phase.read = Instant::now();
            false
        });
    }

    fn change_unread(&self, change: impl FnOnce(&mut Phase)) {
        let mut stalls = false;
        self.phase.send_if_modified(|phase| {
            change(phase);
            stalls = phase.stalled().is_some();
            // Only refused connections have a time limit that depends on this.
            phase.refused > 0
        });
        if stalls {
            self.places.left_off.notify_one();
        }
    }

    /// Notes the login of a request. Before the first successful login, every request counts as refused.
    pub(super) fn judged(&self, login: Login) {
        self.phase.send_if_modified(|phase| {
            let before = phase.refused;
            phase.let_in |= login == Login::LetIn;
            phase.refused = match login {
                Login::LetIn | Login::Open => 0,
                Login::Unasked if phase.let_in => before,
                Login::Unasked | Login::Refused => before.saturating_add(1),
            };
            before != phase.refused
        });
    }

    /// Whether the limit of consecutive refused requests is reached: the connection ends with the last answer.
    pub(super) fn is_refused_for_good(&self) -> bool {
        self.phase.borrow().refused >= MOST_REFUSED
    }

    /// Has the connection closed: the client does not read its answer, and the limit of this setting is reached.
    pub(super) fn give_up(&self, setting: &'static str) {
        self.phase.send_modify(|phase| {
            phase.given_up = Some(setting);
        });
    }

    /// Notes that the client accepted data.
    pub(super) fn took(&self) {
        let ends = self.phase.send_if_modified(|phase| {
            if !phase.multiplexed {
                phase.read = Instant::now();
            }
            let ends = phase.blocked.take().is_some();
            if ends && phase.requests == 0 {
                phase.since = Instant::now();
            }
            ends
        });
        if ends {
            self.places.left_off.notify_one();
        }
    }

    /// For a spare place, the number of connections that are served in full; `None` = a usual place.
    pub(super) fn spare_beyond(&self) -> Option<usize> {
        (self.kind == Kind::Spare).then_some(self.places.limits.connections)
    }

    /// How long the client may read nothing of an answer at this memory level.
    pub(super) fn stall(&self, level: Level) -> Stalled {
        self.places.limits.stall(level)
    }

    /// Follows how short memory is.
    pub(super) fn levels(&self) -> watch::Receiver<Level> {
        self.places.levels.clone()
    }

    /// Completes when the connection has to be closed.
    pub(super) async fn overdue(&self) -> Overdue {
        let (mut phase, mut levels) = (self.phase.subscribe(), self.levels());
        loop {
            let level = *levels.borrow_and_update();
            let due = phase.borrow_and_update().due(&self.places.limits, level);
            // Looked at once the time has come: data that arrived meanwhile counts, even if the process was delayed
            // and sees it only now.
            if let Some((at, why)) = due
                && at <= Instant::now()
            {
                return why;
            }
            let time = async {
                match due {
                    Some((at, _)) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = time => {}
                // The sender lives as long as `self`.
                _ = phase.changed() => {}
                Ok(()) = levels.changed() => {}
            }
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.places.taken.lock().remove(&self.number);
    }
}

/// A running request, with the place of its connection.
pub(super) struct UnderWay(pub(super) Arc<Slot>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.phase.send_modify(|phase| {
            phase.requests -= 1;
            phase.owed = Owed::Nothing;
            phase.since = Instant::now();
        });
        self.0.places.left_off.notify_one();
    }
}

/// An incomplete body that the handler still reads.
pub(super) struct BodyOwed(Arc<Slot>);

impl Drop for BodyOwed {
    fn drop(&mut self) {
        self.0.phase.send_if_modified(|phase| {
            phase.bodies -= 1;
            // No notification: a connection that has its body is less likely to give way.
            false
        });
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::time::Duration;

    use futures::poll;

    use super::*;
    use crate::config::HttpConfig;
    use crate::storage::Pressure;

    const HEAD: Duration = Duration::from_secs(10);
    const IDLE: Duration = Duration::from_secs(60);

    fn places(connections: usize) -> Arc<ConnectionPool> {
        let usual = Limits::of(&HttpConfig::default());
        let [head_timeout, idle_timeout] = [HEAD, IDLE];
        let levels = Pressure::default().levels();
        ConnectionPool::new(
            Limits { connections, spare: 0, head_timeout, idle_timeout, ..usual },
            levels,
        )
    }

    /// Advances the clock without running other tasks.
    async fn held_up(time: Duration) {
        tokio::time::advance(time + Duration::from_millis(1)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_came_while_the_process_was_held_up_is_not_too_late() {
        let place = Arc::new(places(1).take().await);
        let mut overdue = pin!(place.overdue());
        assert!(poll!(overdue.as_mut()).is_pending());
        held_up(HEAD).await;
        let request = place.begin(false);
        assert!(poll!(overdue.as_mut()).is_pending());
        drop(request);
        assert!(poll!(overdue.as_mut()).is_pending());
        held_up(IDLE).await;
        place.received();
        assert!(poll!(overdue.as_mut()).is_pending());
        held_up(HEAD).await;
        assert_eq!(overdue.await, Overdue::Head);
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_asked_to_leave_stays_with_its_request_and_another_is_asked() {
        let places = places(2);
        let [first, second] = [places.take().await, places.take().await].map(Arc::new);
        let mut newcomer = pin!(places.take());
        assert!(poll!(newcomer.as_mut()).is_pending());
        // Asked to leave, but not closed yet.
        let request = first.begin(false);
        let mut overdue = pin!(first.overdue());
        assert!(poll!(overdue.as_mut()).is_pending());
        assert!(poll!(newcomer.as_mut()).is_pending());
        assert_eq!(second.overdue().await, Overdue::GivesWay);
        drop(second);
        newcomer.await;
        drop(request);
    }

    #[tokio::test(start_paused = true)]
    async fn who_never_logs_in_is_a_stranger_whatever_it_asks_for() {
        let place = places(1).take().await;
        let refused = |login| {
            place.judged(login);
            place.phase.borrow().refused
        };
        let logins = [Login::Open, Login::Unasked, Login::Refused, Login::Unasked];
        assert_eq!(logins.map(refused), [0, 1, 2, 3]);
        let logins = [Login::LetIn, Login::Unasked, Login::Refused, Login::Unasked];
        assert_eq!(logins.map(refused), [0, 0, 1, 1]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stranger_leaves_before_an_older_connection_that_has_logged_in() {
        let places = places(2);
        let [first, second] = [places.take().await, places.take().await].map(Arc::new);
        for (place, login) in [(&first, Login::LetIn), (&second, Login::Unasked)] {
            let request = place.begin(false);
            place.judged(login);
            drop(request);
            held_up(HEAD / 2).await;
        }
        let mut newcomer = pin!(places.take());
        assert!(poll!(newcomer.as_mut()).is_pending());
        assert_eq!(second.overdue().await, Overdue::GivesWay);
        let mut overdue = pin!(first.overdue());
        assert!(poll!(overdue.as_mut()).is_pending());
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_owes_nothing_before_it_is_served() {
        let place = Arc::new(places(1).take().await);
        held_up(HEAD).await;
        place.served();
        let mut overdue = pin!(place.overdue());
        assert!(poll!(overdue.as_mut()).is_pending());
        held_up(HEAD).await;
        assert_eq!(overdue.await, Overdue::Head);
    }
}
