//! Simulates the embedded store and its log: random histories on a disk in memory that fails, and kills at every
//! operation of the disk, compared with a model.
//!
//! The law: what was acknowledged is found, with its bits, or a loud error says why not. What was refused may be there
//! or not, but nothing else may. A history is known by its seed. It does not simulate threads: two runs of a seed have
//! the same operations, but not always the same order of those that run side by side.

#[path = "../../it/batch.rs"]
#[expect(dead_code, reason = "other tests use more of it")]
mod batch;
pub mod disk;
pub mod history;
pub mod kills;
pub mod met;
pub mod model;
mod store;

/// Whether the long forms are asked for (`./test.sh long`).
pub fn long() -> bool {
    std::env::var_os("PROMKAIROS_TEST_LONG").is_some_and(|value| value == "1")
}

/// The first seed of a test: `PROMKAIROS_TEST_SEED`, else a random one.
pub fn seed() -> u64 {
    let text = std::env::var("PROMKAIROS_TEST_SEED").ok();
    text.and_then(|text| text.parse().ok()).unwrap_or_else(rand::random)
}
