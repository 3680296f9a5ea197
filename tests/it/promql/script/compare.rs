//! Compares an answer with the expectation of a script.
//!
//! Floats may differ by a millionth of their sum; NaN equals NaN, but the stale marker only itself.
//! The layouts of histograms must be equal, their counts and sums as close as floats, without
//! regard to empty buckets. Hints are compared only where the script gives one.

use std::collections::HashSet;
use std::sync::Arc;

use promkairos::model::{Labels, STALE_NAN_BITS};
use promkairos::promql::histogram::{Buckets, FloatHistogram};

use super::{Eval, Expected, ExpectedNotes, Item, NoteRule, When};

/// A value of an answer.
#[derive(Debug, Clone)]
pub(crate) enum Sample {
    Float(f64),
    Histogram(Arc<FloatHistogram>),
}

/// An answer.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
    Scalar(f64),
    String(String),
    /// In the order of the answer.
    Vector(Vec<(Labels, Sample)>),
    /// Series with times and values, in the order of the answer.
    Matrix(Vec<(Labels, Vec<(i64, Sample)>)>),
}

/// Returns an error if there is no error, or another one than expected.
pub(crate) fn check_failure(expected: &Expected, error: &str) -> Result<(), String> {
    match &expected.failure {
        None => Err(format!("failed: {error}")),
        Some(text) if text.fits(error) => Ok(()),
        Some(text) => Err(format!("failed with {error:?} instead of {text:?}")),
    }
}

/// Returns an error if an answer is not as expected.
pub(crate) fn check_answer(eval: &Eval, answer: &Answer) -> Result<(), String> {
    let expected = &eval.expected;
    if let Some(text) = &expected.failure {
        return Err(format!("did not fail with {text:?}: {answer:?}"));
    }
    match answer {
        Answer::Scalar(value) => match expected.scalar {
            Some(want) if almost_equal(want, *value) => Ok(()),
            want => Err(format!("scalar {value} instead of {want:?}")),
        },
        Answer::String(text) => match &expected.string {
            Some(want) if want == text => Ok(()),
            want => Err(format!("string {text:?} instead of {want:?}")),
        },
        Answer::Vector(series) => {
            let at =
                |(labels, sample): &(Labels, Sample)| (labels.clone(), vec![(0, sample.clone())]);
            let series: Vec<_> = series.iter().map(at).collect();
            check_series(expected, &series, (0, 0, 1))?;
            if expected.ordered { check_order(expected, &series) } else { Ok(()) }
        }
        Answer::Matrix(series) => {
            let times = match (expected.range, eval.when) {
                (Some(times), _) => times,
                (None, When::Range(start, end, step)) => (start, end, step),
                (None, When::Instant(_)) => return Err("a range vector, not expected".to_owned()),
            };
            let unsorted = series.windows(2).find(|pair| pair[0].0 > pair[1].0);
            if let Some(pair) = unsorted {
                return Err(format!("{} stands before {}", pair[0].0, pair[1].0));
            }
            if expected.ordered {
                return Err("a range vector has no order of its own".to_owned());
            }
            check_series(expected, series, times)
        }
    }
}

/// Checks that each expected series occurs once, with its values, and that there are no others.
fn check_series(
    expected: &Expected,
    series: &[(Labels, Vec<(i64, Sample)>)],
    (start, end, step): (i64, i64, i64),
) -> Result<(), String> {
    if let Some(scalar) = expected.scalar {
        return Err(format!("{series:?} instead of the scalar {scalar}"));
    }
    let mut seen = HashSet::new();
    for (labels, values) in series {
        let known = expected.series.iter().find(|(known, _)| known == labels);
        let Some((_, items)) = known else { return Err(format!("{labels}: not expected")) };
        if !seen.insert(labels) {
            return Err(format!("{labels}: twice"));
        }
        if items.len() as i64 - 1 > (end - start) / step {
            return Err(format!("{labels}: more values expected than there are steps"));
        }
        check_values(items, values, start, step).map_err(|error| format!("{labels}: {error}"))?;
    }
    match expected.series.iter().find(|(labels, _)| !seen.contains(labels)) {
        Some((labels, items)) => Err(format!("{labels}: missing, with {items:?}")),
        None => Ok(()),
    }
}

fn check_values(
    items: &[Item],
    values: &[(i64, Sample)],
    start: i64,
    step: i64,
) -> Result<(), String> {
    let times = (0i64..).map(|i| start + i * step);
    let wanted: Vec<(i64, &Item)> =
        times.zip(items).filter(|(_, item)| !matches!(item, Item::Gap)).collect();
    if wanted.len() != values.len() {
        return Err(format!("{} values instead of {}: {values:?}", values.len(), wanted.len()));
    }
    for ((want_time, item), (time, sample)) in wanted.iter().zip(values) {
        if want_time != time {
            return Err(format!("a value at {time} instead of {want_time}"));
        }
        let fits = match (item, sample) {
            (Item::Float(want), Sample::Float(value)) => almost_equal(*want, *value),
            (Item::Histogram(want, hinted), Sample::Histogram(histogram)) => {
                almost_same(want, histogram) && (!hinted || want.reset_hint == histogram.reset_hint)
            }
            _ => false,
        };
        if !fits {
            return Err(format!("at {time} {sample:?} instead of {item:?}"));
        }
    }
    Ok(())
}

fn check_order(expected: &Expected, series: &[(Labels, Vec<(i64, Sample)>)]) -> Result<(), String> {
    let wrong = expected.series.iter().zip(series).find(|(want, got)| want.0 != got.0);
    match wrong {
        Some((want, got)) => Err(format!("{} in the place of {}", got.0, want.0)),
        None => Ok(()),
    }
}

/// Checks the warnings and infos, which are given with their places.
pub(crate) fn check_notes(
    expected: &ExpectedNotes,
    warnings: &[String],
    infos: &[String],
) -> Result<(), String> {
    check_rule(&expected.warnings, warnings).map_err(|error| format!("warnings: {error}"))?;
    check_rule(&expected.infos, infos).map_err(|error| format!("infos: {error}"))
}

fn check_rule(rule: &NoteRule, texts: &[String]) -> Result<(), String> {
    if rule.none && !texts.is_empty() {
        return Err(format!("not expected: {texts:?}"));
    }
    if rule.some && texts.is_empty() {
        return Err("there are none".to_owned());
    }
    if rule.texts.is_empty() {
        return Ok(());
    }
    let fits = |text: &String| rule.texts.iter().any(|want| want.fits(text));
    if let Some(text) = texts.iter().find(|text| !fits(text)) {
        return Err(format!("not expected: {text:?}"));
    }
    match rule.texts.iter().find(|want| !texts.iter().any(|text| want.fits(text))) {
        Some(want) => Err(format!("no {want:?} among {texts:?}")),
        None => Ok(()),
    }
}

/// Whether two floats are nearly equal.
pub(crate) fn almost_equal(a: f64, b: f64) -> bool {
    const EPSILON: f64 = 1e-6;
    let stale = |value: f64| value.to_bits() == STALE_NAN_BITS;
    if stale(a) || stale(b) {
        return stale(a) && stale(b);
    }
    if a == b || (a.is_nan() && b.is_nan()) {
        return true;
    }
    let (sum, difference) = (a.abs() + b.abs(), (a - b).abs());
    if a == 0.0 || b == 0.0 || sum < f64::MIN_POSITIVE {
        return difference < EPSILON * f64::MIN_POSITIVE;
    }
    difference / sum.min(f64::MAX) < EPSILON
}

/// Whether two histograms are nearly equal, without their hints.
pub(crate) fn almost_same(a: &FloatHistogram, b: &FloatHistogram) -> bool {
    a.schema == b.schema
        && a.custom_bounds() == b.custom_bounds()
        && a.zero_threshold == b.zero_threshold
        && almost_equal(a.count, b.count)
        && almost_equal(a.sum, b.sum)
        && almost_equal(a.zero_count, b.zero_count)
        && same_buckets(&a.positive, &b.positive)
        && same_buckets(&a.negative, &b.negative)
}

fn same_buckets(a: &Buckets, b: &Buckets) -> bool {
    fn held(buckets: &Buckets) -> Vec<(i32, f64)> {
        buckets.iter().filter(|(_, count)| *count != 0.0).collect()
    }
    let (a, b) = (held(a), held(b));
    let equal = |(a, b): (&(i32, f64), &(i32, f64))| a.0 == b.0 && almost_equal(a.1, b.1);
    a.len() == b.len() && a.iter().zip(&b).all(equal)
}

#[cfg(test)]
mod tests {
    use super::super::{Command, parse};
    use super::*;

    fn eval(script: &str) -> Eval {
        match parse(script).expect("valid").pop() {
            Some(Command::Eval(eval)) => *eval,
            other => panic!("{other:?}"),
        }
    }

    fn series(text: &str) -> (Labels, Vec<(i64, Sample)>) {
        let (labels, items) = super::super::series::parse(text).expect(text);
        let sample = |item: &Item| match item {
            Item::Float(value) => Some(Sample::Float(*value)),
            Item::Histogram(h, _) => Some(Sample::Histogram(Arc::new((**h).clone()))),
            Item::Gap => None,
        };
        let times = (0i64..).map(|i| i * 60_000);
        (labels, times.zip(&items).filter_map(|(t, item)| Some((t, sample(item)?))).collect())
    }

    fn vector(texts: &[&str]) -> Answer {
        let one = |text: &&str| series(text);
        let first =
            |(labels, mut values): (Labels, Vec<(i64, Sample)>)| (labels, values.remove(0).1);
        Answer::Vector(texts.iter().map(one).map(first).collect())
    }

    #[test]
    fn floats_nearly_equal() {
        assert!(almost_equal(1.0, 1.000001) && !almost_equal(1.0, 1.00001));
        assert!(!almost_equal(0.0, 1e-300) && almost_equal(f64::NAN, -f64::NAN));
        assert!(!almost_equal(f64::NAN, f64::from_bits(STALE_NAN_BITS)));
        assert!(almost_equal(f64::INFINITY, f64::INFINITY));
    }

    #[test]
    fn vectors() {
        let eval = eval("eval instant at 0 x\n  a 1\n  b {{count:2 buckets:[1 0 1]}}\n");
        let check = |texts: &[&str]| check_answer(&eval, &vector(texts));
        let b = "b {{count:2 buckets:[1 0 1] counter_reset_hint:gauge}}";
        assert_eq!(check(&[b, "a 1"]), Ok(()));
        assert!(check(&["a 1"]).is_err_and(|error| error.contains("missing")));
        assert!(check(&["a 2", b]).is_err() && check(&["a 1", "a 1", b]).is_err());
        assert!(check(&["a 1", b, "c 1"]).is_err_and(|error| error.contains("not expected")));
        assert!(check(&["a 1", "b {{count:2 buckets:[1 1]}}"]).is_err());
        assert!(check(&["a 1", "b 2"]).is_err());
    }

    #[test]
    fn order_and_hints_only_where_asked() {
        let ordered = eval("eval instant at 0 x\n  expect ordered\n  b 1\n  a 1\n");
        assert_eq!(check_answer(&ordered, &vector(&["b 1", "a 1"])), Ok(()));
        assert!(check_answer(&ordered, &vector(&["a 1", "b 1"])).is_err());
        let hinted = eval("eval instant at 0 x\n  a {{count:1 counter_reset_hint:gauge}}\n");
        assert!(check_answer(&hinted, &vector(&["a {{count:1}}"])).is_err());
    }

    #[test]
    fn matrices() {
        let eval = eval("eval range from 0 to 2m step 1m x\n  a 1 _ 3\n  b 1 2 3\n");
        let matrix = |texts: &[&str]| Answer::Matrix(texts.iter().map(|t| series(t)).collect());
        assert_eq!(check_answer(&eval, &matrix(&["a 1 _ 3", "b 1 2 3"])), Ok(()));
        assert!(check_answer(&eval, &matrix(&["b 1 2 3", "a 1 _ 3"])).is_err());
        assert!(check_answer(&eval, &matrix(&["a 1 3", "b 1 2 3"])).is_err());
        assert!(check_answer(&eval, &matrix(&["a 1 2 3", "b 1 2 3"])).is_err());
    }

    #[test]
    fn notes_and_failures() {
        let texts = |texts: &[&str]| texts.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>();
        let two = eval("eval instant at 0 x\n  expect warn msg: a\n  expect warn regex: b+\n");
        let check = |warnings: &[&str]| check_notes(&two.notes, &texts(warnings), &[]);
        assert_eq!(check(&["a", "bb"]), Ok(()));
        assert!(check(&["a"]).is_err() && check(&["a", "bb", "c"]).is_err() && check(&[]).is_err());
        let none = eval("eval instant at 0 x\n  expect no_info\n");
        assert_eq!(check_notes(&none.notes, &texts(&["a"]), &[]), Ok(()));
        assert!(check_notes(&none.notes, &[], &texts(&["a"])).is_err());
        let fail = eval("eval instant at 0 x\n  expect fail msg: no\n");
        assert_eq!(check_failure(&fail.expected, "no"), Ok(()));
        assert!(check_failure(&fail.expected, "yes").is_err());
        assert!(check_failure(&none.expected, "yes").is_err());
        assert!(check_answer(&fail, &vector(&[])).is_err());
    }
}
