//! Why settings are refused, and where a refused value was given. Each error is one line.
//!
//! A value that may be a secret, a list or a table is not repeated.

use std::fmt;
use std::path::PathBuf;

/// Why the settings are refused. Each is one line.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file that cannot be read.
    #[error("{path}: {source}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file that is not TOML or YAML, not of the form expected, or not supported.
    #[error("{path}:{line}: {reason}", path = path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// What is wrong, and the key if it concerns one.
        reason: String,
    },
    /// A key that is not a setting.
    #[error(
        "{path}:{line}: unknown setting {key}{hint}",
        path = path.display(),
        hint = similar.as_ref().map(|key| format!(", did you mean {key}?")).unwrap_or_default()
    )]
    UnknownKey {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// The key.
        key: String,
        /// The key that was probably meant.
        similar: Option<String>,
    },
    /// A variable that is not a setting.
    #[error(
        "unknown environment variable {name}{hint}",
        hint = similar.as_ref().map(|name| format!(", did you mean {name}?")).unwrap_or_default()
    )]
    UnknownVariable {
        /// The variable.
        name: String,
        /// The variable that was probably meant.
        similar: Option<String>,
    },
    /// A variable of OpenTelemetry whose value is refused; the value may be a secret.
    #[error("{name}: {reason}")]
    Variable {
        /// The variable.
        name: &'static str,
        /// Why it is refused.
        reason: String,
    },
    /// A KairosDB configuration that cannot be taken over.
    #[error("{path}: {reason}", path = path.display())]
    KairosDb {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A value that is refused.
    #[error("{}: {reason}", describe(name, shown, origin))]
    Invalid {
        /// The setting.
        name: &'static str,
        /// The part of its value that is repeated.
        shown: Shown,
        /// Where the value was given.
        origin: Origin,
        /// Why it is refused.
        reason: String,
    },
}

/// Where the value of a setting was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The command line.
    Flag,
    /// An environment variable.
    Environment,
    /// A file.
    File {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
    },
    /// A KairosDB's configuration.
    KairosDb {
        /// The file.
        path: PathBuf,
        /// The entry. Boxed to keep errors small.
        entry: Box<str>,
        /// Line, from 1; `None` = unknown, such as for an entry from a substitution.
        line: Option<u32>,
    },
    /// Nowhere: the default.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag => f.write_str("the command line"),
            Self::Environment => f.write_str("the environment"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::KairosDb { path, entry, line } => {
                write!(f, "{entry} in {}", path.display())?;
                line.map_or(Ok(()), |line| write!(f, ":{line}"))
            }
            Self::Default => f.write_str("nobody"),
        }
    }
}

/// The part of a value that an error repeats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shown {
    /// All of it, as it was written.
    Value(String),
    /// Nothing, because it is a list or a table: only the path of the refused entry, empty for the
    /// whole value.
    Entry(String),
}

/// A setting with its value as written, or with the entry of it.
fn describe(name: &str, shown: &Shown, origin: &Origin) -> String {
    let key = name.replace('-', "_");
    let after = |separator: &str| match shown {
        Shown::Value(value) => format!("{separator}{value:?}"),
        Shown::Entry(entry) => entry.clone(),
    };
    match (origin, shown) {
        (Origin::Default, Shown::Value(_)) => format!("--{name}"),
        (Origin::Flag | Origin::Default, _) => format!("--{name}{}", after(" ")),
        (Origin::Environment, _) => {
            format!("PROMKAIROS_{}{}", key.to_ascii_uppercase(), after("="))
        }
        (Origin::File { .. }, _) => format!("{key}{} in {origin}", after(" = ")),
        (Origin::KairosDb { .. }, Shown::Value(value)) => {
            format!("{value:?} of {origin} for --{name}")
        }
        (Origin::KairosDb { .. }, Shown::Entry(entry)) => format!("{origin} for --{name}{entry}"),
    }
}
