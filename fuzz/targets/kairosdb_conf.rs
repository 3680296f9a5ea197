//! A `kairosdb.conf`: what is taken over of it means the same when flags say it, and what is refused
//! names the file.
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use clap::Command;
use promkairos::config::{Config, ConfigError, Origin, Said, arguments};

static COMMAND: LazyLock<Command> =
    LazyLock::new(|| Command::new("fuzz").no_binary_name(true).args(arguments()));

fn load(flags: &[String]) -> Result<(Config, Vec<Said>), ConfigError> {
    let flags = [&["--store=cassandra".to_owned()][..], flags].concat();
    let matches = COMMAND.clone().try_get_matches_from(flags).expect("flags that there are");
    Config::check(&matches, None::<&Path>)
}

pub(crate) fn check(data: &[u8]) {
    let folder = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
    let path = folder.path().join("kairosdb.conf");
    fs::write(&path, data).expect("a file");
    let (taken, said) = match load(&[format!("--kairosdb-config={}", path.display())]) {
        Ok(taken) => taken,
        Err(error) => return assert!(error.to_string().contains("/kairosdb.conf"), "{error}"),
    };
    let of_file = said.iter().filter(|one| matches!(one.origin, Origin::KairosDb { .. }));
    let flags: Vec<String> = of_file.map(|one| format!("--{}={}", one.name, one.value)).collect();
    assert_eq!(flags.len(), taken.kairosdb.taken.len(), "{:?}", taken.kairosdb);
    let (repeated, _) = load(&flags).unwrap_or_else(|error| panic!("{flags:?}: {error}"));
    let meaning = |config: &Config| format!("{:?} {:?}", config.store, config.retention);
    assert_eq!(meaning(&taken), meaning(&repeated), "{flags:?}");
}
