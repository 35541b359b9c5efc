//! Counts the allocations made by a section of code.
//!
//! ```text
//!   a program with `#[global_allocator] CountingAllocator` ──▶ counted(work) ──▶ allocations of this thread
//! ```
//!
//! Outside of [`counted`] the allocator only reads a counter. If the program uses another allocator, nothing is
//! counted.

#![expect(unsafe_code, reason = "implements `GlobalAlloc` by forwarding to the system allocator")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// The system allocator, which also counts allocations while a scenario requests it.
///
/// ```
/// #[global_allocator]
/// static ALLOCATOR: rusm_bench::CountingAllocator = rusm_bench::CountingAllocator;
/// # fn main() {}
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct CountingAllocator;

/// Number of threads inside [`counted`].
static COUNTERS: AtomicU32 = AtomicU32::new(0);
/// True once this allocator has counted something, so it is the program's global allocator.
static INSTALLED: AtomicBool = AtomicBool::new(false);

thread_local! {
    static COUNTED: Cell<u64> = const { Cell::new(0) };
}

#[inline]
fn note() {
    // Relaxed: each thread reads only the count that it made itself.
    if COUNTERS.load(Ordering::Relaxed) != 0 {
        note_counted();
    }
}

#[cold]
fn note_counted() {
    INSTALLED.store(true, Ordering::Relaxed);
    COUNTED.set(COUNTED.get() + 1);
}

// SAFETY: every call is forwarded unchanged to the system allocator; counting does not allocate.
unsafe impl GlobalAlloc for CountingAllocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: guaranteed by the caller.
        unsafe { System.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: guaranteed by the caller.
        unsafe { System.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note();
        // SAFETY: guaranteed by the caller.
        unsafe { System.realloc(place, layout, size) }
    }

    #[inline]
    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: guaranteed by the caller.
        unsafe { System.dealloc(place, layout) }
    }
}

/// Runs `work` and returns its result with the number of allocations this thread made in it, reallocations included.
/// The number is `None` if the program's allocator does not count.
pub(crate) fn counted<T>(work: impl FnOnce() -> T) -> (T, Option<u64>) {
    struct Counts;

    impl Drop for Counts {
        fn drop(&mut self) {
            COUNTERS.fetch_sub(1, Ordering::Relaxed);
        }
    }

    COUNTERS.fetch_add(1, Ordering::Relaxed);
    let _counts = Counts;
    // One allocation sets `INSTALLED` if the counting allocator is the global one.
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
