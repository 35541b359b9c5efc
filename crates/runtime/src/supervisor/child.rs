//! One child of a supervisor: what it is made from, and what became of it.

use std::sync::Arc;
use std::time::Instant;

use smallvec::SmallVec;

use crate::exit::ExitReason;
use crate::pid::Pid;

use super::child_spec::{Arguments, ChildSpec, ChildType, Restart};
use super::history::History;

/// A child of one supervisor; later ones are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Key(pub(super) u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Running(Pid),
    Restarting(Wait),
    Ended,
}

/// A restart that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wait {
    pub(super) due: Instant,
    /// The window knows of it already.
    pub(super) spent: bool,
}

pub(super) struct Child {
    pub(super) spec: Arc<ChildSpec>,
    /// Three of the spec's, so that a list of all children reads them from here and not from all over the heap.
    pub(super) id: Arc<str>,
    pub(super) restart: Restart,
    pub(super) kind: ChildType,
    pub(super) arguments: Option<Arguments>,
    pub(super) state: State,
    pub(super) restarts_total: u64,
    pub(super) last_exit: Option<ExitReason>,
    /// The process that it was before.
    pub(super) before: Option<Pid>,
    pub(super) history: History,
    /// Restarts without a long life in between; only counted for a back-off.
    pub(super) in_a_row: u32,
    pub(super) started: Option<Instant>,
    /// It was stopped for a restart that has not come to it yet.
    pub(super) is_owed: bool,
}

impl Child {
    /// One that has not started.
    pub(super) fn new(spec: Arc<ChildSpec>, arguments: Option<Arguments>) -> Self {
        Self {
            id: Arc::clone(&spec.id),
            restart: spec.restart,
            kind: spec.child_type,
            spec,
            arguments,
            state: State::Ended,
            restarts_total: 0,
            last_exit: None,
            before: None,
            history: History::default(),
            in_a_row: 0,
            started: None,
            is_owed: false,
        }
    }

    /// Why it ended last; one that has never ended by itself was stopped with another.
    pub(super) fn ended_with(&self) -> ExitReason {
        self.last_exit.clone().unwrap_or(ExitReason::Shutdown)
    }
}

/// What a family has no more use for. Its drop may run anybody's code, so it is for after the family's lock.
#[derive(Default)]
pub(super) struct Buried {
    pub(super) children: Vec<Child>,
    pub(super) reasons: SmallVec<[ExitReason; 2]>,
    pub(super) template: Option<Arc<ChildSpec>>,
}

impl Buried {
    pub(super) fn is_empty(&self) -> bool {
        self.children.is_empty() && self.reasons.is_empty() && self.template.is_none()
    }

    /// Keeps a reason for later, unless its drop is nothing.
    pub(super) fn reason(&mut self, reason: Option<ExitReason>) {
        use ExitReason::{Other, Panic, ShutdownWith};
        self.reasons.extend(reason.filter(|reason| matches!(reason, ShutdownWith(_) | Panic(_) | Other(_))));
    }
}
