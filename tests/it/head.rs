//! Tests: the head, in front of a memory store, and its log.

mod wal;
