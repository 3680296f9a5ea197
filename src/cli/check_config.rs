//! `promkairos check-config [FILE]`: validates the settings that `serve` would load; prints those
//! that were given, their origins, and the warnings of a start.
//!
//! Only files that hold settings are opened, and nothing is connected. No secret is printed: of a
//! password only the name of its file. An error is one line with file and line, variable or flag,
//! and exit code 2.

use std::fmt::Write;
use std::path::Path;

use clap::{Arg, ArgMatches, Command};

use crate::config::{Config, Said};
use crate::server;

use super::error::CliError;
use super::output;

/// Longest setting that is considered when the comments are aligned.
const MOST_WIDTH: usize = 60;

/// The command's definition.
pub(super) fn command() -> Command {
    Command::new("check-config")
        .about("Validate the settings that serve would load, and show which somebody gave")
        .arg(Arg::new("file").value_name("FILE").help("TOML file, instead of that of --config"))
}

/// Runs `check-config`.
pub(super) fn run(matches: &ArgMatches) -> Result<(), CliError> {
    let file = matches.get_one::<String>("file").map(Path::new);
    let (config, said) = Config::check(matches, file)?;
    server::check(&config)?;
    output::print(&describe(&said, &config.kairosdb.ignored, &server::warnings(&config)))
}

/// A line for each setting, as in a settings file, with its origin; and a line for each warning.
fn describe(said: &[Said], ignored: &[String], warnings: &[String]) -> String {
    let pair = |one: &Said| format!("{} = {:?}", one.name.replace('-', "_"), one.value);
    // A table of clusters is far longer than other settings, and would move their comments out of sight.
    let widths = said.iter().map(|one| pair(one).chars().count());
    let width = widths.filter(|width| *width <= MOST_WIDTH).max().unwrap_or_default();
    output::text(|text| {
        writeln!(text, "The settings are valid.")?;
        for one in said {
            writeln!(text, "{:width$}  # {}", pair(one), one.origin)?;
        }
        let others = if said.is_empty() { "" } else { " others" };
        writeln!(text, "All{others} have their defaults.")?;
        if !ignored.is_empty() {
            writeln!(text, "Not understood in the file of KairosDB: {}", ignored.join(", "))?;
        }
        warnings.iter().try_for_each(|warning| writeln!(text, "Warning: {warning}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Origin;

    #[test]
    fn a_line_a_setting_says_who_said_it() {
        let said = |name, value: &str, origin| Said { name, value: value.to_owned(), origin };
        let file = Origin::File { path: "p.toml".into(), line: 3 };
        let entry = "write_cluster.keyspace".into();
        let kairosdb = Origin::KairosDb { path: "k.conf".into(), entry, line: Some(7) };
        let all = [
            said("listen", "a:1", Origin::Flag),
            said("store", "cassandra", Origin::Environment),
            said("cassandra-keyspace", "k", kairosdb),
            said("retention", "2y", file),
        ];
        assert_eq!(
            describe(&all, &[], &[]),
            "The settings are valid.\n\
             listen = \"a:1\"            # the command line\n\
             store = \"cassandra\"       # the environment\n\
             cassandra_keyspace = \"k\"  # write_cluster.keyspace in k.conf:7\n\
             retention = \"2y\"          # p.toml:3\n\
             All others have their defaults.\n"
        );
        let long = "x".repeat(MOST_WIDTH);
        let all = [said("store", "a", Origin::Flag), said("listen", &long, Origin::Flag)];
        assert_eq!(
            describe(&all, &[], &[]),
            format!(
                "The settings are valid.\nstore = \"a\"  # the command line\n\
                 listen = \"{long}\"  # the command line\nAll others have their defaults.\n"
            )
        );
        assert_eq!(
            describe(&[], &["a".into(), "b".into()], &["c".into(), "d".into()]),
            "The settings are valid.\nAll have their defaults.\n\
             Not understood in the file of KairosDB: a, b\nWarning: c\nWarning: d\n"
        );
    }
}
