//! What Prometheus' storage makes of the hints of histograms, as its own tests expect to read them.
//!
//! A chunk of its storage holds no reset, so all but its first histogram are "not reset"; of the
//! first nothing is known. A chunk ends at a float or a stale marker, where the layout changes, and
//! at a reset. Gauges stay gauges.

use std::sync::Arc;

use promkairos::model::{Histogram, Point, ResetHint, Value};
use promkairos::promql::histogram::FloatHistogram;

/// Sets the hints of a loaded series to what would be read.
pub(super) fn as_read(points: &mut [Point]) {
    let mut previous: Option<Histogram> = None;
    for point in points {
        let Value::Histogram(histogram) = &mut point.value else {
            previous = None;
            continue;
        };
        let loaded = (**histogram).clone();
        if loaded.reset_hint != ResetHint::Gauge {
            let goes_on = previous.as_ref().is_some_and(|previous| goes_on(previous, &loaded));
            let hint = if goes_on { ResetHint::NotReset } else { ResetHint::Unknown };
            Arc::make_mut(histogram).reset_hint = hint;
        }
        previous = Some(loaded).filter(|loaded| !loaded.is_stale());
    }
}

/// Whether `next` fits into the chunk of `previous`.
fn goes_on(previous: &Histogram, next: &Histogram) -> bool {
    let mut counted = FloatHistogram::from(next);
    counted.reset_hint = ResetHint::Unknown;
    previous.reset_hint != ResetHint::Gauge
        && next.reset_hint != ResetHint::Reset
        && previous.schema == next.schema
        && previous.zero_threshold == next.zero_threshold
        && previous.custom_values == next.custom_values
        && !counted.is_reset_after(&FloatHistogram::from(previous))
}

#[test]
fn only_what_goes_on_is_known() {
    use super::histogram::{histogram, stored};
    use super::scanner::Scanner;

    let read = |text: &str| {
        let notation = histogram(&mut Scanner::new(text)).expect(text);
        Value::Histogram(Arc::new(stored(&notation.histogram)))
    };
    let values = [
        read("{{count:1 buckets:[1]}}"),
        read("{{count:2 buckets:[2]}}"),
        read("{{count:1 buckets:[1]}}"),
        read("{{count:1 buckets:[1] counter_reset_hint:reset}}"),
        read("{{schema:1 count:1 buckets:[1]}}"),
        Value::Float(1.0),
        read("{{schema:1 count:1 buckets:[1]}}"),
        read("{{schema:1 count:1 buckets:[1] counter_reset_hint:gauge}}"),
        read("{{schema:1 count:1 buckets:[1] counter_reset_hint:not_reset}}"),
        read("{{schema:1 count:1 buckets:[1]}}"),
    ];
    let mut points: Vec<Point> = values
        .into_iter()
        .zip(0..)
        .map(|(value, timestamp)| Point { timestamp, start_timestamp: 0, value })
        .collect();
    as_read(&mut points);
    let hints = points.iter().filter_map(|point| match &point.value {
        Value::Histogram(histogram) => Some(histogram.reset_hint),
        Value::Float(_) => None,
    });
    use ResetHint::{Gauge, NotReset, Unknown};
    let want = [Unknown, NotReset, Unknown, Unknown, Unknown, Unknown, Gauge, Unknown, NotReset];
    assert_eq!(hints.collect::<Vec<_>>(), want);
}
