//! Retention: removes days that ended longer ago than the retention, and logs what it removed.
//!
//! Whole days are removed in one durable step; a tombstone deletes them from parts of many days in
//! the same step. `retention_clock` gives the time; `maintenance` decides when retention runs.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::manifest::Tombstone;
use super::names::{self, WIDE};
use super::part::Part;
use super::state::{PartStore, State};
use promkairos_model::{ShownSize, TimeRange};
use promkairos_storage::StoreError;

/// Whole days that are beyond the retention; at least one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expired {
    /// First and last day, each by its first millisecond; days between may be empty.
    days: (i64, i64),
    /// Part files.
    files: usize,
    /// Bytes in them.
    bytes: u64,
}

impl Expired {
    /// What is removed with these parts; `None` = there are none.
    fn of<'a>(parts: impl Iterator<Item = &'a Part>) -> Option<Self> {
        parts.map(|part| part.entry).fold(None, |before: Option<Self>, part| {
            let day = |time| names::partition_of(time);
            let own = (day(part.range.start), day(part.range.end));
            let Self { days: (first, last), files, bytes } =
                before.unwrap_or(Self { days: own, files: 0, bytes: 0 });
            let days = (first.min(own.0), last.max(own.1));
            Some(Self { days, files: files + 1, bytes: bytes + part.bytes })
        })
    }
}

impl fmt::Display for Expired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { days: (first, last), files, bytes } = *self;
        let (first, last) = (names::day(first), names::day(last));
        let bytes = ShownSize::of(bytes);
        write!(f, "{first} to {last} (part files: {files}, size: {bytes})")
    }
}

impl PartStore {
    /// Removes the days that ended longer than the retention before `now`, as far as the horizon allows.
    pub(super) fn enforce_retention(&self, now: i64) -> Result<(), StoreError> {
        let retention = *self.retention.read();
        let Some(oldest) = self.oldest_kept(retention, now) else { return Ok(()) };
        let cut = TimeRange::new(i64::MIN, names::partition_of(oldest).saturating_sub(1));
        if self.expired_before(oldest).is_none() && !has_wide_parts_in(&self.state(), cut) {
            return Ok(());
        }
        let mut removed = None;
        self.commit(|state| {
            removed = Expired::of(before(state, oldest));
            state.parts.retain(|part| !is_before(part, oldest));
            if has_wide_parts_in(state, cut) {
                // One tombstone is enough: it covers the tombstones of earlier days.
                state.manifest.tombstones.retain(|old| !is_whole(old, cut));
                state.add_tombstone(Vec::new(), cut);
            }
            Ok(())
        })?;
        if let Some(removed) = removed {
            tracing::info!("removed what is beyond the retention: {removed}");
        }
        Ok(())
    }

    /// What this retention removes now; `None` = nothing.
    pub(super) fn expired(&self, retention: Duration, now: i64) -> Option<Expired> {
        self.expired_before(self.oldest_kept(retention, now)?)
    }

    fn expired_before(&self, oldest: i64) -> Option<Expired> {
        Expired::of(before(&self.state(), oldest))
    }

    /// Days that ended before this are not kept; `None` = all are.
    fn oldest_kept(&self, retention: Duration, now: i64) -> Option<i64> {
        let retention = i64::try_from(retention.as_millis()).unwrap_or(i64::MAX);
        if retention == 0 {
            return None;
        }
        let state = self.state();
        let newest = state.newest_until(now).or_else(|| state.newest_until(i64::MAX));
        let time = self.horizon.lock().time(now, newest, Instant::now())?;
        Some(time.saturating_sub(retention))
    }
}

fn before(state: &State, oldest: i64) -> impl Iterator<Item = &Part> {
    state.parts.iter().map(|part| &**part).filter(move |part| is_before(part, oldest))
}

fn is_before(part: &Part, oldest: i64) -> bool {
    names::partition_end(names::partition_of(part.entry.range.end)) < oldest
}

/// Whether a part of many days has data in `range`, which begins at the least time, that are not deleted yet.
fn has_wide_parts_in(state: &State, range: TimeRange) -> bool {
    state.parts.iter().map(|part| &part.entry).any(|part| {
        let is_gone = |tombstone: &Arc<Tombstone>| {
            tombstone.concerns(part)
                && tombstone.matchers.is_empty()
                && tombstone.range.start <= part.range.start
                && tombstone.range.end >= range.end
        };
        part.partition == WIDE
            && part.range.start <= range.end
            && !state.manifest.tombstones.iter().any(is_gone)
    })
}

/// Whether a tombstone deletes all series in a range within this one.
fn is_whole(tombstone: &Tombstone, range: TimeRange) -> bool {
    tombstone.matchers.is_empty()
        && range.start <= tombstone.range.start
        && tombstone.range.end <= range.end
}
