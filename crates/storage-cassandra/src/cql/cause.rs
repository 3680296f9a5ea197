//! The innermost cause of a driver's error, in one line, without its wrappings.
//!
//! Pure. No decision depends on these texts: `retry` judges statements, and the caller adds the
//! host.

use scylla::errors::{
    BrokenConnectionError, BrokenConnectionErrorKind as Broken, ConnectionError,
    ConnectionPoolError, ConnectionSetupRequestErrorKind as SetupError, DbError, ExecutionError,
    FrameHeaderParseError, MetadataError, NewSessionError, PrepareError, RequestAttemptError,
};

/// The lowest version of the protocol that the driver does not support.
const NEWER: u8 = 5;
/// The most characters of a cause.
const MAX_CHARS: usize = 200;

/// Why a statement failed.
pub(crate) fn of_execution(error: &ExecutionError) -> String {
    match error {
        ExecutionError::ConnectionPoolError(error)
        | ExecutionError::PrepareError(PrepareError::ConnectionPoolError(error))
        | ExecutionError::MetadataError(MetadataError::ConnectionPoolError(error)) => pool(error),
        ExecutionError::EmptyPlan => "no node is up in the data centre that is asked".into(),
        ExecutionError::RequestTimeout(most) => {
            format!("no answer within {most:?} (--cassandra-request-timeout)")
        }
        ExecutionError::LastAttemptError(RequestAttemptError::BrokenConnectionError(error)) => {
            broken(error)
        }
        ExecutionError::LastAttemptError(RequestAttemptError::DbError(error, message)) => {
            one_line(if message.is_empty() { error.to_string() } else { message.clone() })
        }
        other => one_line(other.to_string()),
    }
}

/// Why no session was opened.
pub(crate) fn of_session(error: &NewSessionError) -> String {
    match error {
        NewSessionError::MetadataError(MetadataError::ConnectionPoolError(error)) => pool(error),
        NewSessionError::FailedToResolveAnyHostname(_) => "the host name is not known".into(),
        other => one_line(other.to_string()),
    }
}

/// A refusal that lasts until a setting changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// User and password, or their absence.
    Login,
    /// The certificate of the node.
    Certificate,
}

/// The refusal that kept a session from opening, if it was one.
pub(crate) fn of_refusal(error: &NewSessionError) -> Option<Refusal> {
    let NewSessionError::MetadataError(MetadataError::ConnectionPoolError(error)) = error else {
        return None;
    };
    let ConnectionPoolError::Broken { last_connection_error } = error else { return None };
    match last_connection_error {
        ConnectionError::ConnectionSetupRequestError(error) => match error.get_error() {
            SetupError::DbError(DbError::AuthenticationError, _)
            | SetupError::StartAuthSessionError(_) => Some(Refusal::Login),
            _ => None,
        },
        ConnectionError::IoError(error) => match error.get_ref()?.downcast_ref()? {
            rustls::Error::InvalidCertificate(_) => Some(Refusal::Certificate),
            _ => None,
        },
        _ => None,
    }
}

fn pool(error: &ConnectionPoolError) -> String {
    match error {
        ConnectionPoolError::Broken { last_connection_error } => connection(last_connection_error),
        other => one_line(other.to_string()),
    }
}

fn connection(error: &ConnectionError) -> String {
    match error {
        ConnectionError::BrokenConnection(error) => broken(error),
        ConnectionError::ConnectTimeout => "no connection in time".into(),
        ConnectionError::ConnectionSetupRequestError(error) => match error.get_error() {
            SetupError::BrokenConnection(error) => broken(error),
            SetupError::DbError(_, message) => one_line(message.clone()),
            SetupError::StartAuthSessionError(why) => one_line(why),
            other => one_line(other.to_string()),
        },
        other => one_line(other.to_string()),
    }
}

fn broken(error: &BrokenConnectionError) -> String {
    match error.downcast_ref() {
        Some(Broken::FrameHeaderParseError(FrameHeaderParseError::VersionNotSupported(
            version @ NEWER..=9,
        ))) => format!(
            "it speaks version {version} of the CQL protocol alone, and promkairos version 4: set \
             native_transport_allow_older_protocols: true in its cassandra.yaml"
        ),
        Some(Broken::FrameHeaderParseError(error)) => {
            one_line(format!("the connection broke: {error}"))
        }
        Some(Broken::WriteError(error)) => one_line(format!("the connection broke: {error}")),
        _ => "the connection broke".into(),
    }
}

/// The text without line breaks, cut at [`MAX_CHARS`].
pub(crate) fn one_line(text: impl AsRef<str>) -> String {
    let words: Vec<&str> = text.as_ref().split_whitespace().collect();
    let line = words.join(" ");
    match line.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_innermost_cause_stands_alone() {
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        let refused = ConnectionError::IoError(Arc::new(refused));
        let broken = ConnectionPoolError::Broken { last_connection_error: refused };
        let answer = RequestAttemptError::DbError(DbError::Overloaded, "too\n  much ".into());
        for (error, want) in [
            (broken.into(), "connection refused"),
            (answer.into(), "too much"),
            (
                ExecutionError::RequestTimeout(Duration::from_secs(2)),
                "no answer within 2s (--cassandra-request-timeout)",
            ),
        ] {
            assert_eq!(of_execution(&error), want);
        }
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(one_line("ä".repeat(300)), format!("{}...", "ä".repeat(200)));
    }
}
