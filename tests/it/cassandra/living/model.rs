//! The acknowledged samples, and until when each of them lives.
//!
//! A time to live ends at a whole second of Cassandra's clock. Around that moment, and while a delete runs, a sample
//! may be found or not. Before, it must be found with its value. Afterwards it must not be found.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use promkairos::model::METRIC_NAME;

use crate::support::remote_read::LabelMap;

/// Bits of floats by series and time in milliseconds.
pub(super) type Points = BTreeMap<LabelMap, BTreeMap<i64, u64>>;

/// When something began and ended, in milliseconds since 1970.
pub(super) type Span = (i64, i64);

/// Milliseconds around the end of a time to live in which either answer is right: one second for the rounding to
/// whole seconds, and two to spare.
const MARGIN: i64 = 3_000;

/// Series that have certain labels, in a range of times.
#[derive(Debug, Clone)]
pub(super) struct Scope {
    labels: Vec<(&'static str, String)>,
    range: RangeInclusive<i64>,
}

impl Scope {
    /// All series of a metric. The range begins and ends at whole seconds.
    pub(super) fn of(metric: &str, range: RangeInclusive<i64>) -> Self {
        Self { labels: vec![(METRIC_NAME, metric.to_owned())], range }
    }

    /// Only the series with this label.
    pub(super) fn with(mut self, name: &'static str, value: impl ToString) -> Self {
        self.labels.push((name, value.to_string()));
        self
    }

    /// All series, at all times.
    pub(super) fn everything() -> Self {
        Self { labels: Vec::new(), range: i64::MIN..=i64::MAX }
    }

    /// A selector of PromQL for its series.
    pub(super) fn selector(&self) -> String {
        let matchers = self.labels.iter().map(|(name, value)| format!("{name}={value:?}"));
        format!("{{{}}}", matchers.collect::<Vec<_>>().join(","))
    }

    /// The same with its range, for a query at its [end](Self::end).
    pub(super) fn range_selector(&self) -> String {
        // The start of a PromQL range is not in the range.
        let milliseconds = self.range.end() - self.range.start() + 1;
        format!("{}[{milliseconds}ms]", self.selector())
    }

    /// The name of its metric.
    pub(super) fn metric(&self) -> &str {
        self.labels.first().map_or("", |(_, name)| name)
    }

    /// Its first second.
    pub(super) fn start(&self) -> String {
        (self.range.start() / 1_000).to_string()
    }

    /// Its last second.
    pub(super) fn end(&self) -> String {
        (self.range.end() / 1_000).to_string()
    }

    fn has(&self, labels: &LabelMap) -> bool {
        self.labels.iter().all(|(name, value)| labels.get(*name) == Some(value))
    }
}

/// A sample that was acknowledged.
#[derive(Debug)]
struct Sample {
    bits: u64,
    /// An answer that arrived before this moment must have the sample.
    lives_until: i64,
    /// A query that was sent after this moment must not find the sample.
    gone_from: i64,
    is_deleted: bool,
}

/// All samples that were ever acknowledged.
pub(super) struct Model {
    series: BTreeMap<LabelMap, BTreeMap<i64, Sample>>,
    /// Milliseconds.
    retention: i64,
}

impl Model {
    /// A model without samples; `retention` is the life of a sample in seconds.
    pub(super) fn new(retention: i64) -> Self {
        Self { series: BTreeMap::new(), retention: retention * 1_000 }
    }

    /// Records an acknowledged write, which replaces earlier samples at the same times.
    pub(super) fn acknowledged(&mut self, sent: Points, (began, ended): Span) {
        for (labels, points) in sent {
            let known = self.series.entry(labels).or_default();
            known.extend(points.into_iter().map(|(time, bits)| {
                let lives_until = began + self.retention - MARGIN;
                let gone_from = ended + self.retention + MARGIN;
                (time, Sample { bits, lives_until, gone_from, is_deleted: false })
            }));
        }
    }

    /// Records that a delete begins; returns the number of live samples in its scope.
    pub(super) fn in_doubt(&mut self, scope: &Scope, from: i64) -> usize {
        let mut living = 0;
        for sample in self.samples(scope) {
            living += usize::from(sample.lives_until > from);
            sample.lives_until = sample.lives_until.min(from);
        }
        living
    }

    /// Records that a delete that [began](Self::in_doubt) had ended at this moment.
    pub(super) fn deleted(&mut self, scope: &Scope, at: i64) {
        for sample in self.samples(scope).filter(|sample| sample.gone_from > at) {
            sample.gone_from = at;
            sample.is_deleted = true;
        }
    }

    /// How many samples have expired, and were not deleted before.
    pub(super) fn expired(&self, now: i64) -> usize {
        let samples = self.series.values().flat_map(BTreeMap::values);
        samples.filter(|sample| !sample.is_deleted && sample.gone_from < now).count()
    }

    fn samples<'m>(&'m mut self, scope: &'m Scope) -> impl Iterator<Item = &'m mut Sample> {
        let series = self.series.iter_mut().filter(move |(labels, _)| scope.has(labels));
        series.flat_map(move |(_, points)| {
            points.range_mut(scope.range.clone()).map(|(_, sample)| sample)
        })
    }

    /// Panics unless these are the samples of a scope for a query that was sent and answered at these moments.
    /// Returns the number of samples that had to be found.
    pub(super) fn check(&self, scope: &Scope, found: &Points, (asked, answered): Span) -> usize {
        let mut judged = 0;
        for (labels, points) in self.series.iter().filter(|(labels, _)| scope.has(labels)) {
            let found = found.get(labels);
            let points = points.range(scope.range.clone());
            for (time, sample) in points.filter(|(_, sample)| answered < sample.lives_until) {
                let bits = found.and_then(|found| found.get(time));
                assert!(
                    bits == Some(&sample.bits),
                    "lost or changed: {labels:?} at {time} is {bits:?}, not {sample:?}; asked at {asked}, answered at \
                     {answered}: {scope:?}"
                );
                judged += 1;
            }
        }
        for (labels, points) in found {
            let known = self.series.get(labels).filter(|_| scope.has(labels));
            for (time, bits) in points {
                let sample = known.and_then(|known| known.get(time));
                let is_right = sample.is_some_and(|sample| {
                    scope.range.contains(time) && sample.bits == *bits && asked <= sample.gone_from
                });
                assert!(
                    is_right,
                    "must not be there: {labels:?} at {time}: {bits}; acknowledged was {sample:?}; asked at {asked}: \
                     {scope:?}"
                );
            }
        }
        judged
    }

    /// Panics unless the counted samples of each series of a scope are right.
    pub(super) fn check_counts(
        &self,
        scope: &Scope,
        counts: &BTreeMap<LabelMap, usize>,
        span: Span,
    ) {
        let bounds = self.bounds(scope, span);
        for (labels, bounds) in &bounds {
            let count = counts.get(*labels).copied().unwrap_or(0);
            assert!(bounds.contains(&count), "{labels:?}: {count}, not {bounds:?}: {scope:?}");
        }
        for labels in counts.keys() {
            assert!(bounds.contains_key(labels), "nobody wrote {labels:?}: {scope:?}");
        }
    }

    /// Panics unless a list has each series of a scope with live samples, and only series that were written.
    /// The index row of a series outlives its samples.
    pub(super) fn check_list(&self, scope: &Scope, listed: &BTreeSet<LabelMap>, span: Span) {
        let bounds = self.bounds(scope, span);
        for (labels, _) in bounds.iter().filter(|(_, bounds)| *bounds.start() > 0) {
            assert!(listed.contains(*labels), "not listed: {labels:?}: {scope:?}");
        }
        for labels in listed {
            assert!(bounds.contains_key(labels), "nobody wrote {labels:?}: {scope:?}");
        }
    }

    /// The least and most samples of each series of a scope in an answer between these moments.
    fn bounds(
        &self,
        scope: &Scope,
        (asked, answered): Span,
    ) -> BTreeMap<&LabelMap, RangeInclusive<usize>> {
        let series = self.series.iter().filter(|(labels, _)| scope.has(labels));
        let bounds = series.map(|(labels, points)| {
            let samples = || points.range(scope.range.clone()).map(|(_, sample)| sample);
            let least = samples().filter(|sample| answered < sample.lives_until).count();
            let most = samples().filter(|sample| asked <= sample.gone_from).count();
            (labels, least..=most)
        });
        bounds.collect()
    }
}
