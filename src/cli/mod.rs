//! The commands, one file each, and the dispatch to them.
//!
//! Flags may precede or follow the command. The error about a wrong command line is one line, not
//! clap's page.

mod args;
mod check_config;
mod client;
mod copy;
mod delete;
mod doctor;
mod error;
mod explain;
mod health;
mod index;
mod output;
mod reference;
mod serve;
mod translate;
mod wal;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{ArgMatches, Command};

pub use error::CliError;

use crate::config;

/// The message of an error, safe to print on a terminal.
pub fn describe(error: &CliError) -> String {
    output::printable(&error.to_string())
}

/// Runs the command in `arguments`; the first argument is the program's name. Returns the exit code
/// of a command that ran to its end; [`CliError::exit_code`] has the codes of errors.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Result<ExitCode, CliError> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let asked = asked(&arguments);
    let Some(matches) = parse(arguments)? else { return Ok(ExitCode::SUCCESS) };
    run_command(&matches).map_err(|error| error.of(&asked))
}

fn run_command(matches: &ArgMatches) -> Result<ExitCode, CliError> {
    match matches.subcommand() {
        // Flags are global: they are in the matches of the command too.
        Some(("copy", matches)) => return copy::run_copy(matches),
        Some(("doctor", matches)) => return doctor::run_doctor(matches),
        Some(("health", matches)) => return health::run(matches),
        Some(("translate", matches)) => return translate::run(matches),
        Some(("wal", matches)) => return wal::run(matches),
        Some(("check-config", matches)) => check_config::run(matches),
        Some(("serve", matches)) => serve::run(matches),
        Some(("delete", matches)) => delete::run_delete(matches),
        Some(("explain", matches)) => explain::run(matches),
        Some(("index", matches)) => index::run(matches),
        Some(("settings", _)) => reference::run_settings(),
        Some(("completions", matches)) => reference::run_completions(matches, command()),
        Some(("man", matches)) => reference::run_man(matches, command()),
        _ => serve::run(matches),
    }?;
    Ok(ExitCode::SUCCESS)
}

/// Parses the command line; `None` if it asked for help, which is printed.
fn parse(arguments: Vec<OsString>) -> Result<Option<ArgMatches>, CliError> {
    let asked = asked(&arguments);
    match command().try_get_matches_from(arguments) {
        Ok(matches) => Ok(Some(matches)),
        Err(error)
            if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) =>
        {
            output::print(&error.render().to_string())?;
            Ok(None)
        }
        Err(error) => Err(CliError::usage(one_line(&error.render().to_string())).of(&asked)),
    }
}

/// The command in the arguments, and its subcommand, each with a space after it. They may be wrong.
fn asked(arguments: &[OsString]) -> String {
    let (mut command, mut asked) = (command(), String::new());
    for argument in arguments.iter().skip(1).filter_map(|argument| argument.to_str()) {
        if let Some(below) = command.find_subcommand(argument).cloned() {
            asked += &format!("{argument} ");
            command = below;
        }
    }
    asked
}

/// The end of the help and of the manual page.
const EXIT_CODES: &str = "Exit codes, of every command: 0 done; 1 a fault, or something that a check found; \
                          2 an argument or a setting is wrong.";

fn command() -> Command {
    Command::new("promkairos")
        .version(version(env!("CARGO_PKG_VERSION"), option_env!("BUILD_COMMIT")))
        .about(env!("CARGO_PKG_DESCRIPTION"))
        .after_help(EXIT_CODES)
        .args(config::arguments())
        .subcommand(serve::command())
        .subcommand(copy::command())
        .subcommand(with_settings(delete::command(), OF_SERVER))
        .subcommand(doctor::command())
        .subcommand(wal::command())
        .subcommand(with_settings(explain::command(), OF_SERVER))
        .subcommand(with_settings(index::command(), OF_SERVER))
        .subcommand(check_config::command())
        .subcommand(with_settings(health::command(), OF_SERVER))
        .subcommand(with_settings(translate::command(), &[]))
        .subcommands(reference::commands().map(|command| with_settings(command, &[])))
}

/// The settings with the address of the running server, for commands that use it.
const OF_SERVER: &[&str] = &["config", "listen"];

/// Accepts all settings as every command does, but hides those that the command does not use.
fn with_settings(command: Command, used: &[&str]) -> Command {
    command.args(config::arguments().into_iter().map(|argument| {
        let is_used = used.contains(&argument.get_id().as_str());
        argument.hide(!is_used)
    }))
}

/// The text of `--version`. The commit is known if the release was built in a clone.
fn version(number: &str, commit: Option<&str>) -> String {
    match commit.filter(|commit| !commit.is_empty()) {
        Some(commit) => format!("{number} ({commit})"),
        None => number.to_owned(),
    }
}

/// The reason and the tip of an error of clap, without the usage.
fn one_line(rendered: &str) -> String {
    let mut lines = rendered.lines().map(str::trim).filter(|line| !line.is_empty());
    let reason = lines.next().unwrap_or_default();
    let mut reason = reason.strip_prefix("error: ").unwrap_or(reason).to_owned();
    if reason.ends_with(':') {
        let listed: Vec<&str> =
            lines.by_ref().take_while(|line| !line.starts_with("Usage")).collect();
        reason = format!("{reason} {}", listed.join(", "));
    }
    match lines.find_map(|line| line.strip_prefix("tip: ")) {
        Some(tip) => format!("{reason}; {tip}"),
        None => reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn the_definition_of_the_command_line_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn the_version_has_its_commit_where_that_is_known() {
        assert_eq!(version("1.2.3", None), "1.2.3");
        assert_eq!(version("1.2.3", Some("abc")), "1.2.3 (abc)");
    }

    #[test]
    fn a_wrong_command_line_is_one_line() {
        let check = |arguments: &[&str], want: &str| {
            let arguments = std::iter::once("promkairos").chain(arguments.iter().copied());
            let arguments = arguments.map(OsString::from).collect();
            let error = parse(arguments).expect_err("refused").to_string();
            assert_eq!(error, want);
        };
        check(
            &["--stor=x"],
            "unexpected argument '--stor' found; a similar argument exists: '--store'; \
             see promkairos --help",
        );
        check(
            &["delete", "--match=up"],
            "the following required arguments were not provided: --start <TIME>, --end <TIME>; \
             see promkairos delete --help",
        );
        check(
            &["--listen=a:1", "index", "drop", "a", "b"],
            "unexpected argument 'b' found; see promkairos index drop --help",
        );
        check(&["nonsense"], "unrecognized subcommand 'nonsense'; see promkairos --help");
    }

    #[test]
    fn flags_stand_before_or_after_the_command() {
        for arguments in
            [["promkairos", "serve", "--listen=a:1"], ["promkairos", "--listen=a:1", "serve"]]
        {
            let arguments = arguments.map(OsString::from).to_vec();
            let matches = parse(arguments).expect("valid").expect("no help");
            let (name, matches) = matches.subcommand().expect("a command");
            assert_eq!(name, "serve");
            assert_eq!(Config::load(matches).expect("valid").listen, "a:1");
        }
    }
}
