//! One group of the CPU view: which it is, and how much its sums grew.

use rusm_runtime::Pid;
use rusm_runtime::observe::ProcessKind;

/// A group of processes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum GroupId {
    Kind(ProcessKind),
    /// [`Pid::NONE`] for processes spawned from outside, and for those of parents without a group.
    Parent(Pid),
    Scheduler(usize),
}

/// Parents of the processes of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Parents {
    #[default]
    Unknown,
    One(Option<Pid>),
    Several,
}

impl Parents {
    /// Adds the parent of a further process.
    pub(super) fn add(&mut self, parent: Option<Pid>) {
        *self = match *self {
            Self::Unknown => Self::One(parent),
            Self::One(known) if known == parent => Self::One(known),
            _ => Self::Several,
        };
    }

    /// Returns the parent, if all processes have the same one.
    pub(crate) fn only(self) -> Option<Pid> {
        match self {
            Self::One(parent) => parent,
            Self::Unknown | Self::Several => None,
        }
    }
}

/// Growth of a group's sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Growth {
    pub(crate) busy_ns: u64,
    pub(crate) ended_busy_ns: u64,
    pub(crate) ended: u64,
    pub(crate) live: u64,
    pub(crate) live_bytes: u64,
    pub(crate) ended_total: u64,
    pub(crate) from: Parents,
}
