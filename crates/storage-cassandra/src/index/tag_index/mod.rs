//! The tag index, `tag_indexed_row_keys`: written for the configured tags, read for the windows
//! that are known to be covered.
//!
//! Coverage is recorded in the keyspace (`tag_index_document`), changes in steps that all running adapters
//! follow (`steps`, `coordination`), and is never guessed: a window that is not covered is read
//! from `row_keys`. Each write and each read acts by one version of the record.

pub(crate) mod audit;
pub(crate) mod audited;
pub(crate) mod coordination;
pub(crate) mod delete;
pub(crate) mod lookup;
pub(crate) mod opening;
pub(crate) mod route;
pub(crate) mod state;
pub(crate) mod statements;
pub(crate) mod steps;
pub(crate) mod writer;
