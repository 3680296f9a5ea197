//! Stores series in the KairosDB schema over CQL, in a keyspace that KairosDB may use too.
//!
//! A write is durable and findable when it is acknowledged: index rows first, then data, each at the write
//! consistency. Cassandra holds everything that must outlive the process, except the quarantine file.
//!
//! Memory holds the last write stamp, the clock skew and the recorded state of the tag index. It also remembers what
//! saves reads, each for a bounded time: known index rows, series of windows, answers of the label endpoints, and
//! where rows end or are cut. The files of the read cache may be lost.
//!
//! `store` composes the parts. Files that decide do no I/O: `plan`, `lifetime`, `cql::retry`, `cql::concurrency`,
//! `cql::stamp`, `index::routing`, `index::memory`, `index::series_cache`, `index::cached_window`. The other files
//! carry the decisions out. Arrows between files point downwards.
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
