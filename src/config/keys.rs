//! Keys of the tables within settings, in the settings file and in the web configuration.
//!
//! Each key is defined beside its parser, which accepts no other keys; the page of settings is
//! generated from the same definitions. No value is read here, and no setting is defined.

use std::borrow::Cow;

/// A key of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// Its name; in capitals where the user chooses it.
    pub name: &'static str,
    /// What its value is and means; one sentence.
    pub help: Cow<'static, str>,
    /// The default.
    pub unsaid: &'static str,
}

impl Key {
    pub(super) const fn new(name: &'static str, help: &'static str, unsaid: &'static str) -> Self {
        Self { name, help: Cow::Borrowed(help), unsaid }
    }
}

/// Default of a required key.
pub(super) const REFUSED: &str = "refused";

/// A table, and the keys that it may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyTable {
    /// The setting whose value the table is, or that names the file with the table.
    pub setting: &'static str,
    /// The path of keys to the table; empty for the top level of a file.
    pub place: &'static str,
    /// Its purpose; one sentence.
    pub help: &'static str,
    /// In the order of the reference page.
    pub keys: Vec<Key>,
}
