//! Tests: api.
