//! Keys that stand below settings: in tables of the settings file, and in the web configuration.
//!
//! Each is defined beside its parser, which takes these keys and no others, and the page of settings
//! shows the same definitions. No value is read here, and no setting of its own is defined.

use std::borrow::Cow;

use super::{clusters, global, tag_index, ttl_by_metric, web};

/// A key of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// As it is written; in capitals where the user chooses it.
    pub name: &'static str,
    /// What its value is and means: one sentence.
    pub help: Cow<'static, str>,
    /// What holds where it is left out.
    pub unsaid: &'static str,
}

impl Key {
    pub(super) const fn new(name: &'static str, help: &'static str, unsaid: &'static str) -> Self {
        Self { name, help: Cow::Borrowed(help), unsaid }
    }
}

/// What holds where a key without which a table means nothing is left out.
pub(super) const REFUSED: &str = "refused";

/// A table, and the keys that it may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyTable {
    /// The setting that the table is, or that names the file in which it stands.
    pub setting: &'static str,
    /// The keys that lead to it, as they are written; empty for the top of a file.
    pub place: &'static str,
    /// What it is about: one sentence.
    pub help: &'static str,
    /// In the order of the page.
    pub keys: Vec<Key>,
}

/// All tables, in the order of the page.
pub fn key_tables() -> Vec<KeyTable> {
    let mut tables = vec![clusters::read_table(), clusters::metadata_table()];
    tables.extend([tag_index::table(), ttl_by_metric::table(), global::table()]);
    tables.extend(web::tables());
    tables
}
