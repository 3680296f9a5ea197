//! `promkairos health`: requests `/-/healthy` or `/-/ready` from the running server, for containers
//! and scripts that have no other client.
//!
//! Prints the answer, or why there was none in time, on stdout. The exit code is 0 for an answer
//! with status 200, 1 for anything else, and 2 if an argument is wrong or a file that it names
//! cannot be read. Over `https://` the server is checked against `--server-ca`, as by every command
//! with a server. No user, password or token is ever sent: these two pages need none.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command};

use super::client::{self, Client};
use super::error::CliError;
use super::output;

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The command's definition.
pub(super) fn command() -> Command {
    Command::new("health")
        .about("Ask the running server whether it is healthy: the exit code is 0 if so, else 1")
        .arg(
            Arg::new("ready")
                .long("ready")
                .action(ArgAction::SetTrue)
                .help("Ask /-/ready, whether it takes writes, instead of /-/healthy"),
        )
        .args(client::arguments())
}

/// Runs `health`.
pub(super) fn run(matches: &ArgMatches) -> Result<ExitCode, CliError> {
    let path = match matches.get_flag("ready") {
        true => "/-/ready",
        false => "/-/healthy",
    };
    match Client::of(matches)?.page(path, PATIENCE) {
        Ok((200, text)) => {
            output::print(&text)?;
            Ok(ExitCode::SUCCESS)
        }
        Ok((status, text)) => {
            let hint = match text.contains("to an HTTPS server") {
                true => " Try --server https://NAME:PORT, NAME being one of its certificate's.",
                false => "",
            };
            output::print(&format!("{status}: {}{hint}\n", text.trim_end()))?;
            Ok(ExitCode::FAILURE)
        }
        Err(error) => {
            output::print(&format!("{error}\n"))?;
            Ok(ExitCode::FAILURE)
        }
    }
}
