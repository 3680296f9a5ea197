//! Returns freed memory to the system, sooner if the memory limit is small, and keeps memory in small pages.
//!
//! The only file of the program with `unsafe`: mimalloc's functions for this have no safe wrapper. With another
//! allocator they have no effect.

use std::ffi::c_long;

use libmimalloc_sys::mi_option_t;

/// The index of `purge_delay` among the options of mimalloc 3; its crate has no name for it.
const PURGE_DELAY: mi_option_t = 15;
/// Freed memory is kept for 1 ms per this many bytes of the memory limit; at 4 GiB that is about 1 s, mimalloc's
/// default.
const BYTES_A_MILLISECOND: u64 = 4 << 20;
const LEAST_MILLISECONDS: u64 = 10;
const MOST_MILLISECONDS: u64 = 1_000;

/// Adapts the allocator to a memory limit of `limit` bytes. Call it before other threads start: they read these
/// options.
pub fn fit_to(limit: u64) {
    use_small_pages();
    keep_freed_for(milliseconds_to_keep_freed(limit));
}

/// Queries soon need again what they freed, and memory that was returned costs page faults. But with a small
/// limit, the memory freed in a second is most of the limit, and requests would be refused for it.
fn milliseconds_to_keep_freed(limit: u64) -> c_long {
    let milliseconds = limit / BYTES_A_MILLISECOND;
    milliseconds.clamp(LEAST_MILLISECONDS, MOST_MILLISECONDS) as c_long
}

#[expect(unsafe_code, reason = "a foreign function without a safe wrapper")]
fn keep_freed_for(milliseconds: c_long) {
    // SAFETY: the call takes no pointer, and writes one number at an index below the number of options, which
    // other threads only read.
    unsafe { libmimalloc_sys::mi_option_set(PURGE_DELAY, milliseconds) }
}

/// Disables transparent huge pages. mimalloc asks for pages of 2 MiB, and their unused parts count as resident: with
/// 200,000 series in memory, a fifth of the process. Huge pages save no CPU time here. If the system refuses, the
/// process uses more memory.
fn use_small_pages() {
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}

/// Returns the free pages of all threads to the system. Takes about 0.1 s per gigabyte.
#[expect(unsafe_code, reason = "foreign functions without a safe wrapper")]
pub(super) fn give_back() {
    // SAFETY: neither call takes a pointer; both may be called at any time on any thread, and touch no
    // memory in use. On a thread that has allocated nothing yet, `mi_collect` alone would do nothing.
    unsafe {
        libmimalloc_sys::mi_thread_init();
        libmimalloc_sys::mi_collect(true);
    }
}

#[cfg(test)]
mod tests {
    use std::alloc::{GlobalAlloc, Layout};
    use std::sync::mpsc::{Sender, channel};

    use mimalloc::MiMalloc;

    use super::*;
    use crate::telemetry::resident_bytes;

    const BLOCKS: usize = 128 << 10;

    /// Lets another thread allocate and free 128 MiB; the thread lives until the returned sender is dropped.
    #[expect(unsafe_code, reason = "tests run with another allocator: this one is called by hand")]
    fn take_and_free() -> Sender<()> {
        let (end, ended) = channel();
        let (tell, freed) = channel();
        std::thread::spawn(move || {
            let layout = Layout::from_size_align(1 << 10, 8).expect("a power of two");
            // SAFETY: the layout is not empty, and each block is written to within it and freed once.
            let blocks = (0..BLOCKS).map(|_| unsafe {
                let block = MiMalloc.alloc(layout);
                block.write_bytes(1, layout.size());
                block
            });
            let blocks: Vec<*mut u8> = blocks.collect();
            // SAFETY: as above.
            blocks.into_iter().for_each(|block| unsafe { MiMalloc.dealloc(block, layout) });
            tell.send(()).expect("the test waits");
            let _ = ended.recv();
        });
        freed.recv().expect("it ends well");
        end
    }

    #[test]
    fn freed_memory_stays_for_less_time_where_less_may_be_taken() {
        let limits = [0, 128 << 20, 256 << 20, 1 << 30, 4 << 30, u64::MAX];
        assert_eq!(limits.map(milliseconds_to_keep_freed), [10, 32, 64, 256, 1_000, 1_000]);
    }

    #[test]
    #[expect(unsafe_code, reason = "a foreign function without a safe wrapper")]
    fn the_option_is_the_one_that_mimalloc_has_a_second_for() {
        // SAFETY: it takes no pointer.
        let set = unsafe { libmimalloc_sys::mi_option_get(PURGE_DELAY) };
        assert_eq!(set, MOST_MILLISECONDS as c_long, "the options have another order");
    }

    #[test]
    fn what_another_thread_has_freed_goes_back_to_the_system() {
        // Other tests allocate and free meanwhile: one of several attempts has to succeed.
        let shows = (0..20).any(|_| {
            let _thread = take_and_free();
            let before = resident_bytes().expect("it tells");
            std::thread::spawn(give_back).join().expect("no panic");
            let after = resident_bytes().expect("it tells");
            before.saturating_sub(after) > 64 << 20
        });
        assert!(shows, "nothing went back");
    }
}
