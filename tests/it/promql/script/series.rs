//! `metric{labels} values`: the series of loads and of expectations.
//!
//! Values: `_` no value, `_x3` three times no value, `stale`, `1`, `1x3` (four times), `1+2x3`
//! (four values), and the same with histograms.

use promkairos::model::{Labels, METRIC_NAME, STALE_NAN_BITS};
use promkairos::promql::histogram::FloatHistogram;

use super::Item;
use super::histogram::{Notation, histogram};
use super::scanner::Scanner;

/// A series and its values.
pub(super) fn parse(line: &str) -> Result<(Labels, Vec<Item>), String> {
    let mut scanner = Scanner::new(line);
    let labels = metric(&mut scanner)?;
    let mut items = Vec::new();
    loop {
        scanner.blanks();
        if scanner.is_at_end() {
            return Ok((labels, items));
        }
        item(&mut scanner, &mut items)?;
        if !scanner.is_at_end() && !scanner.rest().starts_with([' ', '\t']) {
            return Err(format!("a blank expected at {:?}", scanner.rest()));
        }
    }
}

/// `name{label="value", "quoted name", "quoted label"="value"}`
pub(super) fn metric(scanner: &mut Scanner<'_>) -> Result<Labels, String> {
    let name = scanner.name();
    let mut pairs: Vec<(String, String)> = Vec::new();
    if !name.is_empty() {
        pairs.push((METRIC_NAME.to_owned(), name.to_owned()));
    }
    if scanner.take("{") {
        in_braces(scanner, &mut pairs)?;
    } else if name.is_empty() {
        return Err(format!("a series expected at {:?}", scanner.rest()));
    }
    Labels::from_pairs(pairs).map_err(|error| error.to_string())
}

/// Labels up to the closing brace.
fn in_braces(scanner: &mut Scanner<'_>, pairs: &mut Vec<(String, String)>) -> Result<(), String> {
    loop {
        scanner.blanks();
        if scanner.take("}") {
            return Ok(());
        }
        let quoted = scanner.quoted()?;
        let label = quoted.clone().unwrap_or_else(|| scanner.name().to_owned());
        scanner.blanks();
        if quoted.is_some() && !scanner.rest().starts_with('=') {
            pairs.push((METRIC_NAME.to_owned(), label));
        } else {
            scanner.expect("=")?;
            scanner.blanks();
            let value = scanner.quoted()?.ok_or_else(|| format!("no value of {label:?}"))?;
            pairs.push((label, value));
        }
        scanner.blanks();
        if !scanner.take(",") {
            return scanner.expect("}");
        }
    }
}

fn item(scanner: &mut Scanner<'_>, items: &mut Vec<Item>) -> Result<(), String> {
    if scanner.take("_") {
        let times = scanner.times()?.unwrap_or(1);
        items.extend((0..times).map(|_| Item::Gap));
        return Ok(());
    }
    if scanner.rest().starts_with("{{") {
        return histograms(scanner, items);
    }
    let mut value = if scanner.take("stale") {
        f64::from_bits(STALE_NAN_BITS)
    } else {
        scanner.number()?.ok_or_else(|| format!("a value expected at {:?}", scanner.rest()))?
    };
    let step = if scanner.rest().starts_with(['+', '-']) { scanner.number()? } else { None };
    match (step, scanner.times()?) {
        (None, times) => {
            items.extend((0..=times.unwrap_or(0)).map(|_| Item::Float(value)));
        }
        (Some(step), Some(times)) => {
            for _ in 0..=times {
                items.push(Item::Float(value));
                value += step;
            }
        }
        (Some(_), None) => return Err("a step without x and a count".to_owned()),
    }
    Ok(())
}

fn histograms(scanner: &mut Scanner<'_>, items: &mut Vec<Item>) -> Result<(), String> {
    let Notation { histogram: mut value, mut hint_given } = histogram(scanner)?;
    let mut step: Option<FloatHistogram> = None;
    let falls = scanner.rest().starts_with('-');
    if scanner.take("+") || scanner.take("-") {
        let notation = histogram(scanner)?;
        hint_given = notation.hint_given;
        step = Some(notation.histogram);
    }
    let times = scanner.times()?;
    if step.is_some() && times.is_none() {
        return Err("a step without x and a count".to_owned());
    }
    items.push(Item::Histogram(Box::new(value.clone()), hint_given));
    for _ in 0..times.unwrap_or(0) {
        if let Some(step) = &step {
            let combined = if falls { value.sub(step) } else { value.add(step) };
            combined.map_err(|_| "exponential and custom buckets do not mix".to_owned())?;
        }
        items.push(Item::Histogram(Box::new(value.clone()), hint_given));
    }
    Ok(())
}

#[test]
fn values_are_expanded() {
    let check = |values: &str, want: &[f64]| {
        let (_, items) = parse(&format!("a {values}")).expect(values);
        let got: Vec<f64> = items
            .iter()
            .map(|item| match item {
                Item::Gap => -1.0,
                Item::Float(value) => *value,
                Item::Histogram(histogram, _) => histogram.count,
            })
            .collect();
        assert_eq!(got, want, "{values}");
    };
    check("1 _ 2x2 _x2 3-1x2", &[1.0, -1.0, 2.0, 2.0, 2.0, -1.0, -1.0, 3.0, 2.0, 1.0]);
    check("0+1e1x2 -5", &[0.0, 10.0, 20.0, -5.0]);
    check("{{count:1}}x1 {{count:5}}+{{count:2}}x2", &[1.0, 1.0, 5.0, 7.0, 9.0]);
    check("{{count:5}}-{{count:2}}x1", &[5.0, 3.0]);
    check("", &[]);
}

#[test]
fn stale_is_the_marker() {
    let (_, items) = parse("a 1 stale").expect("valid");
    assert!(matches!(items[1], Item::Float(value) if value.to_bits() == STALE_NAN_BITS));
}

#[test]
fn names_and_labels() {
    let check = |text: &str, want: &str| {
        let (labels, _) = parse(text).expect(text);
        assert_eq!(labels.to_string(), want, "{text}");
    };
    check("a:b 1", "{__name__=\"a:b\"}");
    check("{} 1", "{}");
    check("a{b=\"c\", d='e',} 1", "{__name__=\"a\", b=\"c\", d=\"e\"}");
    check("{\"a b\", \"c.d\"=\"}\"} 1", "{__name__=\"a b\", \"c.d\"=\"}\"}");
}

#[test]
fn what_is_wrong_is_refused() {
    for text in ["a 1+2", "a 1y2z", "a{b} 1", "1", "a 1 x", "a {{count:1}}+{{count:1}}"] {
        assert!(parse(text).is_err(), "{text}");
    }
}
