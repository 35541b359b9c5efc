//! Statistics of the C library's allocator.

#![expect(unsafe_code, reason = "calls `mallinfo2` of the C library")]

/// Returns the number of bytes that were freed and that the allocator keeps; 0 if it keeps no statistics.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(super) fn kept_bytes() -> u64 {
    // SAFETY: the function takes no arguments, locks each arena while it reads it, and returns plain numbers.
    unsafe { libc::mallinfo2() }.fordblks as u64
}

/// Returns the number of bytes that were freed and that the allocator keeps; 0 if it keeps no statistics.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(super) fn kept_bytes() -> u64 {
    0
}
