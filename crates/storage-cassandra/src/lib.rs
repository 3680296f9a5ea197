//! Stores series in the KairosDB schema over CQL, in a keyspace that KairosDB may use too.
//!
//! A write is durable and findable when it is acknowledged: index rows first, then data, each at the write
//! consistency. Cassandra holds everything that must outlive the process, except the quarantine file.
//! Memory holds the known index rows and the series of windows (both save work and are checked again), the
//! last write stamp, and the clock skew. Decisions are pure (`plan`, `routing`, `retry`, `concurrency`,
//! `stamp`, `index::memory`, `series_cache`, `cached_window`); the other files carry them out. `store` composes
//! the parts; arrows between the files point downwards.
//!
//! Not stored: start timestamps of floats, for which a `kairos_double` cell has no room.

mod admin;
mod cql;
mod cut;
mod delete;
pub mod doctor;
mod identity;
mod index;
mod ingest_flush;
mod lifetime;
mod metadata;
mod node_starts;
mod options;
mod plan;
mod points;
pub mod quarantine;
mod refused_writes;
mod schema;
mod skipped;
mod store;
mod write;

pub use crate::admin::explain::{Explanation, LegacyExplanation, WindowExplanation, WindowPath};
pub use crate::admin::job::{Job, JobKind, JobState};
pub use crate::admin::status::{TagIndexStatus, TagStatus};
pub use crate::lifetime::check;
pub use crate::options::KeepUnsynced;
pub use crate::options::certificates::{Certificates, Tls};
pub use crate::options::credentials::Credentials;
pub use crate::options::read_cache::{LEAST_SETTLED_AFTER, MOST_CACHE_AGE, ReadCacheOptions};
pub use crate::options::tag_index::{TagIndexOptions, TagIndexTrust};
pub use crate::options::{ExpectedCluster, Keyspace, Options, OptionsError, Replication, Role};
pub use crate::plan::planner::refuse;
pub use crate::quarantine::Quarantine;
pub use crate::schema::tag_index_document;
pub use crate::skipped::{LeftOut, LeftOutByReason, Skipped};
pub use crate::store::CassandraStore;
pub use scylla::client::Compression;
pub use scylla::statement::Consistency;

#[cfg(test)]
#[path = "../../storage/src/counting.rs"]
mod counting;
