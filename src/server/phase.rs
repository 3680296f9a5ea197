//! What a connection waits for, when it is closed for that, and from when on it may have to give way.
//!
//! Pure decisions about one connection at one moment; only the begin of a phase reads the clock.
//! `connection_pool` updates the phases and asks connections to leave.

use std::time::Duration;

use tokio::time::Instant;

use super::machine::affordable;
use crate::config::HttpConfig;
use crate::limits;
use crate::storage::{Level, MEMORY_LIMIT};

/// Consecutive refused requests after which a connection has no grace.
pub(super) const MOST_REFUSED: u32 = 100;

/// How long a new connection without any request ranks with logged-in ones.
const ARRIVING: Duration = Duration::from_millis(100);

/// The setting that limits how long a client may read nothing of an answer.
const ANSWER_TIMEOUT: &str = "http-answer-timeout";

/// Limits of connections.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Concurrent connections.
    pub(super) connections: usize,
    /// Spare connections beyond them.
    pub(super) spare: usize,
    /// Concurrent requests of one HTTP/2 connection.
    pub(super) streams: u32,
    /// Longest time from the first byte of a head to its last; a new connection waits for a head.
    pub(super) head_timeout: Duration,
    /// Longest wait for the next request.
    pub(super) idle_timeout: Duration,
    /// How long a body may take before its connection may have to give way.
    pub(super) body_grace: Duration,
    /// How long a client may read nothing of an answer.
    pub(super) answer_stall: Duration,
    /// How long a client may read nothing before its connection may have to give way.
    pub(super) answer_grace: Duration,
    /// The same without a login; also the limit for a refused client that reads nothing.
    pub(super) stranger_grace: Duration,
}

impl Limits {
    /// The limits of the settings, as far as there are descriptors.
    pub(super) fn of(config: &HttpConfig) -> Self {
        Self {
            connections: affordable(config.connections),
            spare: limits::SPARE_CONNECTIONS,
            streams: config.streams,
            head_timeout: config.head_timeout,
            idle_timeout: config.idle_timeout,
            body_grace: limits::BODY_GRACE,
            answer_stall: config.answer_timeout,
            answer_grace: limits::ANSWER_GRACE,
            stranger_grace: limits::STRANGER_GRACE,
        }
    }

    /// How long a client may read nothing of an answer at this memory level.
    pub(super) fn stall(&self, level: Level) -> Stalled {
        let usual = Stalled { after: self.answer_stall, setting: ANSWER_TIMEOUT };
        let after = match level {
            Level::Ample => return usual,
            Level::Tight => limits::TIGHT_ANSWER_STALL,
            Level::Full | Level::Over => limits::FULL_ANSWER_STALL,
        };
        if after < usual.after { Stalled { after, setting: MEMORY_LIMIT } } else { usual }
    }
}

/// Why an answer is aborted: after how long, and by the limit of which setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the client read nothing of the answer for {after:?}; the limit is the setting {setting}")]
pub(super) struct Stalled {
    pub(super) after: Duration,
    pub(super) setting: &'static str,
}

impl Stalled {
    /// Another answer needs the memory of this one.
    pub(super) const GIVES_WAY: Self = Self { after: limits::ANSWER_GRACE, setting: MEMORY_LIMIT };
}

/// What a place is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// All requests.
    Usual,
    /// Only requests for health and metrics.
    Spare,
}

/// What a connection waits for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Phase {
    pub(super) kind: Kind,
    /// Running requests.
    pub(super) requests: usize,
    /// Running requests whose bodies are incomplete.
    pub(super) bodies: usize,
    /// Since when there are no running requests, or since when there are some.
    pub(super) since: Instant,
    /// What the client owes while there are none.
    pub(super) owed: Owed,
    /// Since when the client accepts no data.
    pub(super) blocked: Option<Instant>,
    /// Requests whose answers have data that the client has not read.
    pub(super) unread: usize,
    /// When the client last read data of an answer, or had none to read.
    pub(super) read: Instant,
    /// Consecutive requests with a refused login. Before the first successful login, requests that need no login
    /// count too, on a server that has users or tokens.
    pub(super) refused: u32,
    /// A request has logged in.
    pub(super) let_in: bool,
    /// Several requests share the connection (HTTP/2): received bytes may be no part of a head.
    pub(super) multiplexed: bool,
    /// The connection is asked to leave, for another one.
    pub(super) gives_way: bool,
    /// An answer that the client does not read is aborted, by the limit of this setting.
    pub(super) given_up: Option<&'static str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owed {
    /// The rest of a head.
    Head,
    /// Nothing: it may be idle.
    Nothing,
}

/// Why a connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Overdue {
    /// No complete head arrived in time.
    Head,
    /// It was idle for too long.
    Idle,
    /// The client read nothing of an answer; the limit is this setting.
    Answer(&'static str),
    /// Another connection gets the place.
    GivesWay,
}

impl Overdue {
    /// The setting that limits it.
    pub(super) fn setting(self) -> &'static str {
        match self {
            Self::Head => "http-head-timeout",
            Self::Idle => "http-idle-timeout",
            Self::Answer(setting) => setting,
            Self::GivesWay => "max-connections",
        }
    }
}

impl Phase {
    pub(super) fn new(kind: Kind) -> Self {
        Self {
            kind,
            requests: 0,
            bodies: 0,
            since: Instant::now(),
            owed: Owed::Head,
            blocked: None,
            unread: 0,
            read: Instant::now(),
            refused: 0,
            let_in: false,
            multiplexed: false,
            gives_way: false,
            given_up: None,
        }
    }

    /// Since when the client reads nothing while no other request is running.
    pub(super) fn stalled(&self) -> Option<Instant> {
        let unread = self.unread > 0 && self.unread == self.requests;
        self.blocked.or(unread.then_some(self.read))
    }

    /// From when on the connection may be closed without losing work that a client waits for; `None` = it may not. A
    /// request whose body is incomplete has not been worked on.
    pub(super) fn gives_way_from(&self, limits: &Limits) -> Option<Instant> {
        if self.gives_way {
            return None;
        }
        if let Some(since) = self.stalled() {
            return Some(match self.refused {
                0 => since + limits.answer_grace,
                1..MOST_REFUSED => since + limits.stranger_grace,
                // Even if the client cancels its requests and sends new ones.
                MOST_REFUSED.. => self.since,
            });
        }
        let grace = if self.requests == 0 { Duration::ZERO } else { limits.body_grace };
        (self.requests == self.bodies).then(|| self.since + grace)
    }

    /// The order of giving way, lowest first: idle without a login, refused and not reading, idle, waiting for a body,
    /// not reading an answer. On a server without logins all idle connections rank by age.
    pub(super) fn rank(&self, now: Instant) -> u8 {
        let stays = self.let_in || self.refused == 0 && now < self.since + ARRIVING;
        match (self.stalled(), self.refused) {
            (None, _) if self.requests == 0 => 2 * u8::from(stays),
            (Some(_), 1..) => 1,
            (None, _) => 3,
            (Some(_), 0) => 4,
        }
    }

    /// When the connection is to be closed, and why; `None` = no time limit applies.
    pub(super) fn due(&self, limits: &Limits, level: Level) -> Option<(Instant, Overdue)> {
        if self.gives_way {
            return Some((self.since, Overdue::GivesWay));
        }
        if let Some(setting) = self.given_up {
            return Some((self.since, Overdue::Answer(setting)));
        }
        let request = (self.requests == 0).then(|| match self.owed {
            Owed::Head => (self.since + limits.head_timeout, Overdue::Head),
            Owed::Nothing => (self.since + limits.idle_timeout, Overdue::Idle),
        });
        let Stalled { after, setting } = limits.stall(level);
        let answer = self.blocked.map(|since| (since + after, Overdue::Answer(setting)));
        let refusal = self.stalled().filter(|_| self.refused > 0);
        let stranger =
            refusal.map(|since| (since + limits.stranger_grace, Overdue::Answer(ANSWER_TIMEOUT)));
        [request, answer, stranger].into_iter().flatten().min_by_key(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_give_way_before_who_has_logged_in() {
        let new = Phase::new(Kind::Usual);
        let (came, later) = (new.since, new.since + ARRIVING);
        let asks = Phase { requests: 1, ..new };
        for (phase, now, want) in [
            (new, later, 0),
            (Phase { refused: 1, ..new }, came, 0),
            (Phase { requests: 1, unread: 1, refused: 1, ..new }, later, 1),
            (new, came, 2),
            (Phase { let_in: true, ..new }, later, 2),
            (asks, later, 3),
            (Phase { unread: 1, ..asks }, later, 4),
            (Phase { unread: 1, let_in: true, ..asks }, later, 4),
        ] {
            assert_eq!(phase.rank(now), want, "{phase:?}");
        }
    }

    #[test]
    fn the_setting_whose_limit_decides_is_named() {
        let usual = Limits::of(&HttpConfig::default());
        let check = |stall: u64, level: Level, after: u64, setting: &'static str| {
            let [answer_stall, after] = [stall, after].map(Duration::from_secs);
            let limits = Limits { answer_stall, ..usual };
            assert_eq!(limits.stall(level), Stalled { after, setting }, "{level:?}");
            let since = Instant::now();
            let phase = Phase { requests: 1, blocked: Some(since), ..Phase::new(Kind::Usual) };
            let want = Some((since + after, Overdue::Answer(setting)));
            assert_eq!(phase.due(&limits, level), want, "{level:?}");
        };
        check(60, Level::Ample, 60, ANSWER_TIMEOUT);
        check(60, Level::Tight, 5, MEMORY_LIMIT);
        check(60, Level::Full, 1, MEMORY_LIMIT);
        check(60, Level::Over, 1, MEMORY_LIMIT);
        check(1, Level::Tight, 1, ANSWER_TIMEOUT);
        check(1, Level::Over, 1, ANSWER_TIMEOUT);
        let phase = Phase { given_up: Some(MEMORY_LIMIT), ..Phase::new(Kind::Usual) };
        let due = phase.due(&usual, Level::Ample).map(|(_, why)| why.setting());
        assert_eq!(due, Some(MEMORY_LIMIT));
    }
}
