//! The state of a supervisor, shared with observers.
//!
//! A lock protects the state of each supervisor. The supervisor takes it twice per restart, and never holds it while it
//! waits or runs user code. An observer holds it while it copies one page, so neither waits long for the other:
//! children are found by position without a walk if none was removed in between, and otherwise by a walk of some
//! nanoseconds per child.

use std::sync::{Arc, Weak};
use std::time::Instant;

use parking_lot::Mutex;

use super::child::{Child, Key, RunState};
use super::history::End;
use super::policy::Strategy;
use super::state::SupervisorState;
use super::tree::{
    ChildCounts, ChildEnd, ChildKey, ChildPage, ChildReport, ChildStatus, ObservedSupervisor, SupervisorReport, Tree,
};
use crate::process::context::Context;
use crate::process::pid::Pid;
use crate::runtime::panics;

/// State of a supervisor that observers can read.
pub(super) struct SupervisorBranch {
    pid: Pid,
    parent: Option<Pid>,
    state: Mutex<SupervisorState>,
}

impl SupervisorBranch {
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
}

impl ObservedSupervisor for SupervisorBranch {
    fn report(&self, now: Instant) -> SupervisorReport {
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

    fn page(&self, offset: usize, limit: usize, started: Instant, now: Instant) -> ChildPage {
        let state = self.state.lock();
        let child = |(key, child)| report(&state, key, child, started, now);
        let children = state.after_offset(offset).take(limit).map(child).collect();
        ChildPage { total: state.len(), children }
    }

    fn child(&self, key: ChildKey, started: Instant, now: Instant) -> Option<(ChildReport, Vec<ChildEnd>)> {
        let state = self.state.lock();
        let child = state.child(Key(key.number()))?;
        let ends = child.history.newest_first().map(|end| child_end(end, started)).collect();
        Some((report(&state, Key(key.number()), child, started, now), ends))
    }

    fn id_of(&self, pid: Pid) -> Option<Arc<str>> {
        let state = self.state.lock();
        let starting = state.starting.filter(|(_, other)| *other == pid).map(|(key, _)| key);
        let key = state.by_pid.get(&pid).copied().or(starting)?;
        state.child(key).map(|child| Arc::clone(&child.id))
    }

    fn positions(&self, keys: &[ChildKey]) -> Vec<Option<usize>> {
        let state = self.state.lock();
        state.positions(keys.iter().map(|key| Key(key.number())))
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
        key: ChildKey::of(key.0),
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

/// Registration of a supervisor in the tree; removed when the supervisor ends for whatever reason.
pub(super) struct TreeRegistration {
    tree: Arc<Tree>,
    pub(super) branch: Arc<SupervisorBranch>,
}

impl TreeRegistration {
    /// Makes a supervisor visible to observers.
    pub(super) fn new(ctx: &Context, state: SupervisorState) -> Self {
        let (pid, parent) = (ctx.pid(), ctx.parent());
        let shared = &ctx.running().local.shared;
        let (tree, order) = (Arc::clone(&shared.tree), shared.next_root());
        let branch = Arc::new(SupervisorBranch { pid, parent, state: Mutex::new(state) });
        let observed: Weak<dyn ObservedSupervisor> = Arc::<SupervisorBranch>::downgrade(&branch);
        tree.enter(pid, (parent, order), observed);
        Self { tree, branch }
    }
}

impl Drop for TreeRegistration {
    fn drop(&mut self) {
        // Dissolve it here, and not where the last observer releases the branch: dropping it may run user code.
        self.branch.with(SupervisorState::clear);
        self.tree.leave(self.branch.pid);
    }
}
