//! What observers read about one process in addition to its counters: its bonds by page, what it holds, what its end
//! would mean to others, and how it ended.
//!
//! Each function reads one bounded part. Nothing is kept for observers except ended processes and causes of failures.

pub(crate) mod causes;
pub(crate) mod ended;
pub(crate) mod histogram;
mod recent;
pub(crate) mod watch;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::links::registry::SideTables;
use crate::mailbox::gate::Phase;
use crate::observe::inspect::causes::CauseReport;
use crate::observe::inspect::ended::{EndedBy, EndedProcess};
use crate::observe::inspect::watch::{DelayReport, Watch, WatchReport};
use crate::observe::processes::{for_each_process, process_ref, table_parts};
use crate::process::exit::ExitReason;
use crate::process::header::WATCHED;
use crate::process::pid::Pid;
use crate::runtime::backtrace::frames_of_process;
use crate::runtime::handle::Handle;
use crate::supervision::supervisor::queries;
use crate::supervision::supervisor::tree::ChildKey;

/// Relation of a process to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bond {
    /// Linked processes.
    Links,
    /// Processes that it monitors.
    Monitors,
    /// Processes that monitor it.
    MonitoredBy,
}

/// What a process holds in addition to its bonds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Belongings {
    /// Registered names.
    pub names: Vec<Arc<str>>,
    /// Groups that it has joined.
    pub groups: Vec<Arc<str>>,
    /// Number of groups that it has joined.
    pub group_count: usize,
    /// Number of active timers.
    pub timers: usize,
    /// Number of senders that wait for room in its mailbox.
    pub waiting_senders: usize,
}

/// Effect of the end of a process on others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndReach {
    /// Number of processes that would end with it, through links.
    pub ends: usize,
    /// True if there may be more: the search stopped at its limit.
    pub is_more: bool,
    /// Number of processes that would receive a message: they monitor one that ends, or trap its exit signal.
    pub told: usize,
}

/// Returns a process that has ended, if it crashed, was ended by another one or was watched, and is still kept.
pub fn ended(runtime: &Handle, pid: Pid) -> Option<EndedProcess> {
    runtime.shared.ended.find(pid)
}

/// Keeps an end that an observer sees now, for example the newest one of a cause, so that [`ended`] finds it also after
/// a storm of others.
pub fn keep_ended(runtime: &Handle, ended: EndedProcess) {
    runtime.shared.ended.keep_seen(ended);
}

/// Notes who is about to end a process, for observers of its end.
pub fn note_end_by(runtime: &Handle, pid: Pid, by: EndedBy) {
    runtime.shared.ended.note(pid, by);
}

/// Returns the causes of failures since the runtime started, the newest failure first, and the number of failures of
/// causes beyond [`CAUSES_MAX`](causes::CAUSES_MAX).
pub fn causes(runtime: &Handle) -> (Vec<CauseReport>, u64) {
    let (mut reports, others) = runtime.shared.causes.report(runtime.shared.started.elapsed());
    reports.sort_by(|a, b| b.last.at.cmp(&a.last.at).then(a.id.cmp(&b.id)));
    (reports, others)
}

/// Returns the functions of the backtrace of a panic, innermost first, at most `limit`; empty if it is not known.
///
/// The first call for a location resolves its symbols, which takes milliseconds.
pub fn cause_backtrace(runtime: &Handle, reason: &ExitReason, limit: usize) -> Vec<String> {
    let ExitReason::Panic(info) = reason else { return Vec::new() };
    let Some(location) = &info.location else { return Vec::new() };
    // The location of the reason has the form in which the panic hook kept it.
    let Some(backtrace) = runtime.shared.causes.backtrace(location) else { return Vec::new() };
    frames_of_process(&backtrace.to_string()).iter().take(limit).map(|frame| frame.function.to_owned()).collect()
}

/// Returns the number of bonds of a kind, and up to `limit` of them from `offset` on; `None` if the process has ended.
///
/// The order is that of the process's own table, which is stable while no bond is added or removed.
pub fn bonds(runtime: &Handle, pid: Pid, bond: Bond, offset: usize, limit: usize) -> Option<(usize, Vec<Pid>)> {
    let process = process_ref(runtime, pid)?;
    let page = SideTables::read(process.table_slot(), pid, |side_table| {
        let page = |pids: &mut dyn Iterator<Item = Pid>| pids.skip(offset).take(limit).collect();
        match bond {
            Bond::Links => (side_table.links.len(), page(&mut side_table.links.iter().map(|(pid, ())| *pid))),
            Bond::Monitors => (side_table.monitors.len(), page(&mut side_table.monitors.iter().map(|(_, pid)| *pid))),
            Bond::MonitoredBy => {
                (side_table.monitored_by.len(), page(&mut side_table.monitored_by.iter().map(|(_, pid)| *pid)))
            }
        }
    });
    Some(page.unwrap_or_default())
}

/// Returns what a process holds, with at most `limit` names and groups; `None` if the process has ended.
pub fn process_belongings(runtime: &Handle, pid: Pid, limit: usize) -> Option<Belongings> {
    let process = process_ref(runtime, pid)?;
    let read = SideTables::read(process.table_slot(), pid, |side_table| {
        let Some(rare) = &side_table.rare else { return Belongings::default() };
        let groups = rare.memberships.groups();
        Belongings {
            names: rare.names.iter().take(limit).cloned().collect(),
            group_count: groups.len(),
            groups: groups.into_iter().take(limit).collect(),
            timers: rare.timers.len(),
            waiting_senders: rare.waiting_senders.len(),
        }
    });
    Some(read.unwrap_or_default())
}

/// Returns the number of live processes that `pid` has spawned, and up to `limit` of them from `offset` on.
///
/// Reads the control block of every process, so the cost grows with their number.
pub fn children_of(runtime: &Handle, pid: Pid, offset: usize, limit: usize) -> (usize, Vec<Pid>) {
    let (mut count, mut page) = (0, Vec::new());
    for part in 0..table_parts(runtime) {
        for_each_process(runtime, part, |process| {
            if process.table_slot().parent() == (pid.slot(), pid.generation()) {
                if count >= offset && page.len() < limit {
                    page.push(process.pid());
                }
                count += 1;
            }
        });
    }
    (count, page)
}

/// Returns the effect of the end of a process, following links through at most `limit` processes that would end.
pub fn end_reach(runtime: &Handle, pid: Pid, limit: usize) -> EndReach {
    let mut seen = HashSet::from([pid]);
    let mut told = HashSet::new();
    let mut next = vec![pid];
    let mut reach = EndReach::default();
    while let Some(pid) = next.pop() {
        let Some(process) = process_ref(runtime, pid) else { continue };
        let read = SideTables::read(process.table_slot(), pid, |side_table| {
            let links: Vec<Pid> = side_table.links.iter().map(|(other, ())| *other).take(limit).collect();
            let watchers: Vec<Pid> = side_table.monitored_by.iter().map(|(_, other)| *other).take(limit).collect();
            (side_table.links.len(), links, side_table.monitored_by.len(), watchers)
        });
        let Some((link_count, links, watcher_count, watchers)) = read else { continue };
        reach.is_more |= watcher_count > watchers.len();
        told.extend(watchers);
        if link_count > links.len() {
            // Too many to follow: count them, and do not look which of them trap exits.
            reach.ends += link_count - links.len();
            reach.is_more = true;
        }
        for other in links {
            if seen.len() > limit {
                reach.is_more = true;
                break;
            }
            let is_remote = other.node() != 0;
            if is_remote || process_ref(runtime, other).is_some_and(|other| other.traps_exits()) {
                told.insert(other);
                // Nothing more is known here about a process on another node.
                reach.is_more |= is_remote;
            } else if seen.insert(other) {
                reach.ends += 1;
                next.push(other);
            }
        }
    }
    // Processes that end as well are not told.
    reach.told = told.difference(&seen).count();
    reach
}

/// Returns the supervisor of a process, and the child that it is there; `None` if the process is not the child of a
/// supervisor, or not among its first `limit` children.
pub fn child_of(runtime: &Handle, pid: Pid, limit: usize) -> Option<(Pid, ChildKey)> {
    let (slot, generation) = process_ref(runtime, pid)?.table_slot().parent();
    let supervisor = Pid::local(slot, generation);
    let page = queries::children(runtime, supervisor, 0, limit)?;
    let key = page.children.into_iter().find(|child| child.state.pid() == Some(pid))?.key;
    Some((supervisor, key))
}

/// A process that is watched until this is dropped.
pub struct Watching {
    runtime: Handle,
    watch: Arc<Watch>,
}

impl std::fmt::Debug for Watching {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Watching({})", self.watch.pid)
    }
}

/// Watches a process: samples its delays, its senders and, on request, its first messages. `None` if it has ended.
///
/// Every send to the process and every poll of it costs some tens of nanoseconds more while it is watched.
pub fn watch(runtime: &Handle, pid: Pid) -> Option<Watching> {
    let slot = process_ref(runtime, pid)?.table_slot();
    let watching = Watching { runtime: runtime.clone(), watch: runtime.shared.watches.watch(pid) };
    slot.header().flags.fetch_or(WATCHED, Ordering::Relaxed);
    Some(watching)
}

impl Watching {
    /// Returns what is known; `None` if the process has ended.
    pub fn report(&self) -> Option<WatchReport> {
        let process = process_ref(&self.runtime, self.watch.pid)?;
        let header = process.table_slot();
        let header = header.header();
        // A sample of the node that was under way when the watch began may have removed the flag.
        header.flags.fetch_or(WATCHED, Ordering::Relaxed);
        let is_parked = header.gate.phase() == Phase::Parked;
        let now_ns = self.runtime.shared.watches.now_ns();
        Some(self.watch.report(now_ns, process.messages(), process.mailbox_len(), is_parked))
    }

    /// Requests the first messages of the mailbox, with values if `values` is true. A parked process is polled once for
    /// that, which wakes no future in it.
    pub fn request_preview(&self, values: bool) {
        let Some(process) = process_ref(&self.runtime, self.watch.pid) else { return };
        self.watch.request_preview(values);
        if process.table_slot().header().gate.phase() == Phase::Parked {
            crate::scheduler::wake(process.table_slot());
        }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        if self.runtime.shared.watches.unwatch(&self.watch)
            && let Some(process) = process_ref(&self.runtime, self.watch.pid)
        {
            process.table_slot().header().flags.fetch_and(!WATCHED, Ordering::Relaxed);
        }
    }
}

/// Sets whether delays of the node are sampled. It costs about a nanosecond for each poll.
pub fn set_sampling(runtime: &Handle, is_on: bool) {
    runtime.shared.watches.set_sampling(is_on);
}

/// Passes the newest sampled scheduling delays, each with its scheduler and its process, in nanoseconds. `seen` has the
/// number of delays that the caller has seen of each scheduler, and is updated; it is empty at first.
pub fn recent_delays(runtime: &Handle, seen: &mut Vec<u64>, mut visit: impl FnMut(usize, Pid, u64)) {
    let recent = &runtime.shared.watches.recent;
    seen.resize(recent.len(), 0);
    for (scheduler, (recent, seen)) in recent.iter().zip(seen).enumerate() {
        *seen = recent.since(*seen, |pid, delay_ns| visit(scheduler, pid, delay_ns));
    }
}

/// Returns the sampled delays of the node since it started.
pub fn delays(runtime: &Handle) -> DelayReport {
    runtime.shared.watches.delays()
}
