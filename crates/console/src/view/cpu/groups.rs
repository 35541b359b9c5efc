//! Sums of CPU time over live and ended processes, by group.

use std::collections::HashMap;
use std::time::Instant;

use rusm_protocol::CpuGroup;

use super::group::{GroupId, Growth, Parents};
use super::parts::SchedulerTime;
use rusm_runtime::observe::{self, EndedGroup, ProcessKind, ProcessRef};
use rusm_runtime::{Handle, Pid};

/// Maximum number of groups; the processes of further ones are counted together.
const GROUPS_MAX: usize = 4_096;
/// Number of parts of the process table that one look reads: 128 thousand processes, in a few milliseconds.
const PARTS_PER_LOOK: usize = 128;

/// Processes in a row of the table with one type and one parent: both of these, their group and their sum.
type Run = ((usize, Option<Pid>), GroupId, Sum);

/// Sums of one group. All but `live` only grow, except when an ended parent loses its group.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    live: u64,
    live_busy_ns: u64,
    /// Memory of the live processes, if it is summed.
    live_bytes: u64,
    ended: u64,
    ended_busy_ns: u64,
    from: Parents,
}

impl Sum {
    fn busy_ns(&self) -> u64 {
        self.live_busy_ns + self.ended_busy_ns
    }
}

/// Sums of all groups at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct GroupSums(HashMap<GroupId, Sum>);

impl GroupSums {
    fn entry(&mut self, id: GroupId) -> &mut Sum {
        let is_full = self.0.len() >= GROUPS_MAX && !self.0.contains_key(&id);
        let id = match id {
            GroupId::Kind(_) if is_full => GroupId::Kind(ProcessKind::Other),
            GroupId::Parent(_) if is_full => GroupId::Parent(Pid::NONE),
            id => id,
        };
        self.0.entry(id).or_default()
    }

    /// Returns the growth of each group since `then`.
    ///
    /// The counters of children of ended parents move to the group without a parent; they are not growth there.
    pub(crate) fn since(&self, then: &Self) -> Vec<(GroupId, Growth)> {
        let zero = Sum::default();
        let moved = then.0.iter().fold((0, 0), |(busy, ended), (id, old)| {
            let new = self.0.get(id).unwrap_or(&zero);
            (busy + old.busy_ns().saturating_sub(new.busy_ns()), ended + old.ended.saturating_sub(new.ended))
        });
        let growth = |(id, new): (&GroupId, &Sum)| {
            let old = then.0.get(id).unwrap_or(&zero);
            let (busy, ended) = if *id == GroupId::Parent(Pid::NONE) { moved } else { (0, 0) };
            let busy_ns = new.busy_ns().saturating_sub(old.busy_ns() + busy);
            let growth = Growth {
                busy_ns,
                ended_busy_ns: new.ended_busy_ns.saturating_sub(old.ended_busy_ns + busy).min(busy_ns),
                ended: new.ended.saturating_sub(old.ended + ended),
                live: new.live,
                live_bytes: new.live_bytes,
                ended_total: new.ended,
                from: new.from,
            };
            (id.clone(), growth)
        };
        self.0.iter().map(growth).collect()
    }
}

/// Reads the sums, some parts of a large process table at each look.
pub(crate) struct Groups {
    by: CpuGroup,
    sums_memory: bool,
    /// Sums of the live processes of the last complete pass, and of the pass in progress.
    live: GroupSums,
    pass: GroupSums,
    next_part: usize,
    /// For each scheduler, the number of its polls, the process in the running one, and the first look that saw it.
    running: Vec<(u64, Option<Pid>, Instant)>,
}

impl Groups {
    pub(crate) fn new(by: CpuGroup) -> Self {
        let (live, pass) = (GroupSums::default(), GroupSums::default());
        Self { by, sums_memory: false, live, pass, next_part: 0, running: Vec::new() }
    }

    /// Sums the memory of live processes too.
    pub(crate) fn with_memory(self) -> Self {
        Self { sums_memory: true, ..self }
    }

    /// Returns the time of the unfinished poll of a process, as far as earlier looks have seen it.
    pub(crate) fn in_poll_ns(&self, pid: Pid, at: Instant) -> u64 {
        let running = self.running.iter().find(|(_, running, _)| *running == Some(pid));
        running.map_or(0, |(.., since)| at.saturating_duration_since(*since).as_nanos() as u64)
    }

    /// Returns the sums of all groups, and the times of the schedulers.
    pub(crate) fn read(&mut self, runtime: &Handle, at: Instant) -> (GroupSums, Vec<SchedulerTime>) {
        // Ended ones first: a process that ends between the two reads is missed once, and found in the next look.
        let ended = observe::ended_groups(runtime);
        if self.by != CpuGroup::Scheduler {
            self.read_live(runtime);
        }
        let mut sums = self.live.clone();
        for group in ended {
            let sum = sums.entry(self.id_of_ended(&group));
            sum.ended += group.ended;
            sum.ended_busy_ns += group.busy_ns;
            sum.from.add(group.parent);
        }
        let mut schedulers: Vec<SchedulerTime> =
            observe::schedulers(runtime).into_iter().map(SchedulerTime::from).collect();
        self.add_running(runtime, at, &mut schedulers, &mut sums);
        (sums, schedulers)
    }

    fn id_of_ended(&self, group: &EndedGroup) -> GroupId {
        match self.by {
            CpuGroup::Parent => GroupId::Parent(group.parent.unwrap_or(Pid::NONE)),
            _ => GroupId::Kind(group.kind.clone()),
        }
    }

    /// Reads the next parts of the process table.
    fn read_live(&mut self, runtime: &Handle) {
        let parts = observe::table_parts(runtime);
        let end = parts.min(self.next_part + PARTS_PER_LOOK);
        let (by, sums_memory) = (self.by, self.sums_memory);
        // Most processes of a large table have the type and the parent of their neighbour.
        let mut last: Option<Run> = None;
        let pass = &mut self.pass;
        let mut flush = |last: &mut Option<Run>| {
            if let Some((_, id, sum)) = last.take() {
                let to = pass.entry(id);
                to.live += sum.live;
                to.live_busy_ns += sum.live_busy_ns;
                to.live_bytes += sum.live_bytes;
                match sum.from {
                    Parents::One(parent) => to.from.add(parent),
                    Parents::Several => to.from = Parents::Several,
                    Parents::Unknown => {}
                }
            }
        };
        for part in self.next_part..end {
            observe::for_each_process(runtime, part, |seen| {
                let parent = seen.parent();
                let key = (if seen.may_have_kind() { 0 } else { seen.future_id() }, parent);
                if key.0 == 0 || last.as_ref().is_none_or(|(known, ..)| *known != key) {
                    flush(&mut last);
                    last = Some((key, id_of_live(by, &seen, parent), Sum::default()));
                }
                if let Some((_, _, sum)) = &mut last {
                    sum.live += 1;
                    sum.live_busy_ns += seen.busy_ns();
                    sum.live_bytes += if sums_memory { seen.memory_bytes() } else { 0 };
                    sum.from.add(parent);
                }
            });
        }
        flush(&mut last);
        self.next_part = end;
        if end >= parts {
            self.live = std::mem::take(&mut self.pass);
            self.next_part = 0;
        }
    }

    /// Adds the time of polls that have not returned since an earlier look. Their processes count it at their end.
    fn add_running(&mut self, runtime: &Handle, at: Instant, schedulers: &mut [SchedulerTime], sums: &mut GroupSums) {
        let running = observe::running_processes(runtime);
        self.running.resize(running.len(), (0, None, at));
        for ((scheduler, known), pid) in schedulers.iter_mut().zip(&mut self.running).zip(running) {
            if pid.is_none() || (known.0, known.1) != (scheduler.polls, pid) {
                *known = (scheduler.polls, pid, at);
                continue;
            }
            let Some(seen) = pid.and_then(|pid| observe::process_ref(runtime, pid)) else { continue };
            let elapsed_ns = (at - known.2).as_nanos() as u64;
            scheduler.poll_ns += elapsed_ns;
            sums.entry(id_of_live(self.by, &seen, seen.parent())).live_busy_ns += elapsed_ns;
        }
    }
}

/// Returns the group of a live process that ran on a scheduler.
pub(super) fn id_of(by: CpuGroup, scheduler: usize, seen: &ProcessRef<'_>) -> GroupId {
    match by {
        CpuGroup::Scheduler => GroupId::Scheduler(scheduler),
        _ => id_of_live(by, seen, seen.parent()),
    }
}

fn id_of_live(by: CpuGroup, seen: &ProcessRef<'_>, parent: Option<Pid>) -> GroupId {
    match by {
        CpuGroup::Parent => GroupId::Parent(parent.unwrap_or(Pid::NONE)),
        _ => GroupId::Kind(observe::kind(seen)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(of: &[(u32, u64, u64)]) -> GroupSums {
        let id = |slot| GroupId::Parent(if slot == 0 { Pid::NONE } else { Pid::local(slot, 1) });
        let sum = |busy, ended| Sum { ended_busy_ns: busy, ended, ..Sum::default() };
        GroupSums(of.iter().map(|(slot, busy, ended)| (id(*slot), sum(*busy, *ended))).collect())
    }

    fn growth(then: &GroupSums, now: &GroupSums) -> Vec<(u64, u64)> {
        let mut growth = now.since(then);
        growth.sort_by_key(|(id, _)| id.clone());
        growth.iter().map(|(_, growth)| (growth.busy_ns, growth.ended)).collect()
    }

    #[test]
    fn what_moves_away_from_an_ended_parent_is_not_new() {
        let then = sums(&[(0, 10, 1), (1, 500, 50), (2, 70, 7)]);
        let now = sums(&[(0, 515, 52), (2, 90, 8)]);

        assert_eq!(growth(&then, &now), [(5, 1), (20, 1)]);
    }

    #[test]
    fn a_process_that_ends_is_not_counted_twice() {
        let id = GroupId::Kind(ProcessKind::Other);
        let then = GroupSums([(id.clone(), Sum { live: 1, live_busy_ns: 900, ..Sum::default() })].into());
        let now = GroupSums([(id.clone(), Sum { ended: 1, ended_busy_ns: 950, ..Sum::default() })].into());

        let (_, growth) = now.since(&then)[0];

        assert_eq!((growth.busy_ns, growth.ended_busy_ns, growth.ended, growth.live), (50, 50, 1, 0));
    }

    #[test]
    fn groups_beyond_the_maximum_are_counted_together() {
        let mut sums = GroupSums::default();
        for slot in 1..=2 * GROUPS_MAX as u32 {
            sums.entry(GroupId::Parent(Pid::local(slot, 1))).live += 1;
        }

        assert_eq!(sums.0.len(), GROUPS_MAX + 1);
        assert_eq!(sums.0[&GroupId::Parent(Pid::NONE)].live as usize, GROUPS_MAX);
    }
}
