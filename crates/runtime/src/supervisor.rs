//! Supervisors: processes that start others in order, restart them when they die, and stop them in reverse order.
//!
//! ```text
//!   Exit of a child ─▶ Family::exited ─▶ nothing │ restart ─▶ stop and start those concerned ─▶ (failed: try again)
//!                       (decides, pure)          │ give up ─▶ stop all, end with `shutdown`
//!   SupervisorRef ─── Request ──▶ start, terminate, restart, delete, which, count
//! ```
//!
//! One struct, `Family` in `family.rs`, holds all that a supervisor knows and decides what is to be done; the process
//! around it, `keeper.rs`, does it; `tree.rs` shows it to observers. While that starts or stops a child, everything else waits in its mailbox, so no death is
//! lost. The rules are those of OTP's `supervisor`, with two exceptions: children are listed in the order of their start,
//! and restarts may be delayed.

mod backoff;
mod child;
mod child_spec;
mod family;
mod history;
mod keeper;
pub(crate) mod look;
mod nested;
mod order;
mod reports;
mod restart_window;
pub(crate) mod strain;
pub(crate) mod tree;

use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use crate::context::Context;
use crate::exit::{Detail, ExitReason};
use crate::handle::Handle;
use crate::starting::{InitError, Starting};

pub use backoff::Backoff;
pub use child_spec::{ChildSpec, ChildType, Restart, Shutdown};
pub use history::ENDS_KEPT;
pub use order::{ChildInfo, ChildRef, ChildState, Counts, OrderError, StartChildError, SupervisorRef};
pub use restart_window::{Intensity, RestartWindow};

/// Who is restarted with a child that died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// Nobody.
    OneForOne,
    /// All others.
    OneForAll,
    /// Those started after it.
    RestForOne,
    /// Nobody; all children are of one kind and started on request.
    SimpleOneForOne,
}

/// When a supervisor ends because children did that are significant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AutoShutdown {
    /// Never.
    #[default]
    Never,
    /// With the first that ends by itself.
    AnySignificant,
    /// With the last that ends by itself.
    AllSignificant,
}

/// What a supervisor is to be: its strategy, how much it forgives, and its first children.
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

/// Why children cannot be supervised as specified.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SpecError {
    /// Ids must differ.
    #[error("two children are called {id:?}")]
    Duplicate {
        /// The id.
        id: Arc<str>,
    },
    /// A permanent child never ends for good, and without `auto_shutdown` its end would mean nothing.
    #[error("child {id:?} cannot be significant: it is permanent, or auto_shutdown is never")]
    Significant {
        /// The child.
        id: Arc<str>,
    },
    /// `simple_one_for_one` is made by [`Supervisor::simple_one_for_one`] and has no first children.
    #[error("simple_one_for_one needs a template and no children")]
    NoTemplate,
}

/// A child that did not start, and so neither did its supervisor; found in the [`Detail`] of the supervisor's exit reason.
///
/// In nested supervisors the error contains the failure of the level below. At most 16 levels are kept, the outermost and
/// the 15 innermost: the reason of a deep tree would otherwise grow with the square of its depth.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("failed to start child {id:?}: {error}")]
pub struct FailedChild {
    /// The child.
    pub id: Arc<str>,
    /// Why it did not start.
    pub error: InitError,
}

impl Supervisor {
    /// A supervisor without children, that forgives one restart in five seconds.
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

    /// A supervisor whose children are all of one kind and started by [`SupervisorRef::start_one`].
    pub fn simple_one_for_one(template: ChildSpec) -> Self {
        Self { template: Some(Arc::new(template)), ..Self::new(Strategy::SimpleOneForOne) }
    }

    /// Forgives up to `restarts` restarts within `period`.
    pub fn intensity(self, restarts: u32, period: Duration) -> Self {
        Self { intensity: Intensity { restarts, period }, ..self }
    }

    /// Ends when significant children do.
    pub fn auto_shutdown(self, auto_shutdown: AutoShutdown) -> Self {
        Self { auto_shutdown, ..self }
    }

    /// Waits before restarts.
    pub fn backoff(self, backoff: Backoff) -> Self {
        Self { backoff: Some(backoff), ..self }
    }

    /// Adds a child, which starts when those added before have started.
    pub fn child(mut self, spec: ChildSpec) -> Self {
        self.children.push(spec);
        self
    }

    /// Starts the supervisor, linked to the calling process, and waits until all of its children have started.
    ///
    /// # Errors
    /// [`InitError`] when a child did not start, or children cannot be supervised as specified. The exit reason in it is
    /// a [`ShutdownWith`](ExitReason::ShutdownWith) that carries a [`FailedChild`] or a [`SpecError`].
    pub async fn start_link(self, ctx: &Context) -> Result<SupervisorRef, InitError> {
        ctx.start_link(move |ctx, starting| self.run(ctx, starting)).await.map(SupervisorRef::of)
    }

    /// The same from outside; the supervisor ends when the runtime shuts down.
    ///
    /// # Errors
    /// As for [`start_link`](Self::start_link).
    pub async fn start(self, runtime: &Handle) -> Result<SupervisorRef, InitError> {
        runtime.start(move |ctx, starting| self.run(ctx, starting)).await.map(SupervisorRef::of)
    }

    async fn run(self, ctx: Context, starting: Starting) -> ExitReason {
        keeper::run(self, ctx, starting).await
    }
}

impl SpecError {
    fn into_exit(self) -> ExitReason {
        ExitReason::ShutdownWith(Detail::with(self.to_string(), self))
    }
}

/// The number of nested failures that a [`FailedChild`] keeps.
const FAILURES_KEPT: usize = 16;

impl FailedChild {
    /// The failure of the level below.
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
