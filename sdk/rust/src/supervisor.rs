//! Supervisors: processes that start child processes and restart them.

use std::time::Duration;

use crate::bindings::rusm::runtime::supervisor::{self, ChildSpec, Restart, Strategy};
use crate::{Error, Pid, Spawn, millis};

/// Options of a new supervisor.
///
/// ```ignore
/// let supervisor = Supervisor::one_for_one()
///     .child(Child::new("counter", Spawn::myself().arg("serve").named("counter")))
///     .start()?;
/// ```
#[derive(Debug)]
pub struct Supervisor {
    strategy: Strategy,
    intensity: u32,
    period: Duration,
    children: Vec<ChildSpec>,
}

impl Supervisor {
    /// Creates a supervisor that restarts only the child that ended.
    pub fn one_for_one() -> Self {
        Self::new(Strategy::OneForOne)
    }

    /// Creates a supervisor that restarts all children when one ends.
    pub fn one_for_all() -> Self {
        Self::new(Strategy::OneForAll)
    }

    /// Creates a supervisor that restarts the child that ended and those started after it.
    pub fn rest_for_one() -> Self {
        Self::new(Strategy::RestForOne)
    }

    fn new(strategy: Strategy) -> Self {
        Self { strategy, intensity: 1, period: Duration::from_secs(5), children: Vec::new() }
    }

    /// Ends the supervisor after more than `restarts` within `period`. The default is 1 in 5 seconds, as in Erlang.
    pub fn intensity(mut self, restarts: u32, period: Duration) -> Self {
        (self.intensity, self.period) = (restarts, period);
        self
    }

    /// Adds a child. Children start in this order and stop in the reverse order.
    pub fn child(mut self, child: Child) -> Self {
        self.children.push(child.0);
        self
    }

    /// Starts the supervisor, linked to this process, and its children in order.
    ///
    /// # Errors
    /// The error that prevented a child from starting; the children before it have been stopped.
    pub fn start(self) -> Result<Pid, Error> {
        Ok(supervisor::start(self.strategy, self.intensity, millis(self.period), &self.children)?.into())
    }
}

/// A child of a supervisor. By default it is permanent and has 5 seconds to stop.
#[derive(Debug)]
pub struct Child(ChildSpec);

impl Child {
    /// Creates a child with an id unique among the children of the supervisor.
    pub fn new(id: impl Into<String>, process: Spawn) -> Self {
        Self(ChildSpec {
            id: id.into(),
            module: process.module,
            options: process.options,
            restart: Restart::Permanent,
            shutdown_ms: Some(5_000),
        })
    }

    /// Restarts the child only after an abnormal exit.
    pub fn transient(mut self) -> Self {
        self.0.restart = Restart::Transient;
        self
    }

    /// Never restarts the child.
    pub fn temporary(mut self) -> Self {
        self.0.restart = Restart::Temporary;
        self
    }

    /// Sets the time that the child has to stop before it is killed; zero kills immediately.
    pub fn shutdown(mut self, deadline: Duration) -> Self {
        self.0.shutdown_ms = Some(millis(deadline));
        self
    }
}
