//! Supervisors: processes that start others in order, restart them when they die, and stop them in reverse order.
//!
//! ```text
//!   Exit of a child ─▶ SupervisorState::exited ─▶ nothing │ restart ─▶ stop and start affected children, retry
//!                       (decides, pure)                   │ give up ─▶ stop all, end with `shutdown`
//!   SupervisorRef ─── Request ──▶ start, terminate, restart, delete, which, count
//! ```
//!
//! `SupervisorState` in `state.rs` holds the whole state of a supervisor and decides what to do. The process in
//! `run_loop.rs` carries the decisions out, and `tree.rs` shows the state to observers. While the process starts or
//! stops a child, everything else waits in its mailbox, so no death is lost. The rules are those of OTP's `supervisor`,
//! with two exceptions: children are listed in the order of their start, and restarts may be delayed.

mod backoff;
mod child;
mod child_spec;
mod command;
mod history;
mod nested;
pub(crate) mod queries;
mod reports;
pub(crate) mod restart_pressure;
mod restart_window;
mod run_loop;
mod state;
pub(crate) mod tree;

use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use crate::process::context::Context;
use crate::process::error::InitError;
use crate::process::exit::{Detail, ExitReason};
use crate::process::start::Starting;
use crate::runtime::handle::Handle;

pub use backoff::Backoff;
pub use child_spec::{ChildSpec, ChildType, Restart, Shutdown};
pub use command::{ChildError, ChildInfo, ChildRef, ChildState, Counts, StartChildError, SupervisorRef};
pub use history::ENDS_KEPT;
pub use restart_window::{Intensity, RestartWindow};

/// Selects the children that are restarted together with a child that died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// No other child.
    OneForOne,
    /// All other children.
    OneForAll,
    /// The children that were started after it.
    RestForOne,
    /// No other child. All children share one template and are started on request.
    SimpleOneForOne,
}

/// Selects whether a supervisor ends when its significant children have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AutoShutdown {
    /// Never.
    #[default]
    Never,
    /// When the first significant child ends by itself.
    AnySignificant,
    /// When the last significant child ends by itself.
    AllSignificant,
}

/// Specification of a supervisor: its strategy, its restart intensity and its first children.
///
/// ```
/// use std::future::pending;
/// use rusm_runtime::supervisor::{ChildSpec, Strategy, Supervisor};
/// use rusm_runtime::{Config, Runtime};
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
    strategy: Strategy,
    intensity: Intensity,
    auto_shutdown: AutoShutdown,
    backoff: Option<Backoff>,
    children: Vec<ChildSpec>,
    template: Option<Arc<ChildSpec>>,
}

/// Error in the specification of a supervisor's children.
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
    /// A `simple_one_for_one` supervisor must be created by [`Supervisor::simple_one_for_one`], without children.
    #[error("simple_one_for_one needs a template and no children")]
    NoTemplate,
}

/// A child that failed to start, and made the start of its supervisor fail. Found in the [`Detail`] of the supervisor's
/// exit reason.
///
/// In nested supervisors the error contains the failure of the level below. At most 16 levels are kept, the outermost
/// and the 15 innermost: otherwise the reason of a deep tree would grow with the square of its depth.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("failed to start child {id:?}: {error}")]
pub struct FailedChild {
    /// Id of the child.
    pub id: Arc<str>,
    /// Error of its start.
    pub error: InitError,
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
        }
    }

    /// Creates a supervisor of children that share one template and are started by [`SupervisorRef::start_one`].
    pub fn simple_one_for_one(template: ChildSpec) -> Self {
        Self { template: Some(Arc::new(template)), ..Self::new(Strategy::SimpleOneForOne) }
    }

    /// Allows up to `restarts` restarts within `period`. With more, the supervisor gives up.
    pub fn intensity(self, restarts: u32, period: Duration) -> Self {
        Self { intensity: Intensity { restarts, period }, ..self }
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

    /// Starts the supervisor, linked to the calling process, and waits until all of its children have started.
    ///
    /// # Errors
    /// [`InitError`] when a child did not start, or when the specification is not valid. The exit reason in it is a
    /// [`ShutdownWith`](ExitReason::ShutdownWith) that carries a [`FailedChild`] or a [`SpecError`].
    pub async fn start_link(self, ctx: &Context) -> Result<SupervisorRef, InitError> {
        ctx.start_link(move |ctx, starting| self.run(ctx, starting)).await.map(SupervisorRef::of)
    }

    /// Starts the supervisor from outside. It ends when the runtime shuts down.
    ///
    /// # Errors
    /// As for [`start_link`](Self::start_link).
    pub async fn start(self, runtime: &Handle) -> Result<SupervisorRef, InitError> {
        runtime.start(move |ctx, starting| self.run(ctx, starting)).await.map(SupervisorRef::of)
    }

    async fn run(self, ctx: Context, starting: Starting) -> ExitReason {
        run_loop::run(self, ctx, starting).await
    }
}

impl SpecError {
    fn into_exit(self) -> ExitReason {
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

    fn into_exit(mut self) -> ExitReason {
        if std::iter::successors(Some(&self), |failed| failed.below()).count() > FAILURES_KEPT
            && let Some(below) = self.below().cloned()
        {
            self.error = below.error;
        }
        ExitReason::ShutdownWith(Detail::with(self.to_string(), self))
    }
}
