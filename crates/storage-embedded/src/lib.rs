//! The store of one machine: a head, which is a log and the recent samples in memory, and parts, which are immutable
//! files with an index.
//!
//! The head is in front of any [`Store`](promkairos_storage::Store): over [`parts`] it makes the embedded store,
//! over Cassandra it acknowledges writes before Cassandra has them. Neither knows the other but for that trait.

pub mod head;
pub mod parts;

#[cfg(test)]
#[path = "../../storage/src/counting.rs"]
mod counting;
