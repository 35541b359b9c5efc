//! How many allocations a stretch of code makes.
//!
//! ```text
//!   a program with `#[global_allocator] CountingAllocator` ──▶ counted(work) ──▶ allocations of this thread
//! ```
//!
//! Outside of [`counted`] the allocator only looks at a flag. Without it in the program there is no count.

#![expect(unsafe_code, reason = "an allocator that passes every call on")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// The system's allocator, which counts while a scenario asks for that.
///
/// ```
/// #[global_allocator]
/// static ALLOCATOR: rusm_bench::CountingAllocator = rusm_bench::CountingAllocator;
/// # fn main() {}
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct CountingAllocator;

/// Threads inside of [`counted`].
static COUNTERS: AtomicU32 = AtomicU32::new(0);
/// The program's allocator is the one that counts.
static INSTALLED: AtomicBool = AtomicBool::new(false);

thread_local! {
    static COUNTED: Cell<u64> = const { Cell::new(0) };
}

#[inline]
fn note() {
    // Relaxed: whoever asks for its count does so on its own thread.
    if COUNTERS.load(Ordering::Relaxed) != 0 {
        note_counted();
    }
}

#[cold]
fn note_counted() {
    INSTALLED.store(true, Ordering::Relaxed);
    COUNTED.set(COUNTED.get() + 1);
}

// SAFETY: every call goes to the system's allocator as it came; what is noted allocates nothing.
unsafe impl GlobalAlloc for CountingAllocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note();
        // SAFETY: the caller's promise.
        unsafe { System.realloc(place, layout, size) }
    }

    #[inline]
    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(place, layout) }
    }
}

/// Does some work and gives how many allocations this thread made in it, those that grew an earlier one included; `None`
/// in a program whose allocator does not count.
pub(crate) fn counted<T>(work: impl FnOnce() -> T) -> (T, Option<u64>) {
    struct Counts;

    impl Drop for Counts {
        fn drop(&mut self) {
            COUNTERS.fetch_sub(1, Ordering::Relaxed);
        }
    }

    COUNTERS.fetch_add(1, Ordering::Relaxed);
    let _counts = Counts;
    // Tells whether anybody counts.
    drop(std::hint::black_box(Box::new(0_u8)));
    let before = COUNTED.get();
    let done = work();
    let allocations = COUNTED.get() - before;
    (done, INSTALLED.load(Ordering::Relaxed).then_some(allocations))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_the_allocator_there_is_no_count() {
        assert_eq!(counted(|| vec![0_u8; 9].len()), (9, None));
    }
}
