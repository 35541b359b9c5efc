//! Specification of a supervisor's child: how it starts, when it is restarted, and how it is stopped.

use std::any::{Any, type_name};
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::mailbox::call::PendingReply;
use crate::process::context::Context;
use crate::process::error::InitError;
use crate::process::exit::Outcome;
use crate::process::pid::Pid;
use crate::process::start::Starting;
use crate::supervision::pool::WorkerSlot;

use super::nested::Nested;
use super::policy::{ChildType, Restart, Shutdown};
use super::spec::Supervisor;

/// Arguments that each start of a child receives.
pub(super) type Arguments = Arc<dyn Any + Send + Sync>;

/// Arguments that the first start takes.
pub(super) struct Once<A>(pub(super) Mutex<Option<A>>);

const USED: &str = "the arguments were used by the first start";

/// A start in progress.
pub(super) enum BegunStart<'a> {
    /// A plain child, which has started once it is spawned.
    Started(Pid),
    /// A child that reports when it has started.
    Starting(Pid, PendingReply<'a, ()>),
}

type StartFn = dyn for<'a> Fn(&'a Context, Option<&Arguments>) -> Result<BegunStart<'a>, StartError> + Send + Sync;

/// The way in which a child is started.
#[derive(Clone)]
pub(super) enum Start {
    /// Calls a function.
    Function(Arc<StartFn>),
    /// Starts a supervisor. It is kept as such, so that a deep chain of supervisors is dropped without recursion.
    Supervisor(Nested),
}

/// Reason why a start could not begin.
pub(super) enum StartError {
    Init(InitError),
    /// The arguments have a different type than the template's, which is this type, given by this function.
    Arguments(&'static str, &'static str),
}

impl<E: Into<InitError>> From<E> for StartError {
    fn from(error: E) -> Self {
        Self::Init(error.into())
    }
}

/// Specification by which a supervisor starts, restarts and stops a child; cheap to clone.
///
/// ```
/// # use rusm_runtime as rusm;
/// use std::time::Duration;
/// use rusm::supervisor::{ChildSpec, Restart, Shutdown};
///
/// let plain = ChildSpec::new("clock", |ctx| async move { ctx.sleep(Duration::from_secs(1)).await })
///     .restart(Restart::Transient)
///     .shutdown(Shutdown::BrutalKill);
/// let acknowledged = ChildSpec::acknowledged("store", |ctx, starting| async move {
///     // .. open what takes its time ..
///     starting.acknowledge();
///     ctx.receive().await;
/// });
/// ```
#[derive(Clone)]
pub struct ChildSpec {
    pub(super) id: Arc<str>,
    pub(super) start: Start,
    pub(super) restart: Restart,
    pub(super) shutdown: Shutdown,
    pub(super) child_type: ChildType,
    pub(super) significant: bool,
    /// Name under which each process of the child is registered.
    pub(super) name: Option<Arc<str>>,
    pub(super) slot: Option<WorkerSlot>,
    pub(super) mailbox_capacity: Option<u32>,
    /// True if the arguments of a child exist once, so that it cannot be restarted.
    pub(super) is_once: bool,
}

impl fmt::Debug for ChildSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildSpec")
            .field("id", &self.id)
            .field("restart", &self.restart)
            .field("shutdown", &self.shutdown)
            .field("type", &self.child_type)
            .field("significant", &self.significant)
            .finish_non_exhaustive()
    }
}

impl ChildSpec {
    /// Creates a permanent worker that has started as soon as it is spawned.
    pub fn new<B, F>(id: impl Into<Arc<str>>, body: B) -> Self
    where
        B: Fn(Context) -> F + Send + Sync + 'static,
        F: Future<Output: Outcome> + Send + 'static,
    {
        Self::worker(id, move |ctx, _| Ok(BegunStart::Started(ctx.spawn_link(&body)?)))
    }

    /// Creates a permanent worker that reports when it has started; the next child waits for that.
    pub fn acknowledged<B, F>(id: impl Into<Arc<str>>, body: B) -> Self
    where
        B: Fn(Context, Starting) -> F + Send + Sync + 'static,
        F: Future<Output: Outcome> + Send + 'static,
    {
        Self::worker(id, move |ctx, _| {
            let (pid, started) = ctx.begin_link(&body)?;
            Ok(BegunStart::Starting(pid, started))
        })
    }

    /// Creates the template of the children of a dynamic supervisor. Each child receives its own arguments, and the
    /// same arguments again at each restart.
    pub fn template<A, B, F>(id: impl Into<Arc<str>>, body: B) -> Self
    where
        A: Clone + Send + Sync + 'static,
        B: Fn(Context, A) -> F + Send + Sync + 'static,
        F: Future<Output: Outcome> + Send + 'static,
    {
        Self::worker(id, move |ctx, arguments| {
            let arguments = cloned::<A>(arguments)?;
            Ok(BegunStart::Started(ctx.spawn_link(|ctx| body(ctx, arguments))?))
        })
    }

    /// Creates the template of temporary children, each of which receives its own arguments once; the arguments need not be
    /// `Clone`. The children are started by [`SupervisorRef::start_once`](super::SupervisorRef::start_once).
    pub fn template_once<A, B, F>(id: impl Into<Arc<str>>, body: B) -> Self
    where
        A: Send + 'static,
        B: Fn(Context, A) -> F + Send + Sync + 'static,
        F: Future<Output: Outcome> + Send + 'static,
    {
        let spec = Self::worker(id, move |ctx, arguments| {
            let once = arguments.and_then(|arguments| arguments.downcast_ref::<Once<A>>());
            let once = once.ok_or(StartError::Arguments(type_name::<A>(), "start_once"))?;
            let arguments = once.0.lock().take().ok_or_else(|| InitError::failed(&USED))?;
            Ok(BegunStart::Started(ctx.spawn_link(|ctx| body(ctx, arguments))?))
        });
        Self { restart: Restart::Temporary, is_once: true, ..spec }
    }

    /// Same as [`template`](Self::template), for children that report when they have started.
    pub fn acknowledged_template<A, B, F>(id: impl Into<Arc<str>>, body: B) -> Self
    where
        A: Clone + Send + Sync + 'static,
        B: Fn(Context, Starting, A) -> F + Send + Sync + 'static,
        F: Future<Output: Outcome> + Send + 'static,
    {
        Self::worker(id, move |ctx, arguments| {
            let arguments = cloned::<A>(arguments)?;
            let (pid, started) = ctx.begin_link(|ctx, starting| body(ctx, starting, arguments))?;
            Ok(BegunStart::Starting(pid, started))
        })
    }

    /// Creates a permanent supervisor as a child. It has started when all of its children have started.
    pub fn supervisor(id: impl Into<Arc<str>>, supervisor: Supervisor) -> Self {
        let spec = Self::of(id, Start::Supervisor(Nested::new(supervisor)));
        Self { shutdown: Shutdown::Infinity, child_type: ChildType::Supervisor, ..spec }
    }

    /// Creates a permanent worker that is started by other means, for example as a guest. It has started when `start`
    /// returns its pid. It must be linked to the supervisor; `start` receives the supervisor's context.
    pub fn started_by<S>(id: impl Into<Arc<str>>, start: S) -> Self
    where
        S: Fn(&Context) -> Result<Pid, InitError> + Send + Sync + 'static,
    {
        Self::worker(id, move |ctx, _| Ok(BegunStart::Started(start(ctx)?)))
    }

    fn worker<S>(id: impl Into<Arc<str>>, start: S) -> Self
    where
        S: for<'a> Fn(&'a Context, Option<&Arguments>) -> Result<BegunStart<'a>, StartError> + Send + Sync + 'static,
    {
        Self::of(id, Start::Function(Arc::new(start)))
    }

    fn of(id: impl Into<Arc<str>>, start: Start) -> Self {
        Self {
            id: id.into(),
            start,
            restart: Restart::Permanent,
            shutdown: Shutdown::Timeout(Duration::from_secs(5)),
            child_type: ChildType::Worker,
            significant: false,
            name: None,
            slot: None,
            mailbox_capacity: None,
            is_once: false,
        }
    }

    /// Registers each process of the child under a name, by which others find it. If the name is taken, the child does not
    /// start; if it is not [valid](crate::check_name), the specification is not, and nothing starts.
    pub fn named(self, name: impl Into<Arc<str>>) -> Self {
        Self { name: Some(name.into()), ..self }
    }

    /// Sets the maximum number of messages in the mailbox of each process of the child, at least 1. Default: that of the
    /// [`Config`](crate::Config). If the mailbox is full, `send` waits, and `try_send` returns the message.
    pub fn mailbox_capacity(self, messages: u32) -> Self {
        Self { mailbox_capacity: Some(messages), ..self }
    }

    /// Numbers the child, and lets its processes fill a slot.
    pub(crate) fn in_slot(self, slot: WorkerSlot) -> Self {
        Self { id: format!("{}-{}", self.id, slot.index()).into(), slot: Some(slot), ..self }
    }

    /// Sets when the child is restarted. Default: always.
    pub fn restart(self, restart: Restart) -> Self {
        Self { restart, ..self }
    }

    /// Sets how the child is stopped. Default: a timeout of five seconds for a worker, no timeout for a supervisor.
    pub fn shutdown(self, shutdown: Shutdown) -> Self {
        Self { shutdown, ..self }
    }

    /// Sets the type that the child is listed as.
    pub fn child_type(self, child_type: ChildType) -> Self {
        Self { child_type, ..self }
    }

    /// Sets whether the final end of the child counts for [`AutoShutdown`](super::AutoShutdown). Default: no.
    pub fn significant(self, significant: bool) -> Self {
        Self { significant, ..self }
    }
}

fn cloned<A: Clone + 'static>(arguments: Option<&Arguments>) -> Result<A, StartError> {
    let arguments = arguments.and_then(|arguments| arguments.downcast_ref::<A>()).cloned();
    arguments.ok_or(StartError::Arguments(type_name::<A>(), "start_one"))
}
