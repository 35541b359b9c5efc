//! CPU time and memory as the operating system reports them, for this process and for all others.

use std::fs;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Clock ticks of `/proc`: 100 per second on every Linux in practice.
const TICKS_PER_SEC: u64 = 100;

/// Returns the CPU time of the whole process, user and system.
pub(crate) fn process_cpu() -> Duration {
    time_of(ClockId::ProcessCPUTime)
}

/// Returns the CPU time of this thread.
pub(crate) fn thread_cpu() -> Duration {
    time_of(ClockId::ThreadCPUTime)
}

fn time_of(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// CPU time of the whole machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MachineCpu {
    /// CPU time of all processes except those that this process has started.
    pub(crate) busy: Duration,
    /// CPU time that the hypervisor gave to other guests while this machine wanted it.
    pub(crate) stolen: Duration,
}

/// Returns the CPU time of the whole machine since its start, excluding programs that this process has started; `None`
/// if the system does not report it.
pub(crate) fn machine_cpu() -> Option<MachineCpu> {
    let machine = machine_cpu_of(&fs::read_to_string("/proc/stat").ok()?)?;
    Some(MachineCpu { busy: machine.busy.saturating_sub(children_cpu()), ..machine })
}

/// Returns the CPU time of the programs that this process has started, both ended and running. Programs that those have
/// started count when they have ended.
fn children_cpu() -> Duration {
    let stat = |path: &str| fs::read_to_string(path).ok();
    let ended = stat("/proc/self/stat").and_then(|stat| times_of(&stat)).map_or(0, |[_, children]| children);
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let children: String =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok()).collect();
    let running = children
        .split_whitespace()
        .filter_map(|id| times_of(&stat(&format!("/proc/{id}/stat"))?))
        .map(|[own, children]| own + children);
    time(ended + running.sum::<u64>())
}

/// Returns the ticks used by a process, and by its children that have ended.
fn times_of(stat: &str) -> Option<[u64; 2]> {
    // The program's name is in parentheses and may itself contain some: search for the last.
    let fields = stat.rsplit_once(')')?.1;
    let ticks: Vec<u64> = fields.split_whitespace().skip(11).take(4).map_while(|field| field.parse().ok()).collect();
    let [user, system, children_user, children_system] = ticks[..] else { return None };
    Some([user + system, children_user + children_system])
}

const fn time(ticks: u64) -> Duration {
    Duration::from_millis(ticks * (1000 / TICKS_PER_SEC))
}

/// Returns the resident memory of the process in bytes, now and at its peak; `None` if the system does not report it.
pub(crate) fn resident() -> Option<(u64, u64)> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    Some((kilobytes(&status, "VmRSS:")? * 1024, kilobytes(&status, "VmHWM:")? * 1024))
}

/// Parses the first line of `/proc/stat`: busy is user, nice, system, irq and softirq; not idle, iowait or steal.
fn machine_cpu_of(stat: &str) -> Option<MachineCpu> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = line.split_whitespace().map_while(|field| field.parse().ok()).collect();
    let busy = [0, 1, 2, 5, 6].iter().map(|field| ticks.get(*field).copied()).sum::<Option<u64>>()?;
    Some(MachineCpu { busy: time(busy), stolen: time(ticks.get(7).copied().unwrap_or(0)) })
}

/// Returns the value of a field of `/proc` that is given in kilobytes.
pub(crate) fn kilobytes(status: &str, field: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_time_leaves_out_idle_waiting_and_stolen_time() {
        let stat = "cpu  100 10 50 99999 777 20 20 555 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n";

        let cpu = MachineCpu { busy: Duration::from_secs(2), stolen: Duration::from_millis(5_550) };
        assert_eq!(machine_cpu_of(stat), Some(cpu));
        assert_eq!(machine_cpu_of(""), None);
    }

    #[test]
    fn the_times_of_a_process_are_found_whatever_it_is_called() {
        let stat = "77 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 20 0 1";

        assert_eq!(times_of(stat), Some([11 + 12, 13 + 14]));
        assert_eq!(times_of("77 (sh) S 1 2"), None);
        assert!(times_of(&fs::read_to_string("/proc/self/stat").unwrap()).is_some());
    }

    #[test]
    fn what_a_child_uses_is_not_the_work_of_others() {
        let before = children_cpu();

        let work = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        let ended = std::process::Command::new("sh").args(["-c", work]).status().unwrap();

        assert!(ended.success() && children_cpu() > before);
    }

    #[test]
    fn memory_is_read_in_kilobytes() {
        let status = "Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n";

        assert_eq!(kilobytes(status, "VmRSS:"), Some(1024));
        assert_eq!(kilobytes(status, "VmSwap:"), None);
    }

    #[test]
    fn cpu_time_only_goes_up() {
        let before = process_cpu();

        assert!(process_cpu() >= before);
    }
}
