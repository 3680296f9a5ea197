//! The plan of a query: a checked tree made ready for evaluation.
//!
//! Durations are numbers here, `@ start()` and `@ end()` are times, and functions of the times of the query are
//! constants. Parts whose value is the same at all steps are under [`Node::Once`]. Reads from the store are a list of
//! selections, without duplicates. Planning reads no data.

mod around;
mod invariance;
mod node;
mod planner;
mod selection;
mod shared_lookup;

pub(crate) use node::{
    Aggregate, Argument, Binary, Call, Lookup, Node, Operand, Plan, Range, ResetHints, Selector,
    Source,
};
pub(crate) use planner::{Query, plan};
pub(crate) use selection::{Requested, SelectionId, Selections};
