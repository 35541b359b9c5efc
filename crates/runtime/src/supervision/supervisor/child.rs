//! One child of a supervisor: its specification, its state and its history.

use std::sync::Arc;
use std::time::Instant;

use smallvec::SmallVec;

use crate::process::exit::ExitReason;
use crate::process::pid::Pid;

use super::child_spec::{Arguments, ChildSpec};
use super::history::History;
use super::policy::{ChildType, Restart};

/// Identifier of a child within one supervisor; later children have greater keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Key(pub(super) u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RunState {
    Running(Pid),
    Restarting(PendingRestart),
    Ended,
}

/// A restart that is not due yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PendingRestart {
    pub(super) due: Instant,
    /// True if the restart window has already counted it.
    pub(super) is_counted: bool,
}

pub(super) struct Child {
    pub(super) spec: Arc<ChildSpec>,
    /// Copies of three fields of the specification: a list of all children then reads less memory all over the heap.
    pub(super) id: Arc<str>,
    pub(super) restart: Restart,
    pub(super) kind: ChildType,
    pub(super) arguments: Option<Arguments>,
    pub(super) state: RunState,
    pub(super) restarts_total: u64,
    pub(super) last_exit: Option<ExitReason>,
    /// Previous process of the child.
    pub(super) previous_pid: Option<Pid>,
    pub(super) history: History,
    /// Number of consecutive restarts without a long life in between; counted only for a back-off.
    pub(super) consecutive_restarts: u32,
    pub(super) started: Option<Instant>,
    /// True if the child was stopped for a restart that has not started it again yet.
    pub(super) awaits_restart: bool,
}

impl Child {
    /// Creates a child that has not started.
    pub(super) fn new(spec: Arc<ChildSpec>, arguments: Option<Arguments>) -> Self {
        Self {
            id: Arc::clone(&spec.id),
            restart: spec.restart,
            kind: spec.child_type,
            spec,
            arguments,
            state: RunState::Ended,
            restarts_total: 0,
            last_exit: None,
            previous_pid: None,
            history: History::default(),
            consecutive_restarts: 0,
            started: None,
            awaits_restart: false,
        }
    }

    /// Returns the reason of the last end. A child that never ended by itself was stopped together with another child.
    pub(super) fn ended_with(&self) -> ExitReason {
        self.last_exit.clone().unwrap_or(ExitReason::Shutdown)
    }
}

/// Values that a state no longer needs. Dropping them may run user code, so it happens after the state's lock is
/// released.
#[derive(Default)]
pub(super) struct DeferredDrops {
    pub(super) children: Vec<Child>,
    pub(super) reasons: SmallVec<[ExitReason; 2]>,
    pub(super) template: Option<Arc<ChildSpec>>,
}

impl DeferredDrops {
    pub(super) fn is_empty(&self) -> bool {
        self.children.is_empty() && self.reasons.is_empty() && self.template.is_none()
    }

    /// Keeps a reason for a later drop, unless its drop does nothing.
    pub(super) fn reason(&mut self, reason: Option<ExitReason>) {
        use ExitReason::{Other, Panic, ShutdownWith};
        self.reasons.extend(reason.filter(|reason| matches!(reason, ShutdownWith(_) | Panic(_) | Other(_))));
    }
}
