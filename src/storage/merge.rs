//! Merging chunks of one series.
