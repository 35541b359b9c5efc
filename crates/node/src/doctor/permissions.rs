//! Permissions of this user in the kernel that measuring and timing need.

use rustix::process::{Resource, getrlimit};

use crate::doctor::check::Check;

pub(super) fn checks() -> Vec<Check> {
    vec![perf(), real_time()]
}

fn perf() -> Check {
    let level = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").ok();
    let level: Option<i32> = level.and_then(|text| text.trim().parse().ok());
    let is_root = rustix::process::geteuid().is_root();
    Check::of(
        "perf",
        is_root || level.is_some_and(|level| level <= 1),
        level.map_or_else(|| "not visible here".to_owned(), |level| format!("perf_event_paranoid is {level}")),
        "above 1, only root can profile the kernel part of a node; nodes themselves do not need it",
        "sudo sysctl -w kernel.perf_event_paranoid=1",
    )
}

fn real_time() -> Check {
    let limit = getrlimit(Resource::Rtprio).current.unwrap_or(99);
    let is_root = rustix::process::geteuid().is_root();
    Check::of(
        "real time",
        is_root || limit > 0,
        if is_root { "allowed for root".to_owned() } else { format!("priorities up to {limit}") },
        "without it, tickers wait behind other programs when all cores are busy",
        "ulimit -r 10 as root, or LimitRTPRIO=10 in its systemd unit",
    )
}
