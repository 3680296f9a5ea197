//! What the allocator keeps of freed memory goes back to the system, and it takes memory in small pages.
//!
//! The one place of the program with `unsafe`: mimalloc's functions for this have no safe wrapper. In a
//! program with another allocator they find nothing to give back.

/// Has the system give memory in small pages alone, from now on. mimalloc asks for pages of 2 MiB, of which what
/// nobody uses counts as well: with 200,000 series in memory a fifth of what the process has. They save no processor
/// time here.
pub(super) fn use_small_pages() {
    if let Err(error) = rustix::thread::disable_transparent_huge_pages(true) {
        tracing::debug!("large pages stay: {error}");
    }
}

/// Gives back to the system what all threads have freed, as far as whole pages of it are free. Takes a tenth of a
/// second for a gigabyte.
#[expect(unsafe_code, reason = "foreign functions without a safe wrapper")]
pub(super) fn give_back() {
    // SAFETY: neither takes a pointer; both may be called at any time on any thread, and touch nothing
    // that is in use. On a thread that has allocated nothing yet the second alone would do nothing.
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

    /// Has another thread take 128 MiB and free them; it lives as long as what is given back.
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
    fn what_another_thread_has_freed_goes_back_to_the_system() {
        // Other tests take and free meanwhile: one of some attempts has to show it.
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
