//! Scripts of Prometheus' test language for PromQL: their data, queries and expected answers.
//!
//! `parse` gives the commands of a script, `compare` checks an answer, `variants` gives further
//! ways to ask an instant query. Nothing here evaluates or stores anything. The format is that of
//! Prometheus' `promqltest`, including its old spellings.

pub(crate) mod compare;
mod eval;
mod histogram;
mod load;
mod nhcb;
mod scanner;
mod series;
pub(crate) mod variants;

use promkairos::model::{Labels, Point};
use promkairos::promql::histogram::FloatHistogram;
use regex::Regex;

/// One command of a script.
#[derive(Debug)]
pub(crate) enum Command {
    /// Remove all data.
    Clear,
    /// Add series.
    Load(Load),
    /// Ask a query.
    Eval(Box<Eval>),
}

/// Series to add.
#[derive(Debug)]
pub(crate) struct Load {
    /// Each series once, points by rising time.
    pub(crate) series: Vec<(Labels, Vec<Point>)>,
}

/// A query and its expected answer.
#[derive(Debug)]
pub(crate) struct Eval {
    /// Its line in the script.
    pub(crate) line: usize,
    /// The query.
    pub(crate) expr: String,
    /// When it is asked.
    pub(crate) when: When,
    /// What it should give.
    pub(crate) expected: Expected,
    /// The expected warnings and infos.
    pub(crate) notes: ExpectedNotes,
}

/// When a query is asked, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// Once.
    Instant(i64),
    /// From the first to the second time, with the third as the step.
    Range(i64, i64, i64),
}

/// The expected answer of a query.
#[derive(Debug, Default)]
pub(crate) struct Expected {
    /// An error, and its expected text.
    pub(crate) failure: Option<Text>,
    /// A scalar.
    pub(crate) scalar: Option<f64>,
    /// A string.
    pub(crate) string: Option<String>,
    /// Series with their values, in the order of the script.
    pub(crate) series: Vec<(Labels, Vec<Item>)>,
    /// The times of the values, when an instant query gives a range vector.
    pub(crate) range: Option<(i64, i64, i64)>,
    /// Whether the order of the series matters.
    pub(crate) ordered: bool,
}

/// The expected warnings and infos of a query.
#[derive(Debug, Default)]
pub(crate) struct ExpectedNotes {
    /// Of warnings.
    pub(crate) warnings: NoteRule,
    /// Of infos.
    pub(crate) infos: NoteRule,
}

/// The expected notes of one kind.
#[derive(Debug, Default)]
pub(crate) struct NoteRule {
    /// At least one, in the old spelling.
    pub(crate) some: bool,
    /// None.
    pub(crate) none: bool,
    /// If not empty: each of these texts, and no others.
    pub(crate) texts: Vec<Text>,
}

/// A pattern for a text.
#[derive(Debug)]
pub(crate) enum Text {
    /// Any.
    Any,
    /// Exactly this.
    Exact(String),
    /// A text in which this pattern occurs.
    Matching(Regex),
}

impl Text {
    /// Whether `text` matches.
    pub(crate) fn fits(&self, text: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Exact(want) => want == text,
            Self::Matching(regex) => regex.is_match(text),
        }
    }
}

/// A value in a sequence.
#[derive(Debug, Clone)]
pub(crate) enum Item {
    /// No value.
    Gap,
    /// A float, which may be the stale marker.
    Float(f64),
    /// A histogram, and whether the script gives its hint.
    Histogram(Box<FloatHistogram>, bool),
}

/// Reads a script. Errors name the line.
pub(crate) fn parse(text: &str) -> Result<Vec<Command>, String> {
    let lines: Vec<&str> = text.lines().map(without_comment).collect();
    let mut commands = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        if lines[at].is_empty() {
            at += 1;
            continue;
        }
        let end = lines[at..].iter().position(|line| line.is_empty());
        let block = Block { first: at + 1, lines: &lines[at..end.map_or(lines.len(), |n| at + n)] };
        let (command, used) =
            command(block).map_err(|(line, error)| format!("line {line}: {error}"))?;
        commands.push(command);
        at += used;
    }
    Ok(commands)
}

/// Lines up to the next empty one.
#[derive(Debug, Clone, Copy)]
struct Block<'a> {
    /// The number of the first line in the script.
    first: usize,
    lines: &'a [&'a str],
}

/// An error and its line.
type Located<T> = Result<T, (usize, String)>;

impl<'a> Block<'a> {
    /// The lines after the first, with their numbers.
    fn body(self) -> impl Iterator<Item = (usize, &'a str)> {
        self.lines.iter().enumerate().skip(1).map(move |(i, line)| (self.first + i, *line))
    }
}

/// The command at the beginning of a block, and how many lines of the block belong to it.
fn command(block: Block<'_>) -> Located<(Command, usize)> {
    let word = block.lines[0].split_whitespace().next().unwrap_or_default().to_lowercase();
    if word == "clear" {
        Ok((Command::Clear, 1))
    } else if word.starts_with("load") {
        Ok((Command::Load(load::parse(block)?), block.lines.len()))
    } else if word.starts_with("eval") {
        let (eval, used) = eval::parse(block)?;
        Ok((Command::Eval(Box::new(eval)), used))
    } else {
        Err((block.first, format!("invalid command {:?}", block.lines[0])))
    }
}

fn without_comment(line: &str) -> &str {
    let line = line.trim();
    if line.starts_with('#') { "" } else { line }
}

/// A duration of the script in milliseconds.
fn duration(text: &str) -> Result<i64, String> {
    promkairos::promql::parse_duration(text).map(|nanoseconds| nanoseconds / 1_000_000)
}

#[test]
fn commands_are_distinguished() {
    let script = "
        # a comment
        load 1m
          a{b=\"c\"} 1 _ 3

        eval instant at 2m a
          {b=\"c\"} 3
        # ends the one before
        clear
        eval range from 0 to 2m step 1m a
          a{b=\"c\"} 1 1 3
    ";
    let commands = parse(script).expect("a valid script");
    let [Command::Load(load), Command::Eval(instant), Command::Clear, Command::Eval(range)] =
        &commands[..]
    else {
        panic!("{commands:?}");
    };
    assert_eq!(load.series[0].1.iter().map(|p| p.timestamp).collect::<Vec<_>>(), [0, 120_000]);
    assert_eq!((instant.when, instant.line), (When::Instant(120_000), 6));
    assert_eq!(range.when, When::Range(0, 120_000, 60_000));
    assert_eq!(range.expected.series[0].1.len(), 3);
}

#[test]
fn errors_name_their_line() {
    let error = parse("load 1m\n  a 1 x\n").expect_err("no value");
    assert!(error.starts_with("line 2: "), "{error}");
    assert!(parse("\nlod 1m\n").is_err_and(|error| error.starts_with("line 2: ")));
}
