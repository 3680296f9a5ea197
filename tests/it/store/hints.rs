//! A counter-reset hint of a sender is only true of the neighbouring histogram that the sender saw. Whatever the hints
//! and the order of arrival, over restarts and deletes, `increase` is the result of comparing stored neighbours.

use std::collections::BTreeMap;

use promkairos::model::{
    CUSTOM_BUCKETS_SCHEMA, Counts, Histogram, Matcher, ResetHint, Span, TimeRange,
};
use promkairos::promql::{Engine, Features, QueryOptions, QueryValue, Settings, Value, parse};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::{Harness, T, read, write};
use crate::batch::Batch;
use crate::support;

/// Milliseconds between two histograms: much more than is added to a window.
const STEP: i64 = 60_000;
/// The number of possible times of a series.
const SLOTS: i64 = 14;
const KINDS: [&str; 4] = ["integer", "float", "integer-custom", "float-custom"];

/// The expected content of one series: observations by slot.
type Model = BTreeMap<i64, u64>;

pub(super) async fn hints_of_resets_are_true(mut h: Harness) {
    let (rounds, steps) = if support::long() { (20, 60) } else { (2, 16) };
    let first = support::seed();
    for round in 0..rounds {
        let seed = first.wrapping_add(round);
        println!("round {round} alone: PROMKAIROS_TEST_SEED={seed}");
        let mut random = StdRng::seed_from_u64(seed);
        let metric = format!("hints_{seed:x}");
        let mut models: [Model; KINDS.len()] = Default::default();
        for _ in 0..steps {
            change(&mut random, &mut h, &metric, &mut models).await;
        }
        compare(&mut random, &h, &metric, &models).await;
        h.reopen().await;
        compare(&mut random, &h, &metric, &models).await;
    }
}

/// Writes some histograms in random order, or deletes some, and sometimes restarts the store.
async fn change(random: &mut StdRng, h: &mut Harness, metric: &str, models: &mut [Model]) {
    if random.random_bool(0.15) {
        h.reopen().await;
    }
    if random.random_bool(0.1) {
        let first = random.random_range(0..SLOTS);
        let last = first + random.random_range(0..2);
        let range = TimeRange::new(T + first * STEP, T + last * STEP);
        let deleted = h.store.delete(&[Matcher::equal("__name__", metric)], range).await;
        deleted.expect("deleted");
        models.iter_mut().for_each(|model| model.retain(|slot, _| !(first..=last).contains(slot)));
        return;
    }
    let mut batch = Batch::new();
    for (kind, model) in KINDS.iter().zip(models) {
        batch = batch.series(&[("__name__", metric), ("kind", kind)]);
        let mut written = BTreeMap::new();
        for _ in 0..random.random_range(1..5) {
            let slot = random.random_range(0..SLOTS);
            // Often the value of a growing counter.
            let count = if random.random_bool(0.7) { slot as u64 * 12 } else { 0 };
            written.insert(slot, count + random.random_range(0..12) * 4);
        }
        // Not in order of time, since a sender may have several threads.
        let mut order: Vec<(i64, u64)> = written.into_iter().collect();
        let by = random.random_range(0..4) % order.len();
        order.rotate_left(by);
        for (slot, count) in order {
            let hint = match random.random_range(0..8) {
                0..5 => ResetHint::NotReset,
                5 => ResetHint::Reset,
                6 => ResetHint::Gauge,
                _ => ResetHint::Unknown,
            };
            batch = batch.histogram(T + slot * STEP, histogram(kind, count, hint));
            model.insert(slot, count);
        }
    }
    write(&*h.store, &batch).await;
}

/// A histogram with this count, in two buckets.
fn histogram(kind: &str, count: u64, reset_hint: ResetHint) -> Histogram {
    let (low, high) = (count / 4, count - count / 4);
    let is_custom = kind.ends_with("custom");
    let counts = match kind.starts_with("float") {
        true => Counts::Float {
            count: count as f64,
            zero_count: 0.0,
            positive: vec![low as f64, high as f64],
            negative: vec![],
        },
        false => Counts::Integer {
            count,
            zero_count: 0,
            positive: vec![low as i64, high as i64 - low as i64],
            negative: vec![],
        },
    };
    Histogram {
        schema: if is_custom { CUSTOM_BUCKETS_SCHEMA } else { 0 },
        zero_threshold: if is_custom { 0.0 } else { 0.001 },
        sum: count as f64,
        reset_hint,
        positive_spans: vec![Span { offset: 0, length: 2 }],
        negative_spans: vec![],
        custom_values: if is_custom { vec![1.0, 5.0] } else { vec![] },
        counts,
    }
}

/// Compares the stored histograms, and their increase over random slots.
async fn compare(random: &mut StdRng, h: &Harness, metric: &str, models: &[Model]) {
    // Reading checks the hints too.
    let found = read(&*h.store, &[Matcher::equal("__name__", metric)], TimeRange::ALL).await;
    let engine = Engine::new(Settings::default());
    for (kind, model) in KINDS.iter().zip(models) {
        let points = found.iter().find(|(labels, _)| labels.get("kind") == *kind);
        let times =
            points.into_iter().flat_map(|(_, points)| points).map(|p| (p.timestamp - T) / STEP);
        assert!(times.eq(model.keys().copied()), "{kind}");
        for _ in 0..8 {
            let (a, b) = (random.random_range(0..SLOTS), random.random_range(0..SLOTS));
            let (a, b) = (a.min(b), a.max(b));
            let inside: Vec<(i64, u64)> = model.range(a..=b).map(|(s, c)| (*s, *c)).collect();
            let (Some((a, _)), Some((b, _))) = (inside.first(), inside.last()) else { continue };
            let window = (b - a) * STEP + 1;
            let query = format!("increase({metric}{{kind=\"{kind}\"}}[{window}ms])");
            let expr = parse(&query, Features::Stable).expect("an expression");
            let (store, options) = (h.store.clone(), QueryOptions::default());
            let result = engine.instant(store, &expr, T + b * STEP, &options).await;
            let got = match result.expect("an answer").value {
                QueryValue::Vector(samples) => match samples.first().map(|sample| &sample.value) {
                    Some(Value::Histogram(histogram)) => Some(histogram.count),
                    other => other.map(|_| f64::NAN),
                },
                _ => None,
            };
            let want = inside.windows(2).map(|pair| match (pair[0].1, pair[1].1) {
                (before, next) if before <= next => next - before,
                (_, next) => next,
            });
            let want = (inside.len() > 1).then(|| want.sum::<u64>() as f64);
            let close = |got: f64, want: f64| (got - want).abs() <= want * 1e-3;
            let same = match (got, want) {
                (Some(got), Some(want)) => close(got, want),
                (got, want) => got == want,
            };
            assert!(same, "{query} at {b}: {got:?}, not {want:?}, of {inside:?}");
        }
    }
}
