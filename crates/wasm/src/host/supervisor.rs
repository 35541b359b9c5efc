//! `rusm:runtime/supervisor`: supervisors of guests, linked to the guest that starts them.

use std::sync::Arc;
use std::time::Duration;

use super::convert;
use crate::bindings::rusm::runtime::process::Ties;
use crate::bindings::rusm::runtime::supervisor::{ChildSpec, Host, Restart, Strategy};
use crate::bindings::rusm::runtime::types::{Error, Pid};
use crate::engine::fiber::waiting;
use crate::guest::capability::Capability;
use crate::guest::guest_info::HostCall;
use crate::guest::name::check_name;
use crate::guest::shared_budget::BudgetShare;
use crate::guest::spawn;
use crate::guest::state::GuestState;
use crate::guest::state::children::memory_of;
use rusm_runtime::InitError;
use rusm_runtime::supervisor::{
    ChildSpec as Spec, Restart as SpecRestart, Shutdown, Strategy as SpecStrategy, Supervisor,
};

/// Maximum number of children in one call.
pub(crate) const CHILDREN_MAX: usize = 4_096;
/// Maximum number of live supervisors per guest: they are native processes, which the engine's capacity does not
/// limit.
const SUPERVISORS_MAX: usize = 256;
/// Maximum restart intensity: a supervisor remembers each restart for a period.
const INTENSITY_MAX: u32 = 65_536;

impl Host for GuestState {
    async fn start(
        &mut self,
        strategy: Strategy,
        intensity: u32,
        period_ms: u64,
        children: Vec<ChildSpec>,
    ) -> Result<Pid, Error> {
        self.record_call(HostCall::Supervise);
        self.require(Capability::Spawn)?;
        waiting(self.supervise(strategy, intensity, period_ms, children)).await
    }
}

impl GuestState {
    async fn supervise(
        &mut self,
        strategy: Strategy,
        intensity: u32,
        period_ms: u64,
        children: Vec<ChildSpec>,
    ) -> Result<Pid, Error> {
        if children.len() > CHILDREN_MAX {
            return Err(Error::Limit(format!(
                "{} children at once are over the limit of {CHILDREN_MAX}",
                children.len()
            )));
        }
        if intensity > INTENSITY_MAX {
            return Err(Error::Invalid(format!("intensity of {intensity} is over the limit of {INTENSITY_MAX}")));
        }
        self.check_child_args(&children)?;
        self.has_room_for_supervisor()?;
        self.check_ends(true)?;
        let strategy = match strategy {
            Strategy::OneForOne => SpecStrategy::OneForOne,
            Strategy::OneForAll => SpecStrategy::OneForAll,
            Strategy::RestForOne => SpecStrategy::RestForOne,
        };
        let mut supervisor = Supervisor::new(strategy).intensity(intensity, Duration::from_millis(period_ms));
        let texts = |child: &ChildSpec| child.id.len() + child.options.args.iter().map(String::len).sum::<usize>();
        let bytes = memory_of(children.len(), children.iter().map(texts).sum());
        let share = self.share_if_long(bytes as usize)?.map(Arc::new);
        for child in children {
            supervisor = supervisor.child(self.child(child, share.clone()).await?);
        }
        let started = supervisor.start_link(&self.ctx).await;
        match started {
            Ok(supervisor) => {
                self.supervisors.push(supervisor.pid());
                Ok(convert::pid(supervisor.pid()))
            }
            Err(InitError::Spawn(error)) => Err(Error::Limit(error.to_string())),
            Err(InitError::Ended(reason)) => Err(Error::Invalid(reason.to_string())),
        }
    }

    /// Checks the size of the arguments, which a supervisor keeps for the restarts of its children.
    fn check_child_args(&self, children: &[ChildSpec]) -> Result<(), Error> {
        children.iter().try_for_each(|child| spawn::check_args(&child.options.args))?;
        let bytes: usize = children.iter().flat_map(|child| &child.options.args).map(String::len).sum();
        let bytes_max = self.info.bounds.message_max_bytes as usize;
        if bytes <= bytes_max {
            return Ok(());
        }
        Err(Error::Limit(format!("{bytes} bytes of arguments for all children are over the limit of {bytes_max}")))
    }

    fn has_room_for_supervisor(&mut self) -> Result<(), Error> {
        if self.supervisors.len() >= SUPERVISORS_MAX {
            let runtime = self.ctx.runtime();
            self.supervisors.retain(|supervisor| runtime.is_alive(*supervisor));
        }
        if self.supervisors.len() < SUPERVISORS_MAX {
            return Ok(());
        }
        Err(Error::Limit(format!("a process may have at most {SUPERVISORS_MAX} supervisors: end some")))
    }

    /// Returns the specification of a child, which keeps its part of the memory of all guests.
    async fn child(&mut self, child: ChildSpec, share: Option<Arc<BudgetShare>>) -> Result<Spec, Error> {
        let ChildSpec { id, module, options, restart, shutdown_ms } = child;
        if options.ties != Ties::empty() {
            return Err(Error::Invalid(format!("child {id:?} has ties: only its supervisor sets them")));
        }
        check_name(&id)?;
        check_name(&module)?;
        let module = self.resolve_module(&module).await.map_err(|error| error.to_guest())?;
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
        let spec = spawn::child(id.into(), Arc::clone(&self.info.node), module, guest, Ok(grant), share);
        Ok(spec.restart(restart).shutdown(shutdown))
    }
}
