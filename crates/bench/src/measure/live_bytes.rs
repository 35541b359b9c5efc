//! Number of bytes currently allocated by the program, as reported by the C library's allocator.
//!
//! A counting allocator would slow down every allocation; glibc keeps these statistics anyway. It counts memory in
//! per-thread caches as allocated, so a difference is exact only if the same threads exist at both times.

#![expect(unsafe_code, reason = "calls `mallinfo2` of the C library")]

/// Returns the number of bytes currently allocated; `None` if the C library keeps no statistics.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(clippy::unnecessary_wraps, reason = "returns `None` with other C libraries")]
pub(crate) fn live_bytes() -> Option<u64> {
    // SAFETY: the function takes no arguments, locks each arena while it reads it, and returns plain numbers.
    let account = unsafe { libc::mallinfo2() };
    Some((account.uordblks + account.hblkhd) as u64)
}

/// Returns the number of bytes currently allocated; `None` if the C library keeps no statistics.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn live_bytes() -> Option<u64> {
    None
}

#[cfg(all(test, target_os = "linux", target_env = "gnu"))]
mod tests {
    use super::*;

    #[test]
    fn what_is_allocated_is_counted() {
        // So large that what other tests of this program free meanwhile does not matter. It is never written, so it
        // takes no memory.
        let before = live_bytes();
        let block = std::hint::black_box(Vec::<u8>::with_capacity(1 << 30));

        let after = live_bytes();

        drop(block);
        // Another allocator, for example a sanitizer's, has its own statistics: then glibc reports the same value
        // twice.
        let grown = after.zip(before).map_or(0, |(after, before)| after.saturating_sub(before));
        assert!(grown >= 1 << 29 || after == before, "{before:?} {after:?}");
    }
}
