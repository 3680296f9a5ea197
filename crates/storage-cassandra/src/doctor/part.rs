//! The results of a look at a row, and of a part of a stage.

use std::collections::BTreeMap;

use crate::doctor::finding::Finding;
use crate::doctor::gathered::Gathered;
use crate::doctor::report::{Facts, Outcome, Report};
use crate::identity::Identity;

/// The result of a look at a row.
#[derive(Debug, Default)]
pub(super) struct Look {
    pub(super) findings: Vec<Finding>,
    pub(super) facts: Facts,
    pub(super) gathered: Gathered,
}

/// The result of a part of a stage.
#[derive(Debug, Default)]
pub(super) struct Part {
    pub(super) report: Report,
    pub(super) gathered: Gathered,
    /// Findings that other parts may have too.
    pub(super) shared: BTreeMap<Identity, (Finding, Outcome)>,
}
