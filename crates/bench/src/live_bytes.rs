//! Bytes that the program has allocated and not given back, by the account of the C library's allocator.
//!
//! A counting allocator would cost every allocation something; glibc keeps this account anyway. It counts what a thread keeps for
//! its next allocation as allocated, so it is exact only between instants at which the same threads live.

#![expect(unsafe_code, reason = "the account is a function of the C library")]

/// Bytes allocated and not given back; `None` where the C library keeps no account.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(clippy::unnecessary_wraps, reason = "other C libraries keep no account")]
pub(crate) fn live_bytes() -> Option<u64> {
    // SAFETY: the function takes nothing, locks each arena while it reads it, and returns plain numbers.
    let account = unsafe { libc::mallinfo2() };
    Some((account.uordblks + account.hblkhd) as u64)
}

/// Bytes allocated and not given back; `None` where the C library keeps no account.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn live_bytes() -> Option<u64> {
    None
}

#[cfg(all(test, target_os = "linux", target_env = "gnu"))]
mod tests {
    use super::*;

    #[test]
    fn what_is_allocated_is_counted() {
        let before = live_bytes();
        let block = std::hint::black_box(vec![1_u8; 64 << 20]);

        let after = live_bytes();

        drop(block);
        // Another allocator, such as a sanitizer's, keeps its own account: then this one says the same twice.
        let grown = after.zip(before).map_or(0, |(after, before)| after.saturating_sub(before));
        assert!(grown >= 63 << 20 || after == before, "{before:?} {after:?}");
    }
}
