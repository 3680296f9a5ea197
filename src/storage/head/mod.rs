//! Log and recent samples in memory in front of any store.

pub mod wal;
