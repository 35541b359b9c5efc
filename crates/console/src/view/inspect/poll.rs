//! The poll that a watched process is inside of, and what its thread does there.
//!
//! The kernel tells of each thread whether it computes or is inside a system call (`/proc/self/task/ID/syscall`). That
//! needs no signal and does not stop the thread. The functions of a native poll stay unknown: to walk a foreign stack
//! is not safe without stopping its thread.

use std::fs;

use rusm_protocol::PollInfo;
use rusm_runtime::observe;
use rusm_runtime::{Handle, Pid};

/// Returns the poll that a process is inside of; `None` if it waits, is ready, or ended its poll meanwhile.
pub(super) fn poll(runtime: &Handle, pid: Pid) -> Option<PollInfo> {
    let reports = observe::scheduler_reports(runtime);
    let (scheduler, report) = (0..).zip(&reports).find(|(_, report)| report.running == Some(pid))?;
    let slice = report.slice?;
    let look = fs::read_to_string(format!("/proc/self/task/{}/syscall", report.thread_id)).ok();
    // What was read belongs to another process if the poll has ended.
    if !observe::polled(runtime).contains(&pid) {
        return None;
    }
    let (doing, system_call) = look.as_deref().map(activity).unwrap_or_default();
    Some(PollInfo {
        scheduler,
        at_most_ms: (slice.as_secs_f64() * 1e4).round() / 10.0,
        doing: doing.map(str::to_owned),
        system_call,
    })
}

/// Returns what a thread does, and the name or number of its system call.
fn activity(look: &str) -> (Option<&'static str>, Option<String>) {
    match look.split_whitespace().next() {
        Some("running") => (Some("computing"), None),
        // Blocked outside of a system call, for example by a page that is read from disk.
        Some("-1") => (Some("waiting"), None),
        Some(number) => (Some("system_call"), Some(name(number))),
        None => (None, None),
    }
}

/// Returns the name of a system call that may take long; otherwise its number.
fn name(number: &str) -> String {
    let known = [
        (libc::SYS_read, "read"),
        (libc::SYS_write, "write"),
        (libc::SYS_readv, "readv"),
        (libc::SYS_writev, "writev"),
        (libc::SYS_pread64, "pread64"),
        (libc::SYS_pwrite64, "pwrite64"),
        (libc::SYS_openat, "openat"),
        (libc::SYS_fsync, "fsync"),
        (libc::SYS_fdatasync, "fdatasync"),
        (libc::SYS_flock, "flock"),
        (libc::SYS_fcntl, "fcntl"),
        (libc::SYS_futex, "futex"),
        (libc::SYS_nanosleep, "nanosleep"),
        (libc::SYS_clock_nanosleep, "clock_nanosleep"),
        (libc::SYS_ppoll, "ppoll"),
        (libc::SYS_pselect6, "pselect6"),
        (libc::SYS_epoll_pwait, "epoll_pwait"),
        (libc::SYS_connect, "connect"),
        (libc::SYS_accept, "accept"),
        (libc::SYS_accept4, "accept4"),
        (libc::SYS_recvfrom, "recvfrom"),
        (libc::SYS_recvmsg, "recvmsg"),
        (libc::SYS_sendto, "sendto"),
        (libc::SYS_sendmsg, "sendmsg"),
        (libc::SYS_wait4, "wait4"),
        (libc::SYS_waitid, "waitid"),
        (libc::SYS_mmap, "mmap"),
        (libc::SYS_munmap, "munmap"),
        (libc::SYS_madvise, "madvise"),
        (libc::SYS_msync, "msync"),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_poll, "poll"),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_select, "select"),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_epoll_wait, "epoll_wait"),
    ];
    let found = number.parse().ok().and_then(|number: i64| known.iter().find(|(known, _)| *known == number));
    found.map_or_else(|| number.chars().take(8).collect(), |(_, name)| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_the_kernel_tells_computing_from_a_system_call() {
        let sleeps = format!("{} 0x0 0x0 0x7ffe 0x0 0x7f01 0x7f02", libc::SYS_clock_nanosleep);

        assert_eq!(activity("running\n"), (Some("computing"), None));
        assert_eq!(activity(&sleeps), (Some("system_call"), Some("clock_nanosleep".to_owned())));
        assert_eq!(activity("9999 0x0"), (Some("system_call"), Some("9999".to_owned())));
        assert_eq!(activity("-1 0x7f 0x7f"), (Some("waiting"), None));
        assert_eq!(activity(""), (None, None));
    }
}
