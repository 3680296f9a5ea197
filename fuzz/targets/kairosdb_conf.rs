//! A `kairosdb.conf`: values that are taken over mean the same as flags, and a refusal names the
//! file.
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use clap::{ArgMatches, Command};
use promkairos::config::{Config, ConfigError, Origin, Said, arguments};
use tempfile::TempDir;

static COMMAND: LazyLock<Command> =
    LazyLock::new(|| Command::new("fuzz").no_binary_name(true).args(arguments()));
/// Folder of the file of each run.
static FOLDER: LazyLock<TempDir> =
    LazyLock::new(|| tempfile::tempdir_in("/dev/shm").expect("a folder in memory"));
static PATH: LazyLock<PathBuf> = LazyLock::new(|| FOLDER.path().join("kairosdb.conf"));
/// The flags that name the file: most files are refused before other flags matter.
static NAMED: LazyLock<ArgMatches> =
    LazyLock::new(|| matches(&[format!("--kairosdb-config={}", PATH.display())]));

fn matches(flags: &[String]) -> ArgMatches {
    let flags = [&["--store=cassandra".to_owned()][..], flags].concat();
    COMMAND.clone().try_get_matches_from(flags).expect("flags that there are")
}

fn load(flags: &ArgMatches) -> Result<(Config, Vec<Said>), ConfigError> {
    Config::check(flags, None::<&Path>)
}

pub(crate) fn check(data: &[u8]) {
    fs::write(&*PATH, data).expect("a file");
    let (taken, said) = match load(&NAMED) {
        Ok(taken) => taken,
        Err(error) => return assert!(error.to_string().contains("/kairosdb.conf"), "{error}"),
    };
    let of_file = said.iter().filter(|one| matches!(one.origin, Origin::KairosDb { .. }));
    let flags: Vec<String> = of_file.map(|one| format!("--{}={}", one.name, one.value)).collect();
    assert_eq!(flags.len(), taken.kairosdb.taken.len(), "{:?}", taken.kairosdb);
    let repeated = load(&matches(&flags));
    let (repeated, _) = repeated.unwrap_or_else(|error| panic!("{flags:?}: {error}"));
    let meaning = |config: &Config| format!("{:?} {:?}", config.store, config.retention);
    assert_eq!(meaning(&taken), meaning(&repeated), "{flags:?}");
}
