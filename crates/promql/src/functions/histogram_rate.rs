//! The growth of a native histogram in a window, from its first sample to its last.

use super::growth::Growth;
use super::start_time::Begun;
use super::window::{HistogramPoint, Notes, Window};
use crate::annotations::{HistogramOperation, Note};
use crate::histogram::{Combined, FloatHistogram, IncompatibleSchemas};
use promkairos_model::ResetHint;

/// The growth, as a gauge without empty buckets. The window has at least two histograms.
pub(super) fn growth(
    growth: Growth,
    window: &Window<'_>,
    notes: &mut Notes<'_>,
) -> Option<FloatHistogram> {
    let points = window.histograms;
    let [first, .., last] = points else { return None };
    let is_gauge = |h: &FloatHistogram| h.reset_hint == ResetHint::Gauge;
    let mut base = std::borrow::Cow::Borrowed(&*first.value);
    if growth.is_counter() && resets(window, 1) {
        // The first sample is of an older counter, so the counter grew from 0.
        let second = &points[1].value;
        base = std::borrow::Cow::Owned(FloatHistogram::empty(
            second.schema,
            second.custom_values.clone(),
        ));
    }
    let inner = &points[1..points.len() - 1];
    let checked = if growth.is_counter() { inner } else { &[] };
    let mixed = |h: &FloatHistogram| h.has_custom_buckets() != base.has_custom_buckets();
    if mixed(&last.value) || checked.iter().any(|point| mixed(&point.value)) {
        return notes.no_result(|metric| Note::MixedExponentialCustom { metric });
    }
    let counter_gauges = growth.is_counter() && points.iter().any(|p| is_gauge(&p.value));
    if counter_gauges {
        notes.add_named(|metric| Note::NotCounterHistogram { metric });
    }

    let mut grown = (*last.value).clone();
    let schemas = checked.iter().map(|point| point.value.schema);
    if let Some(lowest) = schemas.chain([base.schema]).min() {
        grown.reduce_resolution(lowest);
    }
    sub_noted(&mut grown, &base, notes)?;
    if growth.is_counter() {
        add_lost(&mut grown, window, &base, notes)?;
    } else if !is_gauge(&first.value) || !is_gauge(&last.value) {
        notes.add_named(|metric| Note::NotGaugeHistogram { metric });
    }
    grown.reset_hint = ResetHint::Gauge;
    grown.compact();
    Some(grown)
}

/// Adds the values before each reset, with `base` in place of the first sample.
fn add_lost(
    grown: &mut FloatHistogram,
    window: &Window<'_>,
    base: &FloatHistogram,
    notes: &mut Notes<'_>,
) -> Option<()> {
    let points = window.histograms;
    let mut previous = base;
    let mut overlap_noted = false;
    for (i, point) in points.iter().enumerate().skip(1) {
        let begun = begun(window, i);
        if !overlap_noted && begun.is_some_and(|(before, after)| after.overlaps(before)) {
            notes.add_named(|metric| Note::OverlappingStartTime { metric });
            overlap_noted = true;
        }
        let by_start = begun.is_some_and(|(before, after)| after.is_reset_after(before));
        if by_start || point.value.is_reset_after(previous) {
            add_noted(grown, previous, notes)?;
        }
        previous = &point.value;
    }
    Some(())
}

/// Whether the counter was reset before sample `i`.
fn resets(window: &Window<'_>, i: usize) -> bool {
    let points = window.histograms;
    begun(window, i).is_some_and(|(before, after)| after.is_reset_after(before))
        || points[i].value.is_reset_after(&points[i - 1].value)
}

/// When the counters of sample `i - 1` and of sample `i` began, if start timestamps are used.
fn begun(window: &Window<'_>, i: usize) -> Option<(Begun, Begun)> {
    let begun = |i: usize| {
        let (point, start): (&HistogramPoint, _) =
            (&window.histograms[i], window.histogram_starts.get(i)?);
        Some(Begun { time: point.time, start: *start })
    };
    Some((begun(i - 1)?, begun(i)?))
}

/// Adds `other` and the notes about it; `None` if the two cannot be added.
pub(super) fn add_noted(
    sum: &mut FloatHistogram,
    other: &FloatHistogram,
    notes: &mut Notes<'_>,
) -> Option<()> {
    let combined = sum.add(other);
    add_notes(combined, HistogramOperation::Addition, notes)
}

/// Subtracts `other` and adds the notes about it; `None` if the two cannot be subtracted.
pub(super) fn sub_noted(
    difference: &mut FloatHistogram,
    other: &FloatHistogram,
    notes: &mut Notes<'_>,
) -> Option<()> {
    let combined = difference.sub(other);
    add_notes(combined, HistogramOperation::Subtraction, notes)
}

/// Adds a note on differing bounds. Hints do not matter between samples of one series.
fn add_notes(
    combined: Result<Combined, IncompatibleSchemas>,
    operation: HistogramOperation,
    notes: &mut Notes<'_>,
) -> Option<()> {
    match combined {
        Ok(Combined { bounds_reconciled, .. }) => {
            if bounds_reconciled {
                notes.add(Note::ReconciledBounds { operation });
            }
            Some(())
        }
        Err(IncompatibleSchemas) => {
            notes.no_result(|metric| Note::MixedExponentialCustom { metric })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::cases::{histograms, noted, window};
    use super::*;
    use crate::histogram::cases::{custom, positive};

    fn grown(g: Growth, values: &[FloatHistogram]) -> (Option<FloatHistogram>, Vec<String>) {
        let points = histograms(values);
        let w = window(0, 60_000, &[], &points);
        noted(|notes| growth(g, &w, notes))
    }

    #[test]
    fn a_reset_right_after_the_first_sample() {
        let values = [positive(3, 0, &[9.0, 9.0], 9.0), positive(0, 0, &[1.0], 1.0)];
        let (got, notes) = grown(Growth::Increase, &values);
        let got = got.expect("both are exponential");
        assert_eq!((got.schema, got.count, notes.len()), (0, 1.0, 0));
        // A change of the layout is a reset too.
        let values = [custom(&[1.0], &[9.0], 9.0), positive(0, 0, &[10.0], 1.0)];
        assert_eq!(grown(Growth::Increase, &values).0.expect("it is a reset").count, 10.0);
    }

    #[test]
    fn layouts_must_not_mix() {
        let values = [
            positive(0, 0, &[1.0], 1.0),
            custom(&[1.0], &[9.0], 9.0),
            positive(0, 0, &[10.0], 1.0),
        ];
        let (got, notes) = grown(Growth::Rate, &values);
        assert_eq!((got, notes.len()), (None, 1));
    }

    #[test]
    fn hints_must_fit_the_function() {
        let mut gauge = positive(0, 0, &[1.0], 1.0);
        gauge.reset_hint = ResetHint::Gauge;
        let counter = positive(0, 0, &[2.0], 1.0);
        let (got, notes) = grown(Growth::Rate, &[counter.clone(), gauge.clone(), counter.clone()]);
        assert!(got.is_some() && notes[0].contains("not a counter"), "{notes:?}");
        let (got, notes) = grown(Growth::Delta, &[gauge.clone(), counter]);
        assert!(got.is_some() && notes[0].contains("not a gauge"), "{notes:?}");
        let (_, notes) = grown(Growth::Delta, &[gauge.clone(), gauge]);
        assert!(notes.is_empty(), "{notes:?}");
    }

    #[test]
    fn custom_bounds_that_change_are_told() {
        let values = [custom(&[1.0, 2.0], &[1.0, 2.0], 1.0), custom(&[2.0], &[4.0], 1.0)];
        let (got, notes) = grown(Growth::Increase, &values);
        assert_eq!(
            got.expect("bounds are reconciled").positive.iter().collect::<Vec<_>>(),
            [(0, 1.0)]
        );
        assert!(notes[0].contains("reconciled during subtraction"), "{notes:?}");
    }
}
