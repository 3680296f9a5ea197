//! The stores, and the trait that they share.

pub mod cassandra;
pub mod embedded;
pub mod head;

pub use promkairos_storage::*;
