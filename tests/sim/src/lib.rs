//! Simulates the embedded store and its log: random histories on a disk in memory that fails, and
//! kills at every operation of the disk, compared with a model.
//!
//! The law: acknowledged data is found, bit for bit, or an error says why not. Refused data may be
//! found or not, but nothing else may. A seed identifies a history. Threads are not simulated: two
//! runs of a seed have the same operations, but concurrent ones may be in another order.

#[path = "../../it/batch.rs"]
#[expect(dead_code, reason = "other tests use more of it")]
mod batch;
pub mod disk;
pub mod history;
pub mod kills;
pub mod met;
pub mod model;
mod store;

/// Whether the long tests are enabled (`./test.sh long`).
pub fn long() -> bool {
    std::env::var_os("PROMKAIROS_TEST_LONG").is_some_and(|value| value == "1")
}

/// The first seed of a test: `PROMKAIROS_TEST_SEED`, or a random one.
pub fn seed() -> u64 {
    let text = std::env::var("PROMKAIROS_TEST_SEED").ok();
    text.and_then(|text| text.parse().ok()).unwrap_or_else(rand::random)
}
