//! Loads settings from arguments, for unit tests. The environment of the tests has no settings.

use clap::{ArgMatches, Command};

use super::arguments::arguments;
use super::cassandra::CassandraConfig;
use super::root::{Config, StoreConfig};

pub(super) fn matches(settings: &[&str]) -> Result<ArgMatches, String> {
    let all = std::iter::once("promkairos").chain(settings.iter().copied());
    let command = Command::new("promkairos").args(arguments());
    command.try_get_matches_from(all).map_err(|error| error.to_string())
}

pub(super) fn load(settings: &[&str]) -> Result<Config, String> {
    Config::load(&matches(settings)?).map_err(|error| error.to_string())
}

/// The settings of Cassandra with `--store cassandra`.
pub(super) fn load_cassandra(settings: &[&str]) -> Result<CassandraConfig, String> {
    match load(&[&["--store=cassandra"][..], settings].concat())?.store {
        StoreConfig::Cassandra { cassandra, .. } => Ok(*cassandra),
        StoreConfig::Embedded => panic!("embedded"),
    }
}
