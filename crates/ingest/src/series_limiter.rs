//! Limits the active series, against senders that create ever more of them.
//!
//! A series is active if it was written to within the last hour. Writes to active series are accepted
//! whatever the limits are; an inactive series is validated and counted, and refused beyond a limit.
//! Limits may change at any time, so series are counted even without limits.
//!
//! After a start the limiter learns the series of the last hour from the store (`limiter_warmup`); until then it
//! refuses no series for their number. Series that the store refuses for lack of memory are not counted.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Instant;

use parking_lot::RwLock;
use promkairos_model::{
    LabelError, LabelLimits, Labels, METRIC_NAME, RawLabels, RejectReason, Rejections, ShownSize,
    WriteBatch,
};
use xxhash_rust::xxh3::xxh3_64;

use super::active::ActiveSeries;
use super::settings::WriteLimits;

/// How long a series stays active, in minutes.
const ACTIVE: u32 = 60;
/// The same for a series that was learned from the store: a sender that continues has written by then.
const LEARNED: u32 = 15;
/// Minutes between two sweeps of inactive series.
const SWEEP: u32 = 5;
/// Series that are learned under one hold of the lock.
const LEARNED_AT_ONCE: usize = 4_096;

/// The settings that limit the number of series.
const ALL: &str = "max-active-series";
const OF_METRIC: &str = "max-active-series-per-metric";

/// Whether this is a setting that limits the number of series: a series beyond it may be accepted later.
pub fn is_series_limit(setting: &str) -> bool {
    [ALL, OF_METRIC].contains(&setting)
}

/// All active series.
pub(super) struct SeriesLimiter {
    begun: Instant,
    active: RwLock<ActiveSeries>,
    /// The minute of the last sweep.
    swept: AtomicU32,
    /// The series of the store are not known yet.
    learns: AtomicBool,
}

/// A series whose encoded labels are not known.
struct Unknown {
    /// Position in the batch.
    position: usize,
    hash: u64,
    metric: u64,
}

/// The limit that is reached, with the number of series.
enum Beyond {
    All(u64),
    OfMetric(u64),
}

impl SeriesLimiter {
    /// A limiter without any series.
    pub(super) fn new(begun: Instant) -> Self {
        Self {
            begun,
            active: RwLock::default(),
            swept: AtomicU32::new(0),
            learns: AtomicBool::new(false),
        }
    }

    /// The number of active series.
    pub(super) fn active(&self) -> u64 {
        self.active.read().len()
    }

    /// The largest number of active series of one metric.
    pub(super) fn most_of_a_metric(&self) -> u64 {
        self.active.read().most_of_a_metric()
    }

    /// Sets whether the limiter is still learning; while it is, it refuses no series for their number.
    pub(super) fn set_learning(&self, learns: bool) {
        self.learns.store(learns, Ordering::Relaxed);
    }

    /// Marks the series of the store as active, whatever the limits are.
    pub(super) fn learn(&self, known: &[Labels], now: Instant) {
        let until = self.minute(now) + LEARNED;
        for known in known.chunks(LEARNED_AT_ONCE) {
            let mut active = self.active.write();
            let mut before = None;
            for labels in known {
                let (hash, metric) = hashes(labels);
                if !active.note(&mut before, hash, until) {
                    active.add(hash, metric, until);
                }
            }
        }
    }

    /// Removes refused series from a batch, and returns which ones and why. If the store refuses new series,
    /// they are left to it.
    pub(super) fn judge(
        &self,
        limits: &WriteLimits,
        store_refuses_new: bool,
        batch: &mut WriteBatch<'_>,
        now: Instant,
    ) -> Rejections {
        let mut rejections = Rejections::default();
        let until = self.minute(now) + ACTIVE;
        let unknown = self.unknown(batch, until);
        if unknown.is_empty() {
            return rejections;
        }
        let (new, mut refused) = self.check_labels(limits, batch, unknown, until);
        if !store_refuses_new {
            let beyond = self.add(limits, &new, until);
            refused.extend(beyond.into_iter().map(|(position, beyond)| {
                (position, beyond.reason(limits, batch.series[position].labels))
            }));
        }
        if refused.is_empty() {
            return rejections;
        }
        refused.sort_by_key(|(position, _)| *position);
        let mut refused = refused.into_iter().peekable();
        let mut position = 0;
        batch.series.retain(|series| {
            let reason = refused.next_if(|(refused, _)| *refused == position);
            position += 1;
            let Some((_, reason)) = reason else { return true };
            let describe = || series.labels.describe();
            rejections.push_series(series.index, series.points(), reason, describe);
            false
        });
        rejections
    }

    fn minute(&self, now: Instant) -> u32 {
        (now.saturating_duration_since(self.begun).as_secs() / 60) as u32
    }

    /// Notes the known series, and returns the positions of the others.
    fn unknown(&self, batch: &WriteBatch<'_>, until: u32) -> Vec<usize> {
        let active = self.active.read();
        let mut before = None;
        let mut unknown = Vec::new();
        for (position, series) in batch.series.iter().enumerate() {
            let hash = xxh3_64(series.labels.as_bytes());
            if !series.is_empty() && !active.note(&mut before, hash, until) {
                unknown.push(position);
            }
        }
        unknown
    }

    /// The series that may be new, and those whose labels are refused, by position.
    fn check_labels(
        &self,
        limits: &WriteLimits,
        batch: &WriteBatch<'_>,
        unknown: Vec<usize>,
        until: u32,
    ) -> (Vec<Unknown>, Vec<(usize, RejectReason)>) {
        let (mut new, mut refused) = (Vec::new(), Vec::new());
        for position in unknown {
            match batch.series[position].labels.to_series(&limits.labels) {
                Ok(labels) => {
                    let (hash, metric) = hashes(&labels);
                    new.push(Unknown { position, hash, metric });
                }
                // Invalid label sets are left to the store, which refuses them.
                Err(error) => {
                    let labels = batch.series[position].labels;
                    if !self.is_active_in_other_order(labels, until) {
                        let why = beyond_setting(&RejectReason::from(error), &limits.labels);
                        refused.extend(why.map(|why| (position, why)));
                    }
                }
            }
        }
        // Their labels may be known in another order.
        let active = self.active.read();
        let mut before = None;
        new.retain(|series| !active.note(&mut before, series.hash, until));
        (new, refused)
    }

    /// Whether unsorted labels are the labels of an active series.
    fn is_active_in_other_order(&self, labels: RawLabels<'_>, until: u32) -> bool {
        let labels = labels.to_labels();
        let note = |labels: Labels| self.active.read().note(&mut None, hashes(&labels).0, until);
        labels.is_ok_and(note)
    }

    /// Adds new series up to the limits, and returns the positions of the others.
    fn add(&self, limits: &WriteLimits, new: &[Unknown], until: u32) -> Vec<(usize, Beyond)> {
        let mut refused = Vec::new();
        if new.is_empty() {
            return refused;
        }
        let is_guarded = !self.learns.load(Ordering::Relaxed);
        let mut active = self.active.write();
        let mut before = None;
        for series in new {
            // One request may contain the series twice, or another request may have added it.
            if active.note(&mut before, series.hash, until) {
                continue;
            }
            let beyond = if is_guarded { beyond(&active, limits, series.metric) } else { None };
            match beyond {
                Some(beyond) => refused.push((series.position, beyond)),
                None => active.add(series.hash, series.metric, until),
            }
        }
        refused
    }

    /// Removes inactive series, every few minutes. The lock is released between steps, so that writes are not blocked.
    pub(super) fn sweep(&self, now: Instant) {
        let minute = self.minute(now);
        let swept = self.swept.load(Ordering::Relaxed);
        let is_due = minute >= swept + SWEEP;
        let by_us =
            || self.swept.compare_exchange(swept, minute, Ordering::Relaxed, Ordering::Relaxed);
        if is_due && by_us().is_ok() {
            let mut from = Some(0);
            while let Some(at) = from {
                from = self.active.write().sweep(minute, at);
            }
        }
    }
}

/// The limit that one more series of the metric would exceed, if any.
fn beyond(active: &ActiveSeries, limits: &WriteLimits, metric: u64) -> Option<Beyond> {
    let all = active.len();
    if limits.active_series.is_some_and(|most| all >= most) {
        return Some(Beyond::All(all));
    }
    let most = limits.active_series_per_metric?;
    let of_metric = active.len_of_metric(metric);
    (of_metric >= most).then_some(Beyond::OfMetric(of_metric))
}

impl Beyond {
    fn reason(self, limits: &WriteLimits, labels: RawLabels<'_>) -> RejectReason {
        let (what, setting, most) = match self {
            Self::All(count) => {
                (format!("there are {count} active series"), ALL, limits.active_series)
            }
            Self::OfMetric(count) => {
                let labels = labels.to_labels();
                let metric = labels.as_ref().map_or("", |labels| labels.get(METRIC_NAME));
                let what = format!("{metric} has {count} active series");
                (what, OF_METRIC, limits.active_series_per_metric)
            }
        };
        RejectReason::Limit { what, setting, most: most.unwrap_or(0).to_string() }
    }
}

/// The hashes of a series and of its metric name.
fn hashes(labels: &Labels) -> (u64, u64) {
    (xxh3_64(labels.as_bytes()), xxh3_64(labels.get(METRIC_NAME).as_bytes()))
}

/// The reason as a limit that is a setting; `None` = the labels are invalid for another reason. A label
/// beyond the largest value of a setting is beyond the setting too.
pub(super) fn beyond_setting(why: &RejectReason, limits: &LabelLimits) -> Option<RejectReason> {
    let RejectReason::Labels(error) = why else { return None };
    let size = |bytes: usize| ShownSize::of(bytes).to_string();
    let (what, most) = match error {
        LabelError::TooMany { count, .. } => (format!("{count} labels"), limits.labels.to_string()),
        LabelError::NameTooLong { bytes, .. } => {
            (format!("label name of {}", size(*bytes)), size(limits.name_bytes))
        }
        LabelError::ValueTooLong { name, bytes, .. } => {
            (format!("value of label {name:?} of {}", size(*bytes)), size(limits.value_bytes))
        }
        LabelError::TooLong { bytes, .. } => {
            (format!("labels of {} in all", size(*bytes)), size(limits.total_bytes))
        }
        _ => return None,
    };
    Some(RejectReason::Limit { what, setting: why.as_str(), most })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use promkairos_model::SeriesEntry;
    use promkairos_model::limits::LABEL_LIMITS;

    /// Writes to series `host` of metrics, and returns the reasons of refused ones.
    struct Sender {
        guard: SeriesLimiter,
        begun: Instant,
        limits: WriteLimits,
        store_refuses_new: bool,
    }

    impl Sender {
        fn new(limits: WriteLimits) -> Self {
            let begun = Instant::now();
            Self { guard: SeriesLimiter::new(begun), begun, limits, store_refuses_new: false }
        }

        fn send(&self, minute: u64, series: &[(&str, &str)]) -> Vec<String> {
            let mut raws = Vec::new();
            for (metric, host) in series {
                let mut raw = Vec::new();
                RawLabels::push(&mut raw, b"__name__", metric.as_bytes());
                RawLabels::push(&mut raw, b"host", host.as_bytes());
                raws.push(raw);
            }
            self.send_raw(minute, &raws)
        }

        fn send_raw(&self, minute: u64, raws: &[Vec<u8>]) -> Vec<String> {
            let entry = |(index, raw)| SeriesEntry {
                labels: RawLabels(raw),
                index,
                samples: index..index + 1,
                histograms: 0..0,
                exemplars: 0..0,
            };
            let series = (0..).zip(raws.iter().map(Vec::as_slice)).map(entry).collect();
            let mut batch = WriteBatch { series, ..WriteBatch::default() };
            let now = self.begun + Duration::from_secs(60 * minute);
            self.guard.sweep(now);
            let refused = self.guard.judge(&self.limits, self.store_refuses_new, &mut batch, now);
            assert_eq!(batch.series.len() + refused.len(), raws.len());
            refused.kept().iter().map(ToString::to_string).collect()
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
        let want = "value of label \"host\" of 4 bytes, and the setting max-label-value-size is 3 bytes \
                    for series {__name__=\"m\", host=\"abcd\"}";
        assert_eq!(refused, [want]);
    }

    #[test]
    fn an_active_series_goes_on_whatever_is_set_later_and_in_any_order() {
        let mut sender = Sender::new(WriteLimits::default());
        sender.send(0, &[("m", "abcd")]);
        sender.limits.labels = LabelLimits { value_bytes: 3, ..LABEL_LIMITS };
        let mut raw = Vec::new();
        RawLabels::push(&mut raw, b"host", b"abcd");
        RawLabels::push(&mut raw, b"__name__", b"m");
        assert!(sender.send_raw(0, &[raw]).is_empty());
        assert!(sender.send(0, &[("m", "abcd")]).is_empty());
        assert_eq!(sender.send(0, &[("m", "abcde")]).len(), 1);
    }

    #[test]
    fn a_limit_that_is_set_later_knows_what_was_written_before() {
        let mut sender = Sender::new(WriteLimits::default());
        assert!(sender.send(0, &[("m", "a"), ("m", "b"), ("m", "a")]).is_empty());
        assert_eq!(sender.guard.active(), 2);
        sender.limits.active_series = Some(2);
        assert_eq!(sender.send(1, &[("m", "c"), ("m", "d")]).len(), 2);
        assert!(sender.send(1, &[("m", "b"), ("m", "a")]).is_empty());
        sender.limits.active_series = Some(1);
        assert!(sender.send(2, &[("m", "b"), ("m", "a")]).is_empty());
    }

    fn labels(metric: &str, host: &str) -> Labels {
        Labels::from_pairs([("__name__", metric), ("host", host)]).expect("a label set")
    }

    #[test]
    fn what_the_store_has_is_known_for_a_while() {
        let limits = WriteLimits { active_series: Some(2), ..WriteLimits::default() };
        let sender = Sender::new(limits);
        sender.guard.set_learning(true);
        assert!(sender.send(0, &[("m", "x")]).is_empty());
        sender.guard.learn(&[labels("m", "a"), labels("m", "x"), labels("n", "b")], sender.begun);
        // No series is refused until all are learned.
        assert!(sender.send(0, &[("m", "y")]).is_empty());
        sender.guard.set_learning(false);
        assert_eq!(sender.send(0, &[("m", "c"), ("m", "a")]).len(), 1);
        assert_eq!(sender.guard.active(), 4);
        // A learned series that is not written to expires earlier than a written one.
        sender.send(u64::from(LEARNED), &[("m", "a")]);
        assert_eq!(sender.guard.active(), 3);
    }

    #[test]
    fn labels_in_another_order_are_the_same_series() {
        let limits = WriteLimits { active_series: Some(1), ..WriteLimits::default() };
        let sender = Sender::new(limits);
        sender.send(0, &[("m", "a")]);
        let mut raw = Vec::new();
        RawLabels::push(&mut raw, b"host", b"a");
        RawLabels::push(&mut raw, b"__name__", b"m");
        assert!(sender.send_raw(0, &[raw]).is_empty());
        assert_eq!(sender.guard.active(), 1);
    }

    #[test]
    fn where_memory_is_short_new_series_are_left_to_the_store() {
        let mut sender = Sender::new(WriteLimits::default());
        sender.send(0, &[("m", "a")]);
        sender.store_refuses_new = true;
        assert!(sender.send(0, &[("m", "a"), ("m", "b")]).is_empty());
        assert_eq!(sender.guard.active(), 1);
    }
}
