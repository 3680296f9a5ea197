//! Checks a keyspace in KairosDB's schema, ours or another's, and fixes what can be fixed.
//!
//! It creates nothing, and writes nothing unless `fix` asks for it. Each stage scans one table over
//! slices of the token ring. A row and the rows that it should lead to, or that should lead to it,
//! are looked up in the other tables, so memory does not grow with the keyspace. A suspicious row
//! is looked at twice, with a pause between: active writers write index and data one after the
//! other. `judge` and `judge_settings`, which are pure, decide whether something is wrong.
//!
//! Not here: the state file and the progress bar, which belong to the command.

mod check;
mod finding;
mod fix;
mod gathered;
mod index_tags;
mod judge;
mod judge_settings;
mod keyspace;
mod kind;
mod leads;
mod look;
mod pages;
mod part;
mod progress;
mod report;
mod scan;
mod scan_rows;
mod settings;
mod shown;
mod stages;
mod statements;
mod survey;

pub use crate::cut::Cut;
pub use crate::doctor::check::Doctor;
pub use crate::doctor::kind::Kind;
pub use crate::doctor::progress::{Progress, Stage};
pub use crate::doctor::report::{Facts, Group, Outcome, Partition, Report};
pub use crate::doctor::settings::{Depth, Settings};
pub use crate::doctor::survey::{Entry, Largest, Measured, MetricCardinality};
