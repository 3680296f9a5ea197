//! Tests: wire.
