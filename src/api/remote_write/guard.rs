//! Which series are taken: the guard against senders that make ever more of them.
//!
//! A series is active while it was written to within the last hour. Those that are active go on,
//! whatever the limits are; one that is not is looked at, counted, and refused beyond a limit. Limits may
//! change at any time; what is active already stays.
//!
//! Series are known by a hash of 64 bits. After a start nothing is known: who comes first has a place.
//! With no limit set nothing is kept and nothing is looked at. The store is not asked.

use std::collections::HashMap;
use std::time::Instant;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use parking_lot::Mutex;
use xxhash_rust::xxh3::xxh3_64;

use crate::config::WriteLimits;
use crate::limits::LABEL_LIMITS;
use crate::model::{
    LabelError, LabelLimits, METRIC_NAME, RawLabels, RejectReason, Rejections, SeriesEntry, Target,
    WriteBatch,
};

/// Parts of the table, each under a lock of its own.
const SHARDS: usize = 64;
/// How long a series stays active, in minutes.
const ACTIVE: u32 = 60;
/// Minutes between two looks for series that are not active any more.
const SWEEP: u32 = 5;

/// The settings of how many series there may be.
pub(super) const SETTINGS: [&str; 2] = [ALL, OF_METRIC];
const ALL: &str = "max-active-series";
const OF_METRIC: &str = "max-active-series-per-metric";

/// All active series.
pub(super) struct Guard {
    begun: Instant,
    shards: Vec<Mutex<HashTable<Active>>>,
    counts: Mutex<Counts>,
    /// The minute of the last look.
    swept: Mutex<u32>,
}

/// A series that was written to.
struct Active {
    hash: u64,
    metric: u64,
    /// When it was last.
    minute: u32,
}

/// How many series are active.
#[derive(Default)]
struct Counts {
    all: u64,
    of_metric: HashMap<u64, u64>,
}

impl Guard {
    /// Knows no series.
    pub(super) fn new(begun: Instant) -> Self {
        Self {
            begun,
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            counts: Mutex::default(),
            swept: Mutex::default(),
        }
    }

    /// How many series are active.
    pub(super) fn active(&self) -> u64 {
        self.counts.lock().all
    }

    /// Takes the series that are refused out of a batch.
    pub(super) fn judge(&self, limits: &WriteLimits, batch: &mut WriteBatch<'_>, now: Instant) {
        if !looks_at_series(limits) {
            self.forget();
            return;
        }
        let minute = (now.saturating_duration_since(self.begun).as_secs() / 60) as u32;
        self.sweep(minute);
        let mut refused = Rejections::default();
        batch.series.retain(|series| match self.take(limits, series, minute) {
            Ok(()) => true,
            Err(reason) => {
                let target = Target::Series(series.index);
                refused.push(target, reason, || series.labels.describe());
                false
            }
        });
        batch.rejections.extend(refused);
    }

    fn take(
        &self,
        limits: &WriteLimits,
        series: &SeriesEntry<'_>,
        minute: u32,
    ) -> Result<(), RejectReason> {
        let hash = xxh3_64(series.labels.as_bytes());
        if let Ok(active) = self.shard(hash).lock().find_entry(hash, |active| active.hash == hash) {
            active.into_mut().minute = minute;
            return Ok(());
        }
        // What is no label set at all is for the store to refuse.
        let Ok(labels) = series.labels.to_labels() else { return Ok(()) };
        check_labels(series.labels, &limits.labels)?;
        let metric = labels.get(METRIC_NAME);
        // Labels may come in another order.
        let hash = xxh3_64(labels.as_bytes());
        match self.shard(hash).lock().entry(hash, |active| active.hash == hash, |a| a.hash) {
            Entry::Occupied(mut active) => active.get_mut().minute = minute,
            Entry::Vacant(place) => {
                let metric_hash = xxh3_64(metric.as_bytes());
                self.counts.lock().add(limits, metric_hash, metric)?;
                place.insert(Active { hash, metric: metric_hash, minute });
            }
        }
        Ok(())
    }

    fn shard(&self, hash: u64) -> &Mutex<HashTable<Active>> {
        // The table has the other bits.
        &self.shards[(hash >> 32) as usize % SHARDS]
    }

    /// Forgets the series that are not active any more, every now and then.
    fn sweep(&self, minute: u32) {
        let Some(mut swept) = self.swept.try_lock() else { return };
        if minute < *swept + SWEEP {
            return;
        }
        *swept = minute;
        for shard in &self.shards {
            shard.lock().retain(|active| {
                let stays = minute < active.minute + ACTIVE;
                if !stays {
                    self.counts.lock().remove(active.metric);
                }
                stays
            });
        }
    }

    fn forget(&self) {
        if self.active() == 0 {
            return;
        }
        for shard in &self.shards {
            for active in shard.lock().drain() {
                self.counts.lock().remove(active.metric);
            }
        }
    }
}

impl Counts {
    /// Counts one more, within the limits.
    fn add(&mut self, limits: &WriteLimits, hash: u64, metric: &str) -> Result<(), RejectReason> {
        let of_metric = self.of_metric.get(&hash).copied().unwrap_or(0);
        if let Some(most) = limits.active_series.filter(|most| self.all >= *most) {
            let what = format!("there are {} active series", self.all);
            return Err(RejectReason::Limit { what, setting: ALL, most });
        }
        if let Some(most) = limits.active_series_per_metric.filter(|most| of_metric >= *most) {
            let what = format!("{metric} has {of_metric} active series");
            return Err(RejectReason::Limit { what, setting: OF_METRIC, most });
        }
        self.all += 1;
        self.of_metric.insert(hash, of_metric + 1);
        Ok(())
    }

    fn remove(&mut self, metric: u64) {
        self.all -= 1;
        if let Some(count) = self.of_metric.get_mut(&metric) {
            *count -= 1;
            if *count == 0 {
                self.of_metric.remove(&metric);
            }
        }
    }
}

/// Whether any of the limits is about a series by itself.
fn looks_at_series(limits: &WriteLimits) -> bool {
    limits.active_series.is_some()
        || limits.active_series_per_metric.is_some()
        || limits.labels != LABEL_LIMITS
}

/// Whether labels are within limits that are settings.
fn check_labels(labels: RawLabels<'_>, limits: &LabelLimits) -> Result<(), RejectReason> {
    let limit =
        |what, setting, most: usize| Err(RejectReason::Limit { what, setting, most: most as u64 });
    match labels.to_series(limits) {
        Err(LabelError::TooMany { count, limit: most }) => {
            limit(format!("{count} labels"), "max-labels-per-series", most)
        }
        Err(LabelError::NameTooLong { bytes, limit: most }) => {
            limit(format!("label name of {bytes} bytes"), "max-label-name-size", most)
        }
        Err(LabelError::ValueTooLong { name, bytes, limit: most }) => {
            limit(format!("value of label {name:?} of {bytes} bytes"), "max-label-value-size", most)
        }
        // The store refuses the others.
        Err(_) | Ok(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Writes to series `host` of metrics, and gives the reasons of those that are refused.
    struct Sender {
        guard: Guard,
        begun: Instant,
        limits: WriteLimits,
    }

    impl Sender {
        fn new(limits: WriteLimits) -> Self {
            let begun = Instant::now();
            Self { guard: Guard::new(begun), begun, limits }
        }

        fn send(&self, minute: u64, series: &[(&str, &str)]) -> Vec<String> {
            let mut raws = Vec::new();
            for (metric, host) in series {
                let mut raw = Vec::new();
                RawLabels::push(&mut raw, b"__name__", metric.as_bytes());
                RawLabels::push(&mut raw, b"host", host.as_bytes());
                raws.push(raw);
            }
            let entry = |(index, raw)| SeriesEntry {
                labels: RawLabels(raw),
                index,
                samples: 0..0,
                histograms: 0..0,
                exemplars: 0..0,
            };
            let series = (0..).zip(raws.iter().map(Vec::as_slice)).map(entry).collect();
            let mut batch = WriteBatch { series, ..WriteBatch::default() };
            let now = self.begun + Duration::from_secs(60 * minute);
            self.guard.judge(&self.limits, &mut batch, now);
            assert_eq!(batch.series.len() + batch.rejections.len(), raws.len());
            batch.rejections.kept().iter().map(ToString::to_string).collect()
        }
    }

    #[test]
    fn known_series_go_on_and_new_ones_are_refused() {
        let limits = WriteLimits { active_series: Some(2), ..WriteLimits::default() };
        let sender = Sender::new(limits);
        assert!(sender.send(0, &[("m", "a"), ("n", "b")]).is_empty());
        let refused = sender.send(1, &[("m", "a"), ("m", "c"), ("n", "b")]);
        let want = "there are 2 active series, and the setting max-active-series is 2 for series \
                    {__name__=\"m\", host=\"c\"}";
        assert_eq!(refused, [want]);
        assert_eq!(sender.guard.active(), 2);
    }

    #[test]
    fn each_metric_has_its_own_limit() {
        let limits = WriteLimits { active_series_per_metric: Some(1), ..WriteLimits::default() };
        let sender = Sender::new(limits);
        let refused = sender.send(0, &[("m", "a"), ("n", "a"), ("m", "b")]);
        let want = "m has 1 active series, and the setting max-active-series-per-metric is 1 for \
                    series {__name__=\"m\", host=\"b\"}";
        assert_eq!(refused, [want]);
    }

    #[test]
    fn a_series_that_is_not_written_to_gives_its_place() {
        let limits = WriteLimits { active_series: Some(2), ..WriteLimits::default() };
        let sender = Sender::new(limits);
        sender.send(0, &[("m", "a"), ("m", "b")]);
        assert!(sender.send(50, &[("m", "a")]).is_empty());
        assert_eq!(sender.send(55, &[("m", "c")]).len(), 1);
        assert!(sender.send(65, &[("m", "a"), ("m", "c")]).is_empty());
        assert_eq!(sender.send(66, &[("m", "b")]).len(), 1);
        assert!(sender.send(200, &[("m", "d"), ("m", "e")]).is_empty());
        assert_eq!(sender.guard.active(), 2);
    }

    #[test]
    fn labels_beyond_a_setting_name_it() {
        let labels = LabelLimits { value_bytes: 3, ..LABEL_LIMITS };
        let sender = Sender::new(WriteLimits { labels, ..WriteLimits::default() });
        let refused = sender.send(0, &[("m", "abc"), ("m", "abcd")]);
        let want = "value of label \"host\" of 4 bytes, and the setting max-label-value-size is 3 \
                    for series {__name__=\"m\", host=\"abcd\"}";
        assert_eq!(refused, [want]);
    }

    #[test]
    fn without_limits_nothing_is_kept() {
        let limits = WriteLimits { active_series: Some(2), ..WriteLimits::default() };
        let mut sender = Sender::new(limits);
        sender.send(0, &[("m", "a"), ("m", "b")]);
        sender.limits = WriteLimits::default();
        assert!(sender.send(0, &[("m", "a"), ("m", "b"), ("m", "c")]).is_empty());
        assert_eq!(sender.guard.active(), 0);
    }
}
