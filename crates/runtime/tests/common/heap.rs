//! Heap of a whole program, and a check that many cycles of a process leave nothing.
//!
//! `RUSM_CYCLES=1000000` makes the runs long; the default suits a debug build.

#![expect(unsafe_code, reason = "the counting allocator forwards every call to the system allocator")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use rusm_runtime::{Config, Context, Runtime, observe};

/// An allocator that counts.
struct Counting;

/// Number of allocations until now.
pub(crate) static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
/// Number of bytes that are allocated now.
pub(crate) static LIVE_BYTES: AtomicUsize = AtomicUsize::new(0);
// SAFETY: every call is forwarded unchanged to the system allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE_BYTES.fetch_add(layout.size(), Ordering::Relaxed);
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller upholds the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller upholds the contract.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Serialises the tests: the count covers the whole program.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock()
}

/// Allowed growth of the heap: pools that fill, buffers of the test harness.
pub(crate) const SLACK_BYTES: usize = 512 * 1024;

/// Allowed growth of the process table, in parts: the free lists of two schedulers vary over time. A slot lost in each
/// cycle would take more parts than that, even in the shortest run.
const SLACK_PARTS: usize = 2;

/// Returns the number of cycles of a run.
pub(crate) fn cycles() -> u64 {
    std::env::var("RUSM_CYCLES").ok().and_then(|text| text.parse().ok()).unwrap_or(20_000)
}

/// Returns the name of the process in cycle `number`.
pub(crate) fn name_of(number: u64) -> String {
    format!("name {number}")
}

/// Body of a process that runs many cycles.
pub(crate) type Body = Box<dyn FnOnce(Context) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// Runs a process with many cycles, and checks that they leave no more than a first run of a tenth as many.
pub(crate) fn leaves_nothing(cycles_of: impl Fn(u64) -> Body) {
    let _alone = alone();
    let runtime = Runtime::start(Config { schedulers: 2, ..Config::default() }).expect("two schedulers start");
    let run = |times: u64| {
        let conductor = runtime.spawn(cycles_of(times)).expect("there is room");
        runtime.wait(conductor);
        let until = Instant::now() + Duration::from_mins(2);
        while runtime.process_count() > 0 {
            assert!(Instant::now() < until, "all processes end");
            std::thread::yield_now();
        }
        assert_eq!(observe::timers(&runtime).pending, 0);
        assert_eq!((0..times).find(|number| runtime.whereis(&name_of(*number)).is_some()), None);
    };
    run(cycles() / 10);
    let (before, parts) = (LIVE_BYTES.load(Ordering::Relaxed), observe::table_parts(&runtime));
    run(cycles());
    let parts = observe::table_parts(&runtime) - parts;
    assert!(parts <= SLACK_PARTS, "{parts} parts of the table more");
    let grown = LIVE_BYTES.load(Ordering::Relaxed).saturating_sub(before);
    assert!(grown < SLACK_BYTES, "{grown} bytes more after {} cycles", cycles());
}
