//! The memory store: oracle and test store.
