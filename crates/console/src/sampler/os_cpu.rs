//! CPU time as the kernel counts it: of the threads of this program, and of the whole machine.

use std::fs;

/// CPU time of the threads of one name, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ThreadTime {
    /// Name of the thread, as the kernel keeps it: at most 15 bytes.
    pub(crate) name: String,
    pub(crate) cpu_ns: u64,
}

/// Reads the CPU time of each thread of this program. A thread that ends meanwhile is left out.
pub(crate) fn threads() -> Vec<ThreadTime> {
    let Ok(tasks) = fs::read_dir("/proc/self/task") else { return Vec::new() };
    let read = |task: fs::DirEntry| {
        let path = task.path();
        let name = fs::read_to_string(path.join("comm")).ok()?.trim().to_owned();
        let exact = fs::read_to_string(path.join("schedstat")).ok().and_then(|text| schedstat_ns(&text));
        let cpu_ns = exact.or_else(|| stat_ns(&fs::read_to_string(path.join("stat")).ok()?))?;
        Some(ThreadTime { name, cpu_ns })
    };
    tasks.flatten().filter_map(read).collect()
}

/// Returns the CPU time in a `schedstat` file: its first number.
fn schedstat_ns(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse().ok()
}

/// Returns the CPU time in a `stat` file, for kernels without `schedstat`: user and system time, in ticks.
fn stat_ns(text: &str) -> Option<u64> {
    // The name in parentheses may contain blanks.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    Some(ticks_ns(ticks()? + ticks()?))
}

/// Reads the CPU time that all programs of the machine have used, in nanoseconds; `None` if the system does not tell.
pub(crate) fn machine_ns() -> Option<u64> {
    parse_machine(&fs::read_to_string("/proc/stat").ok()?)
}

fn parse_machine(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = line.split_whitespace().map_while(|number| number.parse().ok()).collect();
    // user, nice, system, idle, iowait, irq, softirq. Time of virtual machines is part of user time.
    let [user, nice, system, _, _, irq, softirq] = *ticks.first_chunk()?;
    Some(ticks_ns(user + nice + system + irq + softirq))
}

fn ticks_ns(ticks: u64) -> u64 {
    ticks * (1_000_000_000 / rustix::param::clock_ticks_per_second().max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_the_kernel_are_read() {
        let tick_ns = ticks_ns(1);
        let stat = "77 (rusm ) x) S 1 77 77 0 -1 4194560 100 0 0 0 30 12 0 0 20 0 9 0 100 1000 10";

        assert_eq!(schedstat_ns("140869 77 1\n"), Some(140_869));
        assert_eq!(stat_ns(stat), Some(42 * tick_ns));
        assert_eq!(parse_machine("cpu  10 2 3 400 5 6 7 8 0 0\ncpu0 1 2\n"), Some(28 * tick_ns));
        assert_eq!((stat_ns("77"), parse_machine("cpu 1 2"), schedstat_ns("")), (None, None, None));
    }

    #[test]
    fn the_threads_of_this_program_are_found_by_name_and_use_what_the_program_uses() {
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::Builder::new().name("counted".to_owned());
        let (ready, is_ready) = std::sync::mpsc::channel();
        let worker = thread.spawn(move || ready.send(()).is_ok() && stopped.recv().is_err()).unwrap();
        // A thread gets its name when it runs.
        is_ready.recv().unwrap();

        let found = threads();
        let program_ns = crate::budget::process_cpu().as_nanos() as u64;

        assert!(found.iter().any(|thread| thread.name == "counted"), "{found:?}");
        let sum: u64 = found.iter().map(|thread| thread.cpu_ns).sum();
        // Threads that have ended count for the program only.
        assert!(sum <= program_ns, "{sum} of {program_ns}");
        drop(stop);
        assert!(worker.join().unwrap());
    }
}
