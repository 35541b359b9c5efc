//! Stores on a disk that is full for a while.
//!
//! A separate program that runs its tests one after another: the limit on file sizes that simulates a full disk applies
//! to the whole program.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test, in helpers too")]

mod counters;
mod store;

use parking_lot::{Mutex, MutexGuard};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Waits until no other test has a full disk.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock()
}

/// Limits the size of files, or removes the limit: writes beyond it fail.
fn limit_files(bytes: Option<u64>) {
    let maximum = getrlimit(Resource::Fsize).maximum;
    setrlimit(Resource::Fsize, Rlimit { current: bytes.or(maximum), maximum }).unwrap();
}
