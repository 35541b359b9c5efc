//! Limits on the resources that processes, guests and connections use.

use std::num::NonZero;
use std::sync::mpsc;
use std::{io, thread};

use parking_lot::Mutex;
use rusm_bench::{Machine, cgroup};
use rusm_text::grouped;
use rusm_wasm::defaults::POOL_CAPACITY_MAX;
use rustix::process::{Resource, getrlimit};

use crate::doctor::check::Check;
use crate::failure::Failure;
use crate::settings::size::format_bytes;

/// Number of open files that is enough for the usual use of a node.
const FILES_ENOUGH: u64 = 65_536;
/// Maximum number of memory maps of a pooled guest: two for its stack, and up to four for its memory, as measured.
const MAPS_PER_POOLED_GUEST: u64 = 6;
/// Number of memory maps of a node without guests, rounded up.
const MAPS_OF_A_NODE: u64 = 500;
/// Memory of a parked guest in slabs, rounded up from 10 KiB without and 14 KiB with a linear memory.
const BYTES_PER_PARKED_GUEST: u64 = 16 << 10;
/// Memory of a parked native process, as stated in the README.
const BYTES_PER_PARKED_PROCESS: u64 = 287;
/// Number of threads of a node with its observer and some blocking calls, in addition to one thread per core.
const THREADS_ENOUGH: u64 = 64;
/// Number of threads that a node starts in addition to two per core (one that runs processes, one that compiles guests).
const THREADS_BESIDE_CORES: usize = 16;
/// Stack of a thread that only waits, in bytes.
const STACK_BYTES: usize = 64 * 1024;

pub(super) fn checks(machine: &Machine) -> Vec<Check> {
    vec![maps(), files(), memory(machine), address_space(), threads(machine)]
}

/// Returns the number of guests that can live in the pool at once with this many maps.
fn pooled(maps: u64) -> u64 {
    maps.saturating_sub(MAPS_OF_A_NODE) / MAPS_PER_POOLED_GUEST
}

/// Describes the maps that slabs need, depending on the kernel's release.
fn slabs(release: &str) -> &'static str {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|number| number.parse::<u32>().ok());
    if (numbers.next(), numbers.next()) >= (Some(6), Some(13)) {
        "two maps in all"
    } else {
        "two maps for each stack guard while maps are left, then canaries (Linux 6.13 needs no maps for guards)"
    }
}

fn maps() -> Check {
    let maps = read_number("/proc/sys/vm/max_map_count");
    let needed = u64::from(POOL_CAPACITY_MAX) * MAPS_PER_POOLED_GUEST + MAPS_OF_A_NODE;
    let means = match maps {
        Some(maps) => {
            let release = rustix::system::uname();
            let slabs = slabs(release.release().to_str().unwrap_or_default());
            format!(
                "vm.max_map_count: engine.room \"pool\" holds {} wasm guests at {MAPS_PER_POOLED_GUEST} maps each; \"slabs\" \
                 takes {slabs}, so memory is its limit",
                grouped(pooled(maps))
            )
        }
        None => "the number of wasm guests that the pool can hold is not known".to_owned(),
    };
    Check::of(
        "memory maps",
        maps.is_none_or(|maps| maps >= needed),
        maps.map_or_else(|| "not visible here".to_owned(), grouped),
        means,
        format!("sudo sysctl -w vm.max_map_count={}", needed.next_power_of_two().max(262_144)),
    )
}

fn files() -> Check {
    let files = getrlimit(Resource::Nofile);
    let (soft, hard) = (files.current.unwrap_or(u64::MAX), files.maximum.unwrap_or(u64::MAX));
    let shown = |limit: u64| if limit == u64::MAX { "no limit".to_owned() } else { grouped(limit) };
    Check::of(
        "open files",
        soft >= FILES_ENOUGH,
        format!("{} now, {} at most", shown(soft), shown(hard)),
        "each connection uses one; a node itself uses about 30",
        if hard >= FILES_ENOUGH {
            format!("ulimit -n {FILES_ENOUGH}")
        } else {
            format!("LimitNOFILE={FILES_ENOUGH} in its systemd unit, or as root: ulimit -Hn {FILES_ENOUGH}")
        },
    )
}

fn memory(machine: &Machine) -> Check {
    let (machine_bytes, limit) = (machine.memory_bytes, cgroup::memory_bytes());
    let limited = limit.filter(|limit| machine_bytes.is_none_or(|bytes| *limit < bytes));
    let Some(bytes) = limited.or(machine_bytes) else {
        return Check::of("memory", true, "not visible here", "limits the number of live processes", "");
    };
    let by = if limited.is_some() { "of the control group" } else { "of the machine" };
    Check::of(
        "memory",
        bytes >= 512 << 20,
        format!("{} {by}", format_bytes(bytes)),
        format!(
            "all of it would hold about {} parked native processes, or {} parked wasm guests in slabs at {} each",
            grouped(about(bytes / BYTES_PER_PARKED_PROCESS)),
            grouped(about(bytes / BYTES_PER_PARKED_GUEST)),
            format_bytes(BYTES_PER_PARKED_GUEST)
        ),
        "raise the limit of the control group: MemoryMax= in its systemd unit, or docker run --memory",
    )
}

/// Rounds a number down to its first two digits, for estimates.
const fn about(number: u64) -> u64 {
    let digits = match number.checked_ilog10() {
        Some(digits @ 2..) => digits - 1,
        _ => return number,
    };
    number / 10_u64.pow(digits) * 10_u64.pow(digits)
}

fn address_space() -> Check {
    let limit = getrlimit(Resource::As).current;
    Check::of(
        "addresses",
        limit.is_none(),
        limit.map_or_else(|| "no limit".to_owned(), format_bytes),
        "each pooled guest reserves 4 GiB of address space (but no memory), 64 TiB in all at most, so that its accesses need \
         no checks; with less space, it reserves only what its memory may grow to",
        "ulimit -v unlimited",
    )
}

/// Checks that the system lets this program start the threads of a node: a library that cannot start one panics.
pub(crate) fn check_threads() -> Result<(), Failure> {
    let needed = 2 * thread::available_parallelism().map_or(1, NonZero::get) + THREADS_BESIDE_CORES;
    start_all(needed).map_err(|(started, error)| {
        let limit = thread_limit().map_or_else(String::new, |limit| format!(", the limit is {limit}"));
        Failure::Limit(format!(
            "a node needs {needed} threads, and the system gives it {started} ({error}{limit}): raise it with ulimit -u, \
             TasksMax= of a systemd unit, or pids.max of a control group"
        ))
    })
}

/// Reads a number from a file of the kernel.
fn read_number(path: &str) -> Option<u64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Starts this many threads at once, and ends them. An error says how many were started.
fn start_all(count: usize) -> Result<(), (usize, io::Error)> {
    let (ends, ended) = mpsc::channel::<()>();
    let ended = Mutex::new(ended);
    thread::scope(|scope| {
        let result = (0..count).try_for_each(|started| {
            let wait = || ended.lock().recv().is_ok();
            let thread = thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, wait);
            thread.map(drop).map_err(|error| (started, error))
        });
        // The threads end now, one after another.
        drop(ends);
        result
    })
}

fn thread_limit() -> Option<u64> {
    [getrlimit(Resource::Nproc).current, cgroup::threads()].into_iter().flatten().min()
}

fn threads(machine: &Machine) -> Check {
    let limit = thread_limit();
    let needed = THREADS_ENOUGH + machine.cores as u64;
    Check::of(
        "threads",
        limit.is_none_or(|limit| limit >= needed),
        limit.map_or_else(|| "no limit".to_owned(), grouped),
        "a node uses one for each core, six more, and one for each blocking call in progress",
        format!("ulimit -u {needed}, or TasksMax={needed} in its systemd unit"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guards_take_no_maps_from_linux_6_13_on() {
        for (release, has) in
            [("6.18.44-fc-v657", true), ("6.13", true), ("7.0.1", true), ("6.1.0-25-amd64", false), ("?", false)]
        {
            assert_eq!(slabs(release) == "two maps in all", has, "{release}");
        }
    }

    #[test]
    fn the_usual_number_of_maps_holds_the_largest_pool() {
        assert!(pooled(65_530) >= u64::from(POOL_CAPACITY_MAX));
        assert_eq!(pooled(100), 0);
    }

    #[test]
    fn what_is_not_known_exactly_is_not_shown_so() {
        assert_eq!([0, 7, 99, 123, 95_744_356].map(about), [0, 7, 99, 120, 95_000_000]);
    }
}
