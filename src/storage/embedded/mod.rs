//! The embedded store: immutable part files.
