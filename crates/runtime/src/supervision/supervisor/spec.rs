//! Specification of a supervisor, and the errors of its start.

use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use super::backoff::Backoff;
use super::child_spec::ChildSpec;
use super::policy::{AutoShutdown, Strategy};
use super::restart_window::Intensity;
use crate::links::name::NameError;
use crate::process::error::InitError;
use crate::process::exit::{Detail, ExitReason};

/// Specification of a supervisor: its strategy, its restart intensity and its first children.
///
/// ```
/// # use rusm_runtime as rusm;
/// use std::future::pending;
/// use rusm::supervisor::{ChildSpec, Strategy, Supervisor};
/// use rusm::{Config, Runtime};
///
/// let runtime = Runtime::start(Config::default())?;
/// let outside = tokio::runtime::Builder::new_current_thread().build()?;
/// let tree = Supervisor::new(Strategy::OneForOne)
///     .child(ChildSpec::new("clock", |_| pending::<()>()))
///     .child(ChildSpec::supervisor("workers", Supervisor::new(Strategy::OneForAll)));
/// let supervisor = outside.block_on(tree.start(&runtime))?;
/// assert_eq!(outside.block_on(supervisor.count_children(&*runtime))?.active, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Supervisor {
    pub(super) strategy: Strategy,
    pub(super) intensity: Intensity,
    pub(super) auto_shutdown: AutoShutdown,
    pub(super) backoff: Option<Backoff>,
    pub(super) children: Vec<ChildSpec>,
    pub(super) template: Option<Arc<ChildSpec>>,
    /// Name under which the supervisor is registered.
    pub(super) name: Option<Arc<str>>,
    pub(super) max_children: usize,
}

/// Error in the specification of a supervisor's children.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::supervisor::{ChildSpec, Strategy, Supervisor};
/// use rusm::{Config, Runtime};
///
/// let runtime = Runtime::start(Config::default())?;
/// let started = runtime.block_on(|ctx| async move {
///     let worker = || ChildSpec::new("db", |_ctx| std::future::pending::<()>());
///     Supervisor::new(Strategy::OneForOne).child(worker()).child(worker()).start_link(&ctx).await
/// });
/// let error = started.unwrap_err();
/// assert!(error.to_string().contains(r#"two children have the id "db""#), "{error}");
/// # Ok::<(), rusm::StartError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SpecError {
    /// Two children have the same id.
    #[error("two children have the id {id:?}")]
    Duplicate {
        /// The id.
        id: Arc<str>,
    },
    /// A permanent child never ends for good, and without `auto_shutdown` the end of a significant child has no effect.
    #[error("child {id:?} cannot be significant: it is permanent, or auto_shutdown is never")]
    Significant {
        /// The child.
        id: Arc<str>,
    },
    /// A child of [`ChildSpec::template_once`] cannot be restarted: its arguments are used by its first start.
    #[error("child {id:?} must be temporary: its arguments are used by its first start")]
    Once {
        /// The child.
        id: Arc<str>,
    },
    /// A `simple_one_for_one` supervisor must be created by [`Supervisor::simple_one_for_one`], without children.
    #[error("simple_one_for_one needs a template and no children")]
    NoTemplate,
    /// The supervisor has more children than it may have; see [`Supervisor::max_children`].
    #[error("{children} children, and max_children is {max_children}")]
    TooMany {
        /// Number of children.
        children: usize,
        /// The limit.
        max_children: usize,
    },
    /// The name of a child is empty or too long; see [`ChildSpec::named`].
    #[error("child {id:?}: {error}")]
    Name {
        /// The child.
        id: Arc<str>,
        /// The error.
        error: NameError,
    },
}

/// A child that failed to start, and made the start of its supervisor fail. Found in the [`Detail`] of the supervisor's
/// exit reason.
///
/// In nested supervisors the error contains the failure of the level below. At most 16 levels are kept, the outermost
/// and the 15 innermost: otherwise the reason of a deep tree would grow with the square of its depth.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::supervisor::{ChildSpec, FailedChild, Strategy, Supervisor};
/// use rusm::{Config, Context, ExitReason, InitError, Runtime};
///
/// let runtime = Runtime::start(Config { log_crashes: false, ..Config::default() })?;
/// let started = runtime.block_on(|ctx| async move {
///     let failing = ChildSpec::acknowledged("db", |_ctx: Context, _| async { ExitReason::other("no disk") });
///     Supervisor::new(Strategy::OneForOne).child(failing).start_link(&ctx).await
/// });
/// let Err(InitError::Ended(ExitReason::ShutdownWith(detail))) = started else { unreachable!("its child fails") };
/// let child: &FailedChild = detail.value().expect("the cause is the value");
/// assert_eq!(&*child.id, "db");
/// # Ok::<(), rusm::StartError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("failed to start child {id:?}: {error}")]
pub struct FailedChild {
    /// Id of the child.
    pub id: Arc<str>,
    /// Error of its start.
    pub error: InitError,
}

/// Why a supervisor gave up: its children ended more often than its intensity allows. The value of its exit reason,
/// [`ShutdownWith`](ExitReason::ShutdownWith).
///
/// ```
/// # use rusm_runtime as rusm;
/// use std::time::Duration;
///
/// use rusm::supervisor::{ChildSpec, GaveUp, Strategy, Supervisor};
/// use rusm::{Config, Exit, ExitReason, Runtime};
///
/// let runtime = Runtime::start(Config { log_crashes: false, ..Config::default() })?;
/// let reason = runtime.block_on(|ctx| async move {
///     ctx.trap_exits(true);
///     let failing = ChildSpec::new("db", |_ctx| async { ExitReason::other("no disk") });
///     let tree = Supervisor::new(Strategy::OneForOne).intensity(2, Duration::from_secs(5)).child(failing);
///     tree.start_link(&ctx).await?;
///     Ok::<_, ExitReason>(ctx.receive_of::<Exit>().await.reason)
/// })?;
/// let ExitReason::ShutdownWith(detail) = &reason else { unreachable!("it gives up") };
/// let why: &GaveUp = detail.value().expect("the cause is the value");
/// assert_eq!((&*why.child, why.ends.len()), ("db", 3));
/// # Ok::<(), ExitReason>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("child {child:?} ended again after {} within {:?}: {}", restarts(*intensity), intensity.period, last(ends))]
pub struct GaveUp {
    /// Id of the child that ended last.
    pub child: Arc<str>,
    /// The restarts that the supervisor allows.
    pub intensity: Intensity,
    /// Reasons of the last ends of that child, newest first, at most [`ENDS_KEPT`](super::ENDS_KEPT).
    pub ends: Vec<ExitReason>,
}

fn restarts(allowed: Intensity) -> String {
    match allowed.restarts {
        1 => "1 restart".to_owned(),
        several => format!("{several} restarts"),
    }
}

/// Returns the reason of the last end, and at most two before it that differ from the one after them.
fn last(ends: &[ExitReason]) -> String {
    let mut reasons: Vec<_> = ends.iter().map(ToString::to_string).collect();
    reasons.dedup();
    reasons.truncate(3);
    if reasons.is_empty() { "unknown".to_owned() } else { reasons.join("; before that: ") }
}

/// Why a supervisor with an [`AutoShutdown`] ended: a significant child did not end normally. The value of its exit reason,
/// [`ShutdownWith`](ExitReason::ShutdownWith).
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::supervisor::{AutoShutdown, ChildSpec, Restart, SignificantFailure, Strategy, Supervisor};
/// use rusm::{Config, ExitReason, Runtime};
///
/// let runtime = Runtime::start(Config { log_crashes: false, ..Config::default() })?;
/// let import = ChildSpec::new("import", |_ctx| async { ExitReason::other("no such file") });
/// let import = import.restart(Restart::Temporary).significant(true);
/// let tree = Supervisor::new(Strategy::OneForOne).auto_shutdown(AutoShutdown::AnySignificant).child(import);
/// let ended = runtime.run(|ctx| async move {
///     tree.start_link(&ctx).await?;
///     std::future::pending().await
/// });
/// let Err(ExitReason::ShutdownWith(detail)) = ended else { unreachable!("the tree ends, and the program with it") };
/// let why: &SignificantFailure = detail.value().expect("the cause is the value");
/// assert_eq!((&*why.child, why.reason.to_string()), ("import", "no such file".to_owned()));
/// # Ok::<(), ExitReason>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("significant child {child:?} ended: {reason}")]
pub struct SignificantFailure {
    /// Id of the child.
    pub child: Arc<str>,
    /// Its exit reason.
    pub reason: ExitReason,
}

impl SignificantFailure {
    pub(super) fn into_exit(self) -> ExitReason {
        ExitReason::ShutdownWith(Detail::with(self.to_string(), self))
    }
}

impl GaveUp {
    pub(super) fn into_exit(self) -> ExitReason {
        ExitReason::ShutdownWith(Detail::with(self.to_string(), self))
    }
}

impl Supervisor {
    /// Creates a supervisor without children that allows one restart in five seconds.
    pub fn new(strategy: Strategy) -> Self {
        Self {
            strategy,
            intensity: Intensity::default(),
            auto_shutdown: AutoShutdown::Never,
            backoff: None,
            children: Vec::new(),
            template: None,
            name: None,
            max_children: usize::MAX,
        }
    }

    /// Creates a supervisor of children that share one template and are started by [`SupervisorRef::start_one`](super::SupervisorRef::start_one).
    pub fn simple_one_for_one(template: ChildSpec) -> Self {
        Self { template: Some(Arc::new(template)), ..Self::new(Strategy::SimpleOneForOne) }
    }

    /// Allows up to `restarts` restarts within `period`. With more, the supervisor gives up.
    pub fn intensity(self, restarts: u32, period: Duration) -> Self {
        Self { intensity: Intensity { restarts, period }, ..self }
    }

    /// Registers the supervisor under a name, by which [`SupervisorRef::whereis`](super::SupervisorRef::whereis) finds it.
    /// If the name is taken or not [valid](crate::check_name), the supervisor does not start.
    pub fn named(self, name: impl Into<Arc<str>>) -> Self {
        Self { name: Some(name.into()), ..self }
    }

    /// Changes the specification of each child.
    pub(crate) fn map_children(mut self, change: impl Fn(ChildSpec) -> ChildSpec) -> Self {
        self.children = self.children.into_iter().map(change).collect();
        self
    }

    /// Limits the number of children: at the limit, requests to start another one fail, and the supervisor does not start with
    /// more. Default: no limit.
    pub fn max_children(self, max_children: usize) -> Self {
        Self { max_children, ..self }
    }

    /// Ends the supervisor when significant children end.
    pub fn auto_shutdown(self, auto_shutdown: AutoShutdown) -> Self {
        Self { auto_shutdown, ..self }
    }

    /// Delays restarts.
    pub fn backoff(self, backoff: Backoff) -> Self {
        Self { backoff: Some(backoff), ..self }
    }

    /// Adds a child. It starts after the children added before it have started.
    pub fn child(mut self, spec: ChildSpec) -> Self {
        self.children.push(spec);
        self
    }
}

impl SpecError {
    pub(super) fn into_exit(self) -> ExitReason {
        ExitReason::ShutdownWith(Detail::with(self.to_string(), self))
    }
}

/// Number of nested failures that a [`FailedChild`] keeps.
const FAILURES_KEPT: usize = 16;

impl FailedChild {
    /// Returns the failure of the level below.
    fn below(&self) -> Option<&Self> {
        match &self.error {
            InitError::Ended(ExitReason::ShutdownWith(detail)) => detail.value(),
            _ => None,
        }
    }

    pub(super) fn into_exit(mut self) -> ExitReason {
        if std::iter::successors(Some(&self), |failed| failed.below()).count() > FAILURES_KEPT
            && let Some(below) = self.below().cloned()
        {
            self.error = below.error;
        }
        ExitReason::ShutdownWith(Detail::with(self.to_string(), self))
    }
}
