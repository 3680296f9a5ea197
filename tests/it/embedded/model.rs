//! A naive model of a store, and random steps that change it.

use std::collections::BTreeMap;
use std::sync::Arc;

use promkairos::chunk::{Chunk, encode_points};
use promkairos::model::{
    Counts, Exemplar, ExemplarEntry, Histogram, Labels, MatchOp, Matcher, Metadata, MetadataEntry,
    MetricType, Point, RawLabels, ResetHint, Sample, SeriesEntry, Span, TimeRange, Value,
    WriteBatch,
};
use promkairos::storage::SeriesRun;
use rand::RngExt;
use rand::rngs::StdRng;

pub(super) const DAY: i64 = 86_400_000;

/// Points of the chunks of a series, in order of precedence.
pub(super) type Lists = Vec<Vec<Point>>;

/// The content that a store should have.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Model {
    pub(super) series: BTreeMap<Labels, BTreeMap<i64, Point>>,
    pub(super) exemplars: BTreeMap<Labels, BTreeMap<(i64, Labels), Exemplar>>,
    pub(super) metadata: BTreeMap<String, Metadata>,
    pub(super) flushed_through: u64,
}

/// A change of the store.
#[derive(Debug, Clone)]
pub(super) enum Step {
    Absorb {
        through: u64,
        runs: Vec<(Labels, Lists)>,
        exemplars: Vec<(Labels, Vec<Exemplar>)>,
        metadata: Vec<(String, Metadata)>,
    },
    Delete {
        matchers: Vec<Matcher>,
        range: TimeRange,
    },
    Compact,
}

impl Model {
    pub(super) fn insert(&mut self, labels: &Labels, point: Point) {
        self.series.entry(labels.clone()).or_default().insert(point.timestamp, point);
    }

    pub(super) fn insert_exemplar(&mut self, labels: &Labels, exemplar: Exemplar) {
        let key = (exemplar.timestamp, exemplar.labels.clone());
        self.exemplars.entry(labels.clone()).or_default().insert(key, exemplar);
    }

    /// The first difference between the two, if any.
    pub(super) fn difference(&self, expected: &Self) -> Option<String> {
        let sets = self.series.keys().chain(expected.series.keys());
        for labels in sets {
            let empty = BTreeMap::new();
            let found = self.series.get(labels).unwrap_or(&empty);
            let expected = expected.series.get(labels).unwrap_or(&empty);
            let times = found.keys().chain(expected.keys());
            if let Some(at) = times.into_iter().find(|at| found.get(at) != expected.get(at)) {
                let (found, expected) = (found.get(at), expected.get(at));
                return Some(format!("{labels} at {at}: {found:?}, expected {expected:?}"));
            }
        }
        (self != expected).then(|| format!("{self:?}, expected {expected:?}"))
    }

    pub(super) fn apply(&mut self, step: &Step) {
        match step {
            Step::Absorb { runs, exemplars, metadata, through } => {
                for (labels, lists) in runs {
                    lists.iter().flatten().for_each(|point| self.insert(labels, point.clone()));
                }
                for (labels, exemplars) in exemplars {
                    let exemplars = exemplars.iter().cloned();
                    exemplars.for_each(|exemplar| self.insert_exemplar(labels, exemplar));
                }
                self.metadata.extend(metadata.iter().cloned());
                self.flushed_through = self.flushed_through.max(*through);
            }
            Step::Delete { matchers, range } => {
                for (labels, points) in &mut self.series {
                    if passes(matchers, labels) {
                        points.retain(|timestamp, _| !range.contains(*timestamp));
                    }
                }
                self.series.retain(|_, points| !points.is_empty());
                for (labels, exemplars) in &mut self.exemplars {
                    if passes(matchers, labels) {
                        exemplars.retain(|(timestamp, _), _| !range.contains(*timestamp));
                    }
                }
                self.exemplars.retain(|_, exemplars| !exemplars.is_empty());
            }
            Step::Compact => {}
        }
    }

    /// Points of the series that match, in the range.
    pub(super) fn selected(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
    ) -> BTreeMap<Labels, BTreeMap<i64, Point>> {
        let mut rest = self.clone();
        for points in rest.series.values_mut() {
            points.retain(|timestamp, _| range.contains(*timestamp));
        }
        rest.series.retain(|labels, points| passes(matchers, labels) && !points.is_empty());
        rest.series
    }

    /// Exemplars of the series that match, in the range.
    pub(super) fn selected_exemplars(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
    ) -> Vec<(Labels, Vec<Exemplar>)> {
        let series = self.exemplars.iter().filter(|(labels, _)| passes(matchers, labels));
        let cut = series.map(|(labels, exemplars)| {
            let inside = exemplars.values().filter(|e| range.contains(e.timestamp));
            (labels.clone(), inside.cloned().collect::<Vec<_>>())
        });
        cut.filter(|(_, exemplars)| !exemplars.is_empty()).collect()
    }
}

impl Step {
    pub(super) fn random(random: &mut StdRng, number: u64) -> Self {
        match random.random_range(0..10) {
            0..6 => Self::random_absorb(random, number),
            6..8 => Self::Delete { matchers: random_matchers(random), range: random_range(random) },
            _ => Self::Compact,
        }
    }

    pub(super) fn random_absorb(random: &mut StdRng, number: u64) -> Self {
        let mut runs = BTreeMap::new();
        for _ in 0..random.random_range(0..6) {
            let lists = (0..random.random_range(1..4)).map(|_| random_points(random)).collect();
            runs.insert(random_labels(random), lists);
        }
        let mut exemplars = Vec::new();
        for _ in 0..random.random_range(0..3) {
            let own = (0..3).map(|_| random_exemplar(random)).collect();
            exemplars.push((random_labels(random), own));
        }
        let mut metadata = Vec::new();
        if random.random_bool(0.3) {
            let family = format!("family_{}", random.random_range(0..3));
            let (kind, help) = (MetricType::Counter, format!("help of step {number}"));
            metadata.push((family, Metadata { kind, help, unit: String::new() }));
        }
        Self::Absorb { through: number + 1, runs: runs.into_iter().collect(), exemplars, metadata }
    }
}

impl Step {
    /// A flush of points of many days, with one or a few points of each series on a day.
    pub(super) fn random_many_days(random: &mut StdRng, number: u64) -> Self {
        let mut runs = BTreeMap::new();
        for _ in 0..random.random_range(1..4) {
            let lists = (0..random.random_range(1..4)).map(|_| {
                let (mut timestamp, hours) = (random_time(random), random.random_range(1..40));
                let points = (0..random.random_range(1..60)).map(|_| {
                    timestamp += hours * 3_600_000 + random.random_range(0..2_000);
                    point(timestamp)
                });
                points.collect()
            });
            let lists = lists.collect();
            runs.insert(random_labels(random), lists);
        }
        let exemplars = vec![(random_labels(random), vec![random_exemplar(random)])];
        let runs = runs.into_iter().collect();
        Self::Absorb { through: number + 1, runs, exemplars, metadata: Vec::new() }
    }
}

pub(super) fn passes(matchers: &[Matcher], labels: &Labels) -> bool {
    matchers.iter().all(|matcher| matcher.matches(labels.get(matcher.name())))
}

pub(super) fn labels(pairs: &[(&str, &str)]) -> Labels {
    Labels::from_pairs(pairs.iter().copied()).expect("valid labels")
}

pub(super) fn float(value: f64) -> Value {
    Value::Float(value)
}

pub(super) fn point(timestamp: i64) -> Point {
    Point { timestamp, start_timestamp: 0, value: float(timestamp as f64) }
}

/// A run as a head makes it: each list becomes separate chunks.
pub(super) fn run_of(labels: &Labels, lists: &[Vec<Point>]) -> SeriesRun {
    let chunks: Vec<Chunk> = lists.iter().flat_map(encode_points).collect();
    SeriesRun { labels: labels.clone(), chunks }
}

pub(super) fn random_matchers(random: &mut StdRng) -> Vec<Matcher> {
    let all = [
        (MatchOp::Equal, "job", "a"),
        (MatchOp::NotEqual, "job", "b"),
        (MatchOp::Regex, "__name__", "m[01]"),
        (MatchOp::NotRegex, "instance", "i.|"),
        (MatchOp::Equal, "instance", ""),
        (MatchOp::Regex, "job", "a|c"),
    ];
    let some = all.into_iter().filter(|_| random.random_bool(0.25));
    some.map(|(op, name, value)| Matcher::new(op, name, value).expect("valid")).collect()
}

pub(super) fn random_range(random: &mut StdRng) -> TimeRange {
    let start = random_time(random);
    TimeRange::new(start, start + random.random_range(0..2 * DAY))
}

fn random_time(random: &mut StdRng) -> i64 {
    // Near the ends of days, where parts are cut.
    random.random_range(-1..3) * DAY + random.random_range(-20..400) * 1_000
}

fn random_labels(random: &mut StdRng) -> Labels {
    let name = format!("m{}", random.random_range(0..3));
    let job = ["", "a", "b", "c"][random.random_range(0..4)];
    let instance = ["", "i1", "i2"][random.random_range(0..3)];
    labels(&[("__name__", &name), ("job", job), ("instance", instance)])
}

fn random_points(random: &mut StdRng) -> Vec<Point> {
    let mut timestamp = random_time(random);
    let histograms = random.random_bool(0.2);
    let count = random.random_range(1..200);
    let value = |random: &mut StdRng| match histograms {
        true => Value::Histogram(Arc::new(histogram(random.random_range(0..1_000)))),
        false => float(random.random_range(0..1_000).into()),
    };
    let points = (0..count).map(|_| {
        timestamp += 1_000 * random.random_range(1..4);
        Point { timestamp, start_timestamp: random.random_range(0..2), value: value(random) }
    });
    points.collect()
}

fn histogram(count: u64) -> Histogram {
    Histogram {
        schema: 3,
        zero_threshold: 0.001,
        sum: count as f64,
        reset_hint: ResetHint::Gauge,
        positive_spans: vec![Span { offset: 0, length: 1 }],
        negative_spans: vec![],
        custom_values: vec![],
        counts: Counts::Integer {
            count,
            zero_count: 0,
            positive: vec![count as i64],
            negative: vec![],
        },
    }
}

fn random_exemplar(random: &mut StdRng) -> Exemplar {
    let trace = format!("{}", random.random_range(0..3));
    let labels = labels(&[("trace_id", &trace)]);
    let value = random.random_range(0..100).into();
    Exemplar { labels, value, timestamp: random_time(random) }
}

/// A batch of series with two floats, a histogram and an exemplar each, and one metadata entry.
pub(super) struct OwnedBatch {
    sets: Vec<Vec<u8>>,
    trace: Vec<u8>,
}

pub(super) fn batch(sets: &[&Labels]) -> OwnedBatch {
    let trace = labels(&[("trace_id", "x")]).as_bytes().to_vec();
    OwnedBatch { sets: sets.iter().map(|set| set.as_bytes().to_vec()).collect(), trace }
}

impl OwnedBatch {
    pub(super) fn batch(&self) -> WriteBatch<'_> {
        let mut batch = WriteBatch::default();
        for (index, set) in self.sets.iter().enumerate() {
            let index = index as u32;
            for timestamp in [1_000, 2_000] {
                let value = f64::from(batch.samples.len() as u32 + 8);
                batch.samples.push(Sample { timestamp, start_timestamp: 0, value });
            }
            let exemplar = RawLabels(&self.trace);
            let timestamp = 1_000 + i64::from(index);
            batch.exemplars.push(ExemplarEntry { labels: exemplar, value: 1.0, timestamp });
            batch.series.push(SeriesEntry {
                labels: RawLabels(set),
                index,
                samples: 2 * index..2 * index + 2,
                histograms: 0..0,
                exemplars: index..index + 1,
            });
        }
        let (help, unit, kind) = ("", "", MetricType::Gauge);
        batch.metadata.push(MetadataEntry { family: "up", kind, help, unit });
        batch
    }
}
