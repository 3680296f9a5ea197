//! Runs the simulator: random histories of consecutive seeds, seeds that once broke the law, and an end at each
//! operation of the disk.

use sim::history;
use sim::kills::{self, End};
use sim::met::Met;

/// Seeds that once broke the law: a segment was withdrawn although the checkpoint knew half of its first
/// record; a segment without a record, which could not be removed, was before another such segment.
const FOUND: [u64; 2] = [17_417_279_382_651_834_825, 17_417_279_382_651_834_873];

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_is_found_or_an_error_says_why_not() {
    let (first, histories) = (sim::seed(), if sim::long() { 10_000 } else { 400 });
    let mut met = Met::default();
    for seed in FOUND.into_iter().chain((0..histories).map(|number| first.wrapping_add(number))) {
        if let Err(error) = history::run(seed, &mut met).await {
            panic!("cargo run -p sim -- --seed {seed}: {error}");
        }
    }
    assert_eq!(met.rarer_than(3), [], "{met:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_at_any_operation_of_the_disk_loses_nothing() {
    for end in [End::Kill, End::PowerCut] {
        let mut operation = 1;
        while !kills::run(operation, end).await.expect("the law holds") {
            operation += 1;
        }
        assert!(operation > 100, "{end:?}: only {operation} operations");
    }
}
