//! What others ask of a supervisor, and what it answers.

use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use crate::call::{CallError, Caller};
use crate::exit::ExitReason;
use crate::pid::Pid;
use crate::starting::InitError;

use super::SpecError;
use super::child_spec::{Arguments, ChildSpec, ChildType, Restart};

/// A child by its id, or by its pid; those of a dynamic supervisor have only the latter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChildRef {
    /// By its id.
    Id(Arc<str>),
    /// By its pid.
    Pid(Pid),
}

impl From<&str> for ChildRef {
    fn from(id: &str) -> Self {
        Self::Id(id.into())
    }
}

impl From<Pid> for ChildRef {
    fn from(pid: Pid) -> Self {
        Self::Pid(pid)
    }
}

/// What a child does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildState {
    /// It runs.
    Running(Pid),
    /// It waits for its restart.
    Restarting {
        /// Time to its next try at the moment of the answer.
        left: Duration,
    },
    /// It has ended, and is not restarted by itself.
    Ended,
}

/// A line of [`SupervisorRef::which_children`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildInfo {
    /// Its id, or its template's.
    pub id: Arc<str>,
    /// What it does.
    pub state: ChildState,
    /// What it is.
    pub child_type: ChildType,
    /// When it is restarted.
    pub restart: Restart,
    /// How often it was restarted because it had died.
    pub restarts_total: u64,
    /// Why it last ended by itself.
    pub last_exit: Option<ExitReason>,
}

/// How many children there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Children, dead or alive.
    pub specs: usize,
    /// Those that run.
    pub active: usize,
    /// Supervisors among all.
    pub supervisors: usize,
    /// Workers among all.
    pub workers: usize,
}

/// Why a supervisor did not do what it was asked to do with a child.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OrderError {
    /// It has no such child.
    #[error("no such child")]
    NotFound,
    /// Terminate it first.
    #[error("the child runs")]
    Running,
    /// Wait until it runs, or terminate it.
    #[error("the child waits for its restart")]
    Restarting,
    /// The children of a dynamic supervisor can only be terminated.
    #[error("not done by a supervisor that is simple_one_for_one")]
    Dynamic,
    /// The child did not start, and has ended.
    #[error(transparent)]
    Init(#[from] InitError),
    /// The supervisor could not be asked.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// Why a child was not added.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StartChildError {
    /// A child of this id runs, or will.
    #[error("already started as {0:?}")]
    AlreadyStarted(Option<Pid>),
    /// A child of this id has ended: restart or delete it.
    #[error("already present")]
    AlreadyPresent,
    /// It cannot be supervised as specified.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// It was started with arguments of another type than the template's, or as the wrong kind for this supervisor.
    #[error("not the kind of child that this supervisor starts")]
    WrongKind,
    /// It did not start, and was forgotten.
    #[error(transparent)]
    Init(#[from] InitError),
    /// The supervisor could not be asked.
    #[error(transparent)]
    Call(#[from] CallError),
}

#[derive(Debug)]
pub(super) enum Order {
    Start(Box<ChildSpec>),
    StartOne(Arguments),
    Terminate(ChildRef),
    Restart(ChildRef),
    Delete(ChildRef),
    Which,
    Count,
}

pub(super) enum Told {
    Started(Result<Pid, StartChildError>),
    Restarted(Result<Pid, OrderError>),
    Done(Result<(), OrderError>),
    Children(Vec<ChildInfo>),
    Counts(Counts),
}

/// A supervisor, for those who ask something of it: processes by their [`Context`](crate::Context), others by a
/// [`Handle`](crate::Handle).
///
/// A supervisor answers when it is done with what it does: starts, stops and restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SupervisorRef(Pid);

impl SupervisorRef {
    /// The supervisor of this pid; one that is none never answers.
    pub const fn of(pid: Pid) -> Self {
        Self(pid)
    }

    /// Its pid.
    pub const fn pid(self) -> Pid {
        self.0
    }

    /// Adds a child behind the others and starts it.
    ///
    /// # Errors
    /// [`StartChildError`]; the child is not added then.
    pub async fn start_child(self, by: &impl Caller, spec: ChildSpec) -> Result<Pid, StartChildError> {
        match by.request(self.0, Order::Start(Box::new(spec))).await? {
            Told::Started(started) => started,
            _ => unreachable!("a supervisor answers what it is asked"),
        }
    }

    /// Starts one more child of a dynamic supervisor's kind, with these arguments.
    ///
    /// # Errors
    /// [`StartChildError`]; there is no such child then.
    pub async fn start_one<A: Clone + Send + Sync + 'static>(
        self,
        by: &impl Caller,
        arguments: A,
    ) -> Result<Pid, StartChildError> {
        match by.request(self.0, Order::StartOne(Arc::new(arguments))).await? {
            Told::Started(started) => started,
            _ => unreachable!("a supervisor answers what it is asked"),
        }
    }

    /// Stops a child, which is not restarted; its spec stays unless it is temporary or of a dynamic supervisor.
    ///
    /// # Errors
    /// [`OrderError::NotFound`], [`OrderError::Call`].
    pub async fn terminate_child(self, by: &impl Caller, child: impl Into<ChildRef> + Send) -> Result<(), OrderError> {
        self.done(by, Order::Terminate(child.into())).await
    }

    /// Starts a child that has ended for good.
    ///
    /// # Errors
    /// [`OrderError`] when it runs, waits for its restart, or does not start.
    pub async fn restart_child(self, by: &impl Caller, child: impl Into<ChildRef> + Send) -> Result<Pid, OrderError> {
        match by.request(self.0, Order::Restart(child.into())).await? {
            Told::Restarted(restarted) => restarted,
            _ => unreachable!("a supervisor answers what it is asked"),
        }
    }

    /// Forgets a child that has ended for good.
    ///
    /// # Errors
    /// [`OrderError`] when it runs or waits for its restart.
    pub async fn delete_child(self, by: &impl Caller, child: impl Into<ChildRef> + Send) -> Result<(), OrderError> {
        self.done(by, Order::Delete(child.into())).await
    }

    async fn done(self, by: &impl Caller, order: Order) -> Result<(), OrderError> {
        match by.request(self.0, order).await? {
            Told::Done(done) => done,
            _ => unreachable!("a supervisor answers what it is asked"),
        }
    }

    /// The children, in the order of their start.
    ///
    /// # Errors
    /// [`CallError`] when the supervisor has ended.
    pub async fn which_children(self, by: &impl Caller) -> Result<Vec<ChildInfo>, CallError> {
        match by.request(self.0, Order::Which).await? {
            Told::Children(children) => Ok(children),
            _ => unreachable!("a supervisor answers what it is asked"),
        }
    }

    /// How many children there are.
    ///
    /// # Errors
    /// [`CallError`] when the supervisor has ended.
    pub async fn count_children(self, by: &impl Caller) -> Result<Counts, CallError> {
        match by.request(self.0, Order::Count).await? {
            Told::Counts(counts) => Ok(counts),
            _ => unreachable!("a supervisor answers what it is asked"),
        }
    }
}
