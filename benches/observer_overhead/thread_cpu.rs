//! CPU time of threads, as counted by the kernel.

use std::fs;
use std::time::Duration;

/// Returns the CPU time of the thread with this name; zero if it does not exist.
pub(crate) fn of_thread(name: &str) -> Duration {
    let Ok(tasks) = fs::read_dir("/proc/self/task") else { return Duration::ZERO };
    let named =
        |task: &fs::DirEntry| fs::read_to_string(task.path().join("comm")).is_ok_and(|comm| comm.trim() == name);
    let cpu = |task: fs::DirEntry| {
        let text = fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
        text.split(' ').next().and_then(|ns| ns.parse().ok()).map_or(Duration::ZERO, Duration::from_nanos)
    };
    tasks.filter_map(Result::ok).filter(named).map(cpu).sum()
}
