//! A settings file: accepted values mean the same as flags, and a refusal names the file and the
//! line.
use std::fs;
use std::sync::LazyLock;

use clap::{ArgMatches, Command};
use promkairos::config::{Config, ConfigError, Origin, arguments};
use tempfile::TempDir;

static COMMAND: LazyLock<Command> =
    LazyLock::new(|| Command::new("fuzz").no_binary_name(true).args(arguments()));

/// No flags: most files are refused before flags matter.
static NO_FLAGS: LazyLock<ArgMatches> = LazyLock::new(|| matches(&[]));
/// Folder of the file of each run.
static FOLDER: LazyLock<TempDir> =
    LazyLock::new(|| tempfile::tempdir_in("/dev/shm").expect("a folder in memory"));

fn matches(flags: &[String]) -> ArgMatches {
    COMMAND.clone().try_get_matches_from(flags).expect("flags that there are")
}

pub(crate) fn check(data: &[u8]) {
    let path = FOLDER.path().join("settings.toml");
    fs::write(&path, data).expect("a file");
    let lines = data.split(|byte| *byte == b'\n').count();
    let (taken, said) = match Config::check(&NO_FLAGS, Some(&path)) {
        Ok(taken) => taken,
        Err(error) => return refused(&error, lines),
    };
    let mut flags = Vec::new();
    for one in &said {
        if let Origin::File { line, .. } = one.origin {
            assert!((1..=lines).contains(&line), "{} in line {line} of {lines}", one.name);
            flags.push(format!("--{}={}", one.name, one.value));
        }
    }
    let repeated = Config::check(&matches(&flags), None);
    let (repeated, _) = repeated.unwrap_or_else(|error| panic!("{flags:?}: {error}"));
    let meaning = |config: &Config| {
        let Config { listen, data_dir, store, retention, queries, http, limits, .. } = config;
        format!("{listen:?} {data_dir:?} {store:?} {retention:?} {queries:?} {http:?} {limits:?}")
    };
    assert_eq!(meaning(&taken), meaning(&repeated), "{flags:?}");
}

/// The error names the file, and a line that the file has.
fn refused(error: &ConfigError, lines: usize) {
    let text = error.to_string();
    let (_, behind) = text.split_once("/settings.toml").unwrap_or_else(|| panic!("{text}"));
    if let Some(number) = behind.strip_prefix(':') {
        let end = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
        let line: usize = number[..end].parse().unwrap_or_else(|_| panic!("{text}"));
        assert!((1..=lines).contains(&line), "line {line} of {lines}: {text}");
    }
}
