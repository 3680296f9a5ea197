//! Tests: prometheus.
