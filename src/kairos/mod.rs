//! Pure bytes of the KairosDB Cassandra schema.
