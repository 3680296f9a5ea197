//! Why a command failed: one line, and an exit code.

use std::io::ErrorKind as IoErrorKind;
use std::process::ExitCode;

use crate::config::ConfigError;
use crate::server::ServerError;
use crate::storage::StoreError;

/// Why a command failed: one line.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// A wrong command line.
    #[error("{what}; see promkairos {command}--help")]
    Usage {
        /// What is wrong.
        what: String,
        /// The command, with a space after it; empty = none.
        command: String,
    },
    /// Refused settings.
    #[error("{0}")]
    Config(#[from] ConfigError),
    /// The server did not start, or failed.
    #[error("{0}")]
    Server(#[from] ServerError),
    /// The request is impossible: an argument, a file that it names, or a setting is wrong.
    #[error("{0}")]
    Refused(String),
    /// A command failed.
    #[error("{0}")]
    Command(String),
    /// The operating system refused an operation that the command needs.
    #[error("{what}: {source}")]
    System {
        /// The operation.
        what: String,
        /// Why not.
        source: std::io::Error,
    },
}

/// The exit code if an argument or a setting has to change.
pub(super) const WRONG: u8 = 2;
/// The exit code of all other failures.
pub(super) const FAULT: u8 = 1;

impl CliError {
    /// The exit code: 2 if an argument or a setting has to change first, 1 for a failure after
    /// which the same command may succeed.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Usage { .. } | Self::Config(_) | Self::Refused(_) => WRONG,
            Self::Server(error) => of_server(error),
            Self::Command(_) | Self::System { .. } => FAULT,
        })
    }

    /// A wrong command line.
    pub(super) fn usage(what: String) -> Self {
        Self::Usage { what, command: String::new() }
    }

    /// The system refused the operation `what`.
    pub(super) fn system(what: &'static str) -> impl Fn(std::io::Error) -> Self + Copy {
        move |source| Self::System { what: what.into(), source }
    }

    /// The same as [`Self::usage`], for a command.
    pub(super) fn of(self, command: &str) -> Self {
        match self {
            Self::Usage { what, .. } => Self::Usage { what, command: command.to_owned() },
            other => other,
        }
    }

    /// A store's error in a command; `whose` precedes it if there are several stores.
    pub(super) fn of_store(whose: &str, error: &StoreError) -> Self {
        let text = match whose {
            "" => error.to_string(),
            whose => format!("{whose}: {error}"),
        };
        Self::with_code(of_store(error), text)
    }

    /// The failure of a command with this exit code.
    pub(super) fn with_code(code: u8, text: String) -> Self {
        match code {
            WRONG => Self::Refused(text),
            _ => Self::Command(text),
        }
    }
}

fn of_server(error: &ServerError) -> u8 {
    match error {
        ServerError::Unserved { .. } | ServerError::Foreign { .. } => WRONG,
        ServerError::DataDir { source, .. } => match source.kind() {
            IoErrorKind::NotADirectory | IoErrorKind::NotFound => WRONG,
            _ => FAULT,
        },
        ServerError::Store { source, .. } => of_store(source),
        ServerError::Locked { .. } | ServerError::Serve(_) => FAULT,
    }
}

/// The exit code of an error of a store.
pub(super) fn of_store(error: &StoreError) -> u8 {
    if matches!(error, StoreError::Invalid(_)) { WRONG } else { FAULT }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_to_change_something_is_told_apart_from_a_fault() {
        let server = |source| CliError::Server(ServerError::Store { what: "x", source });
        let away = StoreError::Unavailable { what: "x".into(), retry_after: Default::default() };
        let folder = |kind: IoErrorKind| {
            CliError::Server(ServerError::DataDir { path: "d".into(), source: kind.into() })
        };
        for (error, want) in [
            (CliError::usage("x".into()), WRONG),
            (server(StoreError::Invalid("x".into())), WRONG),
            (server(StoreError::Denied("x".into())), FAULT),
            (CliError::of_store("", &away), FAULT),
            (CliError::of_store("", &StoreError::Invalid("x".into())), WRONG),
            (CliError::Server(ServerError::Locked { path: "d".into() }), FAULT),
            (CliError::Server(ServerError::Unserved { log: "d".into() }), WRONG),
            (folder(IoErrorKind::NotADirectory), WRONG),
            (folder(IoErrorKind::StorageFull), FAULT),
            (CliError::System { what: "x".into(), source: IoErrorKind::AddrInUse.into() }, FAULT),
        ] {
            assert_eq!(error.exit_code(), ExitCode::from(want), "{error:?}");
        }
    }
}
