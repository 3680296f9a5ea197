//! `eval instant at 5m expression` and `eval range from 0 to 5m step 1m expression`, and the
//! expectations below them.

use regex::Regex;

use super::scanner::Scanner;
use super::{Block, Eval, Expected, ExpectedNotes, Item, Located, Text, When, duration, series};

/// In the old spellings, the name of the command gives the expectation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Plain,
    Fail,
    Warn,
    Info,
    Ordered,
}

/// The query of a block and how many of its lines belong to it.
pub(super) fn parse(block: Block<'_>) -> Located<(Eval, usize)> {
    let (mode, when, expr) = header(block.lines[0]).map_err(|error| (block.first, error))?;
    let (expected, notes) = (Expected::default(), ExpectedNotes::default());
    let mut eval = Eval { line: block.first, expr, when, expected, notes };
    match mode {
        Mode::Plain => {}
        Mode::Fail => eval.expected.failure = Some(Text::Any),
        Mode::Warn => eval.notes.warnings.some = true,
        Mode::Info => eval.notes.infos.some = true,
        Mode::Ordered => eval.expected.ordered = true,
    }
    let mut used = 1;
    for (number, line) in block.body() {
        used += 1;
        let last = body_line(&mut eval, line).map_err(|error| (number, error))?;
        if last {
            break;
        }
    }
    Ok((eval, used))
}

/// Parses the first line: mode, time and expression.
fn header(line: &str) -> Result<(Mode, When, String), String> {
    let instant = regex(r"^eval(?:_(fail|warn|ordered|info))?\s+instant\s+at\s+(.+?)\s+(.+)$")?;
    let range = regex(
        r"^eval(?:_(fail|warn|info))?\s+range\s+from\s+(.+)\s+to\s+(.+)\s+step\s+(.+?)\s+(.+)$",
    )?;
    let mode = |name: Option<regex::Match<'_>>| match name.map(|name| name.as_str()) {
        Some("fail") => Mode::Fail,
        Some("warn") => Mode::Warn,
        Some("info") => Mode::Info,
        Some("ordered") => Mode::Ordered,
        _ => Mode::Plain,
    };
    if let Some(found) = instant.captures(line) {
        let when = When::Instant(duration(&found[2])?);
        return Ok((mode(found.get(1)), when, found[3].to_owned()));
    }
    let found = range.captures(line).ok_or_else(|| format!("invalid evaluation {line:?}"))?;
    let (from, to) = (duration(&found[2])?, duration(&found[3])?);
    Ok((mode(found.get(1)), When::Range(from, to, duration(&found[4])?), found[5].to_owned()))
}

/// Reads a line of the body; returns whether it must be the last one.
fn body_line(eval: &mut Eval, line: &str) -> Result<bool, String> {
    if let Some(text) = line.strip_prefix("expected_fail_message") {
        eval.expected.failure = Some(Text::Exact(text.trim().to_owned()));
        return Ok(true);
    }
    if let Some(pattern) = line.strip_prefix("expected_fail_regexp") {
        eval.expected.failure = Some(Text::Matching(regex(pattern.trim())?));
        return Ok(true);
    }
    if let Some(times) = line.strip_prefix("expect range vector") {
        let found = regex(r"^\s+from\s+(.+)\s+to\s+(.+)\s+step\s+(.+)$")?;
        let found = found.captures(times).ok_or_else(|| format!("invalid times {times:?}"))?;
        let range = (duration(&found[1])?, duration(&found[2])?, duration(&found[3])?);
        eval.expected.range = Some(range);
        return Ok(false);
    }
    if let Some(text) = line.strip_prefix("expect string") {
        let mut scanner = Scanner::new(text.trim());
        let string = scanner.quoted()?.filter(|_| scanner.is_at_end());
        eval.expected.string = Some(string.ok_or_else(|| format!("no string in {line:?}"))?);
        return Ok(false);
    }
    if let Some(rest) = line.strip_prefix("expect ") {
        return expectation(eval, rest.trim()).map(|()| false);
    }
    let mut scanner = Scanner::new(line);
    if let Some(value) = scanner.number()?.filter(|_| scanner.is_at_end()) {
        eval.expected.scalar = Some(value);
        return Ok(true);
    }
    let (labels, items) = series::parse(line)?;
    if items.len() > 1 && matches!(eval.when, When::Instant(_)) && eval.expected.range.is_none() {
        return Err("an instant query gives one value a series".to_owned());
    }
    // Of equal series the last one counts, in the place of the first.
    match eval.expected.series.iter_mut().find(|(known, _)| *known == labels) {
        Some(known) => known.1 = items,
        None => eval.expected.series.push((labels, items)),
    }
    Ok(false)
}

/// Parses `expect warn msg: text` and similar lines.
fn expectation(eval: &mut Eval, text: &str) -> Result<(), String> {
    let (kind, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let text = match rest.trim().split_once(':') {
        None if rest.trim().is_empty() => Text::Any,
        Some(("msg", text)) => Text::Exact(text.trim().to_owned()),
        Some(("regex", pattern)) => Text::Matching(regex(pattern.trim())?),
        _ => return Err(format!("invalid expectation {text:?}")),
    };
    match kind {
        "ordered" => eval.expected.ordered = true,
        "fail" => eval.expected.failure = Some(text),
        "warn" => eval.notes.warnings.texts.push(text),
        "info" => eval.notes.infos.texts.push(text),
        "no_warn" => eval.notes.warnings.none = true,
        "no_info" => eval.notes.infos.none = true,
        _ => return Err(format!("unknown expectation {kind:?}")),
    }
    for (name, rule) in [("warn", &eval.notes.warnings), ("info", &eval.notes.infos)] {
        if rule.none && !rule.texts.is_empty() {
            return Err(format!("both {name} and no_{name} expected"));
        }
    }
    Ok(())
}

/// A pattern in the syntax of Go.
fn regex(pattern: &str) -> Result<Regex, String> {
    let translated =
        promkairos::model::translate_re2(pattern).map_err(|error| error.to_string())?;
    Regex::new(&translated).map_err(|error| error.to_string())
}

/// Whether the value of an item is a histogram with a hint, for tests of the notation.
#[cfg(test)]
fn is_hinted(item: &Item) -> bool {
    matches!(item, Item::Histogram(_, true))
}

#[test]
fn expectations() {
    let lines = [
        "eval instant at 1h30m sum(a) + on(b) c",
        "expect warn msg: PromQL warning: x (1:1)",
        "expect no_info",
        "expect ordered",
        "{a=\"b\"} 3",
        "c {{count:1 counter_reset_hint:gauge}}",
        "{a=\"b\"} 4",
    ];
    let (eval, used) = parse(Block { first: 10, lines: &lines }).expect("valid");
    assert_eq!((used, eval.when), (7, When::Instant(5_400_000)));
    assert_eq!(eval.expr, "sum(a) + on(b) c");
    assert!(eval.notes.infos.none && eval.expected.ordered);
    assert!(eval.notes.warnings.texts[0].fits("PromQL warning: x (1:1)"));
    assert!(!eval.notes.warnings.texts[0].fits("PromQL warning: x"));
    let [(_, four), (_, histogram)] = &eval.expected.series[..] else { panic!("{eval:?}") };
    assert!(matches!(four[..], [Item::Float(4.0)]) && is_hinted(&histogram[0]));
}

#[test]
fn old_and_other_spellings() {
    let parse = |lines: &[&str]| parse(Block { first: 1, lines }).expect("valid").0;
    let fail = parse(&["eval_fail instant at 0 a", "expected_fail_regexp a.*b", "ignored"]);
    assert!(fail.expected.failure.is_some_and(|text| text.fits("xaxbx") && !text.fits("ba")));
    assert!(parse(&["eval_warn range from 0 to 1m step 1m a"]).notes.warnings.some);
    assert!(parse(&["eval_ordered instant at 0 a"]).expected.ordered);
    assert_eq!(parse(&["eval instant at 0 1", "-Inf"]).expected.scalar, Some(f64::NEG_INFINITY));
    let string = parse(&["eval instant at 0 \"a\"", "expect string \"a b\""]);
    assert_eq!(string.expected.string.as_deref(), Some("a b"));
    let range = parse(&[
        "eval instant at 5m a[5m]",
        "expect range vector from 1m to 5m step 1m",
        "a 1 _ 3",
    ]);
    assert_eq!(range.expected.range, Some((60_000, 300_000, 60_000)));
}
