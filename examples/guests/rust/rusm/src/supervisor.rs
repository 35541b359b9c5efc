//! Supervisors: processes that start others and start them again.

use std::time::Duration;

use crate::bindings::rusm::runtime::supervisor::{self, ChildSpec, Restart, Strategy};
use crate::{Error, Pid, Spawn, millis};

/// A supervisor to be started.
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
    /// A child that ends is restarted by itself.
    pub fn one_for_one() -> Self {
        Self::new(Strategy::OneForOne)
    }

    /// When a child ends, all are stopped and started again.
    pub fn one_for_all() -> Self {
        Self::new(Strategy::OneForAll)
    }

    /// When a child ends, it and those started after it are stopped and started again.
    pub fn rest_for_one() -> Self {
        Self::new(Strategy::RestForOne)
    }

    fn new(strategy: Strategy) -> Self {
        Self { strategy, intensity: 1, period: Duration::from_secs(5), children: Vec::new() }
    }

    /// More than `restarts` within `period` end the supervisor; by default more than 1 within 5 seconds, as in Erlang.
    pub fn intensity(mut self, restarts: u32, period: Duration) -> Self {
        (self.intensity, self.period) = (restarts, period);
        self
    }

    /// One more child; children start in their order and stop in the reverse.
    pub fn child(mut self, child: Child) -> Self {
        self.children.push(child.0);
        self
    }

    /// Starts it, linked to this process, with its children.
    ///
    /// # Errors
    /// Whatever kept a child from starting; those before it have been stopped.
    pub fn start(self) -> Result<Pid, Error> {
        Ok(supervisor::start(self.strategy, self.intensity, millis(self.period), &self.children)?.into())
    }
}

/// A child of a supervisor: permanent, with 5 seconds to stop, unless said otherwise.
#[derive(Debug)]
pub struct Child(ChildSpec);

impl Child {
    /// A child with a name unique among its siblings.
    pub fn new(id: impl Into<String>, process: Spawn) -> Self {
        Self(ChildSpec {
            id: id.into(),
            module: process.module,
            options: process.options,
            restart: Restart::Permanent,
            shutdown_ms: Some(5_000),
        })
    }

    /// Restarted after an abnormal end alone.
    pub fn transient(mut self) -> Self {
        self.0.restart = Restart::Transient;
        self
    }

    /// Never restarted.
    pub fn temporary(mut self) -> Self {
        self.0.restart = Restart::Temporary;
        self
    }

    /// How long it may take to stop before it is killed; zero kills at once.
    pub fn shutdown(mut self, deadline: Duration) -> Self {
        self.0.shutdown_ms = Some(millis(deadline));
        self
    }
}
