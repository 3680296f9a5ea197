//! Lines of the telnet port: `put`, `putm`, `puts` and `version`.
//!
//! KairosDB answers nothing to a line that it refuses, and logs why: a refusal is a value, with slices of the line.
//! After a refusal the metric holds parts of the line.
//! Differences to KairosDB: lines are UTF-8, where KairosDB takes them for ISO 8859-1; [`MAX_TAGS`]; a time that does
//! not fit into milliseconds is refused, where KairosDB's wraps; doubles have no hexadecimal form. The length of lines
//! is limited by who reads them.

mod words;

use std::borrow::Cow;

use promkairos_kairos_json::java;

use self::words::Words;
use crate::point::{MAX_TAGS, Metric, Tag, Value};

/// Times from here on are milliseconds for `put`; earlier ones are seconds.
const FIRST_MILLISECOND: i64 = 3_000_000_000;
/// Not a tag of the metric: its value is the time to live.
const TTL: &str = "kairos_opt.ttl";

/// What a line asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum Command<'a> {
    /// To store a point of the metric.
    Put {
        /// In milliseconds.
        time: i64,
        /// The value.
        value: Value<'a>,
    },
    /// To answer the version.
    Version,
}

/// Why a line is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LineError<'a> {
    /// The line is not UTF-8.
    #[error("the line is not valid UTF-8")]
    Encoding,
    /// The line has no word.
    #[error("the line is empty")]
    Empty,
    /// The first word is no command.
    #[error("unknown command '{0}'")]
    Command(&'a str),
    /// The line ends early.
    #[error("the line has no {0}")]
    Missing(&'static str),
    /// The name of the metric is empty.
    #[error("metricName may not be empty.")]
    Name,
    /// The time is no integer.
    #[error("'{0}' is no time: it has to be an integer of milliseconds, or for put of seconds")]
    Time(&'a str),
    /// The value is no number.
    #[error("'{0}' is no value: without a point it has to be an integer")]
    Value(&'a str),
    /// There is no value behind an equals sign.
    #[error("tag[{0}] must be in the format 'name=value'.")]
    Tag(usize),
    /// A tag has no name.
    #[error("tag[{0}].name may not be empty.")]
    TagName(usize),
    /// A tag has no value.
    #[error("tag[{0}].value may not be empty.")]
    TagValue(usize),
    /// Two tags have this name.
    #[error("there are several tags '{0}'")]
    RepeatedTag(&'a str),
    /// More tags than a metric may have.
    #[error("there are more than {MAX_TAGS} tags")]
    Tags,
    /// The tag of the time to live has no integer.
    #[error("tag[kairos_opt.ttl] must be a number")]
    Ttl,
}

/// Parses a line, with or without its end. The metric of a point replaces `metric`, whose memory is reused.
pub fn parse_line<'a>(
    line: &'a [u8],
    metric: &mut Metric<'a>,
) -> Result<Command<'a>, LineError<'a>> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let mut words = Words::new(std::str::from_utf8(line).map_err(|_| LineError::Encoding)?);
    let command = words.next().ok_or(LineError::Empty)?;
    match command {
        "put" | "putm" | "puts" => {}
        "version" => return Ok(Command::Version),
        other => return Err(LineError::Command(other)),
    }
    let name = words.next().ok_or(LineError::Missing("name of a metric"))?;
    let time = words.next().ok_or(LineError::Missing("time"))?;
    let parsed = if command == "put" { any_time(time) } else { integer(time) };
    let time = parsed.ok_or(LineError::Time(time))?;
    if name.is_empty() {
        return Err(LineError::Name);
    }
    let text = words.next().ok_or(LineError::Missing("value"))?;
    let value = match command {
        "puts" => Value::String(Cow::Borrowed(text)),
        _ => number(text).ok_or(LineError::Value(text))?,
    };
    (metric.name, metric.ttl) = (Cow::Borrowed(name), 0);
    metric.tags.clear();
    for word in words {
        add_tag(word, metric)?;
    }
    if metric.tags.is_empty() {
        metric.tags.push(Tag { name: Cow::Borrowed("add"), value: Cow::Borrowed("tag") });
    }
    Ok(Command::Put { time, value })
}

/// `name=value`; a further equals sign ends the value.
fn add_tag<'a>(word: &'a str, metric: &mut Metric<'a>) -> Result<(), LineError<'a>> {
    let at = metric.tags.len();
    // Java drops empty parts at the end.
    let (name, rest) = word.trim_end_matches('=').split_once('=').ok_or(LineError::Tag(at))?;
    let value = rest.split('=').next().unwrap_or_default();
    if name.is_empty() {
        return Err(LineError::TagName(at));
    }
    if value.is_empty() {
        return Err(LineError::TagValue(at));
    }
    if name == TTL {
        metric.ttl = java::parse_int(value).map_err(|_| LineError::Ttl)?;
        return Ok(());
    }
    if metric.tags.iter().any(|tag| tag.name == name) {
        return Err(LineError::RepeatedTag(name));
    }
    if at == MAX_TAGS {
        return Err(LineError::Tags);
    }
    metric.tags.push(Tag { name: Cow::Borrowed(name), value: Cow::Borrowed(value) });
    Ok(())
}

/// A time in seconds or milliseconds, by its size.
fn any_time(text: &str) -> Option<i64> {
    let time = integer(text)?;
    if time < FIRST_MILLISECOND { time.checked_mul(1000) } else { Some(time) }
}

fn integer(text: &str) -> Option<i64> {
    // Java's parsers of integers take a plus, KairosDB's own does not.
    if text.starts_with('+') { None } else { text.parse().ok() }
}

fn number(text: &str) -> Option<Value<'_>> {
    match text.contains('.') {
        true => java::parse_double(text).ok().map(Value::Double),
        false => integer(text).map(Value::Long),
    }
}

#[cfg(test)]
mod tests {
    //! Lines of the probes of a real KairosDB 1.3.0-1, with what it stored or that it stored nothing; every refusal;
    //! random lines. The texts of refusals are on no record: some are by its source, the others are ours.

    use proptest::prelude::*;

    use super::*;

    /// A line, and its point as `name{tags} time value`, the answer, or the refusal.
    #[track_caller]
    fn check(line: &str, expected: &str) {
        assert_eq!(shown(line.as_bytes()), expected, "{line:?}");
    }

    fn shown(line: &[u8]) -> String {
        let mut metric = Metric { ttl: 5, ..Metric::default() };
        match parse_line(line, &mut metric) {
            Ok(Command::Version) => "version".to_owned(),
            Ok(Command::Put { time, value }) => {
                let tags: Vec<String> =
                    metric.pairs().map(|(name, value)| format!("{name}={value}")).collect();
                let ttl =
                    if metric.ttl == 0 { String::new() } else { format!(" ttl {}", metric.ttl) };
                let value = match value {
                    Value::Long(value) => format!("{value}"),
                    Value::Double(value) => format!("{value:?}"),
                    Value::String(value) => format!("'{value}'"),
                };
                format!("{}{{{}}} {time} {value}{ttl}", metric.name, tags.join(","))
            }
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn lines_of_the_probes_are_stored_as_recorded() {
        check("version\n", "version");
        check("version\r\n", "version");
        check("put t1 1700000000 5 host=a", "t1{host=a} 1700000000000 5");
        check(
            "put t1 1700000001 5.5 host=a kairos_opt.ttl=600",
            "t1{host=a} 1700000001000 5.5 ttl 600",
        );
        check("putm t1 1700000002000 6 host=a", "t1{host=a} 1700000002000 6");
        check(
            "puts t1 1700000003000 \"hello world\" host=a",
            "t1{host=a} 1700000003000 'hello world'",
        );
        check("put t2 1700000000 1", "t2{add=tag} 1700000000000 1");
        check("put t4 1700000000 1 a=b=c", "t4{a=b} 1700000000000 1");
        check("put \"t 6\" 1700000000 1 \"a=b c\"", "t 6{a=b c} 1700000000000 1");
        check("put t8 1700000000 1.0e3 a=b", "t8{a=b} 1700000000000 1000.0");
        check("put t9 3000000000 1 a=b", "t9{a=b} 3000000000 1");
        // KairosDB stores `tÃ¼`.
        check("put tü 1700000000 1 a=ü", "tü{a=ü} 1700000000000 1");
    }

    #[test]
    fn lines_of_the_probes_are_refused() {
        check("bogus\n", "unknown command 'bogus'");
        check("help\n", "unknown command 'help'");
        check("\n", "the line is empty");
        check("put\n", "the line has no name of a metric");
        check(
            "put t3 1700000000 1e5 a=b",
            "'1e5' is no value: without a point it has to be an integer",
        );
        check("put t5 1700000000 1 a:b", "tag[0] must be in the format 'name=value'.");
        check(
            "put t7 1700000000 NaN a=b",
            "'NaN' is no value: without a point it has to be an integer",
        );
    }

    #[test]
    fn every_part_is_checked() {
        let refuses = |line: &str, error: LineError<'_>| {
            assert_eq!(parse_line(line.as_bytes(), &mut Metric::default()), Err(error), "{line}");
        };
        refuses("", LineError::Empty);
        refuses("PUT m 1 1", LineError::Command("PUT"));
        refuses("\"\"", LineError::Command(""));
        refuses("put m", LineError::Missing("time"));
        refuses("put m 1", LineError::Missing("value"));
        refuses("put \"\" 1 1", LineError::Name);
        for time in ["x", "1.5", "+1", "-", "9223372036854775808", "-9223372036854775808"] {
            refuses(&format!("put m {time} 1"), LineError::Time(time));
        }
        for value in ["x", "+1", "9223372036854775808", ".", "1.2.3", "\"\""] {
            let plain = if value == "\"\"" { "" } else { value };
            refuses(&format!("put m 1 {value} a=b"), LineError::Value(plain));
        }
        refuses("put m 1 1 a=b c", LineError::Tag(1));
        refuses("put m 1 1 a==", LineError::Tag(0));
        refuses("put m 1 1 =", LineError::Tag(0));
        refuses("put m 1 1 kairos_opt.ttl=5 =b", LineError::TagName(0));
        refuses("put m 1 1 a==b", LineError::TagValue(0));
        refuses("put m 1 1 a=b a=b", LineError::RepeatedTag("a"));
        for ttl in ["x", "1.5", "3000000000"] {
            refuses(&format!("put m 1 1 kairos_opt.ttl={ttl}"), LineError::Ttl);
        }
        assert_eq!(parse_line(b"put m\xff 1 1", &mut Metric::default()), Err(LineError::Encoding));
        let tags: String = (0..=MAX_TAGS).map(|at| format!(" t{at}=v")).collect();
        refuses(&format!("put m 1 1{tags}"), LineError::Tags);
    }

    #[test]
    fn seconds_and_the_time_to_live_have_their_limits() {
        check("put m 2999999999 1", "m{add=tag} 2999999999000 1");
        check("put m -5 1", "m{add=tag} -5000 1");
        check(
            "putm m -9223372036854775808 -9223372036854775808",
            &format!("m{{add=tag}} {} {}", i64::MIN, i64::MIN),
        );
        check("puts m 1 \"\" kairos_opt.ttl=5 kairos_opt.ttl=-6", "m{add=tag} 1 '' ttl -6");
        check("put m 1 1.5f", "m{add=tag} 1000 1.5");
    }

    #[test]
    fn a_metric_is_reused() {
        let mut metric = Metric::default();
        parse_line(b"put m 1 1 a=b c=d kairos_opt.ttl=7", &mut metric).expect("a point");
        assert!(parse_line(b"put n 1 1 x=y z", &mut metric).is_err());
        parse_line(b"put o 1 1", &mut metric).expect("a point");
        let tags = vec![Tag { name: "add".into(), value: "tag".into() }];
        assert_eq!(metric, Metric { name: "o".into(), tags, ttl: 0 });
    }

    /// A word that needs quotes, or not.
    fn word(text: &str) -> String {
        if text.contains(' ') { format!("\"{text}\"") } else { text.to_owned() }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            name in "[a-zü][a-zü ]*",
            time in any::<i64>(),
            value in any::<i64>(),
            tags in proptest::collection::btree_map("[a-z]+", "[a-zü:]([a-z ]*[a-z])?", 1..5),
        ) {
            let pairs: Vec<String> = tags.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let words: Vec<String> = pairs.iter().map(|pair| word(pair)).collect();
            let line = format!("putm {} {time} {value} {}", word(&name), words.join(" \t"));
            prop_assert_eq!(shown(line.as_bytes()), format!("{name}{{{}}} {time} {value}", pairs.join(",")));
        }

        #[test]
        fn no_line_panics(
            line in "(put|puts|version|\"| |=|a|1|\\.|ü|\t|\r|kairos_opt.ttl=){0,30}",
            bytes in any::<Vec<u8>>(),
        ) {
            for line in [line.as_bytes(), &bytes, &[b"puts ", &bytes[..]].concat()] {
                prop_assert_eq!(shown(line), shown(line));
            }
        }
    }
}
