//! Ends a run that takes the memory of the node, before the kernel ends the node for it.
//!
//! ```text
//!   thread of the guard: memory used ──▶ below the bound: sleep, the shorter the closer it is
//!                                    └─▶ above it: the run ends with an error, and all of its processes with it
//! ```
//!
//! Clients with the control role choose the parameters of a run, and are not trusted with the node's memory.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::cgroup::MemoryGroup;
use crate::measure::usage::kilobytes;
use crate::report::numbers;
use crate::run::error::RunError;
use crate::run::execution::{Abort, Run};

/// Highest rate at which a run may fill memory, in bytes a second. The guard looks again before the rest could be full.
const FILLS_BYTES_PER_SEC: f64 = 4e9;
const SLEEP_MIN: Duration = Duration::from_millis(2);
const SLEEP_MAX: Duration = Duration::from_millis(100);

/// Watches the memory until it is dropped.
#[derive(Debug)]
pub(crate) struct MemoryGuard {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl MemoryGuard {
    /// Watches a run. If the thread cannot be started, the run is not watched.
    pub(crate) fn watch(run: &Run) -> Self {
        let (is_over, abort) = (Arc::new(AtomicBool::new(false)), run.abort());
        let flag = Arc::clone(&is_over);
        let thread = thread::Builder::new().name("rusm-run-memory".to_owned()).spawn(move || look(&flag, &abort));
        Self { is_over, thread: thread.ok() }
    }
}

impl Drop for MemoryGuard {
    fn drop(&mut self) {
        // Relaxed: no other data is published through the flag.
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic of the guard was reported by its own thread.
            drop(thread.join());
        }
    }
}

fn look(is_over: &AtomicBool, abort: &Abort) {
    let group = MemoryGroup::find();
    let Some(bounds) = Bounds::of_machine(group.as_ref()) else { return };
    while !is_over.load(Ordering::Relaxed) {
        match Memory::now(group.as_ref()).map(|memory| bounds.left(memory)) {
            Some(Ok(left_bytes)) => {
                let full_after = Duration::from_secs_f64(left_bytes as f64 / FILLS_BYTES_PER_SEC);
                thread::park_timeout(full_after.clamp(SLEEP_MIN, SLEEP_MAX));
            }
            Some(Err(shortage)) => return abort.end(RunError::Lacks(shortage)),
            None => return,
        }
    }
}

/// Memory in use, in bytes.
#[derive(Clone, Copy, Debug)]
struct Memory {
    /// Of this program, without files, or of all programs in its control group, which a run may start too.
    own: u64,
    /// Bytes that the machine can still give to programs.
    available: u64,
}

impl Memory {
    fn now(group: Option<&MemoryGroup>) -> Option<Self> {
        let statm = fs::read_to_string("/proc/self/statm").ok()?;
        let mut pages = statm.split(' ').skip(1).map_while(|pages| pages.parse::<u64>().ok());
        let own = pages.next()?.saturating_sub(pages.next()?) * rustix::param::page_size() as u64;
        let available = kilobytes(&fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable:")? * 1024;
        let of_group = group.and_then(MemoryGroup::used_bytes).unwrap_or(0);
        Some(Self { own: own.max(of_group), available })
    }
}

/// Bounds of the memory during a run, in bytes.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// Most that this program may take: five eighths of the machine or of its control group. Ending a run takes memory,
    /// too.
    own_max: u64,
    /// Least that the machine must have left: a sixteenth of it.
    available_min: u64,
}

impl Bounds {
    fn of_machine(group: Option<&MemoryGroup>) -> Option<Self> {
        let machine = kilobytes(&fs::read_to_string("/proc/meminfo").ok()?, "MemTotal:")? * 1024;
        let memory = group.map_or(machine, |group| group.max_bytes.min(machine));
        Some(Self { own_max: memory / 8 * 5, available_min: machine / 16 })
    }

    /// Returns the bytes that may still be taken, or the error of a run that has taken too many.
    fn left(self, memory: Memory) -> Result<u64, String> {
        let own = self.own_max.checked_sub(memory.own).ok_or_else(|| {
            let (used, max) = (numbers::bytes(Some(memory.own)), numbers::bytes(Some(self.own_max)));
            format!("the run was ended because the node took {used} of memory, and may take {max} during a run")
        })?;
        let machine = memory.available.checked_sub(self.available_min).ok_or_else(|| {
            let left = numbers::bytes(Some(memory.available));
            format!("the run was ended because the machine had only {left} of memory left")
        })?;
        Ok(own.min(machine))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_may_take_what_neither_the_node_nor_the_machine_needs() {
        let bounds = Bounds { own_max: 300, available_min: 100 };
        let left = |own, available| bounds.left(Memory { own, available });

        assert_eq!(left(100, 1_000), Ok(200));
        assert_eq!(left(100, 150), Ok(50));
        assert!(left(301, 1_000).is_err_and(|error| error.contains("the node took")));
        assert!(left(100, 99).is_err_and(|error| error.contains("the machine had only")));
        assert!(Memory::now(None).is_some_and(|memory| memory.own > 0) && Bounds::of_machine(None).is_some());
    }
}
