//! CPU time and memory of processes, each with all processes below it.
//!
//! ```text
//!   children of p, live and ended ──▶ sum of p ──▶ counts for p, for its parent, for the parent of that, ...
//! ```
//!
//! What the children of a process have used belongs to no row any more once the process itself has ended.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use rusm_protocol::{CpuGroup, TreeSum};

use crate::encode::cpu::round;
use crate::view::cpu::group::{GroupId, Growth};
use crate::view::cpu::groups::{GroupSums, Groups};
use rusm_runtime::observe;
use rusm_runtime::{Handle, Pid};

/// Time over which shares are computed, once that much has passed.
const SPAN: Duration = Duration::from_secs(5);
/// Maximum number of earlier looks that are kept.
const LOOKS_MAX: usize = 12;
/// Maximum number of processes above one another that are followed.
const DEPTH_MAX: usize = 256;

/// Sums of one client's tree.
pub(super) struct TreeSums {
    groups: Groups,
    looks: VecDeque<Look>,
}

/// Sums at one moment.
struct Look {
    at: Instant,
    sums: GroupSums,
    /// Time in polls of the shown processes.
    own: HashMap<Pid, u64>,
}

/// Growth of a process and of all processes below it.
#[derive(Clone, Copy, Debug, Default)]
struct Below {
    busy_ns: u64,
    bytes: u64,
    processes: u64,
}

impl Default for TreeSums {
    fn default() -> Self {
        Self { groups: Groups::new(CpuGroup::Parent).with_memory(), looks: VecDeque::new() }
    }
}

impl TreeSums {
    /// Returns the sums of these processes. Shares are absent until two looks have seen a process.
    pub(super) fn read(&mut self, runtime: &Handle, pids: &[Pid]) -> HashMap<Pid, TreeSum> {
        let at = Instant::now();
        let (sums, _) = self.groups.read(runtime, at);
        let mut own_bytes = HashMap::with_capacity(pids.len());
        let mut own = HashMap::with_capacity(pids.len());
        for pid in pids {
            if let Some(seen) = observe::process_ref(runtime, *pid) {
                own.insert(*pid, seen.busy_ns() + self.groups.in_poll_ns(*pid, at));
                own_bytes.insert(*pid, seen.memory_bytes());
            }
        }
        let now = Look { at, sums, own };
        while self.looks.get(1).is_some_and(|next| at - next.at >= SPAN) || self.looks.len() >= LOOKS_MAX {
            self.looks.pop_front();
        }
        let nothing = GroupSums::default();
        let first = self.looks.front();
        let below = below(runtime, now.sums.since(first.map_or(&nothing, |then| &then.sums)));
        let sum = |pid: &Pid| {
            let Below { busy_ns, bytes, processes } = below.get(pid).copied().unwrap_or_default();
            let cpu_pct = first.and_then(|first| Some(share(busy_ns, at - first.at) + self.own_share(&now, *pid)?));
            let bytes = bytes + own_bytes.get(pid)?;
            Some((*pid, TreeSum { cpu_pct: cpu_pct.map(round), memory_bytes: bytes, processes: processes + 1 }))
        };
        let found = pids.iter().filter_map(sum).collect();
        self.looks.push_back(now);
        found
    }

    /// Returns the share of a process without those below it, since the first look that has seen it.
    fn own_share(&self, now: &Look, pid: Pid) -> Option<f64> {
        let (at, then) = self.looks.iter().find_map(|look| Some((look.at, look.own.get(&pid)?)))?;
        Some(share(now.own.get(&pid)?.saturating_sub(*then), now.at - at))
    }
}

/// Adds the growth of each group to its parent and to all processes above that.
fn below(runtime: &Handle, groups: Vec<(GroupId, Growth)>) -> HashMap<Pid, Below> {
    let mut sums: HashMap<Pid, Below> = HashMap::new();
    for (id, growth) in groups {
        let GroupId::Parent(parent) = id else { continue };
        let mut above = (parent != Pid::NONE).then_some(parent);
        for _ in 0..DEPTH_MAX {
            let Some(pid) = above else { break };
            let sum = sums.entry(pid).or_default();
            sum.busy_ns += growth.busy_ns;
            sum.bytes += growth.live_bytes;
            sum.processes += growth.live;
            above = observe::process_ref(runtime, pid).and_then(|seen| seen.parent());
        }
    }
    sums
}

/// Returns a time in per cent of one core.
fn share(ns: u64, span: Duration) -> f64 {
    ns as f64 / span.as_nanos().max(1) as f64 * 100.0
}
