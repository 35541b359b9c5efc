//! The supervisors of a runtime as a tree that observers can read at any time, even during a crash storm.
//!
//! ```text
//!   supervisor's process ──▶ SupervisorBranch { SupervisorState }  ◀── observe::supervisor, observe::children, by page
//!                                   ▲
//!                              Tree (pid → branch, weak; top-level branches in the order of their start)
//! ```
//!
//! The runtime's state owns the tree, so the tree knows supervisors only as [`ObservedSupervisor`] objects.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::RwLock;
use rustc_hash::FxBuildHasher;

use crate::process::exit::ExitReason;
use crate::process::pid::Pid;

use super::policy::{ChildType, Restart, Shutdown, Strategy};
use super::restart_window::Intensity;

/// Report of a supervisor, without its children.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SupervisorReport {
    /// Pid of the supervisor.
    pub pid: Pid,
    /// Process that started it, which may be outside of the supervision tree.
    pub parent: Option<Pid>,
    /// Strategy that selects the children to restart together.
    pub strategy: Strategy,
    /// Restarts that it allows, and the period.
    pub intensity: Intensity,
    /// Number of restarts in the last period, which count against the limit.
    pub intensity_used: usize,
    /// Number of restarts of all its children since it started.
    pub restarts_total: u64,
    /// Numbers of its children by state.
    pub counts: ChildCounts,
    /// True while it stops its children before it ends.
    pub ending: bool,
}

/// Numbers of a supervisor's children by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChildCounts {
    /// Children that run.
    pub running: usize,
    /// Children that wait for their restart.
    pub waiting: usize,
    /// Children that have ended for good, have not started yet, or are being restarted at this moment.
    pub ended: usize,
}

impl ChildCounts {
    /// Returns the number of all children.
    pub const fn total(self) -> usize {
        self.running + self.waiting + self.ended
    }
}

/// Identifier of a child within one supervisor, valid through all of its restarts until the child is removed. Later
/// children have greater keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChildKey(u64);

impl ChildKey {
    /// Creates a key from its number.
    pub const fn of(number: u64) -> Self {
        Self(number)
    }

    /// Returns the number of the key.
    pub const fn number(self) -> u64 {
        self.0
    }
}

/// State of a child, as an observer sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildStatus {
    /// The child runs.
    Running(Pid),
    /// The child has ended, and its restart is in progress.
    Restarting,
    /// The child was spawned, and has not reported its start yet.
    Starting(Pid),
    /// The child was told to stop, and still runs.
    Stopping(Pid),
    /// The child waits for its restart.
    Waiting {
        /// Time until its next try.
        left: Duration,
    },
    /// The child has ended, and is not restarted automatically.
    Ended,
}

impl ChildStatus {
    /// Returns the child's process, if it has one.
    pub const fn pid(self) -> Option<Pid> {
        match self {
            Self::Running(pid) | Self::Starting(pid) | Self::Stopping(pid) => Some(pid),
            Self::Restarting | Self::Waiting { .. } | Self::Ended => None,
        }
    }
}

/// Report of a child of a supervisor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildReport {
    /// Identifier of the child within its supervisor.
    pub key: ChildKey,
    /// Id of the child, or of its template.
    pub id: Arc<str>,
    /// State of the child.
    pub state: ChildStatus,
    /// Type of the child.
    pub child_type: ChildType,
    /// Restart mode of the child.
    pub restart: Restart,
    /// Shutdown mode of the child.
    pub shutdown: Shutdown,
    /// True if its end counts for the end of its supervisor.
    pub significant: bool,
    /// Number of restarts after the child had died.
    pub restarts_total: u64,
    /// Its last end by itself, or the last failure of its start.
    pub last_end: Option<ChildEnd>,
}

/// One end of a child, or one failure to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildEnd {
    /// Time of the end, since the start of the runtime.
    pub at: Duration,
    /// Process that ended; `None` if the child did not even start.
    pub pid: Option<Pid>,
    /// Reason of the end.
    pub reason: ExitReason,
}

/// A page of the children of a supervisor, in the order of their start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChildPage {
    /// Number of all its children.
    pub total: usize,
    /// Children on this page.
    pub children: Vec<ChildReport>,
}

/// A supervisor that observers can read.
pub(crate) trait ObservedSupervisor: Send + Sync {
    fn report(&self, now: Instant) -> SupervisorReport;

    /// Returns a page of its children.
    fn page(&self, offset: usize, limit: usize, started: Instant, now: Instant) -> ChildPage;

    /// Returns one child and its ends, newest first.
    fn child(&self, key: ChildKey, started: Instant, now: Instant) -> Option<(ChildReport, Vec<ChildEnd>)>;

    /// Returns the id of the child that runs as this process.
    fn id_of(&self, pid: Pid) -> Option<Arc<str>>;

    /// Returns the positions of these children; `keys` must be in ascending order.
    fn positions(&self, keys: &[ChildKey]) -> Vec<Option<usize>>;
}

/// A supervisor in the tree.
struct Branch {
    supervisor: Weak<dyn ObservedSupervisor>,
    /// Process that has started it; `None` if it was started from outside.
    parent: Option<Pid>,
    /// Position in the order of all starts from outside and of all supervisors.
    order: u64,
    /// Number among the top-level supervisors; `None` if a supervisor has started it.
    top: Option<u64>,
}

/// All supervisors of a runtime.
#[derive(Default)]
pub(crate) struct Tree(RwLock<Branches>);

#[derive(Default)]
struct Branches {
    by_pid: HashMap<Pid, Branch, FxBuildHasher>,
    /// Top-level supervisors, which were not started by a supervisor.
    top: BTreeMap<u64, Pid>,
    next: u64,
}

impl Tree {
    /// Makes a supervisor visible to observers.
    pub(super) fn enter(
        &self,
        pid: Pid,
        (parent, order): (Option<Pid>, u64),
        supervisor: Weak<dyn ObservedSupervisor>,
    ) {
        let mut branches = self.0.write();
        let supervised = parent.is_some_and(|parent| branches.by_pid.contains_key(&parent));
        let top = (!supervised).then(|| {
            let number = branches.next;
            branches.next += 1;
            branches.top.insert(number, pid);
            number
        });
        branches.by_pid.insert(pid, Branch { supervisor, parent, order, top });
    }

    /// Removes a supervisor that has ended.
    pub(super) fn leave(&self, pid: Pid) {
        let mut branches = self.0.write();
        if let Some(number) = branches.by_pid.remove(&pid).and_then(|branch| branch.top) {
            branches.top.remove(&number);
        }
    }

    pub(crate) fn branch(&self, pid: Pid) -> Option<Arc<dyn ObservedSupervisor>> {
        self.0.read().by_pid.get(&pid)?.supervisor.upgrade()
    }

    /// Returns the newest top-level supervisor that has outlived the process that started it, with its order.
    pub(crate) fn newest_orphan(&self, is_alive: impl Fn(Pid) -> bool) -> Option<(u64, Pid)> {
        let branches = self.0.read();
        let mut newest_first = branches.top.values().rev().filter_map(|pid| Some((*pid, branches.by_pid.get(pid)?)));
        let (pid, branch) = newest_first.find(|(_, branch)| branch.parent.is_some_and(|parent| !is_alive(parent)))?;
        Some((branch.order, pid))
    }

    /// Returns the id of a process that a supervisor has started as its child.
    pub(crate) fn id_of(&self, parent: Pid, pid: Pid) -> Option<Arc<str>> {
        self.branch(parent)?.id_of(pid)
    }

    /// Returns the number of top-level supervisors, and some of them in the order of their start.
    pub(crate) fn top(&self, offset: usize, limit: usize) -> (usize, Vec<Pid>) {
        let branches = self.0.read();
        let pids = match branches.contiguous_from() {
            Some(first) => {
                branches.top.range(first.saturating_add(offset as u64)..).take(limit).map(|(_, pid)| *pid).collect()
            }
            None => branches.top.values().skip(offset).take(limit).copied().collect(),
        };
        (branches.top.len(), pids)
    }

    /// Returns the top-level supervisors among `pids`, with their positions in ascending order.
    pub(crate) fn top_positions(&self, pids: impl Iterator<Item = Pid>) -> Vec<(usize, Pid)> {
        let branches = self.0.read();
        let alive = |pid: Pid| branches.by_pid.get(&pid).filter(|branch| branch.supervisor.strong_count() > 0);
        let number = |pid: Pid| Some((alive(pid)?.top?, pid));
        let mut numbers: Vec<(u64, Pid)> = pids.filter_map(number).collect();
        numbers.sort_unstable();
        if let Some(first) = branches.contiguous_from() {
            return numbers.into_iter().map(|(number, pid)| ((number - first) as usize, pid)).collect();
        }
        let mut walk = branches.top.keys().enumerate();
        let position = |(number, pid)| walk.find(|(_, other)| **other == number).map(|(position, _)| (position, pid));
        numbers.into_iter().filter_map(position).collect()
    }
}

impl Branches {
    /// Returns the first number if no supervisor in between has ended: each position is then the difference from it.
    fn contiguous_from(&self) -> Option<u64> {
        let ((first, _), (last, _)) = (self.top.first_key_value()?, self.top.last_key_value()?);
        (last - first + 1 == self.top.len() as u64).then_some(*first)
    }
}
