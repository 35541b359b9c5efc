//! Host functions of the WIT world, one file per interface, with shared checks.
//!
//! They use the [`Context`](rusm_runtime::Context) of the guest's process. Nothing here panics or traps on arguments of a
//! guest: misuse is an error value, and a denied capability is also an event.

mod clock;
mod crypto;
mod groups;
mod log;
mod mail;
mod names;
mod process;
mod random;
mod streams;
mod supervisor;
mod timers;
pub(super) mod words;

pub(super) use log::{budget_of_all as log_budget_of_all, budget_of_guest as log_budget_of_guest, write_line};
pub(super) use mail::link;
pub(super) use names::refused as name_refused;
pub(super) use process::beginning;
pub(super) use random::BYTES_MAX as RANDOM_BYTES_MAX;
pub(super) use streams::Streams;
pub(super) use supervisor::CHILDREN_MAX;

use std::sync::atomic::Ordering;

use super::bindings::rusm::runtime::types::Error;
use super::capability::Capability;
use super::state::State;
use rusm_runtime::observe::EventKind;

impl State {
    /// Checks that the guest has a capability; reports a refusal to observers.
    pub(super) fn may(&self, capability: Capability) -> Result<(), Error> {
        if self.vitals.grant.has(capability) { Ok(()) } else { Err(self.refuse(capability)) }
    }

    #[cold]
    pub(super) fn refuse(&self, capability: Capability) -> Error {
        self.vitals.count_refusal();
        self.vitals.node.denied[capability as usize].fetch_add(1, Ordering::Relaxed);
        let (pid, capability) = (self.ctx.pid(), capability.word());
        self.process().note(|| EventKind::Refused { pid, capability });
        Error::Denied(capability.to_owned())
    }

    /// Records the last call of the guest.
    #[inline]
    pub(super) fn asks(&self, call: super::vitals::HostCall) {
        self.vitals.asks(call);
    }
}
