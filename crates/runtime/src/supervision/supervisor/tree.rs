//! The supervisors of a runtime as a tree that observers can read at any time, even during a crash storm.
//!
//! ```text
//!   supervisor's process ──▶ Branch { SupervisorState }  ◀── observe::supervisor, observe::children, a page at a time
//!                                   ▲
//!                              Tree (pid → branch, weak; top-level branches in the order of their start)
//! ```
//!
//! A lock protects the state of each supervisor. The supervisor takes it twice per restart, and never holds it while it
//! waits or runs user code. An observer holds it while it copies one page, so neither waits long for the other:
//! children are found by position without a walk if none was removed in between, and otherwise by a walk of some
//! nanoseconds per child.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use rustc_hash::FxBuildHasher;

use crate::process::exit::ExitReason;
use crate::process::pid::Pid;
use crate::runtime::panics;

use super::Strategy;
use super::child::{Child, Key, RunState};
use super::child_spec::{ChildType, Restart, Shutdown};
use super::history::End;
use super::restart_window::Intensity;
use super::state::SupervisorState;

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
    /// Children that have ended for good, or are being restarted at this moment.
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
pub(crate) struct Branch {
    pid: Pid,
    parent: Option<Pid>,
    /// Number among the top-level supervisors; `None` if a supervisor has started it.
    top: Option<u64>,
    state: Mutex<SupervisorState>,
}

impl Branch {
    /// Locks the state and passes it to `access`, which must be fast and must not run user code.
    ///
    /// Values that the state no longer needs are dropped after the lock is released; panics of their drops are
    /// contained.
    pub(super) fn with<R>(&self, access: impl FnOnce(&mut SupervisorState) -> R) -> R {
        let mut state = self.state.lock();
        let result = access(&mut state);
        if !state.deferred_drops.is_empty() {
            let deferred_drops = std::mem::take(&mut state.deferred_drops);
            drop(state);
            panics::contain(|| drop(deferred_drops));
        }
        result
    }

    pub(crate) fn report(&self, now: Instant) -> SupervisorReport {
        let state = self.state.lock();
        SupervisorReport {
            pid: self.pid,
            parent: self.parent,
            strategy: state.strategy,
            intensity: state.window.intensity(),
            intensity_used: state.window.used(now),
            restarts_total: state.restarts_total,
            counts: state.states(),
            ending: state.ending,
        }
    }

    /// Returns a page of its children.
    pub(crate) fn page(&self, offset: usize, limit: usize, started: Instant, now: Instant) -> ChildPage {
        let state = self.state.lock();
        let child = |(key, child)| report(&state, key, child, started, now);
        let children = state.after_offset(offset).take(limit).map(child).collect();
        ChildPage { total: state.len(), children }
    }

    /// Returns one child and its ends, newest first.
    pub(crate) fn child(&self, key: ChildKey, started: Instant, now: Instant) -> Option<(ChildReport, Vec<ChildEnd>)> {
        let state = self.state.lock();
        let child = state.child(Key(key.0))?;
        let ends = child.history.newest_first().map(|end| child_end(end, started)).collect();
        Some((report(&state, Key(key.0), child, started, now), ends))
    }

    /// Returns the positions of these children; `keys` must be in ascending order.
    pub(crate) fn positions(&self, keys: &[ChildKey]) -> Vec<Option<usize>> {
        let state = self.state.lock();
        state.positions(keys.iter().map(|key| Key(key.0)))
    }
}

/// Read access for observers.
impl SupervisorState {
    fn len(&self) -> usize {
        self.children.len()
    }

    /// Returns the numbers of children by state.
    fn states(&self) -> ChildCounts {
        let (running, waiting) = (self.by_pid.len(), self.waiting);
        ChildCounts { running, waiting, ended: self.len() - running - waiting }
    }

    /// Returns the key of the first child if no child in between was removed: each position is then the difference from
    /// it.
    fn contiguous_from(&self) -> Option<u64> {
        let (Key(first), _) = self.children.first_key_value()?;
        let (Key(last), _) = self.children.last_key_value()?;
        (last - first + 1 == self.children.len() as u64).then_some(*first)
    }

    /// Returns the children after the first `offset` children.
    fn after_offset(&self, offset: usize) -> impl Iterator<Item = (Key, &Child)> {
        let from = match self.contiguous_from() {
            Some(first) => Some(Key(first.saturating_add(offset as u64))),
            None if offset <= self.len() / 2 => self.children.keys().nth(offset).copied(),
            None => self.len().checked_sub(offset + 1).and_then(|back| self.children.keys().nth_back(back).copied()),
        };
        from.into_iter().flat_map(|from| self.children.range(from..)).map(|(key, child)| (*key, child))
    }

    /// Returns true if the restart in progress affects the child.
    fn is_restarting(&self, key: Key) -> bool {
        self.restarting.is_some_and(|victim| match self.strategy {
            Strategy::OneForOne | Strategy::SimpleOneForOne => key == victim,
            Strategy::OneForAll => true,
            Strategy::RestForOne => key >= victim,
        })
    }

    /// Returns the positions of children; `keys` must be in ascending order.
    fn positions(&self, keys: impl Iterator<Item = Key>) -> Vec<Option<usize>> {
        let contiguous = self.contiguous_from();
        let mut walk = self.children.keys().enumerate().peekable();
        let position = |key: Key| {
            if let Some(first) = contiguous {
                return self.children.contains_key(&key).then(|| (key.0 - first) as usize);
            }
            while walk.next_if(|(_, other)| **other < key).is_some() {}
            walk.peek().filter(|(_, other)| **other == key).map(|(position, _)| *position)
        };
        keys.map(position).collect()
    }
}

fn report(state: &SupervisorState, key: Key, child: &Child, started: Instant, now: Instant) -> ChildReport {
    let starting = state.starting.filter(|(starting, _)| *starting == key);
    let status = match (child.state, starting) {
        (RunState::Running(pid), _) if state.ending || state.stopping == Some(key) => ChildStatus::Stopping(pid),
        (RunState::Running(pid), _) => ChildStatus::Running(pid),
        (_, Some((_, pid))) => ChildStatus::Starting(pid),
        (RunState::Restarting(wait), None) => ChildStatus::Waiting { left: wait.due.saturating_duration_since(now) },
        (RunState::Ended, None) if state.is_restarting(key) => ChildStatus::Restarting,
        (RunState::Ended, None) => ChildStatus::Ended,
    };
    ChildReport {
        key: ChildKey(key.0),
        id: Arc::clone(&child.id),
        state: status,
        child_type: child.kind,
        restart: child.restart,
        shutdown: child.spec.shutdown,
        significant: child.spec.significant,
        restarts_total: child.restarts_total,
        last_end: child.history.newest_first().next().map(|end| child_end(end, started)),
    }
}

fn child_end(end: &End, started: Instant) -> ChildEnd {
    ChildEnd { at: end.at.saturating_duration_since(started), pid: end.pid, reason: end.reason.clone() }
}

/// All supervisors of a runtime.
#[derive(Default)]
pub(crate) struct Tree(RwLock<Branches>);

#[derive(Default)]
struct Branches {
    by_pid: HashMap<Pid, Weak<Branch>, FxBuildHasher>,
    /// Top-level supervisors, which were not started by a supervisor.
    top: BTreeMap<u64, Pid>,
    next: u64,
}

/// Registration of a supervisor in the tree; removed when the supervisor ends for whatever reason.
pub(super) struct TreeRegistration {
    tree: Arc<Tree>,
    pub(super) branch: Arc<Branch>,
}

impl Tree {
    /// Makes a supervisor visible to observers.
    pub(super) fn enter(self: Arc<Self>, pid: Pid, parent: Option<Pid>, state: SupervisorState) -> TreeRegistration {
        let mut branches = self.0.write();
        let supervised = parent.is_some_and(|parent| branches.by_pid.contains_key(&parent));
        let top = (!supervised).then(|| {
            let number = branches.next;
            branches.next += 1;
            branches.top.insert(number, pid);
            number
        });
        let branch = Arc::new(Branch { pid, parent, top, state: Mutex::new(state) });
        branches.by_pid.insert(pid, Arc::downgrade(&branch));
        drop(branches);
        TreeRegistration { tree: self, branch }
    }

    pub(crate) fn branch(&self, pid: Pid) -> Option<Arc<Branch>> {
        self.0.read().by_pid.get(&pid)?.upgrade()
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
        let number = |pid: Pid| Some((branches.by_pid.get(&pid)?.upgrade()?.top?, pid));
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

impl Drop for TreeRegistration {
    fn drop(&mut self) {
        // Dissolve it here, and not where the last observer releases the branch: dropping it may run user code.
        self.branch.with(SupervisorState::clear);
        let mut branches = self.tree.0.write();
        branches.by_pid.remove(&self.branch.pid);
        if let Some(number) = self.branch.top {
            branches.top.remove(&number);
        }
    }
}
