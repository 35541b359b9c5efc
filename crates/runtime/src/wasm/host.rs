//! What the node does for a guest: the interfaces of the world, one file each, on what a process has.
//!
//! All of it is plain code on the [`Context`](crate::Context) of the process that the guest is. Nothing here panics or traps
//! on what a guest passes; misuse is an error value, and a refusal also an event.

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
use crate::observe::EventKind;

impl State {
    /// Checks that the guest may do something; a refusal is told to observers.
    pub(super) fn may(&self, capability: Capability) -> Result<(), Error> {
        if self.vitals.grant.has(capability) { Ok(()) } else { Err(self.refuse(capability)) }
    }

    #[cold]
    pub(super) fn refuse(&self, capability: Capability) -> Error {
        self.vitals.count_refusal();
        self.vitals.node.denied[capability as usize].fetch_add(1, Ordering::Relaxed);
        let (pid, capability) = (self.ctx.pid(), capability.word());
        self.ctx.running().local.note(|| EventKind::Refused { pid, capability });
        Error::Denied(capability.to_owned())
    }

    /// Notes what the guest asked for last.
    #[inline]
    pub(super) fn asks(&self, call: super::vitals::HostCall) {
        self.vitals.asks(call);
    }
}
