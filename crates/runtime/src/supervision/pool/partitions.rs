//! A supervisor of equal children among which keys are divided.

use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxBuildHasher;

use super::workers::{WorkerSlot, Workers};
use crate::process::context::Context;
use crate::process::error::InitError;
use crate::process::pid::Pid;
use crate::runtime::handle::Handle;
use crate::supervision::supervisor::{ChildSpec, Strategy, Supervisor, SupervisorRef};

/// A supervisor of equal children, each of which is responsible for a part of all keys; cheap to clone.
///
/// It spreads over several processes what would be too much for one, for example the supervision of many short-lived
/// children. For workers that share messages, use a [`Pool`](super::Pool).
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::pool::PartitionSupervisor;
/// use rusm::supervisor::{ChildSpec, Restart, Supervisor, SupervisorRef};
/// use rusm::{Config, Runtime};
///
/// let runtime = Runtime::start(Config::default())?;
/// runtime.block_on(|ctx| async move {
///     let sessions = PartitionSupervisor::new(4, |_| {
///         let session = ChildSpec::template("session", |ctx, user: &'static str| async move { ctx.set_label(user) });
///         ChildSpec::supervisor("sessions", Supervisor::simple_one_for_one(session.restart(Restart::Temporary)))
///     });
///     sessions.start_link(&ctx).await.expect("four supervisors start");
///     let part = sessions.pid_of("Ada").expect("it has started");
///     SupervisorRef::of(part).start_one(&ctx, "Ada").await.expect("there is room for a process");
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct PartitionSupervisor {
    supervisor: Supervisor,
    workers: Arc<Workers>,
}

impl fmt::Debug for PartitionSupervisor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartitionSupervisor").field("count", &self.count()).finish_non_exhaustive()
    }
}

impl PartitionSupervisor {
    /// Creates the specification of `count` children; `child` creates each one from its number. The id of a child
    /// is followed by that number.
    ///
    /// # Panics
    /// If `count` is 0.
    pub fn new(count: usize, child: impl Fn(usize) -> ChildSpec) -> Self {
        assert!(count > 0, "a pool needs at least one worker");
        let workers = Arc::new(Workers::new(count));
        let children =
            (0..count).map(|index| child(index).in_slot(WorkerSlot { workers: Arc::clone(&workers), index }));
        let supervisor = children.fold(Supervisor::new(Strategy::OneForOne), Supervisor::child);
        Self { supervisor, workers }
    }

    /// Allows up to `restarts` restarts of all children together within `period`. With more, the supervisor gives up.
    pub fn intensity(self, restarts: u32, period: Duration) -> Self {
        Self { supervisor: self.supervisor.intensity(restarts, period), ..self }
    }

    pub(super) fn mailbox_capacity(self, messages: u32) -> Self {
        Self { supervisor: self.supervisor.map_children(|child| child.mailbox_capacity(messages)), ..self }
    }

    /// Starts the children under a supervisor that is linked to this process.
    ///
    /// # Errors
    /// [`InitError`] if a child does not start.
    pub async fn start_link(&self, ctx: &Context) -> Result<SupervisorRef, InitError> {
        self.supervisor.clone().start_link(ctx).await
    }

    /// Starts the children from outside.
    ///
    /// # Errors
    /// [`InitError`] if a child does not start.
    pub async fn start(&self, runtime: &Handle) -> Result<SupervisorRef, InitError> {
        self.supervisor.clone().start(runtime).await
    }

    /// Returns the specification by which another supervisor starts this one.
    pub fn child(&self, id: impl Into<Arc<str>>) -> ChildSpec {
        ChildSpec::supervisor(id, self.supervisor.clone())
    }

    /// Returns the number of children.
    pub fn count(&self) -> usize {
        self.workers.count()
    }

    /// Returns the child that is responsible for a key; `None` before it has started.
    #[inline]
    pub fn pid_of<K: Hash + ?Sized>(&self, key: &K) -> Option<Pid> {
        // The high bits: FxHash mixes them best.
        let part = (u128::from(FxBuildHasher.hash_one(key)) * self.count() as u128) >> 64;
        Some(self.workers.at(part as usize)).filter(|pid| pid.slot() != 0)
    }

    /// Returns the children that have started.
    pub fn pids(&self) -> Vec<Pid> {
        (0..self.count()).map(|index| self.workers.at(index)).filter(|pid| pid.slot() != 0).collect()
    }

    #[inline]
    pub(super) fn workers(&self) -> &Workers {
        &self.workers
    }
}
