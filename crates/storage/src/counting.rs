//! An allocator for unit tests that counts per thread: tests compare what a structure reports with what it allocates.
//!
//! The tests of each crate include this file by its path: a test binary has one global allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

thread_local! {
    /// Bytes that this thread holds, and the maximum since the last reset.
    static HELD: Cell<(isize, isize)> = const { Cell::new((0, 0)) };
}

fn count(bytes: isize) {
    // A thread that is ending has no counters any more.
    let _ = HELD.try_with(|held| {
        let (now, most) = held.get();
        held.set((now + bytes, most.max(now + bytes)));
    });
}

/// The bytes that an allocator uses for a block: its size classes are up to an eighth apart.
fn taken(layout: Layout) -> isize {
    let bytes = layout.size().max(8).next_multiple_of(8);
    let step = (bytes.next_power_of_two() / 8).max(8);
    bytes.next_multiple_of(step) as isize
}

/// Runs `work` on this thread; returns its result, the bytes still held, and the maximum meanwhile.
pub(crate) fn counted<T>(work: impl FnOnce() -> T) -> (T, usize, usize) {
    let before = HELD.with(|held| {
        let (now, _) = held.get();
        held.set((now, now));
        now
    });
    let result = work();
    let (now, most) = HELD.with(Cell::get);
    let bytes = |held: isize| usize::try_from(held - before).unwrap_or(0);
    (result, bytes(now), bytes(most))
}

#[expect(unsafe_code, reason = "an allocator is called by the language")]
// SAFETY: the system's allocator does everything, with the same layouts.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(taken(layout));
        // SAFETY: the caller's contract is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(-taken(layout));
        // SAFETY: the caller's contract is the same.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: the caller's contract is the same.
        let moved = unsafe { System.realloc(block, layout, bytes) };
        if let Ok(new) = Layout::from_size_align(bytes, layout.align()) {
            // Both blocks exist for a moment.
            count(taken(new));
            count(-taken(layout));
        }
        moved
    }
}
