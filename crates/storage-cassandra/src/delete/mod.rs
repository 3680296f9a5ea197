//! Deletes: points by slice or by whole row, then index rows that no process relies on.
//!
//! A process remembers which index rows it wrote and does not notice deletes by others. KairosDB does so as long as it
//! runs, for windows of every age. So only our cell `value` of an index row is deleted: a row that KairosDB wrote too
//! stays, a row that only we wrote disappears. It is deleted only where the window closed long ago, the row leads to
//! no data, and no other adapter runs. `promkairos doctor --fix` removes the others on request. Rows of the legacy
//! index, which no program writes any more, are always deleted.
//!
//! Each deleted index row leaves a tombstone in its partition, and Cassandra gives up on reads past too many of them
//! (`tombstone_failure_threshold`, 100,000). So at most `PORTION` rows of a window are deleted one by one. The rest
//! stays and leads to no data, unless all rows of the window are removed together (`Removal::Together`).
//!
//! Windows are handled a few at a time ([`affected`]), so memory does not grow with their number. Writes continue. A
//! delete is a task of its own, one at a time, and is finished even when the caller goes away. All tombstones carry
//! milliseconds. [`cost`] counts what a delete would leave.

pub(crate) mod affected;
pub(crate) mod cost;
pub(crate) mod deletes;
