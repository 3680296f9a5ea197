//! How many tombstones a partition of an index may get. Cassandra gives up on reads past too many of them
//! (`tombstone_failure_threshold`, 100,000).

/// Index rows of a partition that a delete removes one by one: far below Cassandra's limit for reads.
pub(crate) const PORTION: usize = 10_000;

/// Rows of a partition that are deleted one by one before all are removed together: as many tombstones as Cassandra
/// accepts without a warning (`tombstone_warn_threshold`).
pub(crate) const SAMPLE: usize = 1_000;
