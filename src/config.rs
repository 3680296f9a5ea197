//! Raw settings to one validated configuration.
