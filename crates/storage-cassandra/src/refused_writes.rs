//! Detects writes that are refused for a lasting cause. A Cassandra whose commit log has no room answers reads
//! and schema queries, but accepts no write: only the writes themselves show it.
//!
//! Refusals count as lasting when they continued for a while with no write stored in between. They end when a
//! write is stored, or when no write was tried for a while: then the state is unknown. A request that is itself
//! at fault does not count. Nothing is tried here.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use promkairos_model::WriteOutcome;
use promkairos_storage::{Result, StoreError};

/// Refusals are lasting when the first and the last are this far apart. A restart of a node usually takes less
/// time, and senders repeat a refused write within seconds.
const STANDS_AFTER: Duration = Duration::from_secs(10);
/// How long a refusal counts: longer than senders wait before they repeat; vmagent waits at most a minute.
const KNOWN_FOR: Duration = Duration::from_secs(120);

/// The refusals since the last stored write.
#[derive(Default)]
pub(crate) struct RefusedWrites(Mutex<Option<Refusals>>);

/// The content of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Brings {
    /// Metadata alone, as in all writes to a cluster for metadata.
    Metadata,
    /// Points.
    Points,
}

struct Refusals {
    /// The greatest content of a refused write: only a stored write with at least this content ends the refusals.
    of: Brings,
    times: u64,
    first: Instant,
    last: Instant,
    /// The error of the last refusal.
    why: String,
}

impl RefusedWrites {
    /// Notes the result of a write.
    pub(crate) fn note(&self, brings: Brings, written: &Result<WriteOutcome>, now: Instant) {
        let mut refusals = self.0.lock();
        let error = match written {
            Ok(outcome) => {
                let stored = stored(outcome);
                refusals.take_if(|refusals| stored.is_some_and(|stored| stored >= refusals.of));
                return;
            }
            Err(StoreError::Limit(_) | StoreError::Invalid(_)) => return,
            Err(error) => error,
        };
        let known = refusals.take().filter(|known| now.duration_since(known.last) < KNOWN_FOR);
        let (of, times, first) = known
            .map_or((brings, 0, now), |known| (known.of.max(brings), known.times, known.first));
        let why = error.to_string();
        *refusals = Some(Refusals { of, times: times + 1, first, last: now, why });
    }

    /// Fails while refusals are lasting.
    pub(crate) fn check(&self, now: Instant) -> Result<()> {
        let refusals = self.0.lock();
        let Some(Refusals { times, first, last, why, .. }) = &*refusals else { return Ok(()) };
        let (over, ago) = (last.duration_since(*first), now.duration_since(*last));
        if over < STANDS_AFTER || ago >= KNOWN_FOR {
            return Ok(());
        }
        let seconds = (over + ago).as_secs();
        Err(StoreError::unavailable(format!(
            "no write has been stored for {seconds} s, {times} were refused, the last one: {why}"
        )))
    }
}

/// The greatest stored content; `None` = nothing.
fn stored(outcome: &WriteOutcome) -> Option<Brings> {
    let WriteOutcome { samples, histograms, exemplars, metadata, .. } = *outcome;
    match (samples + histograms + exemplars, metadata) {
        (0, 0) => None,
        (0, _) => Some(Brings::Metadata),
        _ => Some(Brings::Points),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused() -> Result<WriteOutcome, StoreError> {
        Err(StoreError::unavailable("no room"))
    }

    #[test]
    fn refusals_stand_when_they_go_on_and_end_with_a_write_or_in_silence() {
        let (writes, begin) = (RefusedWrites::default(), Instant::now());
        let at = |seconds| begin + Duration::from_secs(seconds);
        let said = |seconds| writes.check(at(seconds)).err().map(|error| error.to_string());
        let note = |written, seconds| writes.note(Brings::Points, &written, at(seconds));
        let metadata = || Ok(WriteOutcome { metadata: 1, ..WriteOutcome::default() });
        note(refused(), 0);
        assert_eq!(said(30), None, "one refusal");
        note(refused(), 9);
        assert_eq!(said(9), None);
        // Neither says anything about other writes.
        note(metadata(), 10);
        note(Err(StoreError::Invalid("no".into())), 10);
        note(refused(), 12);
        let want = "no write has been stored for 15 s, 3 were refused, the last one: no room";
        assert_eq!(said(15).as_deref(), Some(want));
        assert!(said(131).is_some());
        assert_eq!(said(132), None, "nobody has tried for a while");
        note(refused(), 132);
        assert_eq!(said(132), None, "the first one since");
        note(refused(), 150);
        assert!(said(150).is_some());
        note(Ok(WriteOutcome { samples: 1, ..WriteOutcome::default() }), 151);
        assert_eq!(said(151), None);
        // Where only metadata is written, it counts.
        writes.note(Brings::Metadata, &refused(), at(151));
        writes.note(Brings::Metadata, &refused(), at(161));
        assert!(said(161).is_some());
        note(metadata(), 162);
        assert_eq!(said(162), None);
    }
}
