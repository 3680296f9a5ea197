//! Tests: head.
