//! The KairosDB schema over CQL.
