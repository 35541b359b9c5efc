//! Requests to a supervisor, and its replies.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use thiserror::Error;

use crate::links::signal::Exit;
use crate::mailbox::call::{CallError, Caller};
use crate::process::error::InitError;
use crate::process::exit::ExitReason;
use crate::process::pid::Pid;
use crate::supervision::actor::CallTimeout;

use super::child_spec::{Arguments, ChildSpec, Once};
use super::policy::{ChildType, Restart};
use super::spec::SpecError;
use super::tree::ChildKey;

/// Refers to a child by its id or its pid. Children of a dynamic supervisor can only be referred to by pid.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::supervisor::{ChildError, ChildSpec, Strategy, Supervisor};
/// use rusm::{Config, ExitReason, Runtime};
///
/// let runtime = Runtime::start(Config::default())?;
/// runtime.block_on(|ctx| async move {
///     let tree = Supervisor::new(Strategy::OneForOne).start_link(&ctx).await?;
///     let pid = tree.start_child(&ctx, ChildSpec::new("db", |_ctx| std::future::pending::<()>())).await?;
///     // An id and a pid are references to a child.
///     tree.terminate_child(&ctx, pid).await?;
///     tree.delete_child(&ctx, "db").await?;
///     assert_eq!(tree.delete_child(&ctx, "db").await, Err(ChildError::NotFound));
///     Ok::<(), ExitReason>(())
/// })?;
/// # Ok::<(), ExitReason>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChildRef {
    /// Id of the child.
    Id(Arc<str>),
    /// Pid of the child.
    Pid(Pid),
    /// Key of the child, as an observer sees it.
    Key(ChildKey),
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

/// State of a child.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::supervisor::{ChildSpec, ChildState, Strategy, Supervisor};
/// use rusm::{Config, ExitReason, Runtime};
///
/// let runtime = Runtime::start(Config::default())?;
/// runtime.block_on(|ctx| async move {
///     let tree = Supervisor::new(Strategy::OneForOne).start_link(&ctx).await?;
///     let pid = tree.start_child(&ctx, ChildSpec::new("db", |_ctx| std::future::pending::<()>())).await?;
///     assert_eq!(tree.which_children(&ctx).await?[0].state, ChildState::Running(pid));
///     tree.terminate_child(&ctx, "db").await?;
///     assert_eq!(tree.which_children(&ctx).await?[0].state, ChildState::Ended);
///     Ok::<(), ExitReason>(())
/// })?;
/// # Ok::<(), ExitReason>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildState {
    /// The child runs.
    Running(Pid),
    /// The child waits for its restart.
    Restarting {
        /// Time until its next try, at the moment of the reply.
        left: Duration,
    },
    /// The child has ended, and is not restarted automatically.
    Ended,
}

/// An entry of [`SupervisorRef::which_children`].
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::supervisor::{ChildSpec, Strategy, Supervisor};
/// use rusm::{Config, ExitReason, Runtime};
///
/// let runtime = Runtime::start(Config::default())?;
/// let children = runtime.block_on(|ctx| async move {
///     let tree = Supervisor::new(Strategy::OneForOne)
///         .child(ChildSpec::new("db", |_ctx| std::future::pending::<()>()))
///         .start_link(&ctx)
///         .await?;
///     Ok::<_, ExitReason>(tree.which_children(&ctx).await)
/// })?;
/// let children = children.expect("the supervisor lives");
/// assert_eq!((&*children[0].id, children[0].restarts_total), ("db", 0));
/// # Ok::<(), ExitReason>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildInfo {
    /// Id of the child, or of its template.
    pub id: Arc<str>,
    /// State of the child.
    pub state: ChildState,
    /// Type of the child.
    pub child_type: ChildType,
    /// Restart mode of the child.
    pub restart: Restart,
    /// Number of restarts after the child had died.
    pub restarts_total: u64,
    /// Exit reason of the last time that the child ended by itself.
    pub last_exit: Option<ExitReason>,
}

/// Numbers of children.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::supervisor::{ChildSpec, Counts, Strategy, Supervisor};
/// use rusm::{Config, ExitReason, Runtime};
///
/// let runtime = Runtime::start(Config::default())?;
/// runtime.block_on(|ctx| async move {
///     let worker = |id: &'static str| ChildSpec::new(id, |_ctx| std::future::pending::<()>());
///     let tree = Supervisor::new(Strategy::OneForOne).child(worker("db")).child(worker("web"));
///     let tree = tree.start_link(&ctx).await?;
///     tree.terminate_child(&ctx, "web").await?;
///     let counts = tree.count_children(&ctx).await?;
///     assert_eq!(counts, Counts { specs: 2, active: 1, supervisors: 0, workers: 2 });
///     Ok::<(), ExitReason>(())
/// })?;
/// # Ok::<(), ExitReason>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of all children, dead or alive.
    pub specs: usize,
    /// Number of children that run.
    pub active: usize,
    /// Number of all children that are supervisors.
    pub supervisors: usize,
    /// Number of all children that are workers.
    pub workers: usize,
}

/// Error returned when a supervisor did not execute a request about a child.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::supervisor::{ChildError, ChildSpec, Strategy, Supervisor};
/// use rusm::{Config, ExitReason, Runtime};
///
/// let runtime = Runtime::start(Config::default())?;
/// runtime.block_on(|ctx| async move {
///     let tree = Supervisor::new(Strategy::OneForOne)
///         .child(ChildSpec::new("db", |_ctx| std::future::pending::<()>()))
///         .start_link(&ctx)
///         .await?;
///     assert_eq!(tree.restart_child(&ctx, "db").await, Err(ChildError::Running));
///     assert_eq!(tree.restart_child(&ctx, "cache").await, Err(ChildError::NotFound));
///     Ok::<(), ExitReason>(())
/// })?;
/// # Ok::<(), ExitReason>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ChildError {
    /// The supervisor has no such child.
    #[error("no such child")]
    NotFound,
    /// The child runs: terminate it first.
    #[error("the child is running")]
    Running,
    /// The child waits for its restart: wait until it runs, or terminate it.
    #[error("the child is waiting for its restart")]
    Restarting,
    /// The arguments of the child were used by its start: terminate it, and start another one.
    #[error("the child starts only once")]
    Once,
    /// The children of a dynamic supervisor can only be terminated.
    #[error("not supported by a simple_one_for_one supervisor")]
    Dynamic,
    /// The child failed to start, and has ended.
    #[error(transparent)]
    Init(#[from] InitError),
    /// The request to the supervisor failed.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// Error returned when a child was not added.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::supervisor::{ChildSpec, StartChildError, Strategy, Supervisor};
/// use rusm::{Config, ExitReason, Runtime};
///
/// let runtime = Runtime::start(Config::default())?;
/// runtime.block_on(|ctx| async move {
///     let tree = Supervisor::new(Strategy::OneForOne).start_link(&ctx).await?;
///     let db = ChildSpec::new("db", |_ctx| std::future::pending::<()>());
///     let pid = tree.start_child(&ctx, db.clone()).await?;
///     let again = tree.start_child(&ctx, db).await;
///     assert_eq!(again, Err(StartChildError::AlreadyStarted(Some(pid))));
///     Ok::<(), ExitReason>(())
/// })?;
/// # Ok::<(), ExitReason>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StartChildError {
    /// A child with this id runs, or will run.
    #[error("already started as {0:?}")]
    AlreadyStarted(Option<Pid>),
    /// A child with this id has ended: restart or delete it.
    #[error("already present")]
    AlreadyPresent,
    /// The specification is not valid for this supervisor.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The arguments have a different type than the template's, or this supervisor does not start children in this way;
    /// the text says in which way.
    #[error("{0}")]
    WrongKind(Box<str>),
    /// The supervisor has as many children as it may have; see [`Supervisor::max_children`](super::Supervisor::max_children).
    #[error("the supervisor has {limit} children, its limit")]
    MaxChildren {
        /// The limit.
        limit: usize,
    },
    /// The child failed to start, and was removed.
    #[error(transparent)]
    Init(#[from] InitError),
    /// The request to the supervisor failed.
    #[error(transparent)]
    Call(#[from] CallError),
}

#[derive(Debug)]
pub(super) enum Command {
    Start(Box<ChildSpec>),
    StartOne(Arguments),
    Terminate(ChildRef),
    Restart(ChildRef),
    Replace(ChildRef),
    Delete(ChildRef),
    Which,
    Count,
}

pub(super) enum Reply {
    Started(Result<Pid, StartChildError>),
    Restarted(Result<Pid, ChildError>),
    Done(Result<(), ChildError>),
    Children(Vec<ChildInfo>),
    Counts(Counts),
}

/// A reference to a supervisor for requests: by processes with their [`Context`](crate::Context), from outside with a
/// [`Handle`](crate::Handle).
///
/// A supervisor replies when it has finished its current work: starts, stops and restarts. A request waits at most a
/// minute for that, or as [`with_timeout`](Self::with_timeout) says; the supervisor executes it later nevertheless.
///
/// ```
/// # use rusm_runtime as rusm;
/// # let runtime = rusm::Runtime::start(rusm::Config::default())?;
/// use rusm::supervisor::{ChildSpec, Restart, Supervisor};
///
/// runtime.block_on(|ctx| async move {
///     let session = ChildSpec::template("session", |ctx, user: &'static str| async move {
///         ctx.set_label(user);
///         ctx.receive().await;
///     });
///     let sessions = Supervisor::simple_one_for_one(session.restart(Restart::Temporary));
///     let sessions = sessions.start_link(&ctx).await.expect("it has no children yet");
///     sessions.start_one(&ctx, "Ada").await.expect("there is room for a process");
///     assert_eq!(sessions.count_children(&ctx).await.expect("it runs").active, 1);
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct SupervisorRef {
    pid: Pid,
    timeout: CallTimeout,
}

/// Timeout of requests: longer than that of other calls, because many children may have to stop or start first.
const TIMEOUT: CallTimeout = CallTimeout::of_ms(60_000);

impl fmt::Debug for SupervisorRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SupervisorRef").field(&self.pid).finish()
    }
}

impl PartialEq for SupervisorRef {
    fn eq(&self, other: &Self) -> bool {
        self.pid == other.pid
    }
}

impl Eq for SupervisorRef {}

impl Hash for SupervisorRef {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.pid.hash(state);
    }
}

impl SupervisorRef {
    /// Creates a reference to the supervisor with this pid. A process that is not a supervisor does not reply.
    pub const fn of(pid: Pid) -> Self {
        Self { pid, timeout: TIMEOUT }
    }

    /// Returns this reference with another timeout for its requests.
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout: timeout.into(), ..self }
    }

    async fn call(self, by: &impl Caller, command: Command) -> Result<Reply, CallError> {
        by.call(self.pid, command, self.timeout.get()).await
    }

    /// Returns the supervisor that is registered under a name.
    pub fn whereis(by: &impl Caller, name: &str) -> Option<Self> {
        by.with_shared(|shared| shared.side_tables.whereis(name)).map(Self::of)
    }

    /// Returns the pid of the supervisor.
    pub const fn pid(self) -> Pid {
        self.pid
    }

    /// Adds a child after the others and starts it.
    ///
    /// # Errors
    /// [`StartChildError`]; the child was then not added.
    pub async fn start_child(self, by: &impl Caller, spec: ChildSpec) -> Result<Pid, StartChildError> {
        match self.call(by, Command::Start(Box::new(spec))).await? {
            Reply::Started(started) => started,
            _ => unreachable!("the reply of a supervisor matches the request"),
        }
    }

    /// Starts another child of a dynamic supervisor, with these arguments.
    ///
    /// # Errors
    /// [`StartChildError`]; the child then does not exist.
    pub async fn start_one<A: Clone + Send + Sync + 'static>(
        self,
        by: &impl Caller,
        arguments: A,
    ) -> Result<Pid, StartChildError> {
        match self.call(by, Command::StartOne(Arc::new(arguments))).await? {
            Reply::Started(started) => started,
            _ => unreachable!("the reply of a supervisor matches the request"),
        }
    }

    /// Starts another child of a dynamic supervisor with a [`template_once`](ChildSpec::template_once), with these arguments.
    ///
    /// # Errors
    /// [`StartChildError`]; the child then does not exist.
    pub async fn start_once<A: Send + 'static>(self, by: &impl Caller, arguments: A) -> Result<Pid, StartChildError> {
        let arguments = Arc::new(Once(Mutex::new(Some(arguments))));
        match self.call(by, Command::StartOne(arguments)).await? {
            Reply::Started(started) => started,
            _ => unreachable!("the reply of a supervisor matches the request"),
        }
    }

    /// Stops the supervisor, which stops its children in reverse order first, and waits at most `timeout` for its end. It ends
    /// normally, so links to it are not affected.
    ///
    /// # Errors
    /// [`CallError`] as of [`Context::call`](crate::Context::call).
    pub async fn stop(self, by: &impl Caller, timeout: Duration) -> Result<ExitReason, CallError> {
        by.stop(self.pid, Exit { from: Pid::NONE, reason: ExitReason::Normal }, timeout).await
    }

    /// Stops a child and does not restart it. Its specification is kept, unless it is temporary or its supervisor is
    /// dynamic.
    ///
    /// # Errors
    /// [`ChildError::NotFound`], [`ChildError::Call`].
    pub async fn terminate_child(self, by: &impl Caller, child: impl Into<ChildRef> + Send) -> Result<(), ChildError> {
        self.done(by, Command::Terminate(child.into())).await
    }

    /// Starts a child that has ended for good.
    ///
    /// # Errors
    /// [`ChildError`] if the child runs, waits for its restart, or fails to start.
    pub async fn restart_child(self, by: &impl Caller, child: impl Into<ChildRef> + Send) -> Result<Pid, ChildError> {
        match self.call(by, Command::Restart(child.into())).await? {
            Reply::Restarted(restarted) => restarted,
            _ => unreachable!("the reply of a supervisor matches the request"),
        }
    }

    /// Stops a child, if it runs, as its specification says, and starts it again with the same arguments.
    ///
    /// This is not a crash: it uses none of the restarts that the supervisor allows, and stops no other child. A start
    /// that fails is tried again like a restart after a crash.
    ///
    /// # Errors
    /// [`ChildError::NotFound`]; [`ChildError::Once`] if its arguments are gone; [`ChildError::Restarting`] if the child failed
    /// to start and waits for its next try; [`ChildError::Call`].
    pub async fn replace_child(self, by: &impl Caller, child: impl Into<ChildRef> + Send) -> Result<Pid, ChildError> {
        match self.call(by, Command::Replace(child.into())).await? {
            Reply::Restarted(restarted) => restarted,
            _ => unreachable!("the reply of a supervisor matches the request"),
        }
    }

    /// Removes a child that has ended for good.
    ///
    /// # Errors
    /// [`ChildError`] if the child runs or waits for its restart.
    pub async fn delete_child(self, by: &impl Caller, child: impl Into<ChildRef> + Send) -> Result<(), ChildError> {
        self.done(by, Command::Delete(child.into())).await
    }

    async fn done(self, by: &impl Caller, command: Command) -> Result<(), ChildError> {
        match self.call(by, command).await? {
            Reply::Done(done) => done,
            _ => unreachable!("the reply of a supervisor matches the request"),
        }
    }

    /// Returns the children, in the order of their start.
    ///
    /// # Errors
    /// [`CallError`] if the supervisor has ended, or does not reply in time.
    pub async fn which_children(self, by: &impl Caller) -> Result<Vec<ChildInfo>, CallError> {
        match self.call(by, Command::Which).await? {
            Reply::Children(children) => Ok(children),
            _ => unreachable!("the reply of a supervisor matches the request"),
        }
    }

    /// Returns the numbers of children.
    ///
    /// # Errors
    /// [`CallError`] if the supervisor has ended, or does not reply in time.
    pub async fn count_children(self, by: &impl Caller) -> Result<Counts, CallError> {
        match self.call(by, Command::Count).await? {
            Reply::Counts(counts) => Ok(counts),
            _ => unreachable!("the reply of a supervisor matches the request"),
        }
    }
}
