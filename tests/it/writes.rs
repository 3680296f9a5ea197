//! Tests: writes.
