//! Counts memory allocations of a request over all threads: the log has a thread, and so has the code
//! that applies the log. Tests that count are [`alone`], so that no other test allocates meanwhile.
//!
//! Native histograms and exemplars are not covered: each allocates its own memory.

use std::alloc::System;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use promkairos::model::{Body, Protocol};
use promkairos::storage::Store;
use promkairos::storage::head::{Head, Options};
use promkairos::storage::memory::MemoryStore;
use promkairos::telemetry::HeadMetrics;
use promkairos::wire::{self, Policy, Scratch};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tokio::runtime::Runtime;

use crate::{SERIES, Unsynced, body, is_constant};

#[global_allocator]
pub static COUNTED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// No other test counts until the guard is dropped.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Points of a chunk in memory.
const CHUNK: i64 = 120;
/// Additional allocations for ten times as many series: vectors that double until they fit.
const DOUBLINGS: usize = 40;

/// Allocations and reallocations of a request.
#[derive(Debug, Clone, Copy)]
struct Count {
    decode: usize,
    write: usize,
}

impl Count {
    fn all(self) -> usize {
        self.decode + self.write
    }
}

fn counted(region: &Region<'_, System>) -> usize {
    let change = region.change();
    change.allocations + change.reallocations
}

/// The requests of consecutive scrapes of these series, which are known before.
fn requests(protocol: Protocol, series: &[u32], scrapes: i64) -> Vec<Count> {
    let (runtime, dir) = (Runtime::new().unwrap(), tempfile::tempdir().unwrap());
    let flush_interval = Duration::from_secs(1 << 20);
    let options = Options { flush_interval, disk: Arc::new(Unsynced), ..Options::new(dir.path()) };
    let below = Arc::new(MemoryStore::new());
    let head = runtime.block_on(Head::open(options, below, HeadMetrics::default())).unwrap();
    let mut scratch = Scratch::default();
    let mut counts = Vec::new();
    for scrape in 0..=scrapes {
        let block = body(protocol, series, scrape);
        let begin = Region::new(COUNTED);
        let body = Body { protocol, compressed: &block };
        let batch = wire::decode(body, &mut scratch, Policy::Accept).unwrap();
        let decode = counted(&begin);
        let outcome = runtime.block_on(head.write(batch)).unwrap();
        let write = counted(&begin) - decode;
        assert_eq!((outcome.samples, outcome.rejections.len()), (series.len() as u64, 0));
        counts.push(Count { decode, write });
    }
    // All series of the first request are new.
    counts.split_off(1)
}

#[test]
fn a_known_series_allocates_nothing_but_room_in_its_chunk() {
    let _alone = alone();
    for protocol in [Protocol::V1, Protocol::V2, Protocol::V2Typed] {
        // Two bits a sample: no chunk grows for dozens of scrapes.
        let constants: Vec<u32> = (0..2 * SERIES).filter(|number| is_constant(*number)).collect();
        let [few, many] = [200, SERIES].map(|series| {
            let counts = requests(protocol, &constants[..series as usize], 10);
            counts.into_iter().min_by_key(|count| count.all()).expect("ten")
        });
        println!("{protocol:?}: 200 series: {few:?}, {SERIES} series: {many:?}");
        assert!(many.all() <= few.all() + DOUBLINGS, "{protocol:?}: {few:?}, then {many:?}");
        assert!(few.all() <= 3 * DOUBLINGS, "{protocol:?}: {few:?}");

        // Chunks of changing values grow by 16 bytes or a fourth at a time, and are copied when full.
        let all: Vec<u32> = (0..SERIES).collect();
        let counts = requests(protocol, &all, 2 * CHUNK);
        let samples = counts.len() * all.len();
        let allocated: usize = counts.iter().map(|count| count.all()).sum();
        println!("{protocol:?}: {allocated} times for {samples} samples");
        assert!(allocated * 8 <= samples, "{protocol:?}: {allocated} times for {samples} samples");
    }
}
