//! Tests: cassandra.
