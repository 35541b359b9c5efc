//! Helpers for tests of rings.

use std::time::{Duration, Instant};

use rusm_runtime::ring::{ReadError, Reader};
use rusm_runtime::{Config, ExitReason, Pid, Runtime};

/// Longer than any operation takes.
pub(crate) const LONG: Duration = Duration::from_mins(2);

pub(crate) fn runtime(schedulers: usize) -> Runtime {
    Runtime::start(Config { schedulers, ..Config::default() }).expect("the schedulers start")
}

/// Reads numbers until the end, checks that none is missing, and returns their count.
pub(crate) async fn count_up(mut reader: Reader<u64>, chunk: usize) -> u64 {
    let mut items = vec![0; chunk];
    let mut expected = reader.position();
    let first = expected;
    loop {
        match reader.read(&mut items).await {
            Ok(count) => {
                for item in &items[..count] {
                    assert_eq!(*item, expected);
                    expected += 1;
                }
            }
            Err(ReadError::Ended) => return expected - first,
            Err(error) => panic!("{error}"),
        }
    }
}

pub(crate) fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + LONG;
    while !done() {
        assert!(Instant::now() < deadline, "{what} did not happen");
        std::thread::yield_now();
    }
}

pub(crate) fn assert_ends_well(runtime: &Runtime, pid: Pid) {
    assert!(matches!(runtime.wait(pid), ExitReason::Normal | ExitReason::NoProcess));
}
