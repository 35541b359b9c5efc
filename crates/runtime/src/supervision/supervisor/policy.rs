//! Policies of supervisors and children: strategies, and when children are restarted and how they are stopped.

use std::time::Duration;

use crate::process::exit::ExitReason;

/// Selects the children that are restarted together with a child that died.
///
/// ```
/// # use rusm_runtime as rusm;
/// # let runtime = rusm::Runtime::start(rusm::Config::default())?;
/// use rusm::Context;
/// use rusm::supervisor::{ChildSpec, Strategy, Supervisor};
///
/// async fn part(ctx: Context) {
///     ctx.receive().await;
/// }
///
/// // If the store ends, the cache and the server that use it are started again after it.
/// let tree = Supervisor::new(Strategy::RestForOne)
///     .child(ChildSpec::new("store", part))
///     .child(ChildSpec::new("cache", part))
///     .child(ChildSpec::new("server", part));
/// # runtime.block_on(|ctx| async move { tree.start_link(&ctx).await.map(drop) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::supervisor::{AutoShutdown, ChildSpec, Restart, Strategy, Supervisor};
/// use rusm::{Config, ExitReason, Runtime};
///
/// let runtime = Runtime::start(Config::default())?;
/// let job = ChildSpec::new("job", |_ctx| async {}).restart(Restart::Transient).significant(true);
/// let helper = ChildSpec::new("helper", |_ctx| std::future::pending::<()>());
/// let tree = Supervisor::new(Strategy::OneForOne).auto_shutdown(AutoShutdown::AnySignificant).child(helper).child(job);
/// let ended = runtime.block_on(|ctx| async move {
///     ctx.trap_exits(true);
///     let tree = tree.start_link(&ctx).await?;
///     let exit = ctx.receive_of::<rusm::Exit>().await;
///     assert_eq!(exit.from, tree.pid());
///     Ok::<_, ExitReason>(exit.reason)
/// })?;
/// assert_eq!(ended, ExitReason::Shutdown); // the job is done, so its helper has ended too
/// # Ok::<(), ExitReason>(())
/// ```
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

/// Selects when a child that ended is restarted.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::supervisor::{ChildSpec, Restart, Strategy, Supervisor};
///
/// // The import runs again only if it crashes; when it is done, it stays ended.
/// let import = ChildSpec::new("import", |_ctx| async { /* … */ }).restart(Restart::Transient);
/// let supervisor = Supervisor::new(Strategy::OneForOne).child(import);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// Always.
    Permanent,
    /// Only after an abnormal end.
    Transient,
    /// Never; the supervisor removes the child.
    Temporary,
}

impl Restart {
    /// Returns true if a child that ended with `reason` is restarted.
    pub const fn after(self, reason: &ExitReason) -> bool {
        match self {
            Self::Permanent => true,
            Self::Transient => !reason.is_normal(),
            Self::Temporary => false,
        }
    }
}

/// Selects how a child is stopped.
///
/// ```
/// # use rusm_runtime as rusm;
/// use std::time::Duration;
///
/// use rusm::supervisor::{ChildSpec, Shutdown};
///
/// // It has ten seconds to write what it holds, and is killed after that.
/// let writer = ChildSpec::new("writer", |_ctx| async { /* … */ }).shutdown(Shutdown::Timeout(Duration::from_secs(10)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// The child is killed.
    BrutalKill,
    /// The child receives the exit signal `shutdown`, and is killed if it is alive after this time. Default for
    /// workers: 5 s.
    Timeout(Duration),
    /// The child receives the exit signal `shutdown`, and may take any time to end. Default for supervisors.
    Infinity,
}

impl Shutdown {
    /// Returns the exit signal that the child receives first.
    pub(super) const fn signal(self) -> ExitReason {
        match self {
            Self::BrutalKill => ExitReason::Killed,
            Self::Timeout(_) | Self::Infinity => ExitReason::Shutdown,
        }
    }
}

/// Type of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildType {
    /// A process that is not a supervisor.
    Worker,
    /// A supervisor.
    Supervisor,
}
