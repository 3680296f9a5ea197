//! The HTTP surface: router, remote write, remote read.
