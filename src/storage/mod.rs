//! The stores, the trait that they implement, and what they share, under one name.

pub use promkairos_storage::*;
pub use promkairos_storage_cassandra as cassandra;
pub use promkairos_storage_embedded::{head, parts as embedded};
