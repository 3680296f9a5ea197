//! Speaks CQL: the session, statements with their retries and permits, and the clock by which writes are ordered.
//! No file here knows a row of KairosDB.

pub(crate) mod cause;
pub(crate) mod clock;
pub(crate) mod concurrency;
pub(crate) mod concurrent;
pub(crate) mod connection;
pub(crate) mod cuts;
pub(crate) mod datacenter;
pub(crate) mod durability;
pub(crate) mod each_node;
pub(crate) mod executor;
pub(crate) mod failure;
pub(crate) mod key_lists;
pub(crate) mod once;
pub(crate) mod pages;
pub(crate) mod prepared;
pub(crate) mod rate;
pub(crate) mod replicas;
pub(crate) mod retry;
pub(crate) mod ring;
pub(crate) mod rows;
pub(crate) mod session;
pub(crate) mod stamp;
pub(crate) mod write_permits;
