//! Places for connections: who has one, what each waits for, and who gives way when none is free.
//!
//! A connection that owes something keeps its place for a bounded time: a whole head, the next
//! request, or room for an answer that its client does not take. When all places are taken, the
//! one that has waited longest for a request gives way to who comes, and where none waits for one,
//! the one that has waited longest for the rest of a body: clients which only hold connections keep
//! nobody out. One with a whole request under way never has to; how long bodies and answers may
//! take otherwise is for those who read and make them. Where nobody can give way there are a few spare
//! places, whose connections are answered for health and metrics alone.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, sleep_until};

use super::machine::affordable;
use crate::config::HttpConfig;
use crate::limits;

/// Bounds of connections.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Connections at a time.
    pub(super) connections: usize,
    /// Spare ones beyond them.
    pub(super) spare: usize,
    /// Requests of one HTTP/2 connection at a time.
    pub(super) streams: u32,
    /// Longest time from the first byte of a head to its last one; a new connection owes a head.
    pub(super) head_timeout: Duration,
    /// Longest wait for the next request.
    pub(super) idle_timeout: Duration,
    /// How long a body may take before its connection may have to give way.
    pub(super) body_grace: Duration,
    /// How long a client may take nothing of an answer.
    pub(super) answer_stall: Duration,
}

impl Limits {
    /// Those of the settings, as far as there are descriptors.
    pub(super) fn of(config: &HttpConfig) -> Self {
        Self {
            connections: affordable(config.connections),
            spare: limits::SPARE_CONNECTIONS,
            streams: config.streams,
            head_timeout: config.head_timeout,
            idle_timeout: config.idle_timeout,
            body_grace: limits::BODY_GRACE,
            answer_stall: config.answer_timeout,
        }
    }
}

/// All places.
pub(super) struct Places {
    pub(super) limits: Limits,
    free: Arc<Semaphore>,
    spare: Arc<Semaphore>,
    taken: Mutex<HashMap<u64, watch::Sender<Phase>>>,
    next: AtomicU64,
    /// Told when a connection may give way that could not before.
    left_off: Notify,
}

/// The place of one connection.
pub(super) struct Place {
    number: u64,
    kind: Kind,
    phase: watch::Sender<Phase>,
    places: Arc<Places>,
    _permit: OwnedSemaphorePermit,
}

/// What a place is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// All requests.
    Usual,
    /// Those for health and metrics.
    Spare,
}

/// What a connection waits for.
#[derive(Debug, Clone, Copy)]
struct Phase {
    kind: Kind,
    /// Requests under way.
    requests: usize,
    /// Those of them whose bodies have not come whole.
    bodies: usize,
    /// Since when there is none, or since when there is one again.
    since: Instant,
    /// What is owed while there is none.
    owed: Owed,
    /// Since when the client takes nothing of what is to be sent.
    blocked: Option<Instant>,
    /// Several requests share the connection: bytes come that are no part of a head.
    multiplexed: bool,
    /// Another connection is to have the place.
    gives_way: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owed {
    /// The rest of a head.
    Head,
    /// Nothing: it may rest.
    Nothing,
}

/// Why a connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Overdue {
    /// No whole head of a request came in time.
    Head,
    /// It rested for too long.
    Idle,
    /// The client took nothing of an answer.
    Answer,
    /// The place is for another connection.
    GivesWay,
}

impl Overdue {
    /// The setting whose limit it is.
    pub(super) fn setting(self) -> &'static str {
        match self {
            Self::Head => "http-head-timeout",
            Self::Idle => "http-idle-timeout",
            Self::Answer => "http-answer-timeout",
            Self::GivesWay => "max-connections",
        }
    }
}

impl Phase {
    fn new(kind: Kind) -> Self {
        Self {
            kind,
            requests: 0,
            bodies: 0,
            since: Instant::now(),
            owed: Owed::Head,
            blocked: None,
            multiplexed: false,
            gives_way: false,
        }
    }

    /// From when on the connection may be closed with nothing lost; `None` = something would be. Of
    /// a request whose body has not come nothing is done yet.
    fn gives_way_from(&self, limits: &Limits) -> Option<Instant> {
        let loses = self.requests > self.bodies || self.blocked.is_some() || self.gives_way;
        let grace = if self.requests == 0 { Duration::ZERO } else { limits.body_grace };
        (!loses).then(|| self.since + grace)
    }

    /// When the connection is to be closed, and why; `None` = not by time.
    fn due(&self, limits: &Limits) -> Option<(Instant, Overdue)> {
        if self.gives_way {
            return Some((self.since, Overdue::GivesWay));
        }
        let request = (self.requests == 0).then(|| match self.owed {
            Owed::Head => (self.since + limits.head_timeout, Overdue::Head),
            Owed::Nothing => (self.since + limits.idle_timeout, Overdue::Idle),
        });
        let answer = self.blocked.map(|since| (since + limits.answer_stall, Overdue::Answer));
        [request, answer].into_iter().flatten().min_by_key(|(at, _)| *at)
    }
}

impl Places {
    pub(super) fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            free: Arc::new(Semaphore::new(limits.connections.min(Semaphore::MAX_PERMITS))),
            spare: Arc::new(Semaphore::new(limits.spare)),
            taken: Mutex::default(),
            next: AtomicU64::new(0),
            left_off: Notify::new(),
        })
    }

    /// A place, as soon as one is free or a connection has given way; a spare one where none can.
    pub(super) async fn take(self: &Arc<Self>) -> Place {
        let mut asked = Asked::Nobody(None);
        loop {
            if !matches!(asked, Asked::One) && self.free.available_permits() == 0 {
                asked = self.ask_one_to_leave(Kind::Usual);
            }
            let nobody_can = matches!(asked, Asked::Nobody(None));
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
                // Who was asked may stay after all.
                () = self.left_off.notified() => asked = Asked::Nobody(None),
                () = one_may => {}
            }
        }
    }

    fn place(self: &Arc<Self>, permit: OwnedSemaphorePermit, kind: Kind) -> Place {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let phase = watch::Sender::new(Phase::new(kind));
        self.taken.lock().insert(number, phase.clone());
        Place { number, kind, phase, places: self.clone(), _permit: permit }
    }

    /// Has the connection of this kind leave that has waited longest for a request, or else for a body.
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
        waiting.sort_by_key(|(phase, number, _)| (phase.requests > 0, phase.since, *number));
        let next = waiting.iter().filter_map(|(phase, ..)| from(phase)).min();
        // A request may have come meanwhile.
        let asked = waiting.into_iter().any(|(_, _, phase)| {
            phase.send_if_modified(|phase| {
                phase.gives_way = phase.gives_way || from(phase).is_some_and(|from| from <= now);
                phase.gives_way
            })
        });
        if asked { Asked::One } else { Asked::Nobody(next) }
    }
}

/// Who was asked to leave.
#[derive(Debug, Clone, Copy)]
enum Asked {
    /// One connection.
    One,
    /// None may be, or none before this moment.
    Nobody(Option<Instant>),
}

impl Place {
    /// Serving begins: the time for what is owed counts from now on.
    pub(super) fn served(&self) {
        self.phase.send_modify(|phase| phase.since = Instant::now());
    }

    /// A request is under way until the first of what is returned is dropped, and the rest of its
    /// body until the second is.
    pub(super) fn begin(self: &Arc<Self>, multiplexed: Multiplexed) -> (UnderWay, BodyOwed) {
        let mut stays = false;
        self.phase.send_modify(|phase| {
            if phase.requests == 0 {
                phase.since = Instant::now();
                // It was asked to leave as it had no request.
                stays = std::mem::take(&mut phase.gives_way);
            }
            phase.requests += 1;
            phase.bodies += 1;
            phase.multiplexed = multiplexed == Multiplexed::Yes;
        });
        if stays {
            self.places.left_off.notify_one();
        }
        (UnderWay(self.clone()), BodyOwed(self.clone()))
    }

    /// Bytes came.
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

    /// The client takes no more for now.
    pub(super) fn blocked(&self) {
        self.phase.send_if_modified(|phase| {
            let begins = phase.blocked.is_none();
            phase.blocked = phase.blocked.or_else(|| Some(Instant::now()));
            begins
        });
    }

    /// The client took something.
    pub(super) fn took(&self) {
        let ends = self.phase.send_if_modified(|phase| {
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

    /// Of a spare place, for health and metrics alone, beyond how many connections it is; `None` = it is a usual
    /// one.
    pub(super) fn spare_beyond(&self) -> Option<usize> {
        (self.kind == Kind::Spare).then_some(self.places.limits.connections)
    }

    /// How long its client may take nothing of an answer.
    pub(super) fn answer_stall(&self) -> Duration {
        self.places.limits.answer_stall
    }

    /// Completes when the connection is to be closed.
    pub(super) async fn overdue(&self) -> Overdue {
        let mut phase = self.phase.subscribe();
        loop {
            let due = phase.borrow_and_update().due(&self.places.limits);
            // Looked at once the time has come: what came meanwhile counts, though the process may have been held up
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
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.taken.lock().remove(&self.number);
    }
}

/// Whether requests share the connection at a time (HTTP/2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Multiplexed {
    /// They do.
    Yes,
    /// One comes after the other.
    No,
}

/// A request under way.
pub(super) struct UnderWay(Arc<Place>);

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

/// A body that has not come whole, and that somebody still wants.
pub(super) struct BodyOwed(Arc<Place>);

impl Drop for BodyOwed {
    fn drop(&mut self) {
        self.0.phase.send_if_modified(|phase| {
            phase.bodies -= 1;
            // Nobody waits for it: this gives less reason to leave.
            false
        });
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures::poll;

    use super::*;

    const HEAD: Duration = Duration::from_secs(10);
    const IDLE: Duration = Duration::from_secs(60);

    fn places(connections: usize) -> Arc<Places> {
        let usual = Limits::of(&HttpConfig::default());
        let [head_timeout, idle_timeout] = [HEAD, IDLE];
        Places::new(Limits { connections, spare: 0, head_timeout, idle_timeout, ..usual })
    }

    /// Time goes on, and nobody looks.
    async fn held_up(time: Duration) {
        tokio::time::advance(time + Duration::from_millis(1)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_came_while_the_process_was_held_up_is_not_too_late() {
        let place = Arc::new(places(1).take().await);
        let mut overdue = pin!(place.overdue());
        assert!(poll!(overdue.as_mut()).is_pending());
        held_up(HEAD).await;
        let request = place.begin(Multiplexed::No);
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
        // Asked, and not yet looked at.
        let request = first.begin(Multiplexed::No);
        let mut overdue = pin!(first.overdue());
        assert!(poll!(overdue.as_mut()).is_pending());
        assert!(poll!(newcomer.as_mut()).is_pending());
        assert_eq!(second.overdue().await, Overdue::GivesWay);
        drop(second);
        newcomer.await;
        drop(request);
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
