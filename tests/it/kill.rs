//! Tests: kill.
