//! The stores, the trait that they implement, and what they share.

pub mod cassandra;
pub mod embedded;
pub mod head;

pub use promkairos_storage::*;
