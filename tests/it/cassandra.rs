//! The Cassandra store on a real Cassandra. Each test has a keyspace of its own and drops it.

mod ahead;
mod batches;
mod datacenter;
mod dead_rows;
mod deletes;
pub(crate) mod doctor;
mod dropped;
mod expired;
mod full_disk;
mod guardrails;
mod hanging;
mod index;
pub(crate) mod keyspace;
mod late;
mod living;
mod neighbour;
mod noise;
mod overloaded;
mod points;
pub(crate) mod read_cache;
mod refusals;
mod replicas;
mod schema;
mod secure;
mod tag_index;
mod tag_index_kairosdb;
mod ttl;
