//! `rusm:runtime/supervisor`: a supervisor of guests, linked to the guest that starts it.

use std::sync::Arc;
use std::time::Duration;

use super::words;
use crate::InitError;
use crate::supervisor::{ChildSpec as Spec, Restart as SpecRestart, Shutdown, Strategy as SpecStrategy, Supervisor};
use crate::wasm::bindings::rusm::runtime::process::Ties;
use crate::wasm::bindings::rusm::runtime::supervisor::{ChildSpec, Host, Restart, Strategy};
use crate::wasm::bindings::rusm::runtime::types::{Error, Pid};
use crate::wasm::capability::Capability;
use crate::wasm::fiber::waiting;
use crate::wasm::spawn;
use crate::wasm::state::State;
use crate::wasm::vitals::HostCall;

/// Children that one call may start.
pub(in crate::wasm) const CHILDREN_MAX: usize = 4_096;

impl Host for State {
    async fn start(
        &mut self,
        strategy: Strategy,
        intensity: u32,
        period_ms: u64,
        children: Vec<ChildSpec>,
    ) -> Result<Pid, Error> {
        self.asks(HostCall::Supervise);
        self.may(Capability::Spawn)?;
        waiting(self.supervise(strategy, intensity, period_ms, children)).await
    }
}

impl State {
    async fn supervise(
        &mut self,
        strategy: Strategy,
        intensity: u32,
        period_ms: u64,
        children: Vec<ChildSpec>,
    ) -> Result<Pid, Error> {
        if children.len() > CHILDREN_MAX {
            return Err(Error::Limit(format!("{} children at once: the most is {CHILDREN_MAX}", children.len())));
        }
        let strategy = match strategy {
            Strategy::OneForOne => SpecStrategy::OneForOne,
            Strategy::OneForAll => SpecStrategy::OneForAll,
            Strategy::RestForOne => SpecStrategy::RestForOne,
        };
        let mut supervisor = Supervisor::new(strategy).intensity(intensity, Duration::from_millis(period_ms));
        for child in children {
            supervisor = supervisor.child(self.child(child).await?);
        }
        let started = supervisor.start_link(&self.ctx).await;
        started.map(|supervisor| words::pid(supervisor.pid())).map_err(|error| match error {
            InitError::Spawn(error) => Error::Limit(error.to_string()),
            InitError::Ended(reason) => Error::Invalid(reason.to_string()),
        })
    }

    async fn child(&mut self, child: ChildSpec) -> Result<Spec, Error> {
        let ChildSpec { id, module, options, restart, shutdown_ms } = child;
        if options.ties != Ties::empty() {
            return Err(Error::Invalid(format!("child {id:?} has ties: those are its supervisor's business")));
        }
        self.may_have(&options.args)?;
        let module = self.module_called(&module).await.map_err(|error| error.to_guest())?;
        let (guest, grant) = self.guest(options)?;
        let restart = match restart {
            Restart::Permanent => SpecRestart::Permanent,
            Restart::Transient => SpecRestart::Transient,
            Restart::Temporary => SpecRestart::Temporary,
        };
        let shutdown = match shutdown_ms {
            None => Shutdown::Infinity,
            Some(0) => Shutdown::BrutalKill,
            Some(ms) => Shutdown::Timeout(Duration::from_millis(ms)),
        };
        let spec = spawn::child(id.into(), Arc::clone(&self.vitals.node), module, guest, Ok(grant));
        Ok(spec.restart(restart).shutdown(shutdown))
    }
}
