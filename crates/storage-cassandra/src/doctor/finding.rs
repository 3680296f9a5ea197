//! A finding: what is wrong, as text for people, and how to fix it. Decided in `judge`, carried out in
//! `fix`.

use crate::doctor::kind::Kind;
use crate::identity::Identity;
use crate::index::window::{Window, WindowKey};
use promkairos_kairos::index::{RowKeyRow, StringIndexRow, TagIndexRow};
use promkairos_kairos::{RowKey, RowSpec};

/// Something wrong.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Finding {
    pub(super) kind: Kind,
    /// Empty where the finding is not about a metric.
    pub(super) metric: String,
    /// What the finding is about, as text for people.
    pub(super) subject: String,
    /// The fix; none = nothing can fix it.
    pub(super) fix: Option<Fix>,
}

/// The fix of a finding. Index rows follow from the key of a data row.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Fix {
    WriteRowKey(RowKeyRow, i32),
    WriteTimeIndex(Window, i32),
    WriteName(StringIndexRow),
    WriteTagIndex(TagIndexRow, i32),
    /// Unless there is data by now.
    DeleteRowKey(RowKeyRow),
    /// Whatever the row leads to.
    DeleteMisplaced(RowKeyRow),
    /// Unless there is data by now.
    DeleteTagIndex(TagIndexRow),
    /// Unless the window has data by now.
    DeleteTimeIndex(Window),
    DeleteLegacy(RowKey),
    /// The points and the row of `row_keys`.
    DeleteData(RowKey),
    WriteSpec(RowSpec),
    AlterCompaction {
        table: String,
        options: Vec<(String, String)>,
    },
}

impl Fix {
    /// The partition of the index in which this leaves a tombstone.
    pub(super) fn takes_a_row_of(&self) -> Option<Identity> {
        let window = |row: &RowKeyRow| WindowKey::from(row).identity();
        match self {
            Self::DeleteRowKey(row) | Self::DeleteMisplaced(row) => {
                Some(window(row).and(&[b"row_keys"]))
            }
            Self::DeleteTagIndex(tag) => {
                Some(window(&tag.row).and(&[tag.single_tag_pair.as_bytes()]))
            }
            Self::DeleteTimeIndex(row) => Some(Identity::of(&[b"times", row.metric.as_bytes()])),
            Self::DeleteLegacy(key) => Some(Identity::of(&[b"legacy", key.metric.as_bytes()])),
            Self::DeleteData(key) => Some(window(&RowKeyRow::of(key)).and(&[b"row_keys"])),
            Self::WriteRowKey(..)
            | Self::WriteTimeIndex(..)
            | Self::WriteName(_)
            | Self::WriteTagIndex(..)
            | Self::WriteSpec(_)
            | Self::AlterCompaction { .. } => None,
        }
    }
}

impl Finding {
    /// Identifies a finding about a whole window or metric; None for rows, because each row is
    /// looked at once.
    pub(super) fn identity(&self) -> Option<Identity> {
        let kind = self.kind.name().as_bytes();
        match &self.fix {
            Some(Fix::WriteTimeIndex(row, _)) => {
                let window = [kind, row.table_name.as_str().as_bytes(), row.metric.as_bytes()];
                Some(Identity::of(&window).with(row.row_time.millis()))
            }
            Some(Fix::WriteName(row)) => {
                let list = StringIndexRow::key(row.table_name);
                Some(Identity::of(&[kind, list, row.metric.as_bytes()]))
            }
            _ => None,
        }
    }
}
