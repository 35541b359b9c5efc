//! Tests of the console that look at the whole program: its memory, its open files, its log.
//!
//! They run one after another, in a program of their own.

#![expect(clippy::unwrap_used, reason = "a test helper may panic like the test itself")]
#![allow(dead_code, reason = "uses only a part of the helpers")]

mod audit;
mod many;
mod memory;
mod soak;
#[path = "../it/support.rs"]
mod support;

use tokio::sync::Mutex;

/// Held by the test that runs.
static ALONE: Mutex<()> = Mutex::const_new(());

/// Returns the resident memory of this process in bytes. `None` under a sanitizer (if `ASAN_OPTIONS` is set), which
/// keeps freed memory.
pub(crate) fn resident_bytes() -> Option<u64> {
    if std::env::var_os("ASAN_OPTIONS").is_some() {
        return None;
    }
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    Some(text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096)
}
