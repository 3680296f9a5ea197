//! Remote write 1.0 and 2.0, decoded from a slice.
