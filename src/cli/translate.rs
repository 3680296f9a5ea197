//! `promkairos translate FILE`: the PromQL of a query of KairosDB, where there is one with the same values.
//!
//! Each metric of the query has its own expression, and the times at which to ask for it. What PromQL cannot say, or
//! says otherwise, is a reason in place of an expression. No server is asked.

use std::fmt::Write;
use std::io::Read;
use std::process::ExitCode;

use clap::{Arg, ArgMatches, Command};
use regex_syntax::escape;

use super::error::CliError;
use super::output;
use crate::api::MAX_POINTS;
use crate::kairos_query::{
    Aggregator, Filter, FilterOperation, Fold, GroupBy, Limits, MetricQuery, Order, Range,
    Sampling, TagFilter, TagMatcher, TagPattern, ThresholdValue, TimeUnit, Zone, parse,
};
use crate::model::{ShownLabel, ShownText};
use crate::promql::format_duration;
use crate::storage::Clock;

/// The times of PromQL are at most so far from 1970, in milliseconds: its durations are nanoseconds of 64 bits.
const MAX_TIME: i64 = i64::MAX / 1_000_000 / 4;

/// The command's definition.
pub(super) fn command() -> Command {
    Command::new("translate")
        .about("Print the PromQL of a KairosDB query, where it has the same values")
        .arg(
            Arg::new("file")
                .value_name("FILE")
                .required(true)
                .help("The JSON of a query, as for /api/v1/datapoints/query; - is standard input"),
        )
}

/// Runs `translate`. The exit code is 1 if a metric has no PromQL.
pub(super) fn run(matches: &ArgMatches) -> Result<ExitCode, CliError> {
    let file = matches.get_one::<String>("file").map_or("-", String::as_str);
    let text = read(file)?;
    let now = Clock::default().now_ms();
    let query = parse(&text, now, &Limits::default())
        .map_err(|error| CliError::Refused(format!("{file}: {}", error.messages().join("; "))))?;
    let mut all = true;
    let report = output::text(|report| {
        for metric in &query.metrics {
            let translated = translate(metric, now);
            all &= translated.is_ok();
            describe(report, &metric.name, &translated)?;
        }
        Ok(())
    });
    output::print(&report)?;
    Ok(ExitCode::from(u8::from(!all)))
}

fn read(file: &str) -> Result<String, CliError> {
    let read = match file {
        "-" => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).map(|_| text)
        }
        file => std::fs::read_to_string(file),
    };
    read.map_err(|error| CliError::Refused(format!("{file}: {error}")))
}

/// An expression with the values of a metric of a query.
struct Translation {
    expression: String,
    /// The first and the last time at which to evaluate it, in milliseconds. An instant query has one time.
    times: (i64, i64),
    /// Milliseconds from a time to the next. `None` = an instant query.
    step: Option<i64>,
    /// What differs from the answer of KairosDB.
    notes: Vec<String>,
}

fn describe(
    report: &mut String,
    metric: &str,
    translated: &Result<Translation, String>,
) -> std::fmt::Result {
    writeln!(report, "# {}", ShownText(metric))?;
    match translated {
        Err(why) => writeln!(report, "# no PromQL: {why}"),
        Ok(Translation { expression, times: (first, last), step, notes }) => {
            let seconds = |millis: i64| millis as f64 / 1_000.0;
            match step {
                None => writeln!(report, "# instant query: time={}", seconds(*last))?,
                Some(step) => writeln!(
                    report,
                    "# range query: start={} end={} step={}",
                    seconds(*first),
                    seconds(*last),
                    format_duration(*step)
                )?,
            }
            for note in notes {
                writeln!(report, "# {note}")?;
            }
            writeln!(report, "{expression}")
        }
    }
}

/// The PromQL of a metric of a query, or why there is none with the same values.
fn translate(metric: &MetricQuery, now: i64) -> Result<Translation, String> {
    if metric.limit.is_some() {
        return Err("limit has no counterpart".into());
    }
    let selector = selector(metric);
    let end = if metric.end == i64::MAX { now.max(metric.start) } else { metric.end };
    if metric.start < -MAX_TIME || end > MAX_TIME {
        return Err("times that PromQL does not have".into());
    }
    check_tags(metric)?;
    let Some((leading, others)) = metric.aggregators.split_first() else {
        return raw(metric, &selector, end);
    };
    let Aggregator::Range(range) = leading else {
        return Err(format!("{} comes before an aggregator over ranges of time", name(leading)));
    };
    if metric.order == Order::Descending {
        return Err("order desc makes one range of all points".into());
    }
    if range.start > metric.start {
        return Err("start_time lets the ranges begin within the query".into());
    }
    let by = groups(metric)?;
    let length = range_length(range)?;
    // The offset lets a window begin at the time of evaluation, which is not in it otherwise.
    let window =
        format!("{selector}[{}] offset {}", format_duration(length), format_duration(1 - length));
    let over =
        |function: &str, outer: &str| format!("{outer}{by} ({function}_over_time({window}))");
    let mut expression = match &range.fold {
        Fold::Sum => over("sum", "sum"),
        Fold::Count => over("count", "sum"),
        Fold::Min => over("min", "min"),
        Fold::Max => over("max", "max"),
        Fold::Avg => format!("{} / {}", over("sum", "sum"), over("count", "sum")),
        other => return Err(format!("{} is computed otherwise in PromQL", fold_name(other))),
    };
    let mut is_scaled = false;
    for one in others {
        expression = applied(one, &expression, is_scaled)?;
        is_scaled |= !matches!(one, Aggregator::Filter(_));
    }
    let range_of = |time: i64| range.start + time.saturating_sub(range.start) / length * length;
    let (first, last) = (range_of(metric.start), range_of(end));
    if i128::from((last - first) / length) >= MAX_POINTS {
        return Err(format!("more than {MAX_POINTS} ranges: PromQL has to be asked in parts"));
    }
    Ok(Translation {
        expression,
        times: (first, last),
        step: Some(length),
        notes: notes(metric, range, length, (first, last)),
    })
}

/// The points as they are stored: a range selector is evaluated at one time.
fn raw(metric: &MetricQuery, selector: &str, end: i64) -> Result<Translation, String> {
    check_groups(metric)?;
    let length = end.saturating_sub(metric.start).saturating_add(1);
    Ok(Translation {
        expression: format!("{selector}[{}]", format_duration(length)),
        times: (end, end),
        step: None,
        notes: vec![
            "KairosDB puts the points of a group into one list; here each series has a list".into(),
        ],
    })
}

fn notes(
    metric: &MetricQuery,
    range: &Range,
    length: i64,
    (first, last): (i64, i64),
) -> Vec<String> {
    let mut notes = Vec::new();
    if !range.align_start_time {
        let theirs = if range.align_end_time { "end" } else { "first point" };
        notes.push(format!(
            "the time of a value is the start of its range, and in KairosDB its {theirs}"
        ));
    }
    if first < metric.start {
        notes.push("the first range has points before the query, which KairosDB leaves out".into());
    }
    if last.saturating_add(length) > metric.end.saturating_add(1) {
        notes.push("the last range has points after the query, which KairosDB leaves out".into());
    }
    if range.start.rem_euclid(length) != 0 {
        notes.push("KairosDB counts the ranges from another time than Grafana's panels do".into());
    }
    notes
}

/// The milliseconds of a range, if all ranges have the same.
fn range_length(range: &Range) -> Result<i64, String> {
    let Sampling { value, unit } = range.sampling;
    // A day has 23 or 25 hours where the clock changes.
    let is_local = matches!(unit, TimeUnit::Days | TimeUnit::Weeks);
    let varies = is_local && !matches!(range.zone, Zone::Fixed(_));
    let millis = unit.millis().filter(|_| !varies);
    millis
        .and_then(|millis| millis.checked_mul(value))
        .ok_or_else(|| format!("ranges of {value} {} differ in length", unit.name().to_lowercase()))
}

/// The `by` clause of the groups; empty without groups. KairosDB groups by the first list of tags alone.
fn groups(metric: &MetricQuery) -> Result<String, String> {
    check_groups(metric)?;
    let tags = metric.group_by.iter().find_map(|group| match group {
        GroupBy::Tag { tags } if !tags.is_empty() => Some(tags),
        _ => None,
    });
    let Some(tags) = tags else { return Ok(String::new()) };
    let names: Vec<String> = tags.iter().map(|name| ShownLabel(name).to_string()).collect();
    Ok(format!(" by ({})", names.join(", ")))
}

fn check_groups(metric: &MetricQuery) -> Result<(), String> {
    match metric.group_by.iter().all(|one| matches!(one, GroupBy::Tag { .. })) {
        true => Ok(()),
        false => Err("only groups by tag have a counterpart".into()),
    }
}

/// An aggregator that changes each value by itself.
fn applied(aggregator: &Aggregator, to: &str, is_scaled: bool) -> Result<String, String> {
    let (operator, number) = match aggregator {
        Aggregator::Scale(factor) => ("*", *factor),
        Aggregator::Divide(divisor) => ("/", *divisor),
        Aggregator::Filter(Filter { operation, threshold: ThresholdValue::Number(number) }) => {
            // KairosDB drops what PromQL would keep.
            let kept = match operation {
                FilterOperation::Lte => ">",
                FilterOperation::Lt => ">=",
                FilterOperation::Gte => "<",
                FilterOperation::Gt => "<=",
                FilterOperation::Equal => "!=",
                FilterOperation::Ne => "==",
            };
            (kept, *number)
        }
        other => return Err(format!("{} has no counterpart with the same values", name(other))),
    };
    if !number.is_finite() {
        return Err(format!("{} by {number}", name(aggregator)));
    }
    // A value that was scaled may be -0, which is less than 0 in KairosDB.
    if number == 0.0 && is_scaled && matches!(aggregator, Aggregator::Filter(_)) {
        return Err("a filter by 0 behind scale or div".into());
    }
    Ok(format!("({to}) {operator} {number}"))
}

/// Refuses filters that PromQL may read otherwise: only what both languages of expressions share is taken.
fn check_tags(metric: &MetricQuery) -> Result<(), String> {
    TagMatcher::new(&metric.tags).map_err(|error| error.messages().join("; "))?;
    for pattern in metric.tags.iter().flat_map(|filter| &filter.patterns) {
        let TagPattern::Regex(text) = pattern else { continue };
        let is_shared = |c: char| c.is_alphanumeric() || " _-/:,.|*+?()[]^$@=#%~".contains(c);
        let mut rest = text.as_str();
        let mut shared = !text.contains("(?") && !text.contains("[[") && !text.contains("--");
        while let Some(first) = rest.chars().next() {
            let escaped = rest.strip_prefix('\\').and_then(|rest| rest.chars().next());
            match escaped {
                // An escaped letter is a class of characters. PromQL's has ASCII, KairosDB's has all scripts.
                Some(c) => shared &= c.is_ascii_punctuation(),
                None => shared &= is_shared(first),
            }
            rest = &rest[escaped.map_or(first.len_utf8(), |c| 1 + c.len_utf8())..];
        }
        if !shared {
            return Err(format!("PromQL may read the expression {} otherwise", ShownText(text)));
        }
    }
    Ok(())
}

fn selector(metric: &MetricQuery) -> String {
    let mut matchers = vec![format!("__name__={}", ShownText(&metric.name))];
    for filter in &metric.tags {
        let label = ShownLabel(&filter.name);
        matchers.push(format!("{label}{}", values(filter)));
        // Without the tag a series does not match in KairosDB, whatever the expression is.
        if filter.patterns.iter().any(|one| matches!(one, TagPattern::Regex(_))) {
            matchers.push(format!("{label}!=\"\""));
        }
    }
    format!("{{{}}}", matchers.join(", "))
}

/// The operator and the value of a matcher.
fn values(filter: &TagFilter) -> String {
    match filter.patterns.as_slice() {
        [TagPattern::Exact(value)] => return format!("={}", ShownText(value)),
        [TagPattern::Regex(text)] => return format!("=~{}", ShownText(text)),
        _ => {}
    }
    let alternatives = filter.patterns.iter().map(|pattern| match pattern {
        TagPattern::Exact(value) => escape(value),
        TagPattern::Regex(text) => format!("(?:{text})"),
    });
    format!("=~{}", ShownText(&alternatives.collect::<Vec<_>>().join("|")))
}

fn name(aggregator: &Aggregator) -> &'static str {
    match aggregator {
        Aggregator::Range(range) => fold_name(&range.fold),
        Aggregator::Diff => "diff",
        Aggregator::Divide(_) => "div",
        Aggregator::Scale(_) => "scale",
        Aggregator::Filter(_) => "filter",
        Aggregator::Rate(..) => "rate",
        Aggregator::Sampler(..) => "sampler",
        Aggregator::SaveAs(_) => "save_as",
        Aggregator::Score(_) => "score",
        Aggregator::Sma(_) => "sma",
        Aggregator::Trim(_) => "trim",
    }
}

fn fold_name(fold: &Fold) -> &'static str {
    match fold {
        Fold::Avg => "avg",
        Fold::Count => "count",
        Fold::Dev { .. } => "dev",
        Fold::First => "first",
        Fold::Last => "last",
        Fold::Gaps => "gaps",
        Fold::LeastSquares => "least_squares",
        Fold::Max => "max",
        Fold::Min => "min",
        Fold::Percentile(_) => "percentile",
        Fold::Sum => "sum",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;

    fn translated(members: &str) -> Result<Translation, String> {
        let query = format!(
            r#"{{"start_absolute":{HOUR},"end_absolute":{},"metrics":[{{"name":"up"{members}}}]}}"#,
            4 * HOUR - 1
        );
        let query = parse(&query, 9 * HOUR, &Limits::default()).expect("a query");
        translate(&query.metrics[0], 9 * HOUR)
    }

    fn expression(members: &str) -> String {
        translated(members).map_or_else(|why| format!("no: {why}"), |found| found.expression)
    }

    /// An aggregator over hours or minutes.
    fn over(name: &str, value: i64, unit: &str) -> String {
        format!(r#"{{"name":"{name}","sampling":{{"value":{value},"unit":"{unit}"}}}}"#)
    }

    #[test]
    fn expressions() {
        let sum = over("sum", 5, "minutes");
        let changed =
            r#"{"name":"scale","factor":-0.5},{"name":"filter","filter_op":"lt","threshold":7}"#;
        let tags = r#""tags":{"a.b":["x.y","regex:z.*"],"c":"d\"e"}"#;
        let groups = r#""group_by":[{"name":"tag","tags":["c","a.b"]}]"#;
        let average = over("avg", 1, "hours");
        let sum_of_five = r#"sum (sum_over_time({__name__="up"}[5m] offset -4m59s999ms))"#;
        let hour = |function: &str| {
            let tags = r#""a.b"=~"x\\.y|(?:z.*)", "a.b"!="", c="d\"e""#;
            let window = format!(r#"{{__name__="up", {tags}}}[1h] offset -59m59s999ms"#);
            format!(r#"sum by (c, "a.b") ({function}_over_time({window}))"#)
        };
        for (members, want) in [
            (format!(r#","aggregators":[{sum}]"#), sum_of_five.to_owned()),
            (
                format!(r#","aggregators":[{sum},{changed}]"#),
                format!("(({sum_of_five}) * -0.5) >= 7"),
            ),
            (
                format!(r#",{tags},{groups},"aggregators":[{average}]"#),
                format!("{} / {}", hour("sum"), hour("count")),
            ),
            (
                r#","tags":{"a":"regex:"}"#.to_owned(),
                r#"{__name__="up", a=~"", a!=""}[3h]"#.to_owned(),
            ),
        ] {
            assert_eq!(expression(&members), want, "{members}");
        }
    }

    #[test]
    fn reasons() {
        let one = |text: &str| {
            format!(r#","aggregators":[{{{text},"sampling":{{"value":1,"unit":"hours"}}}}]"#)
        };
        for (members, why) in [
            (r#","limit":5"#.into(), "limit has no counterpart"),
            (r#","tags":{"a":"regex:("}"#.into(), "regular expression ("),
            (r#","tags":{"a":"regex:\\d+"}"#.into(), "PromQL may read the expression"),
            (r#","tags":{"a":"regex:[a&&b]"}"#.into(), "PromQL may read the expression"),
            (r#","aggregators":[{"name":"sum"}]"#.into(), "more than 11000 ranges"),
            (
                format!(
                    r#","aggregators":[{},{{"name":"scale","factor":"Infinity"}}]"#,
                    over("sum", 1, "hours")
                ),
                "scale by inf",
            ),
            (one(r#""name":"first""#), "first is computed otherwise in PromQL"),
            (one(r#""name":"percentile","percentile":0.5"#), "percentile is computed otherwise"),
            (r#","aggregators":[{"name":"rate","unit":"hours"}]"#.into(), "rate comes before"),
            (r#","order":"desc","aggregators":[{"name":"sum"}]"#.into(), "order desc"),
            (r#","group_by":[{"name":"value","range_size":5}]"#.into(), "only groups by tag"),
            (
                format!(r#","aggregators":[{}]"#, over("sum", 1, "months")),
                "ranges of 1 months differ in length",
            ),
            (
                r#","aggregators":[{"name":"sum"},{"name":"diff"}]"#.into(),
                "diff has no counterpart with the same values",
            ),
        ] {
            let text = expression(&members);
            assert!(text.starts_with(&format!("no: {why}")), "{members}: {text}");
        }
    }

    #[test]
    fn notes_say_what_else_differs() {
        let found = |members: &str| translated(members).unwrap_or_else(|why| panic!("{why}"));
        let whole = over("max", 1, "hours").replacen('}', r#"},"align_start_time":true"#, 1);
        let whole = found(&format!(r#","aggregators":[{whole}]"#));
        assert_eq!((whole.times, whole.step), ((HOUR, 3 * HOUR), Some(HOUR)));
        assert_eq!(whole.notes, [""; 0]);
        let cut = found(&format!(r#","aggregators":[{}]"#, over("max", 2, "hours")));
        assert_eq!((cut.times, cut.step), ((0, 2 * HOUR), Some(2 * HOUR)));
        let begins = ["the time of a value", "the first range"];
        assert_eq!(cut.notes.len(), begins.len(), "{:?}", cut.notes);
        assert!(cut.notes.iter().zip(begins).all(|(note, begin)| note.starts_with(begin)));
    }
}
