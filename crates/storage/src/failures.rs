//! Failures of background work: how many times in a row, and the last reason.
//!
//! A single failure may be temporary and is only logged. From the second failure in a row until the
//! next success the store is not ready. Nothing is retried here.

use parking_lot::Mutex;

use super::StoreError;

/// Failures in a row after which the store is not ready.
const STANDS_AT: u64 = 2;

/// The failures of one kind of work since it last succeeded.
#[derive(Debug)]
pub struct Failures {
    /// The name of the work, as the subject of a sentence.
    work: &'static str,
    last: Mutex<Option<Failed>>,
}

#[derive(Debug)]
struct Failed {
    times: u64,
    /// The last reason.
    why: String,
    /// Whether the failure needs action by an operator, so that no retry can help.
    needs_somebody: bool,
}

impl Failures {
    /// No failures yet.
    pub fn of(work: &'static str) -> Self {
        Self { work, last: Mutex::default() }
    }

    /// The work has failed.
    pub fn note(&self, error: &StoreError) {
        let mut last = self.last.lock();
        let times = last.as_ref().map_or(0, |failed| failed.times) + 1;
        let needs_somebody = matches!(error, StoreError::Backend { .. } | StoreError::Denied(_));
        *last = Some(Failed { times, why: error.to_string(), needs_somebody });
    }

    /// The work has succeeded.
    pub fn end(&self) {
        *self.last.lock() = None;
    }

    /// The work that keeps failing, and the reason; `None` = the work does not keep failing.
    pub fn standing(&self) -> Option<String> {
        let last = self.last.lock();
        let Failed { times, why, needs_somebody } = last.as_ref()?;
        if *times < STANDS_AT && !needs_somebody {
            return None;
        }
        let times = match times {
            1 => String::new(),
            times => format!(" {times} times in a row"),
        };
        Some(format!("{} has failed{times}: {why}", self.work))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_failure_in_a_row_stands_until_the_work_succeeds() {
        let failures = Failures::of("a flush");
        let full =
            || StoreError::Io { path: "d".into(), source: std::io::ErrorKind::StorageFull.into() };
        assert_eq!(failures.standing(), None);
        failures.note(&full());
        assert_eq!(failures.standing(), None);
        failures.end();
        failures.note(&full());
        assert_eq!(failures.standing(), None, "there was a success in between");
        failures.note(&full());
        let want = format!("a flush has failed 2 times in a row: {}", full());
        assert_eq!(failures.standing(), Some(want));
        failures.end();
        assert_eq!(failures.standing(), None);
        failures.note(&StoreError::Denied("no right".into()));
        assert_eq!(failures.standing().as_deref(), Some("a flush has failed: no right"));
    }
}
