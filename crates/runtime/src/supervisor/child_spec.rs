//! What a supervisor knows about a child: how it starts, when it is restarted, and how it is stopped.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::call::Answer;
use crate::context::Context;
use crate::exit::{ExitReason, Outcome};
use crate::pid::Pid;
use crate::starting::{InitError, Starting};

use super::Supervisor;
use super::nested::Nested;

/// When a child that ended is restarted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// Always.
    Permanent,
    /// Only after an abnormal end.
    Transient,
    /// Never; it is forgotten.
    Temporary,
}

impl Restart {
    /// Whether a child that ended with `reason` is restarted.
    pub const fn after(self, reason: &ExitReason) -> bool {
        match self {
            Self::Permanent => true,
            Self::Transient => !reason.is_normal(),
            Self::Temporary => false,
        }
    }
}

/// How a child is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// It is killed.
    BrutalKill,
    /// It gets an exit signal `shutdown`, and is killed if it lives after this time. Workers' default: five seconds.
    Timeout(Duration),
    /// It gets an exit signal `shutdown` and all the time it needs. Supervisors' default.
    Infinity,
}

/// What a child is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildType {
    /// Anything but a supervisor.
    Worker,
    /// A supervisor.
    Supervisor,
}

/// What each start of a child gets.
pub(super) type Arguments = Arc<dyn Any + Send + Sync>;

/// A start that has begun.
pub(super) enum Begun<'a> {
    /// A plain child has started with its spawn.
    Started(Pid),
    /// Another tells when it has.
    Starting(Pid, Answer<'a, ()>),
}

type StartFn = dyn for<'a> Fn(&'a Context, Option<&Arguments>) -> Result<Begun<'a>, StartError> + Send + Sync;

/// How a child starts.
#[derive(Clone)]
pub(super) enum Start {
    /// By a function.
    Function(Arc<StartFn>),
    /// As a supervisor; known as one, so that a deep chain of them is dropped without recursion.
    Supervisor(Nested),
}

impl Start {
    /// Begins the start of a child of the calling supervisor.
    pub(super) fn begin<'a>(&self, ctx: &'a Context, arguments: Option<&Arguments>) -> Result<Begun<'a>, StartError> {
        match self {
            Self::Function(start) => start(ctx, arguments),
            Self::Supervisor(nested) => {
                let (pid, started) = ctx.begin_link(|ctx, starting| nested.supervisor().run(ctx, starting))?;
                Ok(Begun::Starting(pid, started))
            }
        }
    }
}

/// Why a start could not begin.
pub(super) enum StartError {
    Init(InitError),
    /// The arguments are of another type than the template's.
    Arguments,
}

impl<E: Into<InitError>> From<E> for StartError {
    fn from(error: E) -> Self {
        Self::Init(error.into())
    }
}

/// A child, as its supervisor is to start, restart and stop it; cheap to clone.
///
/// ```
/// use std::time::Duration;
/// use rusm_runtime::supervisor::{ChildSpec, Restart, Shutdown};
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
    /// A permanent worker that has started as soon as it is spawned.
    pub fn new<B, F>(id: impl Into<Arc<str>>, body: B) -> Self
    where
        B: Fn(Context) -> F + Send + Sync + 'static,
        F: Future<Output: Outcome> + Send + 'static,
    {
        Self::worker(id, move |ctx, _| Ok(Begun::Started(ctx.spawn_link(&body)?)))
    }

    /// A permanent worker that says when it has started; the next child waits for that.
    pub fn acknowledged<B, F>(id: impl Into<Arc<str>>, body: B) -> Self
    where
        B: Fn(Context, Starting) -> F + Send + Sync + 'static,
        F: Future<Output: Outcome> + Send + 'static,
    {
        Self::worker(id, move |ctx, _| {
            let (pid, started) = ctx.begin_link(&body)?;
            Ok(Begun::Starting(pid, started))
        })
    }

    /// The kind of the children of a dynamic supervisor, each of which gets arguments of its own, and the same ones when it
    /// is restarted.
    pub fn template<A, B, F>(id: impl Into<Arc<str>>, body: B) -> Self
    where
        A: Clone + Send + Sync + 'static,
        B: Fn(Context, A) -> F + Send + Sync + 'static,
        F: Future<Output: Outcome> + Send + 'static,
    {
        Self::worker(id, move |ctx, arguments| {
            let arguments = cloned::<A>(arguments)?;
            Ok(Begun::Started(ctx.spawn_link(|ctx| body(ctx, arguments))?))
        })
    }

    /// The same for children that say when they have started.
    pub fn acknowledged_template<A, B, F>(id: impl Into<Arc<str>>, body: B) -> Self
    where
        A: Clone + Send + Sync + 'static,
        B: Fn(Context, Starting, A) -> F + Send + Sync + 'static,
        F: Future<Output: Outcome> + Send + 'static,
    {
        Self::worker(id, move |ctx, arguments| {
            let arguments = cloned::<A>(arguments)?;
            let (pid, started) = ctx.begin_link(|ctx, starting| body(ctx, starting, arguments))?;
            Ok(Begun::Starting(pid, started))
        })
    }

    /// A permanent supervisor, which has started when all of its children have.
    pub fn supervisor(id: impl Into<Arc<str>>, supervisor: Supervisor) -> Self {
        let spec = Self::of(id, Start::Supervisor(Nested::new(supervisor)));
        Self { shutdown: Shutdown::Infinity, child_type: ChildType::Supervisor, ..spec }
    }

    /// A permanent worker that `start` starts by other means, such as a guest's: it has started when that returns its pid,
    /// and must be linked to the supervisor, whose context `start` gets.
    pub fn started_by<S>(id: impl Into<Arc<str>>, start: S) -> Self
    where
        S: Fn(&Context) -> Result<Pid, InitError> + Send + Sync + 'static,
    {
        Self::worker(id, move |ctx, _| Ok(Begun::Started(start(ctx)?)))
    }

    fn worker<S>(id: impl Into<Arc<str>>, start: S) -> Self
    where
        S: for<'a> Fn(&'a Context, Option<&Arguments>) -> Result<Begun<'a>, StartError> + Send + Sync + 'static,
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
        }
    }

    /// When it is restarted. Default: always.
    pub fn restart(self, restart: Restart) -> Self {
        Self { restart, ..self }
    }

    /// How it is stopped. Default: five seconds for a worker, all the time it needs for a supervisor.
    pub fn shutdown(self, shutdown: Shutdown) -> Self {
        Self { shutdown, ..self }
    }

    /// What it is listed as.
    pub fn child_type(self, child_type: ChildType) -> Self {
        Self { child_type, ..self }
    }

    /// Whether its end for good counts for [`AutoShutdown`](super::AutoShutdown). Default: no.
    pub fn significant(self, significant: bool) -> Self {
        Self { significant, ..self }
    }
}

fn cloned<A: Clone + 'static>(arguments: Option<&Arguments>) -> Result<A, StartError> {
    arguments.and_then(|arguments| arguments.downcast_ref::<A>()).cloned().ok_or(StartError::Arguments)
}
