//! `load 5m` and the series below it.
//!
//! Values lie at 0, one step, two steps …; a line `metric@st offsets` before a series gives, for
//! each of its values, how long before it the counter began. Of equal series the last one counts.

use std::sync::Arc;

use promkairos::model::{Labels, Point, Value};

use super::histogram::stored;
use super::scanner::Scanner;
use super::{Block, Item, Load, Located, duration, nhcb, series};

pub(super) fn parse(block: Block<'_>) -> Located<Load> {
    let header = |error: String| (block.first, error);
    let (command, step) = block.lines[0]
        .split_once(char::is_whitespace)
        .ok_or_else(|| header("load without a step".to_owned()))?;
    let with_nhcb = match command {
        "load" => false,
        "load_with_nhcb" => true,
        _ => return Err(header(format!("invalid command {command:?}"))),
    };
    let step = duration(step.trim()).map_err(header)?;
    let mut loaded: Vec<(Labels, Vec<Point>)> = Vec::new();
    let mut starts: Option<(Labels, Vec<Option<i64>>)> = None;
    for (number, line) in block.body() {
        let located = |error: String| (number, error);
        if let Some((metric, offsets)) = start_line(line) {
            starts = Some(start_offsets(metric, offsets).map_err(located)?);
            continue;
        }
        let (labels, items) = series::parse(line).map_err(located)?;
        let offsets = match starts.take() {
            Some((of, offsets)) if of == labels && offsets.len() == items.len() => offsets,
            Some(_) => return Err(located("the @st line does not fit the series".to_owned())),
            None => Vec::new(),
        };
        loaded.retain(|(known, _)| *known != labels);
        loaded.push((labels, points(&items, &offsets, step)));
    }
    if starts.is_some() {
        return Err((block.first, "an @st line without its series".to_owned()));
    }
    if with_nhcb {
        loaded.extend(nhcb::from_classic(&loaded).map_err(header)?);
    }
    Ok(Load { series: loaded })
}

fn points(items: &[Item], offsets: &[Option<i64>], step: i64) -> Vec<Point> {
    let mut points = Vec::new();
    for (i, item) in items.iter().enumerate() {
        let timestamp = i as i64 * step;
        let offset = offsets.get(i).copied().flatten();
        let start_timestamp = offset.map_or(0, |offset| timestamp + offset);
        let value = match item {
            Item::Gap => continue,
            Item::Float(value) => Value::Float(*value),
            Item::Histogram(histogram, _) => Value::Histogram(Arc::new(stored(histogram))),
        };
        points.push(Point { timestamp, start_timestamp, value });
    }
    points
}

/// The metric and the offsets of a line with start offsets.
fn start_line(line: &str) -> Option<(&str, &str)> {
    let (metric, offsets) = line.split_once([' ', '\t'])?;
    Some((metric.strip_suffix("@st")?, offsets))
}

fn start_offsets(metric: &str, offsets: &str) -> Result<(Labels, Vec<Option<i64>>), String> {
    let labels = series::metric(&mut Scanner::new(metric))?;
    let mut all = Vec::new();
    for word in offsets.split_whitespace() {
        let mut scanner = Scanner::new(word);
        if scanner.take("_") {
            all.extend((0..scanner.times()?.unwrap_or(1)).map(|_| None));
        } else {
            let mut offset = milliseconds(&mut scanner)?;
            let signed = scanner.rest().starts_with(['+', '-']);
            let step = if signed { milliseconds(&mut scanner)? } else { 0 };
            for _ in 0..=scanner.times()?.unwrap_or(0) {
                all.push(Some(offset));
                offset += step;
            }
        }
        if !scanner.is_at_end() {
            return Err(format!("invalid start offset {word:?}"));
        }
    }
    Ok((labels, all))
}

/// A duration with a sign. Without a unit, only 0 is valid.
fn milliseconds(scanner: &mut Scanner<'_>) -> Result<i64, String> {
    let before = scanner.rest();
    match scanner.number()? {
        Some(seconds) => Ok((seconds * 1000.0).round() as i64),
        None => Err(format!("a duration expected at {before:?}")),
    }
}

#[test]
fn start_offsets_are_relative_to_the_value() {
    let lines = ["load 1m", "a@st _ -30s -10sx1 0s-5sx1", "a 1 2 3 4 5 _"];
    let load = parse(Block { first: 1, lines: &lines }).expect("valid");
    let starts: Vec<i64> = load.series[0].1.iter().map(|point| point.start_timestamp).collect();
    assert_eq!(starts, [0, 30_000, 110_000, 170_000, 240_000]);
    let wrong = ["load 1m", "a@st _ -30s", "a 1"];
    assert!(parse(Block { first: 1, lines: &wrong }).is_err_and(|(line, _)| line == 3));
}

#[test]
fn the_last_of_equal_series_counts() {
    let lines = ["load 1m", "a 1 2", "b 1", "a 3"];
    let load = parse(Block { first: 1, lines: &lines }).expect("valid");
    let names: Vec<_> = load.series.iter().map(|(l, p)| (l.get("__name__"), p.len())).collect();
    assert_eq!(names, [("b", 1), ("a", 1)]);
}
