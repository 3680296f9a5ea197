//! `promkairos health`: asks the running server whether it is healthy, for containers and scripts
//! that have no other client.
//!
//! What the server said is on stdout. The exit code is 0 when it answers 200, and 1 when it does
//! not, whatever the reason.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command};

use super::CliError;
use super::client::{self, Client};
use super::output;

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The command's definition.
pub(super) fn command() -> Command {
    Command::new("health")
        .about("Ask the running server whether it is healthy; the exit code is 0 or 1")
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
            output::print(&format!("{status}: {}\n", text.trim_end()))?;
            Ok(ExitCode::FAILURE)
        }
        Err(error) => {
            output::print(&format!("{error}\n"))?;
            Ok(ExitCode::FAILURE)
        }
    }
}
