//! What a connection waits for, when it is to be closed for that, and from when on it may have to give way.
//!
//! Decisions on one moment of one connection: pure but for the clock that says when something began. Who keeps it up to
//! date, and who asks connections to leave, is `places`.

use std::time::Duration;

use tokio::time::Instant;

use super::machine::affordable;
use crate::config::HttpConfig;
use crate::limits;
use crate::storage::{Level, MEMORY_LIMIT};

/// Requests of a stranger, one after the other, after which its connection has no grace.
pub(super) const MOST_REFUSED: u32 = 100;

/// How long who has just come and has asked nothing yet stays where logged-in connections stay.
const ARRIVING: Duration = Duration::from_millis(100);

/// The setting for how long a client may take nothing of an answer.
const ANSWER_TIMEOUT: &str = "http-answer-timeout";

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
    /// The same, before its connection may have to give way.
    pub(super) answer_grace: Duration,
    /// The same where it has shown no credentials, and how long it may be refused for want of them and take nothing.
    pub(super) stranger_grace: Duration,
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
            answer_grace: limits::ANSWER_GRACE,
            stranger_grace: limits::STRANGER_GRACE,
        }
    }

    /// How long a client may take nothing of an answer where memory is as short as this.
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

/// Why an answer is broken off: after how long, and at the limit of which setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the client read nothing of the answer for {after:?}; the limit is the setting {setting}")]
pub(super) struct Stalled {
    pub(super) after: Duration,
    pub(super) setting: &'static str,
}

impl Stalled {
    /// Another answer needs the room of this one.
    pub(super) const GIVES_WAY: Self = Self { after: limits::ANSWER_GRACE, setting: MEMORY_LIMIT };
}

/// What a place is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// All requests.
    Usual,
    /// Those for health and metrics.
    Spare,
}

/// What a connection waits for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Phase {
    pub(super) kind: Kind,
    /// Requests under way.
    pub(super) requests: usize,
    /// Those of them whose bodies have not come whole.
    pub(super) bodies: usize,
    /// Since when there is none, or since when there is one again.
    pub(super) since: Instant,
    /// What is owed while there is none.
    pub(super) owed: Owed,
    /// Since when the client takes nothing of what is to be sent.
    pub(super) blocked: Option<Instant>,
    /// Requests with an answer of which something waits to be taken.
    pub(super) unread: usize,
    /// When the client last took something of any of them, or had nothing to take.
    pub(super) read: Instant,
    /// Requests that were refused for want of credentials, since one was let in; where none ever was, also those that
    /// needed none on a server that has users or tokens.
    pub(super) refused: u32,
    /// A request showed credentials that hold.
    pub(super) let_in: bool,
    /// Several requests share the connection: bytes come that are no part of a head.
    pub(super) multiplexed: bool,
    /// Another connection is to have the place.
    pub(super) gives_way: bool,
    /// An answer is given up that nobody takes: at the limit of this setting.
    pub(super) given_up: Option<&'static str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owed {
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
    /// The client took nothing of an answer; the limit is this setting.
    Answer(&'static str),
    /// The place is for another connection.
    GivesWay,
}

impl Overdue {
    /// The setting whose limit it is.
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

    /// Since when nobody takes anything, with nothing else under way.
    pub(super) fn stalled(&self) -> Option<Instant> {
        let unread = self.unread > 0 && self.unread == self.requests;
        self.blocked.or(unread.then_some(self.read))
    }

    /// From when on the connection may be closed with nothing lost that anybody waits for; `None` = something would be.
    /// Of a request whose body has not come nothing is done yet.
    pub(super) fn gives_way_from(&self, limits: &Limits) -> Option<Instant> {
        if self.gives_way {
            return None;
        }
        if let Some(since) = self.stalled() {
            return Some(match self.refused {
                0 => since + limits.answer_grace,
                1..MOST_REFUSED => since + limits.stranger_grace,
                // However often it gives its requests up and asks again.
                MOST_REFUSED.. => self.since,
            });
        }
        let grace = if self.requests == 0 { Duration::ZERO } else { limits.body_grace };
        (self.requests == self.bodies).then(|| self.since + grace)
    }

    /// Who gives way first: who rests and has not logged in, then who takes no refusal, then who rests, then who owes a
    /// body, then who takes no answer. Where nobody has to log in, all who rest are in the order of their age.
    pub(super) fn rank(&self, now: Instant) -> u8 {
        let stays = self.let_in || self.refused == 0 && now < self.since + ARRIVING;
        match (self.stalled(), self.refused) {
            (None, _) if self.requests == 0 => 2 * u8::from(stays),
            (Some(_), 1..) => 1,
            (None, _) => 3,
            (Some(_), 0) => 4,
        }
    }

    /// When the connection is to be closed, and why; `None` = not by time.
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
