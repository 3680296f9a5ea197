//! Tests: kairos.
