//! Tests: embedded.
