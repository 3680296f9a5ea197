//! `promkairos health`: requests `/-/healthy` or `/-/ready` from the running server, for containers
//! and scripts that have no other client.
//!
//! Prints the answer, or why there was none in time, on stdout. The exit code is 0 for an answer
//! with status 200, 1 for anything else, and 2 if an argument is wrong or a file that it names
//! cannot be read. Over `https://` the server is checked against `--server-ca`, as by every command
//! with a server. No user, password or token is ever sent: these two pages need none.

use std::process::ExitCode;
use std::time::Duration;

use clap::{ArgMatches, Command};

use super::args::switch;
use super::client::{self, Client};
use super::error::CliError;
use super::output;

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The command's definition.
pub(super) fn command() -> Command {
    Command::new("health")
        .about("Ask the running server whether it is healthy: the exit code is 0 if so, else 1")
        .arg(switch("ready", "Ask /-/ready, whether it takes writes, instead of /-/healthy"))
        .args(client::arguments())
}

/// Runs `health`.
pub(super) fn run(matches: &ArgMatches) -> Result<ExitCode, CliError> {
    let path = if matches.get_flag("ready") { "/-/ready" } else { "/-/healthy" };
    let why = match Client::of(matches)?.page(path, PATIENCE) {
        Ok((200, text)) => return output::print(&text).map(|()| ExitCode::SUCCESS),
        Ok((status, text)) => {
            let hint = match text.contains("to an HTTPS server") {
                true => " Try --server https://NAME:PORT, NAME being one of its certificate's.",
                false => "",
            };
            format!("{status}: {}{hint}\n", text.trim_end())
        }
        Err(error) => format!("{error}\n"),
    };
    output::print(&why).map(|()| ExitCode::FAILURE)
}
