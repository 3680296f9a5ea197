//! Tests: chunk.
