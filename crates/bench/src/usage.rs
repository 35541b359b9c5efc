//! What the operating system says about CPU time and memory, of this process and of all others.

use std::fs;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The clock ticks of `/proc`: 100 a second on every Linux that people run.
const TICKS_PER_SEC: u64 = 100;

/// CPU time of the whole process, user and system.
pub(crate) fn process_cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// CPU time of the whole machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MachineCpu {
    /// What all processes have used.
    pub(crate) busy: Duration,
    /// What a hypervisor gave to others while this machine wanted it.
    pub(crate) stolen: Duration,
}

/// CPU time of the whole machine so far; `None` where the system does not say.
pub(crate) fn machine_cpu() -> Option<MachineCpu> {
    machine_cpu_of(&fs::read_to_string("/proc/stat").ok()?)
}

/// Resident memory of the process in bytes, now and at its most; `None` where the system does not say.
pub(crate) fn resident() -> Option<(u64, u64)> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    Some((kilobytes(&status, "VmRSS:")? * 1024, kilobytes(&status, "VmHWM:")? * 1024))
}

/// The first line of `/proc/stat`: busy is user, nice, system, irq and softirq; not idle, waiting or stolen.
fn machine_cpu_of(stat: &str) -> Option<MachineCpu> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = line.split_whitespace().map_while(|field| field.parse().ok()).collect();
    let time = |ticks: u64| Duration::from_millis(ticks * (1000 / TICKS_PER_SEC));
    let busy = [0, 1, 2, 5, 6].iter().map(|field| ticks.get(*field).copied()).sum::<Option<u64>>()?;
    Some(MachineCpu { busy: time(busy), stolen: time(ticks.get(7).copied().unwrap_or(0)) })
}

/// A line of `/proc` that is in kilobytes.
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
