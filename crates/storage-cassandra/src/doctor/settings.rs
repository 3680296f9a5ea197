//! The settings of a check.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::doctor::kind::Kind;
use crate::index::tombstones::PORTION;

/// Settings of a check.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The kinds of findings to fix.
    pub fix: BTreeSet<Kind>,
    /// Whether to read the cells too.
    pub depth: Depth,
    /// How long a window must have been closed, and its index unchanged, before any of its rows
    /// counts as superfluous.
    pub settled: Duration,
    /// How long to wait before a second look at suspicious rows.
    pub pause: Duration,
    /// Reads per second; none = no limit.
    pub rate: Option<u32>,
    /// Slices of a table: the steps from which an interrupted check can continue.
    pub slices: u32,
    /// A partition with more rows is listed as wide.
    pub wide: u64,
    /// A partition of data with more cells of the last hour is listed as hot.
    pub hot: u64,
    /// The most rows deleted of one index partition: each leaves a tombstone.
    pub most_deleted: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            fix: BTreeSet::new(),
            depth: Depth::Cells,
            settled: Duration::from_secs(24 * 3600),
            pause: Duration::from_secs(5),
            rate: Some(2_000),
            slices: 256,
            wide: 100_000,
            hot: 36_000,
            most_deleted: PORTION,
        }
    }
}

/// How deep to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Depth {
    /// The index and whether there is data; not write times, expiry and width.
    Index,
    /// Every cell.
    Cells,
}
